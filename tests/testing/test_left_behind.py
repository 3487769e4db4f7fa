"""What a broker leaves behind, and when it begins to listen."""

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from addresses import connect, refuses
from kohort.testing import Kafka
from kohort.testing.faulty_files import FaultyFile, FaultyFiles, FileFault
from kohort.testing.loop_thread import PATIENCE_SECONDS


def open_sockets() -> set[Path]:
    """Of this process, those of clients in it included."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if str(link := each.readlink()).startswith("socket:"):
                found.add(link)
    return found


def test_mistake_12_no_thread_and_no_socket_outlives_a_broker() -> None:
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
    assert all(refuses(each) for each in addresses)


def test_mistake_12_nobody_is_let_in_before_all_is_set_up() -> None:
    """Method: each call that changes the disk while the broker opens its data tries to connect."""
    tried: list[bool] = []
    with Kafka(durability="fsync") as kafka:
        address = kafka.nodes[0].address
        kafka.topic("orders", partitions=1)
        point = kafka.snapshot()

        class Knocking(FaultyFiles):
            def operate(self, operation: str, path: Path) -> FileFault | None:
                tried.append(refuses(address))
                return super().operate(operation, path)

            def open(self, path: Path, **how: bool) -> FaultyFile:
                tried.append(refuses(address))
                return super().open(path, **how)

        files = Knocking()
        files.__dict__.update(point.files.copied().__dict__)
        kafka.run(kafka.broker.stop())
        kafka._live_on(files, "restored")
        assert not refuses(address)
        during, tried = tried[:], []
    assert during
    assert all(during)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_process_that_is_forked_keeps_nothing_of_a_broker_open() -> None:
    """A service under test in a process of `multiprocessing`, which lives on."""
    forking = multiprocessing.get_context("fork")
    with Kafka(nodes=2) as kafka, Kafka() as other:
        address = kafka.nodes[0].address
        client = connect(address)
        kafka.wait(lambda: len(kafka.broker._servers[1]._connections) == 1, "a connection")
        service = forking.Process(target=signal.pause)
        service.start()
        try:
            kafka.stop_node(1)
            assert refuses(address)
            assert client.recv(1) == b""
            kafka.start_node(1)
            assert not refuses(address)
            other.restart()
        finally:
            service.kill()
            service.join()
            client.close()


def _asks(kafka: Kafka) -> None:
    """In a forked process: exit code 3 if it is told that it cannot."""
    try:
        assert kafka.bootstrap_servers
        kafka.group("billing").state  # noqa: B018
    except RuntimeError as error:
        sys.exit(3 if "this process was forked" in str(error) else 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
def test_a_process_that_is_forked_is_told_that_it_has_no_broker_to_ask(kafka: Kafka) -> None:
    service = multiprocessing.get_context("fork").Process(target=_asks, args=(kafka,))
    service.start()
    service.join(PATIENCE_SECONDS / 2)
    assert service.exitcode == 3


def test_mistake_12_a_broker_that_cannot_start_leaves_nothing_behind() -> None:
    sockets, threads = open_sockets(), set(threading.enumerate())
    kafka = Kafka()
    kafka.disk.files.faults.append(FileFault("replace"))
    with pytest.raises(OSError, match="Input/output error"):
        kafka.start()
    assert open_sockets() == sockets
    assert set(threading.enumerate()) == threads
