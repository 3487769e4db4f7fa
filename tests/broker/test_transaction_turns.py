"""Many transactions, or one of many partitions, are ended in several turns of the event loop.
Several transactions need new producer ids at once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from kohort.broker.runtime.transaction_markers import PARTITIONS_PER_STEP
from kohort.broker.runtime.transactions import TIMEOUTS_PER_TURN
from kohort.coordinator.transactions.coordinator import RETRY_MS, TransactionCoordinator
from kohort.coordinator.transactions.states import LAST_EPOCH
from kohort.offsets.records import TransactionRecord
from kohort.protocol.errors import ErrorCode
from support.broker import BrokerHarness
from support.transactions import Producer

TRANSACTIONS = 200


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness({"transaction.state.log.num.partitions": "1"}, durability="os")
    broker.create_topic("orders", 500)
    return broker


def begin(broker: BrokerHarness, transactional_id: str, partitions: int) -> dict[str, Any]:
    """Begin a transaction and return its producer."""
    broker.call("InitProducerId", 4, transactional_id=transactional_id, transaction_timeout=1_000)
    found = broker.call(
        "InitProducerId", 4, transactional_id=transactional_id, transaction_timeout=1_000
    )
    producer = {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    named = {f"v3_and_below_{key}": value for key, value in producer.items()}
    added = broker.call(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_topics=[{"name": "orders", "partitions": range(partitions)}],
        **named,
    )
    (topic,) = added.results_by_topic_v3_and_below
    assert {each.partition_error_code for each in topic.results_by_partition} == {0}
    return {"transactional_id": transactional_id, **producer}


def markers_by_turn(broker: BrokerHarness, start: Callable[[], object]) -> Counter[int]:
    """Call `start` and run the event loop. Return the number of markers written in each turn."""
    written, turn = Counter[int](), 0
    write_to = broker.node.markers.write_to

    def count(*arguments: Any) -> None:
        written[turn] += 1
        write_to(*arguments)

    broker.node.markers.write_to = count
    start()
    while broker.callbacks:
        turn += 1
        broker.callbacks.pop(0)()
        broker.advance(0)  # timers that are due are called in a turn, too
    return written


def states(broker: BrokerHarness) -> set[str]:
    response = broker.call("ListTransactions", 1, duration_filter=-1)
    return {each.transaction_state for each in response.transaction_states}


def test_the_partitions_of_a_transaction_are_ended_in_turns(broker: BrokerHarness) -> None:
    producer = begin(broker, "wide", 500)
    written = markers_by_turn(broker, lambda: broker.send("EndTxn", 4, **producer, committed=True))
    assert (written.total(), max(written.values())) == (500, PARTITIONS_PER_STEP)
    assert states(broker) == {"CompleteCommit"}


def test_transactions_that_time_out_together_are_ended_in_turns(broker: BrokerHarness) -> None:
    for number in range(TRANSACTIONS):
        begin(broker, f"id-{number}", 1)
    written = markers_by_turn(broker, lambda: broker.advance(1_000))
    assert written.total() == TRANSACTIONS
    assert max(written.values()) <= TIMEOUTS_PER_TURN
    assert states(broker) == {"CompleteAbort"}


@pytest.mark.interpreted
def test_transactions_still_time_out_after_one_has_raised(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        begin(broker, f"id-{number}", 1)
    with monkeypatch.context() as patched:
        patched.setattr(TransactionCoordinator, "_prepared", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            broker.advance(1_000)
    markers_by_turn(broker, lambda: broker.advance(0))
    assert states(broker) == {"Ongoing", "CompleteAbort"}
    markers_by_turn(broker, lambda: broker.advance(RETRY_MS))
    assert states(broker) == {"CompleteAbort"}


def test_transactions_that_were_prepared_before_a_restart_are_ended_in_turns(
    broker: BrokerHarness,
) -> None:
    broker.node.markers.holds = lambda _markers, _resume: True
    for number in range(TRANSACTIONS):
        producer = begin(broker, f"id-{number}", 1)
        assert broker.call("EndTxn", 4, **producer, committed=True).error_code == 0
    assert states(broker) == {"PrepareCommit"}
    restarted = broker.restart("os")
    written = markers_by_turn(restarted, lambda: restarted.node.transactions.load([0]))
    assert (written.total(), max(written.values())) == (TRANSACTIONS, 1)
    assert states(restarted) == {"CompleteCommit"}


def test_stored_transactions_are_loaded_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.runtime.transactions.STEP_RECORDS", 4)
    broker = BrokerHarness({"transaction.state.log.num.partitions": "5"}, durability="os")
    for number in range(20):
        producer = Producer(broker, f"id-{number}")
        assert (producer.find_coordinators(), producer.init()) == (ErrorCode.none, ErrorCode.none)
    restarted, applied, turn = broker.restart("os"), Counter[int](), 0
    apply = TransactionCoordinator.apply

    def count(coordinator: TransactionCoordinator, record: TransactionRecord) -> None:
        applied[turn] += 1
        apply(coordinator, record)

    monkeypatch.setattr(TransactionCoordinator, "apply", count)
    transactions = restarted.node.transactions
    transactions.load(range(5))
    assert transactions.list() is ErrorCode.coordinator_load_in_progress
    while restarted.callbacks:
        turn += 1
        restarted.callbacks.pop(0)()
    assert applied.total() == 20
    assert max(applied.values()) <= 2 * 4
    found = transactions.list()
    assert not isinstance(found, ErrorCode)
    assert len(found) == 20


# --- producer ids


def leave_one_producer_id(broker: BrokerHarness) -> None:
    """Exhaust the epochs of all producers, and the durable producer ids but one."""
    for context in broker.node.transactions.contexts.values():
        for transactional_id, each in context.coordinator.transactions.items():
            metadata = each.metadata._replace(producer_epoch=LAST_EPOCH)
            context.coordinator.apply(TransactionRecord(transactional_id, metadata))
    broker.topics._next_producer_id = broker.topics._durable_producer_ids_end - 1


def run_with_durable_ids(broker: BrokerHarness) -> None:
    """Run the event loop, and check that no id is used before it is durable. Otherwise, a crash
    could undo the allocation of an id that a record contains."""
    topics = broker.topics
    while True:
        assert topics._next_producer_id <= topics._durable_producer_ids_end
        if not broker.callbacks:
            break
        broker.callbacks.pop(0)()
        broker.advance(0)


def test_transactions_that_time_out_together_use_durable_producer_ids(
    broker: BrokerHarness,
) -> None:
    for number in range(3):
        begin(broker, f"id-{number}", 1)
    leave_one_producer_id(broker)
    broker.advance(1_000)
    run_with_durable_ids(broker)
    assert states(broker) == {"CompleteAbort"}


def test_transactions_that_are_synced_together_use_durable_producer_ids() -> None:
    broker = BrokerHarness({"transaction.state.log.num.partitions": "1"})
    broker.create_topic("orders")
    producers = [Producer(broker, f"id-{number}") for number in range(3)]
    for producer in producers:
        producer.init()
        assert producer.init() is producer.send("orders", "a") is ErrorCode.none
    leave_one_producer_id(broker)
    ends = []
    for producer in producers:
        values = {**producer._producer, "producer_epoch": LAST_EPOCH}
        ends.append(broker.send("EndTxn", 5, **values, committed=True))
    run_with_durable_ids(broker)
    assert [each.response.error_code for each in ends] == [0, 0, 0]
    assert len({each.response.producer_id for each in ends}) == 3
