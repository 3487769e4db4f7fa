"""TxnOffsetCommit: topics that change during a request, and transactions that end."""

from collections.abc import Callable
from functools import partial

import pytest
from kohort.protocol.errors import ErrorCode
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from support.broker import BrokerHarness
from support.transactions import GROUP, ClusterHarness, Producer, committed_offset


@pytest.mark.parametrize(
    ("others", "is_open"),
    [(1, False), (400, False), (400, True)],
    ids=["during verification", "in slices and verified", "in slices"],
)
def test_a_topic_recreated_during_the_request_has_no_offset(others: int, is_open: bool) -> None:
    broker = BrokerHarness()
    old = broker.create_topic("orders")
    broker.create_topic("others", others)
    producer = Producer(broker)
    assert (producer.find_coordinators(), producer.init()) == (ErrorCode.none, ErrorCode.none)
    if is_open:
        assert producer.commit_offset(1, "others") is ErrorCode.none
    pending = broker.send(
        "TxnOffsetCommit",
        5,
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=GROUP,
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "committed_offset": 5, "committed_metadata": ""}
                    for index in range(count)
                ],
            }
            for name, count in (("orders", 1), ("others", others))
        ],
    )
    broker.topics.delete(old)
    broker.topics.create("orders", 1, {})
    broker.run_loop()
    errors = {
        topic.name: {ErrorCode(each.error_code) for each in topic.partitions}
        for topic in pending.response.topics
    }
    assert errors == {
        "orders": {ErrorCode.unknown_topic_or_partition},
        "others": {ErrorCode.none},
    }
    assert producer.end(commit=True) is ErrorCode.none
    assert committed_offset(broker) == -1
    assert committed_offset(broker, "others") == 5


def test_the_only_topic_is_deleted_during_the_request() -> None:
    broker = ClusterHarness()
    orders = broker.topic()
    producer = Producer(broker)
    assert (producer.find_coordinators(), producer.init()) == (ErrorCode.none, ErrorCode.none)
    broker.before_run = partial(broker.topics.delete, orders)
    assert producer.commit_offset(5) is ErrorCode.unknown_topic_or_partition


def test_another_node_does_not_add_the_offsets_to_the_transaction() -> None:
    broker = BrokerHarness(nodes=3)
    broker.create_topic("orders")
    coordinator, producer = broker.node, Producer(broker)
    producer.find_coordinators()
    for topic, index in (
        (OFFSETS_TOPIC, coordinator.coordinators.partition_of(GROUP)),
        (TRANSACTION_TOPIC, coordinator.transactions.partition_of(producer.transactional_id)),
    ):
        coordinator.cluster.move(topic, index, coordinator.node_id)
    assert producer.init() is ErrorCode.none
    broker.node = coordinator.cluster.nodes[2]
    assert producer.commit_offset(1) is ErrorCode.not_coordinator
    broker.node = coordinator
    assert producer.end(commit=True) is ErrorCode.invalid_txn_state


def test_a_fenced_producer_cannot_commit_before_its_marker_is_written() -> None:
    broker = BrokerHarness()
    broker.create_topic("orders")
    producer, successor = Producer(broker), Producer(broker)
    assert (producer.find_coordinators(), producer.init()) == (ErrorCode.none, ErrorCode.none)
    assert producer.commit_offset(1) is ErrorCode.none
    resume: list[Callable[[], None]] = []
    broker.node.markers.holds = lambda _markers, write: resume.append(write) is None
    assert successor.init() is ErrorCode.concurrent_transactions
    resume.pop()()  # appended to the next flush
    assert producer.commit_offset(2) is ErrorCode.concurrent_transactions
    assert producer.commit_offset(2) is ErrorCode.invalid_producer_epoch
    assert successor.init() is ErrorCode.none
    assert committed_offset(broker) == -1
