"""A crash at every file operation of transactions with records in two topics and an offset: after
the restart each transaction is wholly visible or wholly not, as its producer learned, and nothing
stays open.

With durability `os` the process is killed: what was written is kept. With `fsync` the power fails:
what was not synced is lost, or kept in part.
"""

from random import Random

import pytest
from kohort.log.group_commit import Durability
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from support.broker import OFFSETS_PARTITIONS, BrokerHarness
from support.runtime import DATA
from support.transaction_story import Story

CONFIG = {"transaction.state.log.num.partitions": "2"}


def start(files: FaultyFiles, durability: Durability) -> BrokerHarness:
    """Start a broker that loads what is stored, as Broker does."""
    broker = BrokerHarness(CONFIG, files=files, durability=durability, with_groups=True)
    node = broker.node
    for name, count, runtime in (
        (OFFSETS_TOPIC, OFFSETS_PARTITIONS, node.coordinators),
        (TRANSACTION_TOPIC, 2, node.transactions),
    ):
        if broker.topics.get(name) is not None:
            runtime.load([n for n in range(count) if files.exists(DATA / f"{name}-{n}")])
    broker.run_loop()
    return broker


def new_files() -> FaultyFiles:
    """A disk with two topics."""
    broker = start(FaultyFiles(), "fsync")
    broker.create_topic("orders")
    broker.create_topic("bills")
    broker.topics.close()
    broker.files.locked.clear()
    return broker.files


def crash(files: FaultyFiles, durability: Durability, chance: Random | None) -> None:
    if durability == "fsync":
        files.crash(chance)
    else:
        files.crash_at = None
        files.locked.clear()


MODES: list[tuple[Durability, int | None]] = [
    ("fsync", None),  # nothing unsynced is kept
    ("fsync", 2),
    ("os", None),
]


@pytest.mark.parametrize(("durability", "seed"), MODES)
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("survives", [True, False], ids=["producer goes on", "producer is gone"])
def test_a_crash_at_any_file_operation(
    survives: bool, version: int, durability: Durability, seed: int | None
) -> None:
    disk = new_files()
    operations = 0
    while crash_at(disk.copy(), operations, version, durability, seed, survives=survives):
        operations += 1
    assert operations > 20


def crash_at(
    files: FaultyFiles,
    operations: int,
    version: int,
    durability: Durability,
    seed: int | None,
    *,
    survives: bool,
) -> bool:
    """Crash after this number of file operations; return whether there were as many."""
    story = Story(start(files, durability), version)
    files.crash_at = files.count + operations
    chance = None if seed is None else Random(1000 * seed + operations)
    crashes = 0

    def restart() -> BrokerHarness:
        nonlocal crashes
        crashes += 1
        crash(files, durability, chance)
        return start(files, durability)

    try:
        story.tell(on_crash=restart if survives else None)
    except Crashed:
        story.producer.broker = restart()
    if not crashes:
        return False
    try:
        story.check(story.producer.broker)
    except AssertionError as error:
        raise AssertionError(f"crash at file operation {operations}: {error}") from error
    return True


@pytest.mark.parametrize("durability", ["fsync", "os"])
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("fault", ["append", "torn append", "append, not truncated", "sync"])
def test_a_disk_error_at_any_step(fault: str, version: int, durability: Durability) -> None:
    """The error of one call: the producer repeats its request, the marker is retried, and the
    partition is loaded again. Then the power fails."""
    if (fault, durability) == ("sync", "os"):
        return  # nothing is synced
    disk = new_files()
    calls = 0
    while fail_at(disk.copy(), fault, calls, version, durability):
        calls += 1
    assert calls > 10


def fail_at(
    files: FaultyFiles, fault: str, calls: int, version: int, durability: Durability
) -> bool:
    """Fail one call after this number of calls; return whether there were as many."""
    broker = start(files, durability)
    story = Story(broker, version)
    operation = "sync" if fault == "sync" else "append"
    files.fail(operation, after=calls, written=0 if fault in ("append", "sync") else 70)
    if fault == "append, not truncated":
        files.fail("truncate")
    try:
        story.tell()
        if not files.faults[0].fired:
            return False
        files.heal()
        story.check(broker)
        if durability == "fsync":
            files.crash()
            broker = start(files, durability)
        story.check_transactions(broker)
    except AssertionError as error:
        raise AssertionError(f"error of {operation} {calls}: {error}") from error
    return True
