"""Connections to listeners with SASL. The responses are the same as Kafka 4.3's, unless a comment
says otherwise."""

import logging
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kohort.testing.kafka import Kafka
from support.sasl import (
    OAUTH_MODULE,
    PLAIN_MODULE,
    ScramClient,
    bearer,
    plain_token,
    unsecured_token,
    upsertion,
)
from support.wire import Client

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
CONFIG = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SHORT://127.0.0.1:0",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT"
    ),
    "kohort.users": "alice:alice-secret,bob:bob-secret",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{PLAIN_MODULE} required user_carol="carol-secret" user_alice="other";'
    ),
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
        f'{OAUTH_MODULE} required unsecuredValidatorRequiredScope="kafka";'
    ),
    "connection.failed.authentication.delay.ms": "1",
    "listener.name.short.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.short.plain.connections.max.reauth.ms": "60000",
}
ALICE = plain_token("alice", "alice-secret")
SOFTWARE = {"client_software_name": "a", "client_software_version": "1"}
FAILED = "sasl_authentication_failed"


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(config=CONFIG) as kafka:
        yield kafka


def connect(kafka: Kafka, listener: str = "SHORT") -> Client:
    host, port = kafka.call(lambda broker: broker.listener_addresses[1][listener])
    return Client(f"{host}:{port}")


def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> dict[str, Any]:
    return client.call("SaslHandshake", version, mechanism=mechanism)


def authenticate(client: Client, token: bytes, version: int = 2) -> tuple[Any, ...]:
    """Return the error, the message or token, and the session lifetime."""
    response = client.call("SaslAuthenticate", version, auth_bytes=token)
    text = response["error_message"] or response["auth_bytes"]
    return response["error_code"], text, response.get("session_lifetime", 0)


def log_in(client: Client, token: bytes = ALICE) -> None:
    assert handshake(client)["error_code"] == "none"
    assert authenticate(client, token)[0] == "none"


def is_served(client: Client) -> bool:
    return "brokers" in client.call("Metadata", 9)


def assert_closed(client: Client) -> None:
    with pytest.raises(ConnectionError):
        client.receive_frame()


def send_bare(client: Client, token: bytes) -> bytes:
    client.socket.sendall(struct.pack(">i", len(token)) + token)
    return client.receive_frame()


def principals(kafka: Kafka) -> list[str]:
    servers = kafka.call(lambda broker: broker._servers[1])
    return [str(each.client.principal) for s in servers.values() for each in s._connections]


# --- authentication


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_with_the_right_password_is_served(kafka: Kafka, version: int) -> None:
    with connect(kafka) as client:
        client.call("ApiVersions", 3, **SOFTWARE)
        expected = {"error_code": "none", "mechanisms": ["PLAIN", "SCRAM-SHA-256"]}
        assert handshake(client) == expected
        lifetime = 60000 if version else 0
        assert authenticate(client, ALICE, version) == ("none", b"", lifetime)
        assert is_served(client)
        assert "User:alice" in principals(kafka)


def test_users_of_a_listener_replace_those_of_all(kafka: Kafka) -> None:
    for token in (plain_token("carol", "carol-secret"), plain_token("alice", "other")):
        with connect(kafka, "SASL_PLAINTEXT") as client:
            log_in(client, token)
            assert is_served(client)
    with connect(kafka, "SASL_PLAINTEXT") as client:
        handshake(client)
        assert authenticate(client, ALICE)[0] == FAILED
    with connect(kafka) as client:
        handshake(client)
        assert authenticate(client, plain_token("carol", "carol-secret"))[0] == FAILED


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_can_authenticate_with_scram(kafka: Kafka, mechanism: str) -> None:
    scram = ScramClient("bob", "bob-secret", mechanism)
    with connect(kafka, "SASL_PLAINTEXT") as client:
        handshake(client, mechanism)
        error, first, lifetime = authenticate(client, scram.first())
        assert (error, lifetime) == ("none", 0)
        assert authenticate(client, scram.final(first)) == ("none", scram.signature, 0)
        assert is_served(client)


