"""A crash at every file operation of transactions with records in two topics and an offset: after
the restart each transaction is wholly visible or wholly not, as its producer learned, and nothing
stays open.

With durability `os` the process is killed: what was written is kept. With `fsync` the power fails:
what was not synced is lost, or kept in part.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest
from kohort.log.group_commit import Durability
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from support.broker import OFFSETS_PARTITIONS, BrokerHarness
from support.producer import Producer, committed_offset, is_stable, read_committed
from support.runtime import DATA

E = ErrorCode
CONFIG = {"transaction.state.log.num.partitions": "2"}
COMMITS = (True, False, True)  # of the transactions 0, 1, 2
TIMEOUT_MS = 60_000
RETRIABLE = (
    E.concurrent_transactions,
    E.coordinator_load_in_progress,
    E.coordinator_not_available,
    E.not_coordinator,
    E.not_enough_replicas,
    E.kafka_storage_error,
)
ATTEMPTS_MAX = 100


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


class Story:
    """Transactions of one producer. `acknowledged`: those with a response to EndTxn;
    `rejected`: those that the producer gave up."""

    def __init__(self, broker: BrokerHarness, version: int) -> None:
        self.producer = Producer(broker, version=version)
        self.acknowledged: set[int] = set()
        self.rejected: set[int] = set()
        self.ending: set[int] = set()

    def requests(self) -> Iterator[Callable[[], ErrorCode | None]]:
        producer = self.producer
        yield producer.find_coordinators
        yield producer.init
        for number, commit in enumerate(COMMITS):
            for step in (
                partial(producer.send, "orders", f"{number}a", f"{number}b"),
                partial(producer.send, "bills", f"{number}c"),
                partial(producer.commit_offset, number),
                partial(producer.send, "bills", f"{number}d"),
            ):
                if number not in self.rejected:
                    yield step
            if number in self.rejected:
                yield producer.init
                continue
            self.ending.add(number)
            yield partial(producer.end, commit=commit)
            if number in self.rejected:
                yield producer.init
            else:
                self.acknowledged.add(number)

    def tell(self, *, on_crash: Callable[[], BrokerHarness] | None = None) -> None:
        """Send all requests. `on_crash`: returns the broker after a crash, to which the producer
        sends the last request again."""
        number = -1
        for request in self.requests():
            number = len(self.acknowledged | self.rejected)
            for _ in range(ATTEMPTS_MAX):
                try:
                    error = request()
                except Crashed:
                    if on_crash is None:
                        raise
                    self.producer.broker = on_crash()
                    continue
                if error is E.none:
                    break
                if error is not None and error not in RETRIABLE:
                    self.rejected.add(number)
                    break
                self.producer.broker.advance(100)
                self.producer.broker.run_loop()
            else:
                raise AssertionError(f"no success after {ATTEMPTS_MAX} attempts: {error!r}")

    def check(self, broker: BrokerHarness) -> None:
        self.check_transactions(broker)
        self._check_new_transaction(broker)

    def check_transactions(self, broker: BrokerHarness) -> None:
        """Every transaction is decided, and visible wholly or not at all."""
        broker.advance(TIMEOUT_MS)
        broker.run_loop()
        broker.advance(1_000)
        broker.run_loop()
        assert is_stable(broker, "orders")
        assert is_stable(broker, "bills")
        orders, bills = read_committed(broker, "orders"), read_committed(broker, "bills")
        offset = committed_offset(broker)
        last_visible = -1
        for number, commit in enumerate(COMMITS):
            whole = [f"{number}a", f"{number}b"], [f"{number}c", f"{number}d"]
            found = tuple(
                [each for each in values if each.startswith(str(number))]
                for values in (orders, bills)
            )
            assert found in (whole, ([], [])), f"transaction {number} is visible in part"
            is_visible = found == whole
            if is_visible:
                last_visible = number
                assert commit
                assert number in self.ending
            if number in self.acknowledged:
                assert is_visible is commit, f"transaction {number}: lost its decision"
        assert offset == last_visible

    def _check_new_transaction(self, broker: BrokerHarness) -> None:
        """The producer's successor works, and another id has another producer id."""
        ids = [self.producer.producer_id]
        for transactional_id in ("billing-1", "another"):
            successor = Producer(broker, transactional_id, version=self.producer.version)
            assert successor.init() is E.none
            assert successor.send("orders", f"of {transactional_id}") is E.none
            assert successor.end(commit=True) is E.none
            ids.append(successor.producer_id)
        assert read_committed(broker, "orders")[-2:] == ["of billing-1", "of another"]
        assert ids[2] not in ids[:2]


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
