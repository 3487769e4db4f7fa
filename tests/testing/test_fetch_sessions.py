"""Fetch sessions (KIP-227): incremental requests match filters by all partitions of their session,
and faults leave no client with an invalid session."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kohort.testing import Kafka
from kohort.testing.recorded_request import RecordedRequest

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def consumer(kafka: Kafka) -> Iterator[Any]:
    """kafka-python, which uses fetch sessions. It has read all records."""
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
    found: list[bytes] = []
    while len(found) < count:
        for records in consumer.poll(timeout_ms=10_000).values():
            found += [record.value for record in records]
    return found


def poll_until(consumer: Any, condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        consumer.poll(timeout_ms=20)
    raise AssertionError("the condition is false after 2000 polls")


def incremental(kafka: Kafka) -> list[RecordedRequest]:
    return [each for each in kafka.history.requests_of("Fetch") if each.message.session_epoch > 0]


def sessions(kafka: Kafka, node_id: int = 1) -> int:
    return kafka.call(lambda broker: len(broker.cluster.nodes[node_id].fetch_sessions))


def test_an_incremental_fetch_has_all_partitions_of_its_session(
    kafka: Kafka, consumer: Any
) -> None:
    poll_until(consumer, lambda: len(incremental(kafka)) > 3)
    last = incremental(kafka)[-1]
    assert set(last.partitions) == {("orders", 0), ("orders", 1)}
    offsets = {index: each.fetch_offset for _, index, each in last.by_partition(last.message)}
    assert offsets == {0: 1, 1: 0}
    consumer.assign([ORDERS])
    poll_until(consumer, lambda: set(incremental(kafka)[-1].partitions) == {("orders", 0)})


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "FETCH_SESSION_ID_NOT_FOUND"])
def test_a_partition_filter_matches_an_incremental_fetch(
    kafka: Kafka, consumer: Any, error: str
) -> None:
    poll_until(consumer, lambda: bool(incremental(kafka)))
    fault = kafka.faults.answer("Fetch", error, topic="orders", partition=0)
    poll_until(consumer, lambda: bool(fault.fired))
    (request,) = fault.fired
    assert set(request.errors) == {error}
    assert request.response.session_id == 0
    kafka.topic("orders").produce(["b"], partition=0)
    assert values(consumer) == [b"b"]
    assert sessions(kafka) == 1, "the first one was closed"


def test_no_session_error_follows_a_fault(kafka: Kafka, consumer: Any) -> None:
    fault = kafka.faults.answer("Fetch", "KAFKA_STORAGE_ERROR", times=3, topic="orders")
    poll_until(consumer, lambda: len(fault.fired) == 3)
    fetches = len(kafka.history.requests_of("Fetch"))
    poll_until(consumer, lambda: len(kafka.history.requests_of("Fetch")) > fetches + 3)
    faulty = {id(each) for each in fault.fired}
    others = [each for each in kafka.history.requests_of("Fetch") if id(each) not in faulty]
    assert [each.errors for each in others if each.errors] == []


@pytest.mark.parametrize("action", ["lose_answer", "close_mid_frame", "drop"])
def test_a_lost_connection_costs_a_session_but_no_record(
    kafka: Kafka, consumer: Any, action: str
) -> None:
    poll_until(consumer, lambda: bool(incremental(kafka)))
    fault = getattr(kafka.faults, action)("Fetch", partition=0)
    poll_until(consumer, lambda: bool(fault.fired))
    kafka.topic("orders").produce(["b", "c"], partition=0)
    assert values(consumer, 2) == [b"b", b"c"]
    assert sessions(kafka) == 1


@pytest.mark.parametrize("how", ["crash", "restart"])
def test_a_restarted_broker_has_no_fetch_sessions(kafka: Kafka, consumer: Any, how: str) -> None:
    poll_until(consumer, lambda: sessions(kafka) == 1)
    session_id = incremental(kafka)[-1].message.session_id if incremental(kafka) else None
    getattr(kafka, how)()
    assert sessions(kafka) == 0
    kafka.topic("orders").produce(["b"], partition=0)
    assert values(consumer) == [b"b"]
    assert session_id is None or incremental(kafka)[-1].message.session_id != session_id


def test_an_empty_poll_keeps_the_leader_epoch(kafka: Kafka, consumer: Any) -> None:
    """If a response contains a partition without records, kafka-python drops its leader epoch. An
    incremental response does not contain such partitions."""
    poll_until(consumer, lambda: len(incremental(kafka)) > 3)
    consumer.commit()
    (commit,) = kafka.history.requests_of("OffsetCommit")
    epochs = {i: each.committed_leader_epoch for _, i, each in commit.by_partition(commit.message)}
    assert epochs[0] == 0


def test_each_node_has_sessions_until_it_stops() -> None:
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