def test_the_user_of_a_token_is_the_principal_until_the_token_expires(kafka: Kafka) -> None:
    now = kafka.clock.now_ms / 1000
    token = unsecured_token({"sub": "dave", "scope": "kafka", "iat": now, "exp": now + 100})
    with connect(kafka, "SASL_PLAINTEXT") as client:
        handshake(client, "OAUTHBEARER")
        error, _, lifetime = authenticate(client, bearer(token))
        assert error == "none"
        assert 0 < lifetime <= 100_000
        assert is_served(client)
        assert "User:dave" in principals(kafka)


@pytest.mark.parametrize(("expires", "is_valid"), [(2**43 - 1, True), (2**53 - 1, False)])
def test_a_token_may_be_valid_as_long_as_a_response_can_say(
    kafka: Kafka, expires: int, is_valid: bool
) -> None:
    token = unsecured_token({"sub": "dave", "scope": "kafka", "exp": expires})
    with connect(kafka, "SASL_PLAINTEXT") as client:
        handshake(client, "OAUTHBEARER")
        error, response, lifetime = authenticate(client, bearer(token))
        assert (error, lifetime > 0, response == b"") == ("none", is_valid, is_valid)


def test_pipelined_requests_are_handled_in_order(kafka: Kafka) -> None:
    with connect(kafka, "SASL_PLAINTEXT") as client:
        token = plain_token("carol", "carol-secret")
        frames = client.encode("SaslHandshake", 1, mechanism="PLAIN")
        frames += client.encode("SaslAuthenticate", 2, auth_bytes=token)
        # Larger than what a client may send before it has authenticated.
        frames += client.encode("Metadata", 9, topics=[{"name": "x" * 30_000}] * 20)
        client.socket.sendall(frames)
        assert client.receive()["error_code"] == "none"
        assert client.receive()["error_code"] == "none"
        assert "brokers" in client.receive()


# --- failures


@pytest.mark.parametrize("version", [0, 1])
def test_an_unknown_mechanism_is_rejected_with_the_list(
    kafka: Kafka, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    with connect(kafka, "SASL_PLAINTEXT") as client:
        expected = {"error_code": "unsupported_sasl_mechanism", "mechanisms": MECHANISMS}
        assert handshake(client, "GSS\nAPI", version) == expected
        assert_closed(client)
    line = r"Failed authentication with /127.0.0.1 (Unsupported SASL mechanism GSS\nAPI)"
    assert caplog.messages == [line]


LONG_CLAIMS = {"sub": "x" * 30_000, "scope": "kafka", "exp": 2**40}


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("x" * 30_000, None),
        ("SCRAM-SHA-256", b"n,,n=" + b"x" * 300_000 + b",r=abc"),
        ("OAUTHBEARER", bearer(unsecured_token(LONG_CLAIMS), "y")),
    ],
    ids=["mechanism", "user", "claim"],
)
def test_the_log_lines_of_a_failure_are_short(
    kafka: Kafka, caplog: pytest.LogCaptureFixture, mechanism: str, token: bytes | None
) -> None:
    """A client without a password must not fill the log with lines of megabytes."""
    for name in ("kohort.connection", "kohort.security"):
        caplog.set_level(logging.DEBUG, name)
    with connect(kafka, "SASL_PLAINTEXT") as client:
        handshake(client, mechanism)
        if token is not None:
            assert authenticate(client, token)[0] == FAILED
        assert_closed(client)
    lines = [line for line in caplog.messages if "ailed" in line]
    assert lines
    assert max(map(len, lines)) < 600


