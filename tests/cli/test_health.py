"""`kohort health` against servers of all kinds: well, silent, closing, speaking something else."""

import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from kohort.cli.main import main
from processes import PATIENCE_SECONDS

Answer = Callable[[socket.socket], None]
FIVE_APIS = struct.pack(">iihi", 10, 1, 0, 5)


@pytest.fixture
def server() -> Iterator[Callable[[Answer], str]]:
    """`server(answer)` -> the address of a server that treats its one client so."""
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []

    def start(answer: Answer) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(100)
                answer(client)

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


def test_a_broker_that_answers_is_well(
    server: Callable[[Answer], str], capsys: pytest.CaptureFixture[str]
) -> None:
    address = server(lambda client: client.sendall(FIVE_APIS))
    assert health(address) == 0
    assert capsys.readouterr().out == f"{address} is well: it serves 5 APIs.\n"


def test_an_answer_that_comes_byte_by_byte_is_read_whole(server: Callable[[Answer], str]) -> None:
    def drip(client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in FIVE_APIS:
            client.sendall(bytes([byte]))

    assert health(server(drip)) == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "closed the connection instead of answering."),
        (FIVE_APIS[:9], "closed the connection instead of answering."),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak Kafka's protocol."),
        (struct.pack(">iihi", 10, 1, 35, 0), "answered with error 35."),
    ],
)
def test_a_bad_answer_is_told(
    server: Callable[[Answer], str], capsys: pytest.CaptureFixture[str], answer: bytes, why: str
) -> None:
    address = server(lambda client: client.sendall(answer))
    assert health(address) == 1
    assert capsys.readouterr().err == f"{address} {why}\n"


def await_close(client: socket.socket) -> None:
    """Hold the connection until the client, out of patience, closes it."""
    client.recv(100)


def test_silence_ends_with_the_timeout(
    server: Callable[[Answer], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert health(server(await_close), timeout_ms=20) == 1
    assert "did not answer within 0.02 s." in capsys.readouterr().err


@pytest.mark.parametrize("command", [["health"], ["groups", "--list"]])
def test_ctrl_c_ends_the_wait_without_a_traceback(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_SECONDS)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        waiting = subprocess.Popen(
            [sys.executable, "-m", "kohort", *command, "--bootstrap-server", address],
            stderr=subprocess.PIPE,
            text=True,
        )
        client, _ = silent.accept()
        with client:
            client.recv(1)  # It has asked, and waits.
            waiting.send_signal(signal.SIGINT)
            _, said = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert (waiting.returncode, said) == (130, "")


def test_a_port_where_nothing_listens_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    assert health(address) == 1
    assert capsys.readouterr().err == (f"{address} refuses connections: nothing listens there.\n")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", ":0", "h:70000", "h:1,i:2"])
def test_what_is_no_address_is_the_users_to_mend(
    capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert health(address) == 2
    assert capsys.readouterr().err == (
        f"kohort health: {address} is no address: write it as 127.0.0.1:9092.\n"
    )
