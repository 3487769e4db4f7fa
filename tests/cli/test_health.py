"""`kohort health` against servers that respond, stay silent, close, or speak another protocol."""

import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from kohort.cli.main import main
from support.running_broker import TIMEOUT_SECONDS

Handler = Callable[[socket.socket], None]
FIVE_APIS = struct.pack(">iihi", 10, 1, 0, 5)


@pytest.fixture
def server() -> Iterator[Callable[[Handler], str]]:
    """`server(handle)` -> the address of a server that handles one client."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def start(handle: Handler) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(100)
                handle(client)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join()
    for listener in sockets:
        listener.close()


def health(address: str, timeout_ms: int = 30_000) -> int:
    return main(["health", "--bootstrap-server", address, "--timeout", str(timeout_ms)])


def test_a_broker_that_responds_is_healthy(
    server: Callable[[Handler], str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = server(lambda client: client.sendall(FIVE_APIS))
    assert health(address) == 0
    assert capsys.readouterr().out == f"{address} is healthy: it serves 5 APIs.\n"


def test_a_response_that_arrives_byte_by_byte_is_read_completely(
    server: Callable[[Handler], str],
) -> None:
    def drip(client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in FIVE_APIS:
            client.sendall(bytes([byte]))

    assert health(server(drip)) == 0


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "closed the connection without a response."),
        (FIVE_APIS[:9], "closed the connection without a response."),
        (b"HTTP/1.1 400 Bad Request\r\n", "did not respond in Kafka's protocol."),
        (struct.pack(">iihi", 10, 1, 35, 0), "responded with error code 35."),
    ],
)
def test_an_invalid_response_is_reported(
    server: Callable[[Handler], str],
    capsys: pytest.CaptureFixture[str],
    response: bytes,
    reason: str,
) -> None:
    address = server(lambda client: client.sendall(response))
    assert health(address) == 1
    assert capsys.readouterr().err == f"{address} {reason}\n"


def await_close(client: socket.socket) -> None:
    """Keep the connection open until the client closes it."""
    client.recv(100)


def test_no_response_within_the_timeout_is_reported(
    server: Callable[[Handler], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert health(server(await_close), timeout_ms=20) == 1
    assert "did not respond within 0.02 s." in capsys.readouterr().err


@pytest.mark.parametrize("command", [["health"], ["groups", "--list"]])
def test_ctrl_c_ends_the_wait_without_a_traceback(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(TIMEOUT_SECONDS)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [sys.executable, "-m", "kohort", *command, "--bootstrap-server", address],
            stderr=subprocess.PIPE,
            text=True,
        )
        client, _ = silent.accept()
        with client:
            client.recv(1)  # the request has been sent
            waiting.send_signal(signal.SIGINT)
            _, errors = waiting.communicate(timeout=TIMEOUT_SECONDS)
    assert (waiting.returncode, errors) == (130, "")


def test_a_refused_connection_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    assert health(address) == 1
    assert capsys.readouterr().err == (
        f"{address} refused the connection: nothing is listening there.\n"
    )


def test_a_host_with_an_empty_label_is_a_user_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert health("a..b:9092") == 2
    assert "kohort health: invalid address a..b:9092: " in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", ":0", "h:70000", "h:1,i:2"])
def test_an_invalid_address_is_a_user_error(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert health(address) == 2
    assert capsys.readouterr().err == (
        f"kohort health: invalid address {address}: expected HOST:PORT.\n"
    )
