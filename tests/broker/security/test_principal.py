"""Names of principals from those of certificates, as in Kafka."""

import pytest
from kohort.broker.security.principal import PrincipalMapper, distinguished_name

ALICE = "CN=Alice,OU=Billing,O=Example,C=DE"


def test_a_distinguished_name_is_written_as_in_java() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", "Smith, Jones"),),
        (("commonName", " a+b "), ("userId", "#7")),
    )
    assert distinguished_name(subject) == r"CN=\ a\+b\ +UID=\#7,O=Smith\, Jones,C=DE"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", ALICE),
        ("", ALICE),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/U", "BILLING-ALICE"),
        ("RULE:^UID=(.*?)$/$1/, RULE:^CN=(.*?),.*$/$1@example/,DEFAULT", "Alice@example"),
        ("RULE:^UID=(.*?)$/$1/,DEFAULT", ALICE),
        ("RULE:^CN=(.*?),.*$/$1$2/", "Alice$2"),
        (r"RULE:CN=(\w+),OU=\w+.*/a\/$1/", r"a\/Alice"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules: str, name: str) -> None:
    assert PrincipalMapper(rules).name(ALICE) == name


def test_a_name_without_a_rule_is_an_error() -> None:
    mapper = PrincipalMapper("RULE:^CN=Bob$/bob/")
    with pytest.raises(ValueError, match=r"no rule of RULE:.*applies to CN=Alice"):
        mapper.name(ALICE)


@pytest.mark.parametrize("rules", ["RULE", "DEFAULT,RULE:a/b", "CN", "RULE:(/b/"])
def test_rules_that_cannot_be_parsed_are_errors(rules: str) -> None:
    with pytest.raises(ValueError, match="invalid"):
        PrincipalMapper(rules)