@pytest.mark.parametrize(
    ("mechanism", "tokens", "message"),
    [
        (
            "PLAIN",
            [plain_token("alice", "wrong")],
            "Authentication failed: Invalid username or password",
        ),
        ("PLAIN", [b"abc"], "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (
            "SCRAM-SHA-256",
            [b"n,,n=zoe,r=abc"],
            (
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism SCRAM-SHA-256"
            ),
        ),
        (
            "SCRAM-SHA-512",
            [b"n,,n=bob,r=abc", b"c=biws,r=abc,p=AAAA"],
            (
                "Authentication failed during authentication due to invalid credentials with SASL "
                "mechanism SCRAM-SHA-512"
            ),
        ),
        ("OAUTHBEARER", [bearer("junk"), b"\x01"], '{"status":"invalid_token"}'),
    ],
)
def test_a_failure_is_reported_and_logged_in_kafkas_words(
    kafka: Kafka,
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
    tokens: list[bytes],
    message: str,
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    with connect(kafka, "SASL_PLAINTEXT") as client:
        handshake(client, mechanism)
        *others, last = tokens
        for token in others:
            assert authenticate(client, token)[0] == "none"
        assert authenticate(client, last) == (FAILED, message, 0)
        assert_closed(client)
    assert caplog.messages[-1] == f"Failed authentication with /127.0.0.1 ({message})"
    assert "wrong" not in caplog.text


def test_requests_after_a_failure_are_dropped(kafka: Kafka) -> None:
    with connect(kafka) as client:
        frames = client.encode("SaslHandshake", 1, mechanism="PLAIN")
        frames += client.encode("SaslAuthenticate", 2, auth_bytes=b"")
        frames += client.encode("SaslAuthenticate", 2, auth_bytes=ALICE)
        client.socket.sendall(frames + client.encode("Metadata", 9))
        assert client.receive()["error_code"] == "none"
        assert client.receive()["error_code"] == FAILED
        assert_closed(client)


def test_the_response_to_a_failure_is_delayed() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "connection.failed.authentication.delay.ms": "600000",
        "kohort.users": "bob:bob-secret",
    }
    with Kafka(config=config) as kafka, Client(kafka.bootstrap_servers) as client:
        handshake(client)
        client.send("SaslAuthenticate", 2, auth_bytes=ALICE)
        kafka.wait_request("SaslAuthenticate")
        client.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)


METADATA, HANDSHAKE, VERSIONS = ("Metadata", 9), ("SaslHandshake", 1), ("ApiVersions", 0)
AUTHENTICATE = ("SaslAuthenticate", 2)


