"""A crash at every file operation of transactions with records in two topics and an offset. After
the restart, each transaction is visible entirely or not at all, consistent with the response to its
producer, and no transaction stays open.

With durability `os`, the process is killed, and written bytes are kept. With `fsync`, the power
fails, and unsynced bytes are lost or kept in part.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest
from kohort.broker.handlers.k00_produce import _Produce
from kohort.broker.runtime import transactions
from kohort.broker.runtime.context import RETRY_FAILED_MS
from kohort.broker.runtime.runtime import CoordinatorRuntime
from kohort.broker.runtime.transaction_markers import RETRY_MS, MarkerWriter
from kohort.broker.runtime.transactions import TransactionRuntime
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.transactions.commands import AddPartitions
from kohort.coordinator.transactions.coordinator import TransactionCoordinator
from kohort.log.group_commit import Durability
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed, FaultyFiles, FileFault
from kohort.topics.delayed_fetch import DelayedFetches
from kohort.topics.names import TRANSACTION_TOPIC
from kohort.topics.produce import RECORDS_PER_STEP
from support.broker import BrokerHarness, PendingRequest
from support.transactions import TIMEOUT_MS, Producer, Story, is_stable

CONFIG = {"transaction.state.log.num.partitions": "2"}


def start(files: FaultyFiles, durability: Durability) -> BrokerHarness:
    """Start a broker that loads the stored state, as Broker does."""
    broker = BrokerHarness(CONFIG, files=files, durability=durability)
    broker.load()
    return broker


def new_files() -> FaultyFiles:
    """Return a disk with two topics."""
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


# Every two values of different parameters occur together. Seed None: no unsynced bytes are kept.
CRASHES: list[tuple[bool, int, Durability, int | None]] = [
    (True, 0, "fsync", None),
    (False, 2, "fsync", None),
    (True, 2, "fsync", 2),
    (False, 0, "fsync", 2),
    (True, 2, "os", None),
    (False, 0, "os", None),
]
FAULTS: list[tuple[str, int, Durability]] = [
    ("append", 0, "fsync"),
    ("append", 2, "os"),
    ("torn append", 2, "fsync"),
    ("torn append", 0, "os"),
    ("append, not truncated", 0, "fsync"),
    ("append, not truncated", 2, "os"),
    ("sync", 0, "fsync"),
    ("sync", 2, "fsync"),
]


def test_a_transaction_times_out_in_a_partition_that_failed_to_load() -> None:
    files = new_files()
    broker = start(files, "fsync")
    producer = Producer(broker)
    for request in (
        producer.find_coordinators,
        producer.init,
        partial(producer.send, "orders", "a"),
    ):
        assert request() is ErrorCode.none
    files.crash()
    fault = FileFault("open", times=None, matches=lambda path: TRANSACTION_TOPIC in str(path))
    files.faults.append(fault)
    broker = start(files, "fsync")
    broker.advance(2 * RETRY_FAILED_MS)
    broker.run_loop()
    assert fault.fired == 2
    files.heal()
    broker.advance(RETRY_FAILED_MS)
    broker.run_loop()
    assert not is_stable(broker, "orders")
    for ms in (TIMEOUT_MS, 0):  # the first request reserves producer ids
        broker.advance(ms)
        broker.run_loop()
    assert is_stable(broker, "orders")


@pytest.mark.parametrize(("survives", "version", "durability", "seed"), CRASHES)
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
    """Crash after this number of file operations. Return False if there were fewer operations."""
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


@pytest.mark.parametrize(("fault", "version", "durability"), FAULTS)
def test_a_disk_error_at_any_step(fault: str, version: int, durability: Durability) -> None:
    """One call fails. The producer repeats its request, the marker is retried, and the partition is
    loaded again. Then the power fails."""
    disk = new_files()
    calls = 0
    while fail_at(disk.copy(), fault, calls, version, durability):
        calls += 1
    assert calls > 10


def fail_at(
    files: FaultyFiles, fault: str, calls: int, version: int, durability: Durability
) -> bool:
    """Fail one call after this number of calls. Return False if there were fewer calls."""
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


@pytest.mark.parametrize("is_first", [True, False])
def test_a_batch_validated_after_the_end_of_its_transaction_is_rejected(is_first: bool) -> None:
    broker = BrokerHarness(CONFIG)
    broker.scheduler.seconds = (
        itertools.count().__next__
    )  # one step in each iteration of the event loop
    # Each timestamp is validated.
    broker.create_topic("orders", message_timestamp_before_max_ms="1000000")
    producer = Producer(broker, version=0)
    for request in (producer.find_coordinators, producer.init):
        assert request() is ErrorCode.none
    assert producer.add("orders") is ErrorCode.none
    if not is_first:
        assert producer.send("orders", "a") is ErrorCode.none
    batch = producer.batch("orders", ["late"] * 20 * RECORDS_PER_STEP)
    late = broker.send_produce("orders", {0: batch}, version=11, transactional_id="billing-1")
    assert producer.end(commit=True) is ErrorCode.none
    broker.run_loop()
    error = late.response.responses[0].partition_responses[0].error_code
    assert error == ErrorCode.invalid_txn_state
    assert is_stable(broker, "orders")


class ContinuingBroker(BrokerHarness):
    """After an exception, the event loop continues. If a handler raised it, the connection of the
    request is closed."""

    def __init__(self, files: FaultyFiles | None = None) -> None:
        super().__init__(CONFIG, files=files)
        self.requests: list[PendingRequest] = []
        call_at = self.timers.call_at
        self.timers.call_at = lambda ms, callback: call_at(ms, continuing(callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        super().call_soon(continuing(callback))

    def send(self, api: str, version: int, /, **values: Any) -> PendingRequest:
        try:
            pending = super().send(api, version, **values)
            self.requests.append(pending)
        except ZeroDivisionError:
            pending = self.last_context.channel
            assert isinstance(pending, PendingRequest)
        return pending


def continuing(callback: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        with suppress(ZeroDivisionError):
            callback()

    return call


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (TransactionCoordinator, "handle"),
        (TransactionCoordinator, "apply"),
        (TransactionCoordinator, "markers_written"),
        (TransactionRuntime, "_publish"),
        (MarkerWriter, "_append"),
        (DelayedFetches, "complete_all"),
        (CoordinatorRuntime, "end_transaction"),
        (_Produce, "append"),
        (Coordinator, "apply"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_an_unexpected_exception_at_any_step(
    owner: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call raises. No transaction stays open, and no producer waits forever."""
    calls = 0
    while raise_at(owner, name, calls, monkeypatch):
        calls += 1
    assert calls > 2


