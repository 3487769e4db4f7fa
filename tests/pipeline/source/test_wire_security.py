"""The offsets log read from listeners with TLS and SASL, with a file of client properties."""

import asyncio
import pickle
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kohort.client_security import (
    ITERATIONS_MAX,
    AuthenticationError,
    Security,
    _scram,
    plain_exchange,
    read_security,
)
from kohort.conformance import wire
from kohort.conformance.wire import AsyncClient
from kohort.pipeline.source.factory import open_source
from kohort.pipeline.source.source import SourceError
from kohort.protocol.errors import ErrorCode
from kohort.testing import Kafka
from kohort.topics.scram import ScramMechanism

USERS = {"alice": "alice=1,secret", "a,b=c": "s"}


def options_of(kafka: Kafka, folder: Path, properties: Mapping[str, Any]) -> dict[str, str]:
    file = folder / "client.properties"
    lines = (f"{key}={str(text).replace(chr(92), chr(92) * 2)}" for key, text in properties.items())
    file.write_text("\n".join(lines))
    return {"bootstrapServers": kafka.bootstrap_servers, "commandConfig": str(file)}


def commit(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    member = kafka.fake_member("billing", topics=["orders"])
    member.wait_owned(1)
    assert member.commit("orders", 0, 7) is None
    member.leave()


def groups_in(options: Mapping[str, str]) -> set[str]:
    source = open_source(options)
    splits = pickle.loads(pickle.dumps(source.splits({}, source.ends())))
    batches = [rows for split in splits for rows in source.read(split)]
    return {name for rows in batches for name in rows["group"].to_pylist()}


@pytest.mark.parametrize(
    ("security", "mechanisms"),
    [
        ("SASL_SSL", ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        ("SASL_PLAINTEXT", ("PLAIN", "SCRAM-SHA-512")),
    ],
)
def test_commits_are_read_from_a_listener_with_sasl(
    tmp_path: Path, security: Any, mechanisms: Any
) -> None:
    with Kafka(security=security, users=USERS) as kafka:
        commit(kafka)
        for mechanism in mechanisms:
            for user in USERS:
                config = kafka.security.client_config(user, library="java", mechanism=mechanism)
                options = options_of(kafka, tmp_path, config)
                assert groups_in(options) == {"billing"}
                assert str(kafka.history.requests[-1].principal) == f"User:{user}"
        source = open_source(options)
        assert source.cluster_id() == kafka.call(lambda broker: broker.cluster.id)
        assert "orders" in source.topic_ids().values()
        assert [end.topic for end in source.log_ends(["orders"], None)] == ["orders"]


def test_commits_are_read_with_a_certificate_of_the_client(tmp_path: Path) -> None:
    with Kafka(security="SSL", config={"ssl.client.auth": "required"}) as kafka:
        commit(kafka)
        certificate = kafka.security.client_certificate("alice")
        config = kafka.security.client_config(library="java", certificate=certificate)
        assert groups_in(options_of(kafka, tmp_path, config)) == {"billing"}


def test_each_failure_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with Kafka(security="SASL_SSL", users=USERS) as kafka:
        valid = kafka.security.client_config("alice", library="java")
        untrusted = {key: text for key, text in valid.items() if "truststore" not in key}
        wrong = {**valid, "sasl.jaas.config": valid["sasl.jaas.config"].replace("secret", "x")}
        for properties, message in (
            (wrong, "authentication with .* failed: Authentication failed: Invalid username or"),
            (untrusted, "TLS handshake with .* failed: unable to get local issuer"),
            ({**valid, "sasl.mechanism": "GSSAPI"}, "unsupported sasl.mechanism=GSSAPI: expected"),
            ({"security.protocol": "SASL_SSL"}, "unsupported sasl.mechanism=GSSAPI: expected"),
            ({**valid, "security.protocol": "TLS"}, "invalid security.protocol=TLS"),
            ({**valid, "ssl.truststore.location": "no.pem"}, "location=no.pem: No such file"),
            ({"security.protocol": "SSL", **{k: valid[k] for k in valid if "store" in k}}, "SASL"),
            ({**valid, "sasl.jaas.config": "x"}, "invalid client properties .*: expected MODULE"),
        ):
            with pytest.raises(SourceError, match=message) as raised:
                open_source(options_of(kafka, tmp_path, properties)).ends()
            assert "secret" not in str(raised.value)


def test_the_client_of_scenarios_authenticates() -> None:
    with Kafka(security="SASL_PLAINTEXT", users=USERS) as kafka:
        address = kafka.bootstrap_servers.split(":")

        async def connect(password: str) -> int:
            security = Security(None, "PLAIN", lambda: plain_exchange("alice", password))
            client = await AsyncClient.connect(int(address[1]), host=address[0], security=security)
            response = await client.call("Metadata", 9, topics=[])
            client.close()
            return len(response["brokers"])

        assert asyncio.run(connect(USERS["alice"])) == 1
        with pytest.raises(PermissionError, match=r"^authentication failed: .*Invalid username"):
            asyncio.run(connect("wrong"))


def test_nobody_is_asked_for_the_password_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords: list[object] = []

    def load(_context: ssl.SSLContext, _file: str, *, password: object) -> None:
        passwords.append(password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    pem, file = tmp_path / "store.pem", tmp_path / "client.properties"
    pem.touch()
    properties = f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={pem}\n"
    for each in ("", "ssl.key.password=secret\n"):
        file.write_text(properties + each)
        read_security(str(file))
    assert passwords[::2] == ["", "secret"]  # the first time that each key is loaded


async def test_a_connection_that_is_not_authenticated_in_time_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "TIMEOUT_SECONDS", 0.1)
    closed = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client closes the connection
        writer.close()
        closed.set()

    security = Security(None, "PLAIN", lambda: plain_exchange("a", "b"))
    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        with pytest.raises(TimeoutError):
            await AsyncClient.connect(server.sockets[0].getsockname()[1], security=security)
        await asyncio.wait_for(closed.wait(), 10)


@pytest.mark.parametrize(
    ("error", "mechanisms", "message"),
    [
        ("unsupported_sasl_mechanism", ["GSSAPI"], "the broker supports only GSSAPI, not PLAIN"),
        ("illegal_sasl_state", [], r"the listener does not accept SASL \(ILLEGAL_SASL_STATE\)"),
    ],
)
def test_an_error_of_the_handshake_is_reported(
    error: str, mechanisms: list[str], message: str
) -> None:
    steps = Security(None, "PLAIN", lambda: plain_exchange("a", "b")).authentication()
    assert next(steps) == ("SaslHandshake", {"mechanism": "PLAIN"})
    with pytest.raises(AuthenticationError, match=f"^{message}$"):
        steps.send(SimpleNamespace(error_code=ErrorCode[error], mechanisms=mechanisms))


def test_a_broker_that_does_not_know_the_password_is_not_trusted() -> None:
    mechanism = ScramMechanism.SHA_256
    exchange = _scram(mechanism, "alice", "secret", "nonce")
    assert next(exchange) == b"n,,n=alice,r=nonce"
    exchange.send(b"r=nonce2,s=c2FsdA==,i=4096")
    with pytest.raises(ValueError, match="invalid signature from the broker"):
        exchange.send(b"v=" + b"A" * 44)


@pytest.mark.parametrize(
    "message",
    [
        b"r=other,s=c2FsdA==,i=4096",
        b"r=nonce,s=c2FsdA==,i=%d" % (ITERATIONS_MAX + 1),
        b"r=nonce,s=c2FsdA==,i=many",
        b"r=nonce,s=c,i=4096",
        b"e=x",
        b"\xff",
    ],
)
def test_an_invalid_message_of_the_broker_is_rejected(message: bytes) -> None:
    exchange = _scram(ScramMechanism.SHA_256, "alice", "secret", "nonce")
    next(exchange)
    with pytest.raises(ValueError, match=r"^invalid first message from the broker$"):
        exchange.send(message)
