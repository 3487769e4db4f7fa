"""Transactional producers of the client libraries, behind one interface. They raise the errors of
their library."""

from __future__ import annotations

from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from .aio import LoopThread

TIMEOUT_SECONDS = 20


class TransactionalProducer(Protocol):
    """`start` initializes the producer, which fences others with its transactional id."""

    def start(self) -> None: ...
    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        """Send a record, and return after the response."""

    def send_offset(self, topic: str, offset: int, group_id: str) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 10_000),
                "linger.ms": 0,
                "retry.backoff.ms": 20,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._producer.init_transactions(TIMEOUT_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        errors: list[Any] = []
        self._producer.produce(
            topic, value, key, partition=0, callback=lambda error, _: errors.append(error)
        )
        self._producer.flush(TIMEOUT_SECONDS)
        (error,) = errors
        if error is not None:  # an error cannot be compared with None
            raise confluent_kafka.KafkaException(error)

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group_id, "log_level": 0}
        )
        offsets = [confluent_kafka.TopicPartition(topic, 0, offset)]
        metadata = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_SECONDS)
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_SECONDS)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=20,
        )

    def start(self) -> None:
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._producer.send(topic, value, key, partition=0).get(TIMEOUT_SECONDS)

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        offsets = {kafka.TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        metadata = ConsumerGroupMetadata(group_id, -1, "", None)
        self._producer.send_offsets_to_transaction(offsets, metadata)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class Aiokafka:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._loop = LoopThread()
        self._producer = self._loop.call(
            aiokafka.AIOKafkaProducer,
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=20,
        )

    def start(self) -> None:
        self._loop.run(self._producer.start())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._loop.run(self._producer.send_and_wait(topic, value, key, partition=0))

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._loop.run(self._producer.send_offsets_to_transaction(offsets, group_id))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())
        self._loop.close()


PRODUCERS = {"librdkafka": Librdkafka, "kafka-python": KafkaPython, "aiokafka": Aiokafka}


# --- read_committed consumers


def _read_librdkafka(bootstrap: str, topic: str, until: bytes) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while until not in values:
        message = consumer.poll(TIMEOUT_SECONDS)
        assert message is not None, f"{values} end without {until!r}"
        assert message.error() is None, message.error()
        values.append(message.value() or b"")
    consumer.close()
    return values


def _read_kafka_python(bootstrap: str, topic: str, until: bytes) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_SECONDS * 1000,
    )
    consumer.assign([kafka.TopicPartition(topic, 0)])
    values: list[bytes] = []
    for record in consumer:
        values.append(record.value)
        if record.value == until:
            break
    consumer.close()
    assert until in values
    return values


def _read_aiokafka(bootstrap: str, topic: str, until: bytes) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        await consumer.start()
        values: list[bytes] = []
        while until not in values:
            values.append((await consumer.getone()).value)
        await consumer.stop()
        return values

    loop = LoopThread()
    try:
        return loop.run(read())
    finally:
        loop.close()


READERS = {
    "librdkafka": _read_librdkafka,
    "kafka-python": _read_kafka_python,
    "aiokafka": _read_aiokafka,
}
