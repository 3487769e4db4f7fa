"""Names of principals, derived from names in certificates as in Kafka."""

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import (
    CertificateBuilder,
    Name,
    NameAttribute,
    ObjectIdentifier,
    RelativeDistinguishedName,
)
from cryptography.x509.oid import NameOID
from kohort.broker.security.distinguished_name import distinguished_name
from kohort.broker.security.principal import PrincipalMapper

ALICE = "CN=Alice,OU=Billing,O=Example,C=DE"


COMMON_NAME, USER_ID = NameOID.COMMON_NAME, NameOID.USER_ID


def certificate(*parts: list[tuple[ObjectIdentifier, str]]) -> bytes:
    name = Name([RelativeDistinguishedName([NameAttribute(*each) for each in p]) for p in parts])
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = CertificateBuilder(name, name, key.public_key(), 1, now, now)
    return builder.sign(key, SHA256()).public_bytes(Encoding.DER)


# The names that Java 17 returns for these certificates.
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (
            [
                [(NameOID.COUNTRY_NAME, "DE")],
                [(NameOID.ORGANIZATION_NAME, "Smith, Jones")],
                [(COMMON_NAME, " a+b "), (USER_ID, "#7")],
            ],
            r"CN=\ a\+b\ +UID=\#7,O=Smith\, Jones,C=DE",
        ),
        ([[(COMMON_NAME, 'c"d\\e<f>g;h=i/j#\0')]], r"CN=c\"d\\e\<f\>g\;h\=i/j\#\00"),
        ([[(COMMON_NAME, "zoë  \u4e2d\u6587")]], "CN=zoë  \u4e2d\u6587"),
        ([[(COMMON_NAME, "  ")]], r"CN=\ \ "),
        ([[(COMMON_NAME, "  a b  ")]], r"CN=\ \ a b\ \ "),
        (
            [[(COMMON_NAME, "alice")], [(NameOID.EMAIL_ADDRESS, "alice@example.com")]],
            "1.2.840.113549.1.9.1=#1611616c696365406578616d706c652e636f6d,CN=alice",
        ),
        ([[(NameOID.SERIAL_NUMBER, "123")]], "2.5.4.5=#1303313233"),
        (
            [[(NameOID.DOMAIN_COMPONENT, "com")], [(NameOID.JURISDICTION_COUNTRY_NAME, "US")]],
            "1.3.6.1.4.1.311.60.2.1.3=#13025553,DC=com",
        ),
        ([[(NameOID.ORGANIZATIONAL_UNIT_NAME, "x" * 64)]] * 3, ",".join(["OU=" + "x" * 64] * 3)),
    ],
)
def test_a_distinguished_name_is_written_as_in_java(
    parts: list[list[tuple[ObjectIdentifier, str]]], expected: str
) -> None:
    assert distinguished_name(certificate(*parts)) == expected


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", ALICE),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/U", "BILLING-ALICE"),
        ("RULE:^UID=(.*?)$/$1/, RULE:^CN=(.*?),.*$/$1@example/,DEFAULT", "Alice@example"),
        ("RULE:^UID=(.*?)$/$1/,DEFAULT", ALICE),
        ("RULE:^CN=(.*?),.*$/$1$2/", "Alice$2"),
        (r"RULE:CN=(\w+),OU=\w+.*/a\/$1\\\$1/", r"a/Alice\$1"),
        ("RULE:^CN=(?<name>.*?),.*$/${name}!/ , DEFAULT, ", "Alice!"),
        ("RULE:(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.).*/$11$12/", "UC2"),
        ("RULE:.*/x/", "xx"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(rules: str, name: str) -> None:
    assert PrincipalMapper(rules).name(ALICE) == name


def test_a_name_without_a_rule_is_an_error() -> None:
    mapper = PrincipalMapper("RULE:^CN=Bob$/bob/")
    with pytest.raises(ValueError, match=r"no rule of RULE:.*applies to CN=Alice"):
        mapper.name(ALICE)
    with pytest.raises(ValueError, match="applies to CN=Alice"):
        PrincipalMapper("").name(ALICE)
    with pytest.raises(ValueError, match="applies to CN=Zoë"):
        PrincipalMapper(r"RULE:CN=(\w+)/$1/").name("CN=Zoë")


@pytest.mark.parametrize(
    "rules",
    [
        *("RULE", "DEFAULT,RULE:a/b", "CN", "RULE:(/b/", "DEFAULTDEFAULT", "RULE:a/b/L DEFAULT"),
        *("RULE:a/$/", "RULE:a/$b/", "RULE:a/$1/", "RULE:(a)/${b}/"),
    ],
)
def test_rules_that_cannot_be_parsed_are_errors(rules: str) -> None:
    with pytest.raises(ValueError, match="invalid"):
        PrincipalMapper(rules)
