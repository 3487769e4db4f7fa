"""One exchange of each SASL mechanism. The results are the same as with Kafka 4.3."""

import base64
import contextlib
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from kohort.broker.security.mechanism import (
    AuthenticationFailed,
    Exchange,
    Identity,
    InvalidCredentials,
    PlainExchange,
)
from kohort.broker.security.oauthbearer import OAuthBearerExchange, SignedTokens, UnsecuredTokens
from kohort.broker.security.scram import ScramExchange
from kohort.topics.scram import ScramCredential, ScramMechanism
from support.sasl import ScramClient, bearer, plain_token, unsecured_token

NOW = 1_700_000_000
INVALID_TOKEN = b'{"status":"invalid_token"}'


# --- PLAIN


def plain() -> PlainExchange:
    return PlainExchange({"alice": "alice-secret", "bob": "bøb:secret"})


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (plain_token("alice", "alice-secret"), "alice"),
        (plain_token("alice", "alice-secret", "alice"), "alice"),
        (plain_token("bob", "bøb:secret"), "bob"),
    ],
)
def test_plain_accepts_the_password_of_a_user(token: bytes, user: str) -> None:
    exchange = plain()
    assert exchange.evaluate(token) == b""
    assert exchange.identity == Identity(user)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (plain_token("alice", "x"), "Authentication failed: Invalid username or password"),
        (plain_token("zoe", "x"), "Authentication failed: Invalid username or password"),
        (plain_token("ALICE", "alice-secret"), "Authentication failed: Invalid username or pass"),
        (b"\0\xff\xfe\0x", "Authentication failed: Invalid username or password"),
        (plain_token("", "x"), "Authentication failed: username not specified"),
        (plain_token("alice", ""), "Authentication failed: password not specified"),
        (
            plain_token("alice", "alice-secret", "bob"),
            "Authentication failed: Client requested an authorization id that is different from",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_rejects_anything_else(token: bytes, message: str) -> None:
    exchange = plain()
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.evaluate(token)
    assert str(raised.value).startswith(message)
    assert exchange.identity is None


# --- SCRAM


def credential(mechanism: ScramMechanism, salt: bytes = b"salt") -> ScramCredential:
    salted = mechanism.salted_password("pencil", salt, 4096)
    return ScramCredential.derive(mechanism, salt, 4096, salted)


def scram(mechanism: ScramMechanism = ScramMechanism.SHA_256) -> ScramExchange:
    users = {"alice": credential(mechanism), "a,b=c": credential(mechanism)}
    return ScramExchange(mechanism, users.get, "server")


def test_scram_sends_the_messages_of_the_rfc() -> None:
    """The example of RFC 7677."""
    nonce = "rOprNGfwEbeRWgbNEkqO"
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    stored = credential(ScramMechanism.SHA_256, salt)
    exchange = ScramExchange(
        ScramMechanism.SHA_256,
        lambda user: stored if user == "user" else None,
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    both = f"{nonce}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert (
        exchange.evaluate(f"n,,n=user,r={nonce}".encode())
        == f"r={both},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    )
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert (
        exchange.evaluate(f"c=biws,r={both},p={proof}".encode())
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert exchange.identity == Identity("user")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(
    ("user", "options"),
    [
        ("alice", {}),
        ("a=2Cb=3Dc", {}),
        ("alice", {"authorization_id": "alice"}),
        ("alice", {"extensions": ",foo=bar,tokenauth=false"}),
    ],
)
def test_scram_accepts_the_password(
    mechanism: ScramMechanism, user: str, options: dict[str, str]
) -> None:
    exchange = scram(mechanism)
    client = ScramClient(user, "pencil", mechanism.sasl_name, **options)
    final = client.final(exchange.evaluate(client.first()))
    assert exchange.identity is None
    assert exchange.evaluate(final) == client.signature
    assert exchange.identity == Identity(user.replace("=2C", ",").replace("=3D", "="))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"hello",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        "n,,n=ålice,r=abc".encode(),
        b"n,,n=a=2Xb,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=zoe,r=abc",
        b"n,,n=alice,r=abc,tokenauth=true",
        b"n,,n=alice,r=abc,tokenauth=TRUE",
    ],
)
def test_scram_rejects_a_first_message_without_telling_the_reason(first: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        scram().evaluate(first)


def test_the_reserved_attribute_is_not_signed() -> None:
    exchange, client = scram(), ScramClient("alice", "pencil")
    first = exchange.evaluate(client.first().replace(b"n,,", b"n,,m=x,"))
    assert exchange.evaluate(client.final(first)) == client.signature


def test_scram_rejects_another_authorization_id() -> None:
    with pytest.raises(AuthenticationFailed, match="different from username"):
        scram().evaluate(b"n,a=bob,n=alice,r=abc")


@pytest.mark.parametrize(
    "final_of",
    [
        lambda _client, _first: b"",
        lambda _client, _first: b"nonsense",
        lambda client, first: client.final(first, r="abc"),
        lambda client, first: client.final(first, ext=",foo=bar"),
        lambda client, first: client.final(first).split(b",p=")[0] + b",p=",
        lambda client, first: client.final(first).split(b",p=")[0] + b",p=AAAA",
        lambda client, first: client.final(first).split(b",p=")[0] + b",p=!!",
        lambda _client, first: ScramClient("alice", "wrong").final(first),
    ],
)
def test_scram_rejects_a_final_message(final_of: Any) -> None:
    exchange, client = scram(), ScramClient("alice", "pencil")
    final = final_of(client, exchange.evaluate(client.first()))
    with pytest.raises(InvalidCredentials):
        exchange.evaluate(final)
    assert exchange.identity is None


# --- OAUTHBEARER

CLAIMS = {"sub": "alice", "scope": "kafka", "iat": NOW, "exp": NOW + 100}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


def unsecured() -> OAuthBearerExchange:
    return OAuthBearerExchange(UnsecuredTokens(required_scope=("kafka",)), lambda: NOW * 1000)


@pytest.mark.parametrize(
    "claims",
    [
        CLAIMS,
        without("iat"),
        {**CLAIMS, "exp": NOW + 100.0, "nbf": NOW + 50},
        {**CLAIMS, "scope": ["other", " kafka "]},
    ],
)
def test_an_unsecured_token_gives_name_and_expiration(claims: dict[str, Any]) -> None:
    exchange = unsecured()
    assert exchange.evaluate(bearer(unsecured_token(claims))) == b""
    assert exchange.identity == Identity("alice", (NOW + 100) * 1000)


@pytest.mark.parametrize(("user", "shown"), [(None, "null"), (True, "true")])
def test_values_in_an_unsecured_token_become_text_as_in_kafka(user: Any, shown: str) -> None:
    validator = UnsecuredTokens(required_scope=("7", "null"))
    token = unsecured_token({**CLAIMS, "sub": user, "scope": [7, None, {}]})
    assert validator.validate(token, NOW * 1000).user == shown


@pytest.mark.parametrize(
    "token",
    [
        unsecured_token({**CLAIMS, "exp": NOW}),
        unsecured_token({**CLAIMS, "iat": NOW + 50}),
        unsecured_token({**CLAIMS, "iat": NOW - 100, "exp": NOW - 50}),
        unsecured_token({**CLAIMS, "exp": "x"}),
        unsecured_token({**CLAIMS, "exp": True}),
        unsecured_token({**CLAIMS, "exp": float("nan")}),
        unsecured_token({**CLAIMS, "exp": float("inf")}),
        unsecured_token({**CLAIMS, "exp": 10**400}),
        unsecured_token({**CLAIMS, "sub": ""}),
        unsecured_token({**CLAIMS, "sub": 7}),
        unsecured_token({**CLAIMS, "sub": {}}),
        unsecured_token({**CLAIMS, "sub": ["alice"], "scope": "other"}),
        unsecured_token({**CLAIMS, "iat": None}),
        unsecured_token({**CLAIMS, "scope": 7}),
        unsecured_token(without("sub")),
        unsecured_token(without("exp")),
        unsecured_token(CLAIMS, {"alg": "RS256"}),
        unsecured_token(CLAIMS, {}),
        unsecured_token(CLAIMS, signature="abc"),
        unsecured_token(CLAIMS)[:-1],
        "junk",
        "e30.e30x.",
        f"{base64.b64encode(b'[' * 9000).decode().rstrip('=')}.e30.",
        "W10.W10.",
    ],
)
def test_an_invalid_token_gets_an_error_that_the_client_confirms(token: str) -> None:
    exchange = unsecured()
    assert exchange.evaluate(bearer(token)) == INVALID_TOKEN
    with pytest.raises(AuthenticationFailed) as raised:
        exchange.evaluate(b"\x01")
    assert str(raised.value).encode() == INVALID_TOKEN
    assert exchange.identity is None


@pytest.mark.parametrize("scope", [None, "", "other", "kafka other", []])
def test_a_token_without_the_required_scope_is_rejected(scope: Any) -> None:
    token = unsecured_token({**CLAIMS, "scope": scope})
    expected = b'{"status":"insufficient_scope", "scope":"[kafka]"}'
    assert unsecured().evaluate(bearer(token)) == expected


def test_a_client_can_send_another_token_after_an_error() -> None:
    exchange = unsecured()
    exchange.evaluate(bearer("junk"))
    assert exchange.evaluate(bearer(unsecured_token(CLAIMS))) == b""
    assert exchange.identity is not None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"hello",
        b"\x01",
        b"n,,\x01host=a\x01\x01",
        bearer("a.b.c", extensions="\x01auth=x"),
        bearer("a.b.c", extensions="\x01foo=b\x02ar"),
        bearer("a.b.c="),
        bearer("a.b.c").replace(b"Bearer", b"Basic"),
    ],
)
def test_a_malformed_message_is_rejected_without_a_reason(message: bytes) -> None:
    with pytest.raises(InvalidCredentials):
        unsecured().evaluate(message)


