"""The driver of kafka-python 2.0 and 3.0."""

from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from protocol import Command, Events, Library, Unsupported, run

TIMEOUT_SECONDS = 20
IS_OLD = kafka.__version__.startswith(("1.", "2."))
# 3.0 joins its group in poll(), and joins again if a poll ends before it has joined, on Kafka too.
POLL_MS, JOINING_POLL_MS_MAX = 200, 4_000


def config(command: Command, **more: Any) -> dict[str, Any]:
    given = {
        "bootstrap_servers": command["servers"].split(","),
        "retry_backoff_ms": 20,
        "reconnect_backoff_ms": 20,
        **more,
    }
    if IS_OLD:
        # The time to connect and log in. 2 s are too short on a busy machine.
        given["api_version_auto_timeout_ms"] = 10_000
    security = command.get("security")
    if security is None:
        return given
    return {
        **given,
        "security_protocol": security["protocol"],
        "sasl_mechanism": security["mechanism"],
        "sasl_plain_username": security["user"],
        "sasl_plain_password": security["password"],
        "ssl_cafile": security["ca"],
    }


class Member(ConsumerRebalanceListener):
    def __init__(self, command: Command, events: Events) -> None:
        self._events = events
        self._poll_ms = POLL_MS
        if command.get("consumer_protocol"):
            raise Unsupported("no consumer protocol (KIP-848)")
        settings: dict[str, Any] = {
            "group_id": command["group"],
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "metadata_max_age_ms": 500,
            "fetch_max_wait_ms": 100,
            "session_timeout_ms": command["session_ms"],
            "heartbeat_interval_ms": command["heartbeat_ms"],
        }
        if IS_OLD:
            for key, name in (
                ("instance", "static members (KIP-345)"),
                ("cooperative", "cooperative rebalances (KIP-429)"),
                ("read_committed", "read_committed"),
            ):
                if key in command:
                    raise Unsupported(f"no {name}")
            settings["request_timeout_ms"] = 305_000  # above max_poll_interval_ms
        if "instance" in command:
            settings["group_instance_id"] = command["instance"]
        if command.get("read_committed"):
            settings["isolation_level"] = "read_committed"
        if command.get("cooperative"):
            from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

            settings["partition_assignment_strategy"] = [CooperativeStickyAssignor]
        self._consumer = KafkaConsumer(**config(command, **settings))
        topics, pattern = command.get("topics", ()), command.get("pattern")
        self._consumer.subscribe(topics=topics, pattern=pattern, listener=self)

    def on_partitions_assigned(self, assigned: Any) -> None:
        # In 3.0 the assignment may change only after the callback.
        self._report(self._consumer.assignment() | set(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._report(self._consumer.assignment() - set(revoked))

    def on_partitions_lost(self, lost: Any) -> None:
        self.on_partitions_revoked(lost)

    def _report(self, partitions: set[TopicPartition]) -> None:
        self._events.assignment((each.topic, each.partition) for each in partitions)

    def poll(self) -> None:
        coordinator = self._consumer._coordinator
        if not IS_OLD and coordinator.rejoining:
            # If a poll ends during a join that new metadata caused, 3.0 forgets the join, on Kafka
            # too. It then neither owns partitions nor sends heartbeats.
            coordinator.request_rejoin()
        if self._consumer.assignment():
            self._poll_ms = POLL_MS
        else:
            self._poll_ms = min(self._poll_ms * 2, JOINING_POLL_MS_MAX)
        for records in self._consumer.poll(timeout_ms=self._poll_ms).values():
            for each in records:
                self._events.record(each.topic, each.partition, each.offset, each.value)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        given = (offset, "") if IS_OLD else (offset, "", -1)
        self._consumer.commit({TopicPartition(topic, partition): OffsetAndMetadata(*given)})

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def send(producer: KafkaProducer, topic: str, partition: int, values: list[str]) -> None:
    sent = [producer.send(topic, value.encode(), partition=partition) for value in values]
    for each in sent:
        each.get(TIMEOUT_SECONDS)


class TransactionalProducer:
    def __init__(self, command: Command) -> None:
        if IS_OLD:
            raise Unsupported("no transactions")
        given = config(command, transactional_id=command["transactional_id"])
        self._producer = KafkaProducer(**given)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, values: list[str]) -> None:
        send(self._producer, topic, partition, values)

    def end(self, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()


class KafkaPython(Library):
    subscribe = staticmethod(Member)
    producer = staticmethod(TransactionalProducer)

    def produce(self, command: Command) -> None:
        limits = {"max_block_ms": 5_000} | ({} if IS_OLD else {"bootstrap_timeout_ms": 3_000})
        producer = KafkaProducer(**config(command, acks="all", **limits))
        try:
            send(producer, command["topic"], command["partition"], command["values"])
        finally:
            producer.close(timeout=1)

    def describe(self, command: Command) -> dict[str, Any]:
        admin = KafkaAdminClient(**config(command))
        group = command["group"]
        try:
            if IS_OLD:
                listed = [name for name, _ in admin.list_consumer_groups()]
                (described,) = admin.describe_consumer_groups([group])
                state, members = described.state, described.members
                offsets = admin.list_consumer_group_offsets(group)
            else:
                listed = [each["group_id"] for each in admin.list_groups()]
                described = admin.describe_groups([group])[group]
                state, members = described["group_state"], described["members"]
                offsets = admin.list_group_offsets([group])[group]
            return {
                "groups": listed,
                "state": state,
                "members": len(members),
                "offsets": [[p.topic, p.partition, at.offset] for p, at in offsets.items()],
            }
        finally:
            admin.close()


run(KafkaPython())
