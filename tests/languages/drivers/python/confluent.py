"""The driver of confluent-kafka (librdkafka)."""

from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from protocol import Command, Events, Library, Unsupported, run

TIMEOUT_SECONDS = 20
VERSION = tuple(map(int, confluent_kafka.__version__.split(".")[:2]))


def config(command: Command, **more: Any) -> dict[str, Any]:
    given = {
        "bootstrap.servers": command["servers"],
        "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 20,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    security = command.get("security")
    if security is None:
        return given
    return {
        **given,
        "security.protocol": security["protocol"],
        "sasl.mechanism": security["mechanism"],
        "sasl.username": security["user"],
        "sasl.password": security["password"],
        "ssl.ca.location": security["ca"],
    }


class Member:
    def __init__(self, command: Command, events: Events) -> None:
        self._events = events
        settings = {
            "group_id": command["group"],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "topic_metadata_refresh_interval_ms": 500,
            "fetch_wait_max_ms": 100,
            "isolation_level": "read_"
            + ("" if command.get("read_committed") else "un")
            + "committed",
        }
        if "instance" in command:
            settings["group_instance_id"] = command["instance"]
        if command.get("consumer_protocol"):
            if VERSION < (2, 4):
                raise Unsupported("no consumer protocol (KIP-848)")
            settings["group_protocol"] = "consumer"
        else:
            assignor = "cooperative-sticky" if command.get("cooperative") else "range"
            settings["partition_assignment_strategy"] = assignor
            settings["session_timeout_ms"] = command["session_ms"]
            settings["heartbeat_interval_ms"] = command["heartbeat_ms"]
        self._owned: set[tuple[str, int]] = set()
        self._consumer = Consumer(config(command, **settings))
        topics = [command["pattern"]] if "pattern" in command else command["topics"]
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned |= {(each.topic, each.partition) for each in partitions}
        self._events.assignment(self._owned)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned -= {(each.topic, each.partition) for each in partitions}
        self._events.assignment(self._owned)

    def poll(self) -> None:
        message = self._consumer.poll(0.05)
        if message is None:
            return
        if (error := message.error()) is not None:
            self._events.error(error)
        else:
            where = message.topic(), message.partition(), message.offset()
            self._events.record(*where, message.value())

    def commit(self, topic: str, partition: int, offset: int) -> None:
        at = TopicPartition(topic, partition, offset)
        for each in self._consumer.commit(offsets=[at], asynchronous=False):
            if each.error is not None:
                raise KafkaException(each.error)

    def close(self) -> None:
        self._consumer.close()


def send(producer: Producer, topic: str, partition: int, values: list[str]) -> None:
    failed: list[Any] = []

    def on_delivery(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value.encode(), partition=partition, on_delivery=on_delivery)
    if producer.flush(TIMEOUT_SECONDS):
        raise TimeoutError("not delivered")
    for error in failed:
        raise KafkaException(error)


class TransactionalProducer:
    def __init__(self, command: Command) -> None:
        self._producer = Producer(config(command, transactional_id=command["transactional_id"]))
        self._producer.init_transactions(TIMEOUT_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, values: list[str]) -> None:
        send(self._producer, topic, partition, values)

    def end(self, commit: bool) -> None:
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(TIMEOUT_SECONDS)


class Confluent(Library):
    subscribe = staticmethod(Member)
    producer = staticmethod(TransactionalProducer)

    def produce(self, command: Command) -> None:
        problems: list[Any] = []
        # A rejected login is otherwise retried until the record's timeout.
        producer = Producer({**config(command), "error_cb": problems.append})
        if "security" in command:
            try:
                producer.list_topics(timeout=3)
            except KafkaException:
                producer.poll(0)
                raise KafkaException(*problems) from None
        send(producer, command["topic"], command["partition"], command["values"])

    def describe(self, command: Command) -> dict[str, Any]:
        admin = AdminClient(config(command))
        group = command["group"]
        listed = admin.list_consumer_groups().result(TIMEOUT_SECONDS)
        described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_SECONDS)
        requested = confluent_kafka.ConsumerGroupTopicPartitions(group)
        offsets = admin.list_consumer_group_offsets([requested])[group].result(TIMEOUT_SECONDS)
        return {
            "groups": [each.group_id for each in listed.valid],
            "state": described.state.name,
            "members": len(described.members),
            "offsets": [[p.topic, p.partition, p.offset] for p in offsets.topic_partitions],
        }


run(Confluent())
