"""The adapter of confluent-kafka (librdkafka)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import confluent_kafka
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from .adapter import (
    Admin,
    BrokerError,
    Client,
    Committed,
    Consumer,
    ConsumerSettings,
    GroupDescription,
    Message,
    Partition,
    Record,
    TransactionalProducer,
    note_rebalance,
)
from .consumers import until

TIMEOUT_SECONDS = 20
POLL_SECONDS = 0.05
# Otherwise the library writes to standard error.
LOGGER = logging.getLogger("librdkafka")
# After these errors, the library continues. It waits for a missing topic, and joins again if it is
# polled after max.poll.interval.ms, or if its group migrated while it joined (with Kafka too).
RECOVERED_ERRORS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError.REBALANCE_IN_PROGRESS,
)


def _record(message: confluent_kafka.Message) -> Record:
    return Record(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),  # type: ignore[arg-type]  # the stub is wrong: bytes
        message.value(),  # type: ignore[arg-type]
        tuple(message.headers() or ()),  # type: ignore[arg-type]
    )


class LibrdkafkaConsumer(Consumer):
    def __init__(
        self, bootstrap: str, settings: ConsumerSettings, *, is_consumer_protocol: bool = False
    ) -> None:
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            # librdkafka requires a group id even for a consumer that joins no group.
            "group.id": settings.group_id or "none",
            "enable.auto.commit": settings.auto_commit,
            "auto.commit.interval.ms": settings.auto_commit_interval_ms,
            "auto.offset.reset": settings.auto_offset_reset,
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.heartbeat_interval_ms,
            "max.poll.interval.ms": settings.max_poll_interval_ms,
            "fetch.wait.max.ms": settings.fetch_max_wait_ms,
            "topic.metadata.refresh.interval.ms": settings.metadata_max_age_ms,
        }
        if settings.client_id is not None:
            options["client.id"] = settings.client_id
        if settings.group_instance_id is not None:
            options["group.instance.id"] = settings.group_instance_id
        if is_consumer_protocol:
            options["group.protocol"] = "consumer"
            for key in ("session.timeout.ms", "heartbeat.interval.ms"):
                del options[key]  # set by the broker, like the assignor
        elif settings.assignors:
            options["partition.assignment.strategy"] = ",".join(settings.assignors)
        if settings.isolation_level is not None:
            options["isolation.level"] = settings.isolation_level
        self.rebalances = 0
        self.rebalance_calls = []
        self._consumer = confluent_kafka.Consumer(options, logger=LOGGER)

    def subscribe(self, *topics: str) -> None:
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: note_rebalance(self, "assigned", partitions),
            on_revoke=lambda _, partitions: note_rebalance(self, "revoked", partitions),
            on_lost=lambda _, partitions: note_rebalance(self, "lost", partitions),
        )

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe([pattern])

    def assign(self, *partitions_of: Partition) -> None:
        self._consumer.assign([TopicPartition(*partition) for partition in partitions_of])

    def poll(self, max_records: int = 500) -> list[Record]:
        # consume() waits for the full number. Wait for one record, then take the available records.
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return []
        messages = [first]
        if max_records > 1:
            messages += self._consumer.consume(max_records - 1, 0)
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() not in RECOVERED_ERRORS:
                raise BrokerError(error.code(), error.str())
        return records

    def assignment(self) -> frozenset[Partition]:
        return frozenset(Partition(p.topic, p.partition) for p in self._consumer.assignment())

    def commit(self, offsets: Mapping[Partition, Committed] | None = None) -> None:
        try:
            if offsets is None:
                self._consumer.commit(asynchronous=False)
                return
            wanted = [
                TopicPartition(*partition, *committed) for partition, committed in offsets.items()
            ]
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            raise BrokerError(error.args[0].code(), error.args[0].str()) from error

    def committed(self, partition: Partition) -> int | None:
        (result,) = self._consumer.committed([TopicPartition(*partition)], timeout=TIMEOUT_SECONDS)
        return None if result.offset < 0 else result.offset

    def seek(self, partition: Partition, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition, offset))

    def beginning_offset(self, partition: Partition) -> int:
        return self._watermarks(partition)[0]

    def end_offset(self, partition: Partition) -> int:
        return self._watermarks(partition)[1]

    def _watermarks(self, partition: Partition) -> tuple[int, int]:
        low_high: tuple[int, int] | None = self._consumer.get_watermark_offsets(
            TopicPartition(*partition), timeout=TIMEOUT_SECONDS
        )
        assert low_high is not None, "no watermarks within the timeout"
        return low_high

    def offset_for_time(self, partition: Partition, timestamp_ms: int) -> int | None:
        request = [TopicPartition(*partition, timestamp_ms)]
        (result,) = self._consumer.offsets_for_times(request, timeout=TIMEOUT_SECONDS)
        assert result.error is None, result.error
        # The offset is -1 (the end) if there is no such record.
        return None if result.offset < 0 else result.offset

    def close(self) -> None:
        self._consumer.close()


class LibrdkafkaAdmin(Admin):
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap}, logger=LOGGER)

    def _only(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        return self._result(future)

    def _result(self, future: Any) -> Any:
        try:
            return future.result(TIMEOUT_SECONDS)
        except KafkaException as error:
            raise BrokerError(error.args[0].code(), error.args[0].str()) from error

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        self._only(
            self._admin.create_topics([NewTopic(topic, partitions, config=dict(configs or {}))])
        )

    def delete_topic(self, topic: str) -> None:
        self._only(self._admin.delete_topics([topic]))

    def topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics)

    def partition_count(self, topic: str) -> int:
        # Uses the metadata of all topics, because a request for one topic would create it.
        found = self._admin.list_topics(timeout=TIMEOUT_SECONDS).topics.get(topic)
        if found is None:
            raise BrokerError(3)
        return len(found.partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._only(self._admin.create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        wanted = TopicPartition(partition.topic, partition.partition, before_offset)
        return int(self._only(self._admin.delete_records([wanted])).low_watermark)

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResource.Type.TOPIC, topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        topic_type = ConfigResource.Type.TOPIC
        resource = ConfigResource(topic_type, topic, incremental_configs=entries)
        self._only(self._admin.incremental_alter_configs([resource]))

    def broker_configs(self) -> dict[str, str | None]:
        broker = next(iter(self._admin.list_topics(timeout=TIMEOUT_SECONDS).brokers))
        return self._configs(ConfigResource.Type.BROKER, str(broker))

    def _configs(self, kind: Any, name: str) -> dict[str, str | None]:
        entries = self._only(self._admin.describe_configs([ConfigResource(kind, name)]))
        return {key: entry.value for key, entry in entries.items()}

    def groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(TIMEOUT_SECONDS)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def describe_group(self, group_id: str) -> GroupDescription:
        found = self._only(self._admin.describe_consumer_groups([group_id]))
        state = found.state.name.capitalize()
        return GroupDescription(state, found.partition_assignor, len(found.members))

    def delete_group(self, group_id: str) -> None:
        self._only(self._admin.delete_consumer_groups([group_id]))

    def group_offsets(self, group_id: str) -> dict[Partition, Committed]:
        request = [ConsumerGroupTopicPartitions(group_id)]
        results = []

        def is_done() -> bool:
            try:
                results.append(self._only(self._admin.list_consumer_group_offsets(request)))
            except BrokerError as error:
                if error.code == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    return False  # unlike Java's admin client, it does not retry this error
                raise
            return True

        until(is_done, f"librdkafka has the offsets of {group_id}")
        return {
            Partition(p.topic, p.partition): Committed(p.offset, p.metadata or "")
            for p in results[0].topic_partitions
        }

    def brokers(self) -> list[tuple[str, int]]:
        cluster = self._result(self._admin.describe_cluster())
        return [(node.host, node.port) for node in cluster.nodes]

    def close(self) -> None:
        """Do nothing: librdkafka closes the client when it is garbage-collected."""


class LibrdkafkaTransactionalProducer(TransactionalProducer):
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
            },
            logger=LOGGER,
        )
        self.start = partial(self._producer.init_transactions, TIMEOUT_SECONDS)
        self.begin = self._producer.begin_transaction
        self.commit = partial(self._producer.commit_transaction, TIMEOUT_SECONDS)
        self.abort = partial(self._producer.abort_transaction, TIMEOUT_SECONDS)
        self.close = self._producer.purge

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        errors: list[Any] = []
        self._producer.produce(
            topic, value, key, partition=0, callback=lambda error, _: errors.append(error)
        )
        self._producer.flush(TIMEOUT_SECONDS)
        (error,) = errors
        if error is not None:  # an error cannot be compared with None
            raise KafkaException(error)

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group_id}, logger=LOGGER
        )
        offsets = [TopicPartition(topic, 0, offset)]
        metadata = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_SECONDS)
        consumer.close()


class Librdkafka(Client):
    name = "librdkafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")
    consumer_type: Callable[..., Consumer] = LibrdkafkaConsumer
    admin_type = LibrdkafkaAdmin
    producer_type = LibrdkafkaTransactionalProducer
    creates_topics = False  # allow.auto.create.topics has no effect in 2.16

    def produce(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[tuple[int, int]]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "compression.type": codec or "none",
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                "topic.metadata.refresh.fast.interval.ms": 50,
            },
            logger=LOGGER,
        )
        delivered: dict[int, tuple[int, int]] = {}

        def note(number: int, error: KafkaError | None, sent: confluent_kafka.Message) -> None:
            if error is not None:
                raise BrokerError(error.code(), error.str())
            delivered[number] = (sent.partition() or 0, sent.offset() or 0)

        for number, message in enumerate(messages):
            where = {"partition": message.partition, "timestamp": message.timestamp_ms}
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                on_delivery=partial(note, number),
                **{key: value for key, value in where.items() if value is not None},
            )
        left = producer.flush(TIMEOUT_SECONDS)  # raises what `note` raises
        assert left == 0, f"{left} messages were not delivered in {TIMEOUT_SECONDS} s"
        return [delivered[number] for number in sorted(delivered)]


class LibrdkafkaConsumerProtocol(Librdkafka):
    """librdkafka with `group.protocol=consumer` (KIP-848)."""

    name = "librdkafka-consumer-protocol"
    consumer_type = partial(LibrdkafkaConsumer, is_consumer_protocol=True)