@pytest.mark.parametrize(
    ("requests", "line"),
    [
        (
            [METADATA],
            (
                "Closing the connection from /127.0.0.1: Unexpected Kafka request of type METADATA "
                "during SASL handshake."
            ),
        ),
        (
            [VERSIONS, ("Produce", 9)],
            (
                "Closing the connection from /127.0.0.1: Unexpected Kafka request of type PRODUCE "
                "during SASL handshake."
            ),
        ),
        (
            [AUTHENTICATE],
            (
                "Closing the connection from /127.0.0.1: Unexpected Kafka request of type "
                "SASL_AUTHENTICATE during SASL handshake."
            ),
        ),
        (
            [VERSIONS, VERSIONS],
            (
                "Closing the connection from /127.0.0.1: Unexpected ApiVersions request received "
                "during SASL authentication state HANDSHAKE_REQUEST"
            ),
        ),
        # Before it disconnects, Kafka sends the error ILLEGAL_SASL_STATE in this case.
        (
            [HANDSHAKE, METADATA],
            (
                "Failed authentication with /127.0.0.1 (Unexpected Kafka request of type METADATA "
                "during SASL authentication.)"
            ),
        ),
    ],
)
def test_any_other_request_closes_the_connection(
    kafka: Kafka,
    caplog: pytest.LogCaptureFixture,
    requests: list[tuple[str, int]],
    line: str,
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    with connect(kafka) as client:
        *others, last = requests
        for api, version in others:
            assert client.call(api, version, mechanism="PLAIN")["error_code"] == "none"
        client.send(*last)
        assert_closed(client)
    assert caplog.messages == [line]


@pytest.mark.parametrize(
    ("api", "name", "versions"),
    [("ApiVersions", "API_VERSIONS", (0, 3, 4)), ("SaslHandshake", "SASL_HANDSHAKE", (0, 1))],
)
def test_a_new_beginning_during_an_exchange_is_an_error(
    kafka: Kafka, caplog: pytest.LogCaptureFixture, api: str, name: str, versions: tuple[int, ...]
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    for version in versions:
        caplog.clear()
        with connect(kafka) as client:
            handshake(client, "SCRAM-SHA-256")
            authenticate(client, ScramClient("alice", "alice-secret").first())
            response = client.call(api, version, mechanism="PLAIN", **SOFTWARE)
            assert response["error_code"] == "illegal_sasl_state"
            assert not response.get("api_keys")
            assert not response.get("mechanisms")
            assert_closed(client)
        reason = f"Unexpected Kafka request of type {name} during SASL authentication."
        assert caplog.messages == [f"Failed authentication with /127.0.0.1 ({reason})"]


def test_api_versions_can_be_repeated_after_an_error(kafka: Kafka) -> None:
    with connect(kafka) as client:
        bad = {**SOFTWARE, "client_software_name": "--"}
        assert client.call("ApiVersions", 3, **bad)["error_code"] == "invalid_request"
        assert client.call("ApiVersions", 3, **SOFTWARE)["error_code"] == "none"
        log_in(client)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 3) + b"abc",
        struct.pack(">i", 0),
        struct.pack(">i", -5),
        struct.pack(">i", 524_289),
        struct.pack(">i", 16) + b"GET / HTTP/1.1\r\n",
        struct.pack(">ihhih", 10, 17, 7, 1, -1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
    ],
)
@pytest.mark.parametrize("after", [(), VERSIONS, HANDSHAKE])
def test_anything_but_a_request_closes_the_connection(
    kafka: Kafka, data: bytes, after: tuple[str, int] | tuple[()]
) -> None:
    with connect(kafka) as client:
        if after:
            client.call(*after, mechanism="PLAIN")
        client.socket.sendall(data)
        assert_closed(client)


def test_a_frame_of_the_largest_size_is_not_too_large(kafka: Kafka) -> None:
    with connect(kafka) as client:
        handshake(client)
        # The header and the length of the token take 24 bytes.
        client.send("SaslAuthenticate", 1, auth_bytes=b"x" * (524_288 - 18))
        assert client.receive()["error_code"] == FAILED


# --- SaslHandshake v0: tokens without headers


def test_tokens_without_headers_follow_the_oldest_handshake(kafka: Kafka) -> None:
    with connect(kafka) as client:
        handshake(client, version=0)
        assert send_bare(client, ALICE) == b""
        assert is_served(client)
    scram = ScramClient("bob", "bob-secret")
    with connect(kafka) as client:
        handshake(client, "SCRAM-SHA-256", version=0)
        final = scram.final(send_bare(client, scram.first()))
        assert send_bare(client, final) == scram.signature
        assert is_served(client)


@pytest.mark.parametrize("token", [b"", b"x", plain_token("alice", "wrong")])
def test_a_wrong_token_without_a_header_closes_the_connection(kafka: Kafka, token: bytes) -> None:
    with connect(kafka) as client:
        handshake(client, version=0)
        with pytest.raises(ConnectionError):
            send_bare(client, token)


# --- requests after the authentication, and without SASL


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_sasl_requests_are_illegal_without_need_for_them(kafka: Kafka, listener: str) -> None:
    with connect(kafka, listener) as client:
        if listener == "SASL_PLAINTEXT":
            log_in(client, plain_token("carol", "carol-secret"))
        for version in (0, 1):
            expected = {"error_code": "illegal_sasl_state", "mechanisms": []}
            assert handshake(client, version=version) == expected
        for version in (0, 1, 2):
            message = "SaslAuthenticate request received after successful authentication"
            assert authenticate(client, ALICE, version) == ("illegal_sasl_state", message, 0)
        assert is_served(client)


