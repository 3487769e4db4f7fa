"""Commands that cannot connect name the reason and the setting to change, in one line, and after
one attempt if no further attempt can succeed."""

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from kohort.cli.groups import connecting
from kohort.cli.main import main
from kohort.testing import Kafka

# kafka-python does not close a socket whose TLS handshake failed. The fixture `run` collects them.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <:ResourceWarning")

LISTENERS = {
    "listeners": ",".join(
        f"{name}://127.0.0.1:0"
        for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "MUTUAL")
    ),
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,MUTUAL:SSL",
    "listener.name.mutual.ssl.client.auth": "required",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
}
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}

Run = Callable[..., str]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(security="SASL_SSL", users={"alice": "alice-secret"}, config=LISTENERS) as kafka:
        yield kafka


@pytest.fixture
def run(kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """`run(command, listener, protocol, password, mechanism, trusts)`: the output of a command that
    fails."""

    def run(
        command: list[str],
        listener: str,
        protocol: str,
        password: str = "",
        mechanism: str = "PLAIN",
        trusts: bool = True,
    ) -> str:
        properties = {"security.protocol": protocol}
        if protocol.startswith("SASL"):
            properties["sasl.mechanism"] = mechanism
            properties["sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{MODULES[mechanism]} required "
                f'username="alice" password="{password}";'
            )
        if protocol.endswith("SSL") and trusts:
            properties["ssl.truststore.location"] = str(kafka.security.ca_file)
            properties["ssl.truststore.type"] = "PEM"
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        config = kafka.security.client_config(library="java", listener=listener)
        address = config["bootstrap.servers"]
        args = ["--bootstrap-server", address, "--command-config", str(file)]
        assert main([command[0], *args, *command[1:]]) == 1
        captured = capsys.readouterr()
        assert captured.err == ""
        (line,) = captured.out.strip().splitlines()
        assert "secret" not in line
        return line.replace(address, "HOST:PORT")

    yield run
    gc.collect()


ACLS = ["acls", "--list"]
GROUPS = ["groups", "--list"]
FAILED = {
    "acls": "Error while executing ACL command: ",
    "groups": "Error: Executing consumer group command failed due to ",
}
ERRORS = "org.apache.kafka.common.errors."
WRONG_PASSWORD = "SaslAuthenticationException: Authentication failed: Invalid username or password."
OTHER_MECHANISM = (
    "UnsupportedSaslMechanismException: Client SASL mechanism 'SCRAM-SHA-512' not enabled in the "
    "server: change sasl.mechanism."
)
NO_SASL = (
    "IllegalSaslStateException: the listener does not use SASL: change security.protocol "
    "(SASL_PLAINTEXT)."
)
NO_CERTIFICATE = (
    "SslAuthenticationException: SSL handshake failed: the broker does not accept the certificate "
    "of the client (TLSV13_ALERT_CERTIFICATE_REQUIRED): change ssl.keystore.location."
)
UNTRUSTED = (
    "SslAuthenticationException: SSL handshake failed: unable to get local issuer certificate: "
    "ssl.truststore.location must contain the issuer of the broker's certificate."
)


@pytest.mark.parametrize("command", [ACLS, GROUPS], ids=["acls", "groups"])
@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        (("SASL_SSL", "SASL_SSL", "wrong-secret"), WRONG_PASSWORD),
        (("SASL_PLAINTEXT", "SASL_PLAINTEXT", "wrong-secret"), WRONG_PASSWORD),
        (("SASL_SSL", "SASL_SSL", "alice-secret", "SCRAM-SHA-512"), OTHER_MECHANISM),
        (("PLAINTEXT", "SASL_PLAINTEXT", "alice-secret"), NO_SASL),
        (("MUTUAL", "SSL"), NO_CERTIFICATE),
        (("SSL", "SSL", "", "PLAIN", False), UNTRUSTED),
    ],
)
def test_a_client_that_is_refused_gets_the_reason_after_one_attempt(
    run: Run,
    command: list[str],
    connection: tuple[Any, ...],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed_attempt = mock.Mock(wraps=connecting._refusal)
    monkeypatch.setattr(connecting, "_refusal", failed_attempt)
    assert run(command, *connection) == FAILED[command[0]] + ERRORS + reason
    failed_attempt.assert_called_once()


@pytest.mark.parametrize(
    ("connection", "missing"),
    [
        (("SSL", "PLAINTEXT"), "TLS"),
        (("SASL_SSL", "SASL_PLAINTEXT", "alice-secret"), "TLS"),
        (("SASL_PLAINTEXT", "PLAINTEXT"), "SASL"),
        (("SASL_SSL", "SSL"), "SASL"),
    ],
)
def test_a_broker_that_disconnects_is_explained_after_the_timeout(
    run: Run, connection: tuple[str, ...], missing: str
) -> None:
    line = run([*GROUPS, "--timeout", "1000"], *connection)
    assert line == (
        f"{FAILED['groups']}{ERRORS}TimeoutException: No broker of HOST:PORT responded within 1000 "
        f"ms: the broker disconnected, as a listener with {missing} does: change "
        f"security.protocol ({connection[1]}; --command-config)."
    )


def test_tls_on_a_listener_without_is_explained_after_the_timeout(run: Run) -> None:
    line = run([*GROUPS, "--timeout", "1000"], "PLAINTEXT", "SSL")
    assert "responded within 1000 ms: the TLS handshake failed (" in line
    assert "), as on a listener without TLS: change security.protocol (SSL; --command-con" in line


@pytest.mark.parametrize("connects", [True, False])
def test_the_reason_is_reported_although_the_last_attempt_times_out(
    connects: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    get_connection = connecting._Manager.get_connection

    def connect_once(manager: Any, node: Any, timeout_ms: float | None = None, **more: Any) -> Any:
        timeout_ms = 0 if manager.reason and not connects else timeout_ms
        return get_connection(manager, node, timeout_ms=timeout_ms, **more)

    monkeypatch.setattr(connecting._Manager, "get_connection", connect_once)
    with socket.create_server(("127.0.0.1", 0)) as server:
        # The first connection is closed; later ones get no response.
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["groups", "--bootstrap-server", address, "--list", "--timeout", "1000"]) == 1
        thread.join()
    assert "as a listener with TLS does" in capsys.readouterr().out


def test_a_command_that_cannot_connect_leaves_no_thread(run: Run) -> None:
    threads = threading.enumerate()
    run(GROUPS, "SSL", "SSL", trusts=False)
    assert threading.enumerate() == threads