def test_the_authorization_id_must_be_that_of_the_token() -> None:
    token = unsecured_token(CLAIMS)
    assert unsecured().evaluate(bearer(token, "alice")) == b""
    with pytest.raises(AuthenticationFailed, match=r"id \(bob\) that is .* name \(alice\)"):
        unsecured().evaluate(bearer(token, "bob"))


# Signed tokens

RSA, OTHER_RSA = (rsa.generate_private_key(65537, 2048) for _ in range(2))
EC, OTHER_CURVE = (ec.generate_private_key(curve()) for curve in (ec.SECP256R1, ec.SECP384R1))
SIGNED = {**CLAIMS, "aud": "kafka", "iss": "https://issuer.test"}


def signed(
    key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "rsa", **claims: Any
) -> str:
    """Return a signed token. A claim that is None is omitted."""
    content = {name: value for name, value in {**SIGNED, **claims}.items() if value is not None}
    return jwt.encode(content, key, algorithm, {"kid": key_id} if key_id else None)


def jwks() -> list[Any]:
    rsa_key = jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True)
    ec_keys = [
        jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        for key in (OTHER_CURVE, EC)
    ]
    ids = ("rsa", "other", "ec")
    return [
        jwt.PyJWK({**key, "kid": id_}) for id_, key in zip(ids, (rsa_key, *ec_keys), strict=True)
    ]