# --- re-authentication (KIP-368)


@pytest.fixture
def frozen() -> Iterator[Kafka]:
    with Kafka(config=CONFIG) as kafka:
        kafka.clock.freeze()
        yield kafka


def test_a_client_can_authenticate_again(frozen: Kafka) -> None:
    with connect(frozen) as client:
        log_in(client)
        for _ in range(2):
            frozen.clock.advance(seconds=50)
            assert handshake(client)["error_code"] == "none"
            assert authenticate(client, ALICE) == ("none", b"", 60_000)
            assert is_served(client)


def test_a_session_that_has_expired_can_only_be_renewed(frozen: Kafka) -> None:
    for request in (METADATA, VERSIONS, AUTHENTICATE):
        with connect(frozen) as client:
            log_in(client)
            frozen.clock.advance(seconds=60)
            assert is_served(client)
            frozen.clock.advance(ms=1)
            client.send(*request)
            assert_closed(client)
    with connect(frozen) as client:
        log_in(client)
        frozen.clock.advance(seconds=61)
        log_in(client)
        assert is_served(client)


def test_a_request_behind_the_handshake_of_an_expired_session_is_not_served(frozen: Kafka) -> None:
    with connect(frozen) as client:
        log_in(client)
        frozen.clock.advance(seconds=61)
        frames = client.encode("SaslHandshake", 1, mechanism="PLAIN")
        client.socket.sendall(frames + client.encode("Metadata", 9))
        assert client.receive()["error_code"] == "none"
        assert_closed(client)


@pytest.mark.parametrize("key", [999, -1])
def test_an_unknown_request_ends_a_session(
    frozen: Kafka, caplog: pytest.LogCaptureFixture, key: int
) -> None:
    with connect(frozen) as client:
        log_in(client)
        client.socket.sendall(struct.pack(">ihhih", 10, key, 0, 1, -1))
        assert_closed(client)
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


def test_requests_before_a_handshake_are_those_of_the_session(frozen: Kafka) -> None:
    with connect(frozen) as client:
        log_in(client)
        # Larger than what a client may send before it has authenticated.
        large = client.encode("Metadata", 9, topics=[{"name": "x" * 30_000}] * 20)
        frames = client.encode("SaslHandshake", 1, mechanism="PLAIN")
        frames += client.encode("SaslAuthenticate", 2, auth_bytes=ALICE)
        client.socket.sendall(large + frames + client.encode("Metadata", 9))
        assert "brokers" in client.receive()
        assert client.receive()["error_code"] == "none"
        assert client.receive()["error_code"] == "none"
        assert "brokers" in client.receive()


