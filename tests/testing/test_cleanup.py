"""Threads and sockets of a broker: when it listens, and that none remain after it stops."""

import contextlib
import multiprocessing
import os
import signal
import socket
import stat
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from kohort.testing import Kafka
from kohort.testing.faults.files import FaultyFile, FaultyFiles, FileFault
from kohort.testing.loop_thread import CALL_TIMEOUT_SECONDS
from support.wire import connect, is_refused


def open_sockets() -> set[Path]:
    """Return the open sockets of this process, including those of clients."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if str(link := each.readlink()).startswith("socket:"):
                found.add(link)
    return found


def test_a_stopped_broker_leaves_no_thread_and_no_socket() -> None:
    sockets, threads = open_sockets(), set(threading.enumerate())
    with Kafka(nodes=2, durability="fsync") as kafka:
        addresses = [each.address for each in kafka.nodes]
        clients = [connect(each) for each in addresses]
        kafka.topic("orders", partitions=2).produce(["a"])
        kafka.crash()
        kafka.restart()
        with kafka.fork():
            assert open_sockets() > sockets
            assert set(threading.enumerate()) > threads
    for client in clients:
        client.close()
    assert set(threading.enumerate()) == threads
    assert open_sockets() == sockets
    assert all(is_refused(each) for each in addresses)


def test_a_broker_does_not_listen_before_its_data_is_open() -> None:
    """Method: each call to the disk while the broker opens its data tries to connect."""
    refused: list[bool] = []
    with Kafka(durability="fsync") as kafka:
        address = kafka.nodes[0].address
        kafka.topic("orders", partitions=1)
        snapshot = kafka.snapshot()

        class ConnectingFiles(FaultyFiles):
            def operate(self, operation: str, path: Path) -> FileFault | None:
                refused.append(is_refused(address))
                return super().operate(operation, path)

            def open(self, path: Path, **options: bool) -> FaultyFile:
                refused.append(is_refused(address))
                return super().open(path, **options)

        files = ConnectingFiles()
        files.__dict__.update(snapshot.files.copy().__dict__)
        kafka.run(kafka.broker.stop())
        kafka._host._start_again(files, "restored")
        assert not is_refused(address)
        during_start, refused = refused[:], []
    assert during_start
    assert all(during_start)


def _run(is_running: Any) -> None:
    """Run in a forked process until it is killed."""
    is_running.set()
    signal.pause()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_forked_process_closes_the_sockets_of_the_broker() -> None:
    """A service under test in a process of `multiprocessing`, which continues to run."""
    forking = multiprocessing.get_context("fork")
    with Kafka(nodes=2) as kafka, Kafka() as other:
        address = kafka.nodes[0].address
        client = connect(address)
        server = kafka.broker._servers[1]["PLAINTEXT"]
        kafka.wait(lambda: len(server._connections) == 1, "a connection")
        is_running = forking.Event()
        service = forking.Process(target=_run, args=(is_running,))
        service.start()
        try:
            assert is_running.wait(CALL_TIMEOUT_SECONDS)
            kafka.stop_node(1)
            assert is_refused(address)
            assert client.recv(1) == b""
            kafka.start_node(1)
            assert not is_refused(address)
            other.restart()
        finally:
            service.kill()
            service.join()
            client.close()


def _read_to_the_end(reader: Connection, writer: Connection) -> None:
    """Exit the forked process with code 3 at the end of the pipe."""
    writer.close()
    try:
        reader.recv()
    except EOFError:
        sys.exit(3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_forked_process_sees_the_end_of_a_pipe(kafka: Kafka) -> None:
    """A forked process has no copies of files that do not belong to the broker."""
    forking = multiprocessing.get_context("fork")
    reader, writer = forking.Pipe(duplex=False)
    service = forking.Process(target=_read_to_the_end, args=(reader, writer))
    with reader, writer:
        service.start()
        writer.close()
        service.join(CALL_TIMEOUT_SECONDS / 2)
        service.kill()
        service.join()
    assert service.exitcode == 3


def _check_socket(file: int) -> None:
    """Exit the forked process with code 3 if the file is a socket."""
    sys.exit(3 if stat.S_ISSOCK(os.fstat(file).st_mode) else 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_forked_process_keeps_a_server_at_the_port_of_a_stopped_broker() -> None:
    with Kafka() as kafka:
        host, port = kafka.bootstrap_servers.split(":")
    with socket.create_server((host, int(port))) as server:
        service = multiprocessing.get_context("fork").Process(
            target=_check_socket, args=(server.fileno(),)
        )
        service.start()
        service.join(CALL_TIMEOUT_SECONDS / 2)
    assert service.exitcode == 3


def _use(kafka: Kafka) -> None:
    """Exit the forked process with code 3 after the expected exception."""
    try:
        assert kafka.bootstrap_servers
        kafka.group("billing").state  # noqa: B018
    except RuntimeError as error:
        sys.exit(3 if "this process was forked" in str(error) else 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_forked_process_cannot_use_the_broker(kafka: Kafka) -> None:
    service = multiprocessing.get_context("fork").Process(target=_use, args=(kafka,))
    service.start()
    service.join(CALL_TIMEOUT_SECONDS / 2)
    assert service.exitcode == 3


def test_a_broker_that_cannot_start_leaves_nothing_behind() -> None:
    sockets, threads = open_sockets(), set(threading.enumerate())
    kafka = Kafka()
    kafka.disk.files.faults.append(FileFault("replace"))
    with pytest.raises(OSError, match="Input/output error"):
        kafka.start()
    assert open_sockets() == sockets
    assert set(threading.enumerate()) == threads