def verifying() -> Exchange:
    validator = SignedTokens(
        jwks(), "sub", audiences=("kafka", "other"), issuer="https://issuer.test", skew_ms=30_000
    )
    return OAuthBearerExchange(validator, lambda: NOW * 1000)


@pytest.mark.parametrize(
    "token",
    [
        signed(),
        signed(EC, "ES256", "ec"),
        signed(EC, "ES256", None),
        signed(algorithm="RS512"),
        signed(algorithm="PS256"),
        signed(key_id=None),
        signed(aud=["x", "other"]),
        signed(iat=NOW + 50),
        signed(nbf=NOW + 20),
        signed(scope=3),
    ],
)
def test_a_signed_token_is_accepted(token: str) -> None:
    exchange = verifying()
    assert exchange.evaluate(bearer(token)) == b""
    assert exchange.identity == Identity("alice", (NOW + 100) * 1000)


def test_a_signed_token_may_be_expired_by_the_clock_skew() -> None:
    exchange = verifying()
    assert exchange.evaluate(bearer(signed(exp=NOW - 20))) == b""
    assert exchange.identity == Identity("alice", (NOW - 20) * 1000)


@pytest.mark.parametrize(
    "token",
    [
        signed(OTHER_RSA),
        signed(key_id="x"),
        signed(EC, "ES256", "rsa"),
        signed(EC, "ES256", "other"),
        signed(ed25519.Ed25519PrivateKey.generate(), "EdDSA", "ec"),
        signed(aud=None),
        signed(aud="x"),
        signed(iss=None),
        signed(iss="x"),
        signed(sub=None),
        signed(sub=""),
        signed(exp=None),
        signed(iat=None),
        signed(exp=NOW - 40),
        signed(nbf=NOW + 50),
        signed()[:-6] + "AAAAAA",
        unsecured_token(SIGNED),
        unsecured_token(SIGNED, {"alg": "none", "kid": "rsa"}),
        unsecured_token(SIGNED, {"alg": ["RS256"], "kid": "rsa"}, "abc"),
        jwt.encode(SIGNED, "x" * 40, "HS256", {"kid": "rsa"}),
        "junk",
    ],
)
def test_a_token_with_another_signature_or_other_claims_is_rejected(token: str) -> None:
    assert verifying().evaluate(bearer(token)) == INVALID_TOKEN


@pytest.mark.parametrize(
    ("token", "logged"),
    [
        (unsecured_token(SIGNED, {"alg": "x" * 300_000}), "unsupported algorithm 'xxx"),
        (signed(key_id="x" * 300_000), "no key with the id 'xxx"),
    ],
    ids=["algorithm", "key"],
)
def test_the_log_line_of_a_token_is_short(
    token: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    verifying().evaluate(bearer(token))
    (line,) = caplog.messages
    assert line.startswith(f"Could not validate the access token: {logged}")
    assert len(line) < 600


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: bearer(text)))
def test_no_token_raises_anything_else(token: bytes) -> None:
    for exchange in (plain(), scram(), unsecured(), verifying()):
        with contextlib.suppress(AuthenticationFailed, InvalidCredentials):
            exchange.evaluate(token)
        assert exchange.identity is None
