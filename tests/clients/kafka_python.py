"""kafka-python behind the common shape."""

import gc
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.admin import ConfigResource
from kafka.codec import has_gzip, has_lz4, has_snappy, has_zstd
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.base import MemberState
from kafka.errors import (
    BrokerResponseError,
    CommitFailedError,
    CoordinatorLoadInProgressError,
    NodeNotReadyError,
)
from kafka.structs import OffsetAndMetadata

from .adapter import (
    Admin,
    Client,
    Committed,
    Consumer,
    ConsumerSettings,
    Counting,
    Message,
    Place,
    Record,
    RefusedError,
)
from .stories import until

# kafka-python 3.0 drives the joining of a group from poll(). Polls that end while it joins make it
# join anew, so a member that is polled only briefly may do so for ever (with Kafka 4.3 too).
# A poll without records lasts its whole time, so it is short as soon as the member is settled.
SETTLED_POLL_MS = 100
JOINING_POLL_MS = 500
JOINING_POLL_MS_MAX = 4_000


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(Counting, ConsumerRebalanceListener):
    pass


class KafkaPythonConsumer(Consumer):
    def __init__(self, bootstrap: str, settings: ConsumerSettings) -> None:
        self._joins = settings.group_id is not None
        self._joining_poll_ms = JOINING_POLL_MS
        options: dict[str, Any] = {}
        names = settings.assignors or (("cooperative-sticky",) if settings.cooperative else ())
        strategies = settings.strategies or tuple(ASSIGNORS[name] for name in names)
        if strategies:
            options["partition_assignment_strategy"] = strategies
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=settings.group_id,
            group_instance_id=settings.group_instance_id,
            enable_auto_commit=settings.auto_commit,
            auto_commit_interval_ms=settings.auto_commit_interval_ms,
            auto_offset_reset=settings.auto_offset_reset,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
            allow_auto_create_topics=settings.creates_topics,
            **options,
        )

    def subscribe(self, *topics: str) -> None:
        self._consumer.subscribe(list(topics), listener=Listener(self))

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe(pattern=re.compile(pattern))

    def assign(self, *places: Place) -> None:
        self._joins = False
        self._consumer.assign([TopicPartition(*place) for place in places])

    def poll(self, max_records: int = 500) -> list[Record]:
        self._recall_rebalance()
        fetched = self._consumer.poll(self._patience_ms(), max_records=max_records)
        return [
            Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
            for records in fetched.values()
            for r in records
        ]

    def _recall_rebalance(self) -> None:
        """Mends a fault of kafka-python 3.0: a leader that rejoined because a topic changed, and
        whose poll ended while its SyncGroup was under way, never asks for the answer. It keeps its
        old assignment, without heartbeats, for ever (with Kafka 4.3 too).
        """
        coordinator = self._consumer._coordinator
        if coordinator.state == MemberState.REBALANCING and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def _patience_ms(self) -> int:
        if not self._joins or self._consumer.group_metadata().state == MemberState.STABLE:
            self._joining_poll_ms = JOINING_POLL_MS
            return SETTLED_POLL_MS
        patience_ms = self._joining_poll_ms
        self._joining_poll_ms = min(2 * patience_ms, JOINING_POLL_MS_MAX)
        return patience_ms

    def assignment(self) -> frozenset[Place]:
        return frozenset(Place(*place) for place in self._consumer.assignment())

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {
                TopicPartition(*place): OffsetAndMetadata(offset, metadata, -1)
                for place, (offset, metadata) in offsets.items()
            }
        try:
            self._consumer.commit(wanted)
        except CommitFailedError as error:
            raise RefusedError(_code_in(str(error)), str(error)) from error
        except BrokerResponseError as error:
            raise RefusedError(error.errno, str(error)) from error

    def committed(self, place: Place) -> int | None:
        offset: int | None = self._consumer.committed(TopicPartition(*place))
        return offset

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(*place), offset)

    def beginning_offset(self, place: Place) -> int:
        return int(self._consumer.beginning_offsets([TopicPartition(*place)]).popitem()[1])

    def end_offset(self, place: Place) -> int:
        return int(self._consumer.end_offsets([TopicPartition(*place)]).popitem()[1])

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        found = self._consumer.offsets_for_times({TopicPartition(*place): timestamp_ms})
        answer = found[TopicPartition(*place)]
        return None if answer is None else int(answer.offset)

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonAdmin(Admin):
    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        answers = []

        def is_answered() -> bool:
            try:
                answers.append(getattr(self._admin, method)(*args, **options))
            except NodeNotReadyError:
                return False  # it does not ask a node that it could not reach a moment ago
            except CoordinatorLoadInProgressError:
                return False  # and does not ask again, as Java's admin client does
            except BrokerResponseError as error:
                raise RefusedError(error.errno, str(error)) from error
            return True

        until(is_answered, f"kafka-python's {method} reaches the broker")
        return answers[0]

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        self._ask("create_topics", {topic: wanted})

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topics", [topic])

    def topics(self) -> frozenset[str]:
        return frozenset(self._ask("list_topics"))

    def partition_count(self, topic: str) -> int:
        (described,) = self._ask("describe_topics", [topic])
        if described["error_code"]:
            raise RefusedError(described["error_code"])
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask("create_partitions", {topic: total})

    def delete_records(self, place: Place, before_offset: int) -> int:
        wanted = {TopicPartition(*place): before_offset}
        (done,) = self._ask("delete_records", wanted).values()
        return int(done["low_watermark"])

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs("TOPIC", topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        # raise_on_unknown=False: the broker shall refuse an unknown key, not the library.
        resource = ConfigResource("TOPIC", topic, dict(configs))
        answer = self._ask("alter_configs", [resource], raise_on_unknown=False)
        said = answer["topic"][topic]
        if said != "OK":
            raise RefusedError(_code_in(said), said)

    def broker_configs(self) -> dict[str, str | None]:
        broker = self._ask("describe_cluster")["brokers"][0]["broker_id"]
        return self._configs("BROKER", str(broker))

    def _configs(self, kind: str, name: str) -> dict[str, str | None]:
        described = self._ask("describe_configs", [ConfigResource(kind, name)], config_filter="all")
        entries = described[kind.lower()][name]
        return {key: entry["value"] for key, entry in entries.items()}

    def group_offsets(self, group_id: str) -> dict[Place, Committed]:
        offsets = self._ask("list_group_offsets", group_id)[group_id]
        return {Place(*place): Committed(o.offset, o.metadata) for place, o in offsets.items()}

    def brokers(self) -> list[tuple[str, int]]:
        brokers = self._ask("describe_cluster")["brokers"]
        return [(broker["host"], broker["port"]) for broker in brokers]

    def close(self) -> None:
        self._admin.close()


def _code_in(said: str) -> int:
    """The code in `[Error 40] InvalidConfigurationError`, as kafka-python tells a refusal."""
    found = re.search(r"\[Error (\d+)\]", said)
    return int(found[1]) if found else -1


class KafkaPython(Client):
    name = "kafka-python"
    # It compresses by other packages, which need not be installed.
    codecs = tuple(
        name
        for name, there in (
            ("gzip", has_gzip),
            ("snappy", has_snappy),
            ("lz4", has_lz4),
            ("zstd", has_zstd),
        )
        if there()
    )

    def produce(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[tuple[int, int]]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                    headers=list(message.headers),
                )
                for message in messages
            ]
            placed = [future.get(timeout=20) for future in sent]
        finally:
            producer.close(timeout=5)
        return [(at.partition, at.offset) for at in placed]

    def consumer(self, settings: ConsumerSettings) -> Consumer:
        return KafkaPythonConsumer(self.bootstrap, settings)

    def admin(self) -> Admin:
        return KafkaPythonAdmin(self.bootstrap)

    def close(self) -> None:
        gc.collect()  # its forgotten sockets end here, not in somebody else's test
