"""Consumers of each library whose session of 45 s the broker's clock passes over: they are out in
no time, and find out as from Kafka, by the answer to their next heartbeat."""

import asyncio
from collections.abc import Callable

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer
from kohort.testing import Kafka

pytestmark = pytest.mark.clients

SESSION_MS = 45_000
WALL_SECONDS_MAX = 0.05
PATIENCE_SECONDS = 10


def expel(kafka: Kafka) -> str:
    """Who is out, within that wall time."""
    group = kafka.group("billing").wait_stable(members=1)
    (member,) = group.members
    kafka.clock.advance(ms=SESSION_MS)
    (out,), moved = group.exits, kafka.history.clock_moves[-1]
    assert (out.member_id, out.cause) == (member.member_id, "session expired")
    assert out.wall_s - moved.wall_s < WALL_SECONDS_MAX
    return member.member_id


def check_that_it_found_out(kafka: Kafka, expelled: str) -> None:
    """It was told with a heartbeat, and has come back as somebody new."""
    (back,) = kafka.group("billing").wait_stable(members=1).members
    assert back.member_id != expelled
    beats = kafka.history.requests_of("Heartbeat", group="billing")
    refused = [each for each in beats if each.member_id == expelled and each.errors]
    assert {each.errors for each in refused} == {("UNKNOWN_MEMBER_ID",)}
    joins = kafka.history.requests_of("JoinGroup", group="billing")
    back_joins = [each for each in joins if each.number > refused[0].number]
    assert [each.errors for each in back_joins[:2]] == [("MEMBER_ID_REQUIRED",), ()]
    assert back_joins[0].member_id is None


def with_kafka_python(kafka: Kafka) -> None:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=30,
        retry_backoff_ms=10,
    )
    try:
        assert consumer.poll(PATIENCE_SECONDS * 1000)
        expelled = expel(kafka)
        assert consumer.poll(PATIENCE_SECONDS * 1000)  # Nothing was committed: the same again.
        check_that_it_found_out(kafka, expelled)
    finally:
        consumer.close()


def with_aiokafka(kafka: Kafka) -> None:
    async def consume() -> None:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=30,
            retry_backoff_ms=10,
        )
        await consumer.start()
        try:
            await asyncio.wait_for(consumer.getone(), PATIENCE_SECONDS)
            expelled = await asyncio.to_thread(expel, kafka)
            await asyncio.wait_for(consumer.getone(), PATIENCE_SECONDS)
            await asyncio.to_thread(check_that_it_found_out, kafka, expelled)
        finally:
            await consumer.stop()

    asyncio.run(consume())


def with_librdkafka(kafka: Kafka) -> None:
    lost: list[int] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 30,
        }
    )
    consumer.subscribe(["orders"], on_lost=lambda _, partitions: lost.append(len(partitions)))
    try:
        assert consumer.poll(PATIENCE_SECONDS) is not None
        expelled = expel(kafka)
        assert consumer.poll(PATIENCE_SECONDS) is not None
        check_that_it_found_out(kafka, expelled)
        assert lost == [1]
    finally:
        consumer.close()


@pytest.mark.parametrize("live", [with_kafka_python, with_aiokafka, with_librdkafka])
def test_a_session_of_45_s_ends_within_50_ms_and_its_consumer_finds_out(
    kafka: Kafka, live: Callable[[Kafka], None]
) -> None:
    kafka.topic("orders", partitions=1).produce(["espresso"])
    live(kafka)