def patch_call(
    patched: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    number: int,
    instead: Callable[[], object] = lambda: 1 / 0,
) -> Iterator[int]:
    """Call `instead` in place of one call, after this number of calls. Return the counter."""
    original, calls = getattr(owner, name), itertools.count()

    def call(*arguments: Any, **named: Any) -> Any:
        return instead() if next(calls) == number else original(*arguments, **named)

    patched.setattr(owner, name, call)
    return calls


def raise_at(owner: type, name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Raise in one call, after this number of calls. Return False if there were fewer calls."""
    broker = ContinuingBroker()
    broker.create_topic("orders")
    broker.create_topic("bills")
    story = Story(broker, version=2)
    with monkeypatch.context() as patched:
        calls = patch_call(patched, owner, name, number)
        story.tell()
    if next(calls) <= number:
        return False
    broker.advance(RETRY_FAILED_MS)
    broker.run_loop()
    try:
        assert not story.rejected
        assert all(each.is_done for each in broker.requests)
        story.check(broker)
    except AssertionError as error:
        raise AssertionError(f"exception in call {number}: {error}") from error
    return True


def begin(broker: BrokerHarness, transactional_id: str = "billing-1") -> Producer:
    """Return a producer with a transaction in `orders`."""
    producer = Producer(broker, transactional_id)
    for request in (producer.find_coordinators, producer.init):
        assert request() is ErrorCode.none
    assert producer.send("orders", "a") is ErrorCode.none
    return producer


@pytest.fixture
def broker() -> ContinuingBroker:
    broker = ContinuingBroker()
    broker.create_topic("orders")
    return broker


@pytest.mark.interpreted
def test_a_marker_is_retried_although_the_reply_raised(
    broker: ContinuingBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = begin(broker)
    patch_call(monkeypatch, MarkerWriter, "_append", 0, lambda: ErrorCode.kafka_storage_error)
    patch_call(monkeypatch, transactions, "_respond", 0)
    assert producer.end(commit=True) is None
    broker.advance(RETRY_MS)
    broker.run_loop()
    assert is_stable(broker, "orders")
    assert "Writing a marker" not in caplog.text


@pytest.mark.interpreted
def test_a_partition_is_reloaded_although_the_reply_raised(
    broker: ContinuingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = begin(broker)
    fault = FileFault("sync", matches=lambda path: TRANSACTION_TOPIC in str(path))
    broker.files.faults.append(fault)
    patch_call(monkeypatch, transactions, "_respond", 0)
    assert producer.end(commit=True) is None
    broker.files.heal()
    assert producer.end(commit=True) is ErrorCode.none
    assert is_stable(broker, "orders")


@pytest.mark.interpreted
def test_a_partition_that_raises_when_it_is_loaded_does_not_affect_others(
    broker: ContinuingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.node.markers.holds = lambda _markers, _resume: True
    for transactional_id in ("billing-1", "billing-2"):  # in different partitions
        assert begin(broker, transactional_id).end(commit=True) is ErrorCode.none
    broker.files.locked.clear()
    restarted = ContinuingBroker(broker.files)
    with monkeypatch.context() as patched:
        patch_call(patched, TransactionCoordinator, "loaded", 0)
        restarted.load()
    found = restarted.node.transactions.list()
    assert not isinstance(found, ErrorCode)
    assert len(found) == 1
    restarted.advance(RETRY_FAILED_MS)
    restarted.run_loop()
    assert is_stable(restarted, "orders")


def test_a_reply_that_raises_is_not_repeated(broker: ContinuingBroker) -> None:
    producer = begin(broker)
    command = AddPartitions(
        producer.transactional_id,
        producer.producer_id,
        producer.epoch,
        [("orders", 0)],
        client_version=2,
        verify_only=True,
    )
    replies: list[Any] = []

    def respond(_request: None, result: Any) -> None:
        replies.append(result)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broker.node.transactions.submit(command, respond, None)
    assert len(replies) == 1
