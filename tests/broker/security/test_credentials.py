"""`kohort.users`, JAAS configurations, and the configuration of SASL."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.sources import ConfigError
from kohort.broker.config.users import format_users, parse_users
from kohort.java_properties import parse_jaas
from kohort.topics.scram import ScramCredential, ScramMechanism
from support.broker import BROKER, BrokerHarness, configs_by_name, describe_configs
from support.sasl import OAUTH_MODULE, PLAIN_MODULE, upsertion

TEXTS = st.text(min_size=1).filter(lambda text: text[-1] not in " \t")
SASL = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
PREFIX = "listener.name.sasl_plaintext."


@given(st.dictionaries(TEXTS, TEXTS))
def test_any_users_can_be_listed(users: dict[str, str]) -> None:
    assert parse_users(format_users(users)) == users


def test_users_are_listed_with_their_passwords() -> None:
    assert parse_users("alice:a:b, bob:x y") == {"alice": "a:b", "bob": "x y"}
    assert parse_users(r"a\:b:c\,d\\") == {"a:b": "c,d\\"}
    assert parse_users("") == {}


@pytest.mark.parametrize("text", ["alice", "alice:", ":secret", "a:secret,,b:secret", "a:s,a:t"])
def test_invalid_users_are_rejected_without_printing_passwords(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^invalid kohort\.users \(from code\): .*\.$") as raised:
        BrokerHarness({"kohort.users": text})
    assert "secret" not in str(raised.value)


def test_a_jaas_configuration_has_a_module_and_options() -> None:
    text = f"{PLAIN_MODULE} required\n  user_a=\"x;\\\"'y\" user_b='z' debug=true ;\n"
    options = {"user_a": "x;\"'y", "user_b": "z", "debug": "true"}
    assert parse_jaas(text) == ("PlainLoginModule", options)


def test_quoted_values_of_a_jaas_configuration_have_javas_escapes() -> None:
    text = r"M required a='\n\\\q\"\'' b='\103\7\477';"
    assert parse_jaas(text) == ("M", {"a": "\n\\q\"'", "b": "C\a'7"})


@pytest.mark.parametrize(
    ("mechanism", "text"),
    [
        ("plain", "secret"),
        ("plain", f'{PLAIN_MODULE} required user_a="secret"'),
        ("plain", f'{PLAIN_MODULE} user_a="secret";'),
        ("plain", f'{PLAIN_MODULE} required user_a="secret;'),
        ("plain", f'{OAUTH_MODULE} required a="secret";'),
        ("oauthbearer", f'{PLAIN_MODULE} required user_a="secret";'),
    ],
)
def test_an_invalid_jaas_configuration_is_rejected_without_printing_it(
    mechanism: str, text: str
) -> None:
    key = f"{PREFIX}{mechanism}.sasl.jaas.config"
    enabled = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
    with pytest.raises(ConfigError, match=r"^invalid sasl\.jaas\.config of ") as raised:
        BrokerHarness({**SASL, **enabled, key: text})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
            "Invalid value GSSAPI for configuration sasl.enabled.mechanisms: String must be one of",
        ),
        (
            {f"{PREFIX}plain.sasl.server.callback.handler.class": "org.example.Handler"},
            (
                "unsupported sasl.server.callback.handler.class=org.example.Handler of PLAIN on "
                "listener SASL_PLAINTEXT (from code): kohort runs no Java classes"
            ),
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "https://a.test/jwks",
            },
            "unsupported sasl.oauthbearer.jwks.endpoint.url=https://a.test/jwks of OAUTHBEARER on",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": "file:///missing/jwks.json",
            },
            "cannot read sasl.oauthbearer.jwks.endpoint.url=file:///missing/jwks.json of",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{PREFIX}oauthbearer.sasl.jaas.config": (
                    f'{OAUTH_MODULE} required unsecuredValidatorAllowableClockSkewMs="-1";'
                ),
            },
            "invalid unsecuredValidatorAllowableClockSkewMs=-1 of OAUTHBEARER on listener",
        ),
    ],
)
def test_unsupported_settings_are_rejected(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerHarness({**SASL, **settings})
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"keys": [{}]}', '{"keys": [{"kty": "RSA"}]}']
)
def test_an_unusable_key_file_is_rejected(tmp_path: Path, content: str) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(content)
    key = "sasl.oauthbearer.jwks.endpoint.url"
    settings = {**SASL, "sasl.enabled.mechanisms": "OAUTHBEARER", key: file.as_uri()}
    with pytest.raises(ConfigError, match=f"^cannot read {key}="):
        BrokerHarness(settings)


def test_a_jaas_configuration_for_all_listeners_has_no_effect_as_in_kafka() -> None:
    settings = {**SASL, "sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret";'}
    warning, no_users = BrokerConfig(settings).warnings()
    assert "no user can authenticate" in no_users
    assert warning.startswith("sasl.jaas.config (from code) has no effect, as in Kafka")
    assert "secret" not in warning
    BrokerHarness(settings)


NO_USERS = (
    "no user can authenticate on SASL_PLAINTEXT, except SCRAM users that are stored already: set "
    "kohort.users (kohort serve --user NAME:PASSWORD, Kafka(users={...}))."
)
PLAIN_KEY = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [NO_USERS]),
        ({"kohort.users": "alice:alice-secret"}, []),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, []),
        ({PLAIN_KEY: f'{PLAIN_MODULE} required user_alice="secret";'}, []),
        # An administrator can create SCRAM users there.
        ({"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}, []),
    ],
)
def test_listeners_on_which_no_user_can_authenticate_are_warned_about(
    settings: dict[str, str], expected: list[str]
) -> None:
    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    assert list(BrokerConfig({**listeners, **settings}).warnings()) == expected


NO_NAMES = (
    "super.users=User:admin (from code) has no effect: all clients are User:ANONYMOUS with the "
    "protocol PLAINTEXT. Choose SASL_SSL or SASL_PLAINTEXT (--security, security=)."
)


@pytest.mark.parametrize(
    ("listener", "super_users", "expected"),
    [
        ("PLAINTEXT", "User:admin", [NO_NAMES]),
        ("PLAINTEXT", "User:admin;User:ANONYMOUS", []),
        ("SSL", "User:CN=admin", []),
    ],
)
def test_super_users_that_no_client_can_be_are_warned_about(
    listener: str, super_users: str, expected: list[str]
) -> None:
    settings = {"listeners": f"{listener}://127.0.0.1:0", "super.users": super_users}
    assert list(BrokerConfig(settings).warnings()) == expected


def test_passwords_are_sensitive_configurations() -> None:
    broker = BrokerHarness({"kohort.users": "alice:alice-secret"})
    described = configs_by_name(describe_configs(broker, BROKER, "1"))
    for key in ("kohort.users", "sasl.jaas.config"):
        assert described[key].is_sensitive
        assert described[key].value is None
        assert all(each.value is None for each in described[key].synonyms)
    assert not described["node.id"].is_sensitive


def test_print_config_hides_passwords() -> None:
    command = [sys.executable, "-m", "kohort", "serve", "--print-config"]
    users = ["-o", "kohort.users=alice:alice-secret"]
    printed = subprocess.run([*command, *users], capture_output=True, text=True, check=True)
    assert "kohort.users=[hidden]  (-o)\n" in printed.stdout
    assert "alice" not in printed.stdout + printed.stderr


def test_the_registry_contains_credentials_without_passwords() -> None:
    broker = BrokerHarness()
    mechanism = ScramMechanism.SHA_512
    upserted = upsertion("alice", "alice-secret", mechanism)
    broker.call("AlterUserScramCredentials", 0, upsertions=(upserted,))
    stored = broker.topics.security.scram_credentials["alice"][mechanism]
    salted = mechanism.salted_password("alice-secret", upserted["salt"], 4096)
    assert stored == ScramCredential.derive(mechanism, upserted["salt"], 4096, salted)
    assert broker.restart().topics.security.scram_credentials == {"alice": {mechanism: stored}}
    assert b"alice-secret" not in json.dumps(stored, default=bytes.hex).encode()
