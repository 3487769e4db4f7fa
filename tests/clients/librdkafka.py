"""confluent-kafka (librdkafka) behind the common shape."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import (
    Consumer as RdConsumer,
)
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import (
    Message as RdMessage,
)
from confluent_kafka import (
    Producer as RdProducer,
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
    Client,
    Committed,
    Consumer,
    ConsumerSettings,
    Message,
    Place,
    Record,
    RefusedError,
)
from .stories import until

ANSWER_S = 20
POLL_S = 0.05
# Told once, and then the library goes on: it waits for an absent topic, and joins again when it is
# polled after it was not for too long. All other errors are failures.
TOLD_AND_MENDED = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._MAX_POLL_EXCEEDED)


def _placed(message: RdMessage) -> Record:
    return Record(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),  # type: ignore[arg-type]  # bytes from the wire, whatever the stub says
        message.value(),  # type: ignore[arg-type]
        tuple(message.headers() or ()),  # type: ignore[arg-type]
    )


class LibrdkafkaConsumer(Consumer):
    def __init__(self, bootstrap: str, settings: ConsumerSettings) -> None:
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            # librdkafka wants a group id even of a consumer that joins none.
            "group.id": settings.group_id or "nobody",
            "enable.auto.commit": settings.auto_commit,
            "auto.commit.interval.ms": settings.auto_commit_interval_ms,
            "auto.offset.reset": settings.auto_offset_reset,
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.heartbeat_interval_ms,
            "max.poll.interval.ms": settings.max_poll_interval_ms,
            "fetch.wait.max.ms": settings.fetch_max_wait_ms,
            "topic.metadata.refresh.interval.ms": settings.metadata_max_age_ms,
            "allow.auto.create.topics": settings.creates_topics,
        }
        if settings.group_instance_id is not None:
            options["group.instance.id"] = settings.group_instance_id
        names = settings.assignors or (("cooperative-sticky",) if settings.cooperative else ())
        if names:
            options["partition.assignment.strategy"] = ",".join(names)
        self._consumer = RdConsumer(options)

    def subscribe(self, *topics: str) -> None:
        self._consumer.subscribe(list(topics), on_assign=self._count)

    def _count(self, _consumer: RdConsumer, _assigned: list[TopicPartition]) -> None:
        self.rebalances += 1

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe([pattern])

    def assign(self, *places: Place) -> None:
        self._consumer.assign([TopicPartition(*place) for place in places])

    def poll(self, max_records: int = 500) -> list[Record]:
        # consume() waits for the whole number; so one with patience, then what is there already.
        first = self._consumer.poll(POLL_S)
        if first is None:
            return []
        messages = [first]
        if max_records > 1:
            messages += self._consumer.consume(max_records - 1, 0)
        records = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(_placed(message))
            elif error.code() not in TOLD_AND_MENDED:
                raise RefusedError(error.code(), error.str())
        return records

    def assignment(self) -> frozenset[Place]:
        return frozenset(Place(p.topic, p.partition) for p in self._consumer.assignment())

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        try:
            if offsets is None:
                self._consumer.commit(asynchronous=False)
                return
            wanted = [TopicPartition(*place, *committed) for place, committed in offsets.items()]
            self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            raise RefusedError(error.args[0].code(), error.args[0].str()) from error

    def committed(self, place: Place) -> int | None:
        (answer,) = self._consumer.committed([TopicPartition(*place)], timeout=ANSWER_S)
        return None if answer.offset < 0 else answer.offset

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place, offset))

    def beginning_offset(self, place: Place) -> int:
        return self._watermarks(place)[0]

    def end_offset(self, place: Place) -> int:
        return self._watermarks(place)[1]

    def _watermarks(self, place: Place) -> tuple[int, int]:
        low_high: tuple[int, int] | None = self._consumer.get_watermark_offsets(
            TopicPartition(*place), timeout=ANSWER_S
        )
        assert low_high is not None, "librdkafka got no watermarks in time"
        return low_high

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        asked = [TopicPartition(*place, timestamp_ms)]
        (answer,) = self._consumer.offsets_for_times(asked, timeout=ANSWER_S)
        assert answer.error is None, answer.error
        # librdkafka says "the end" (-1) where other libraries say "nothing".
        return None if answer.offset < 0 else answer.offset

    def close(self) -> None:
        self._consumer.close()


class LibrdkafkaAdmin(Admin):
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def _only(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        return self._result(future)

    def _result(self, future: Any) -> Any:
        try:
            return future.result(ANSWER_S)
        except KafkaException as error:
            raise RefusedError(error.args[0].code(), error.args[0].str()) from error

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        self._only(
            self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs or {}))])
        )

    def delete_topic(self, topic: str) -> None:
        self._only(self._admin.delete_topics([topic]))

    def topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=ANSWER_S).topics)

    def partition_count(self, topic: str) -> int:
        # By the metadata of all topics: asking for one would create it (librdkafka's choice).
        found = self._admin.list_topics(timeout=ANSWER_S).topics.get(topic)
        if found is None:
            raise RefusedError(3)
        return len(found.partitions)

    def add_partitions(self, topic: str, total: int) -> None:
        self._only(self._admin.create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, place: Place, before_offset: int) -> int:
        wanted = TopicPartition(place.topic, place.partition, before_offset)
        return int(self._only(self._admin.delete_records([wanted])).low_watermark)

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResource.Type.TOPIC, topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._only(self._admin.incremental_alter_configs([resource]))

    def broker_configs(self) -> dict[str, str | None]:
        broker = next(iter(self._admin.list_topics(timeout=ANSWER_S).brokers))
        return self._configs(ConfigResource.Type.BROKER, str(broker))

    def _configs(self, kind: Any, name: str) -> dict[str, str | None]:
        entries = self._only(self._admin.describe_configs([ConfigResource(kind, name)]))
        return {key: entry.value for key, entry in entries.items()}

    def group_offsets(self, group_id: str) -> dict[Place, Committed]:
        asked = [ConsumerGroupTopicPartitions(group_id)]
        answers = []

        def is_answered() -> bool:
            try:
                answers.append(self._only(self._admin.list_consumer_group_offsets(asked)))
            except RefusedError as error:
                if error.code == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    return False  # it does not ask again, as Java's admin client does
                raise
            return True

        until(is_answered, f"librdkafka is told the offsets of {group_id}")
        return {
            Place(p.topic, p.partition): Committed(p.offset, p.metadata or "")
            for p in answers[0].topic_partitions
        }

    def brokers(self) -> list[tuple[str, int]]:
        cluster = self._result(self._admin.describe_cluster())
        return [(node.host, node.port) for node in cluster.nodes]

    def close(self) -> None:
        """librdkafka ends an admin client when it is collected; it holds no group and no file."""


class Librdkafka(Client):
    name = "librdkafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")
    creates_topics = "never"  # allow.auto.create.topics does nothing for a consumer in 2.16

    def produce(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[tuple[int, int]]:
        producer = RdProducer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "compression.type": codec or "none",
                "enable.idempotence": idempotent,
                "linger.ms": 5,
                "topic.metadata.refresh.fast.interval.ms": 50,
            }
        )
        placed: dict[int, tuple[int, int]] = {}
        failed: list[KafkaError] = []

        def note(number: int, error: KafkaError | None, message: RdMessage) -> None:
            if error is not None:
                failed.append(error)
            else:
                placed[number] = (message.partition() or 0, message.offset() or 0)

        for number, message in enumerate(messages):
            options: dict[str, Any] = {}
            if message.partition is not None:
                options["partition"] = message.partition
            if message.timestamp_ms is not None:
                options["timestamp"] = message.timestamp_ms
            producer.produce(
                topic,
                value=message.value,
                key=message.key,
                headers=list(message.headers),
                on_delivery=lambda error, sent, number=number: note(number, error, sent),
                **options,
            )
        left = producer.flush(ANSWER_S)
        if failed:
            raise RefusedError(failed[0].code(), failed[0].str())
        assert left == 0, f"{left} messages were not delivered in {ANSWER_S} s"
        return [placed[number] for number in sorted(placed)]

    def consumer(self, settings: ConsumerSettings) -> Consumer:
        return LibrdkafkaConsumer(self.bootstrap, settings)

    def admin(self) -> Admin:
        return LibrdkafkaAdmin(self.bootstrap)
