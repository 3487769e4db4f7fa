"""Fetch sessions and the harness: what a test says of topics and partitions is meant of requests
that do not name them, and no fault leaves a client with a session that is not what it believes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kohort.testing import Kafka
from kohort.testing.asked import Asked

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def consumer(kafka: Kafka) -> Iterator[Any]:
    """kafka-python, which keeps fetch sessions; it has read what there is, and polls."""
    kafka.topic("orders", partitions=2).produce(["a"], partition=0)
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        client_id="reader",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=20,
        retry_backoff_ms=10,
        reconnect_backoff_ms=10,
    )
    consumer.assign([ORDERS, TopicPartition("orders", 1)])
    assert values(consumer) == [b"a"]
    yield consumer
    consumer.close()


def values(consumer: Any, count: int = 1) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < count:
        for records in consumer.poll(timeout_ms=10_000).values():
            got += [record.value for record in records]
    return got


def poll_until(consumer: Any, is_so: Callable[[], bool]) -> None:
    for _ in range(2000):
        if is_so():
            return
        consumer.poll(timeout_ms=20)
    raise AssertionError("it never was so")


def incremental(kafka: Kafka) -> list[Asked]:
    return [each for each in kafka.history.requests_of("Fetch") if each.message.session_epoch > 0]


def sessions(kafka: Kafka, node_id: int = 1) -> int:
    return kafka.ask(lambda broker: len(broker.cluster.nodes[node_id].fetch_sessions))


def test_an_incremental_fetch_is_seen_with_all_that_it_fetches(kafka: Kafka, consumer: Any) -> None:
    poll_until(consumer, lambda: len(incremental(kafka)) > 3)
    last = incremental(kafka)[-1]
    assert set(last.partitions) == {("orders", 0), ("orders", 1)}
    offsets = {index: each.fetch_offset for _, each, index in last.named(last.message)}
    assert offsets == {0: 1, 1: 0}
    consumer.assign([ORDERS])
    poll_until(consumer, lambda: set(incremental(kafka)[-1].partitions) == {("orders", 0)})


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "FETCH_SESSION_ID_NOT_FOUND"])
def test_a_fault_for_a_partition_meets_a_fetch_that_does_not_name_it(
    kafka: Kafka, consumer: Any, error: str
) -> None:
    poll_until(consumer, lambda: bool(incremental(kafka)))
    fault = kafka.faults.answer("Fetch", error, topic="orders", partition=0)
    poll_until(consumer, lambda: bool(fault.fired))
    (asked,) = fault.fired
    assert set(asked.errors) == {error}
    assert asked.response.session_id == 0
    kafka.topic("orders").produce(["b"], partition=0)
    assert values(consumer) == [b"b"]
    assert sessions(kafka) == 1, "the one before was closed"


def test_no_session_error_follows_a_fault(kafka: Kafka, consumer: Any) -> None:
    fault = kafka.faults.answer("Fetch", "KAFKA_STORAGE_ERROR", times=3, topic="orders")
    poll_until(consumer, lambda: len(fault.fired) == 3)
    fetches = len(kafka.history.requests_of("Fetch"))
    poll_until(consumer, lambda: len(kafka.history.requests_of("Fetch")) > fetches + 3)
    faulty = {id(each) for each in fault.fired}
    others = [each for each in kafka.history.requests_of("Fetch") if id(each) not in faulty]
    assert [each.errors for each in others if each.errors] == []


@pytest.mark.parametrize("deed", ["lose_answer", "close_mid_frame", "drop"])
def test_a_broken_connection_costs_a_session_and_no_record(
    kafka: Kafka, consumer: Any, deed: str
) -> None:
    poll_until(consumer, lambda: bool(incremental(kafka)))
    fault = getattr(kafka.faults, deed)("Fetch", partition=0)
    poll_until(consumer, lambda: bool(fault.fired))
    kafka.topic("orders").produce(["b", "c"], partition=0)
    assert values(consumer, 2) == [b"b", b"c"]
    assert sessions(kafka) == 1


@pytest.mark.parametrize("how", ["crash", "restart"])
def test_a_broker_that_comes_back_has_no_sessions(kafka: Kafka, consumer: Any, how: str) -> None:
    poll_until(consumer, lambda: sessions(kafka) == 1)
    session_id = incremental(kafka)[-1].message.session_id if incremental(kafka) else None
    getattr(kafka, how)()
    assert sessions(kafka) == 0
    kafka.topic("orders").produce(["b"], partition=0)
    assert values(consumer) == [b"b"]
    assert session_id is None or incremental(kafka)[-1].message.session_id != session_id


def test_a_poll_that_brings_nothing_leaves_the_leader_epoch_as_it_was(
    kafka: Kafka, consumer: Any
) -> None:
    """kafka-python forgets it when it is told of a partition without records: in a session it is
    told nothing of such."""
    poll_until(consumer, lambda: len(incremental(kafka)) > 3)
    consumer.commit()
    (commit,) = kafka.history.requests_of("OffsetCommit")
    epochs = {i: each.committed_leader_epoch for _, each, i in commit.named(commit.message)}
    assert epochs[0] == 0


def test_nodes_have_sessions_of_their_own_and_forget_them_when_they_stop() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=2).produce(["a"], partition=0)
        consumer = KafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
        )
        try:
            consumer.assign([ORDERS, TopicPartition("orders", 1)])
            poll_until(consumer, lambda: sessions(kafka, 1) == sessions(kafka, 2) == 1)
            kafka.run(kafka.broker.stop_node(2))
            assert (sessions(kafka, 1), sessions(kafka, 2)) == (1, 0)
        finally:
            consumer.close()