def test_a_client_may_authenticate_again_once_per_second(frozen: Kafka) -> None:
    with connect(frozen) as client:
        log_in(client)
        log_in(client)
        assert handshake(client)["error_code"] == "illegal_sasl_state"
        assert is_served(client)
        frozen.clock.advance(seconds=1)
        log_in(client)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (
            plain_token("bob", "bob-secret"),
            "Cannot change principals during re-authentication from User.alice: User.bob",
        ),
        (
            plain_token("alice", "wrong"),
            "Authentication failed: Invalid username or password",
        ),
    ],
)
def test_a_client_must_remain_who_it_is(
    frozen: Kafka, caplog: pytest.LogCaptureFixture, token: bytes, message: str
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    with connect(frozen) as client:
        log_in(client)
        handshake(client)
        assert authenticate(client, token) == (FAILED, message, 0)
        assert_closed(client)
    assert caplog.messages == [f"Failed re-authentication with /127.0.0.1 ({message})"]


@pytest.mark.parametrize("api", ["SaslAuthenticate", "SaslHandshake", "ApiVersions", "a token"])
def test_a_client_that_changes_its_mechanism_is_disconnected(
    frozen: Kafka, caplog: pytest.LogCaptureFixture, api: str
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    with connect(frozen) as client:
        log_in(client)
        version = 0 if api == "a token" else 1
        assert handshake(client, "SCRAM-SHA-256", version)["error_code"] == "none"
        token = b"n,,n=alice,r=abc"
        if api == "a token":
            client.socket.sendall(len(token).to_bytes(4, "big") + token)
        else:
            client.send(api, 1, mechanism="PLAIN", auth_bytes=token)
        assert_closed(client)
    message = (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
        "re-authentication of mechanism 'PLAIN'"
    )
    assert caplog.messages == [f"Failed re-authentication with /127.0.0.1 ({message})"]


def test_a_client_that_changes_to_an_unsupported_mechanism_is_disconnected(
    frozen: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kohort.connection")
    with connect(frozen) as client:
        log_in(client)
        client.send("SaslHandshake", 1, mechanism="GSSAPI")
        assert_closed(client)
    message = "Unsupported SASL mechanism GSSAPI"
    assert caplog.messages == [f"Failed re-authentication with /127.0.0.1 ({message})"]


def test_a_token_that_is_created_after_the_handshake_is_valid(frozen: Kafka) -> None:
    with connect(frozen, "SASL_PLAINTEXT") as client:
        handshake(client, "OAUTHBEARER")
        frozen.clock.advance(seconds=5)
        now = frozen.clock.now_ms / 1000
        claims = {"sub": "olga", "scope": "kafka", "iat": now, "exp": now + 60}
        assert authenticate(client, bearer(unsecured_token(claims))) == ("none", b"", 60_000)


# --- credentials that clients create


def alter(kafka: Kafka, *upsertions: dict[str, Any], **deletions: int) -> list[Any]:
    deleted = [{"name": name, "mechanism": value} for name, value in deletions.items()]
    with connect(kafka, "PLAINTEXT") as client:
        response = client.call(
            "AlterUserScramCredentials", 0, upsertions=upsertions, deletions=deleted
        )
    return [each["error_code"] for each in response["results"]]


def can_log_in(kafka: Kafka, user: str, password: str) -> bool:
    scram = ScramClient(user, password)
    with connect(kafka) as client:
        handshake(client, "SCRAM-SHA-256")
        error, first, _ = authenticate(client, scram.first())
        return error == "none" and authenticate(client, scram.final(first))[0] == "none"


def test_credentials_can_be_created_changed_and_deleted(kafka: Kafka) -> None:
    assert not can_log_in(kafka, "erin", "1")
    assert alter(kafka, upsertion("erin", "1", 1)) == ["none"]
    assert can_log_in(kafka, "erin", "1")
    assert alter(kafka, upsertion("erin", "2", 1, 8192)) == ["none"]
    assert not can_log_in(kafka, "erin", "1")
    assert can_log_in(kafka, "erin", "2")
    assert alter(kafka, erin=1) == ["none"]
    assert not can_log_in(kafka, "erin", "2")


def test_a_created_credential_replaces_the_configured_password(kafka: Kafka) -> None:
    assert alter(kafka, upsertion("bob", "new", 1)) == ["none"]
    assert can_log_in(kafka, "bob", "new")
    assert not can_log_in(kafka, "bob", "bob-secret")
    assert alter(kafka, bob=1) == ["none"]
    assert can_log_in(kafka, "bob", "bob-secret")


def test_credentials_survive_a_restart() -> None:
    with Kafka(config=CONFIG, durability="fsync") as kafka:
        alter(kafka, upsertion("erin", "1", 1), upsertion("frank", "2", 1))
        alter(kafka, frank=1)
        kafka.crash(power=True)
        kafka.restart()
        assert can_log_in(kafka, "erin", "1")
        assert not can_log_in(kafka, "frank", "2")
