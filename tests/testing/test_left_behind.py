"""What a broker leaves behind, and when it begins to listen."""

import contextlib
import threading
from pathlib import Path

import pytest
from addresses import connect, refuses
from kohort.testing import Kafka
from kohort.testing.faulty_files import FaultyFile, FaultyFiles, FileFault


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


def test_mistake_12_a_broker_that_cannot_start_leaves_nothing_behind() -> None:
    sockets, threads = open_sockets(), set(threading.enumerate())
    kafka = Kafka()
    kafka.disk.files.faults.append(FileFault("replace"))
    with pytest.raises(OSError, match="Input/output error"):
        kafka.start()
    assert open_sockets() == sockets
    assert set(threading.enumerate()) == threads
