"""The adapter of kafka-python."""

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
    errors,
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
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from .adapter import (
    Admin,
    BrokerError,
    Client,
    Committed,
    ConsumerSettings,
    GroupDescription,
    Message,
    Partition,
    PythonConsumer,
    RebalanceListener,
    Record,
    TransactionalProducer,
    committed_of,
    records_of,
)
from .consumers import until

# kafka-python 3.0 joins its group in poll(), and joins again if a poll ends during the join: a
# member with short polls may do so forever (with Kafka 4.3 too). A poll without records lasts its
# whole time, so it is short once the member has joined.
JOINED_POLL_MS = 100
JOINING_POLL_MS = 500
JOINING_POLL_MS_MAX = 4_000
TIMEOUT_SECONDS = 20


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(RebalanceListener, ConsumerRebalanceListener):
    pass


class KafkaPythonConsumer(PythonConsumer):
    partition_type = TopicPartition
    listener_type = Listener

    def __init__(self, bootstrap: str, settings: ConsumerSettings) -> None:
        super().__init__()
        self._joins = settings.group_id is not None
        self._given_poll_ms = settings.poll_ms
        self._joining_poll_ms = JOINING_POLL_MS
        self._consumer = KafkaConsumer(**settings.python_options(bootstrap, ASSIGNORS))

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        return getattr(self._consumer, method)(*args, **options)

    def subscribe_pattern(self, pattern: str) -> None:
        self._consumer.subscribe(pattern=re.compile(pattern))

    def assign(self, *partitions: Partition) -> None:
        self._joins = False
        super().assign(*partitions)

    def poll(self, max_records: int = 500) -> list[Record]:
        self._resume_rebalance()
        return records_of(self._consumer.poll(self._poll_ms(), max_records=max_records))

    def _resume_rebalance(self) -> None:
        """Work around a bug of kafka-python 3.0: a leader that rejoined because a topic changed,
        and whose poll ended while its SyncGroup was in flight, never reads the response. It keeps
        its old assignment forever, without heartbeats (with Kafka 4.3 too)."""
        coordinator = self._consumer._coordinator
        if coordinator.state == MemberState.REBALANCING and not coordinator.need_rejoin():
            coordinator.request_rejoin()

    def _poll_ms(self) -> int:
        if self._given_poll_ms is not None:
            return self._given_poll_ms
        if not self._joins or self._consumer.group_metadata().state == MemberState.STABLE:
            self._joining_poll_ms = JOINING_POLL_MS
            return JOINED_POLL_MS
        poll_ms = self._joining_poll_ms
        self._joining_poll_ms = min(2 * poll_ms, JOINING_POLL_MS_MAX)
        return poll_ms

    def commit(self, offsets: Mapping[Partition, Committed] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {
                TopicPartition(*partition): OffsetAndMetadata(offset, metadata, -1)
                for partition, (offset, metadata) in offsets.items()
            }
        try:
            self._consumer.commit(wanted)
        except CommitFailedError as error:
            raise BrokerError(_code_in(str(error)), str(error)) from error
        except BrokerResponseError as error:
            raise BrokerError(error.errno, str(error)) from error

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonAdmin(Admin):
    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def _call(self, method: str, *args: Any, **options: Any) -> Any:
        results = []

        def is_done() -> bool:
            try:
                results.append(getattr(self._admin, method)(*args, **options))
            except NodeNotReadyError:
                return False  # kafka-python does not retry a node whose connection has just failed
            except CoordinatorLoadInProgressError:
                return False  # unlike Java's admin client, it does not retry this error
            except BrokerResponseError as error:
                raise BrokerError(error.errno, str(error)) from error
            return True

        until(is_done, f"kafka-python's {method} has a result")
        return results[0]

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": -1, "configs": configs or {}}
        self._call("create_topics", {topic: wanted})

    def delete_topic(self, topic: str) -> None:
        self._call("delete_topics", [topic])

    def topics(self) -> frozenset[str]:
        return frozenset(self._call("list_topics"))

    def partition_count(self, topic: str) -> int:
        (described,) = self._call("describe_topics", [topic])
        if described["error_code"]:
            raise BrokerError(described["error_code"])
        return len(described["partitions"])

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("create_partitions", {topic: total})

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        wanted = {TopicPartition(*partition): before_offset}
        (done,) = self._call("delete_records", wanted).values()
        return int(done["low_watermark"])

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs("TOPIC", topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        # With raise_on_unknown=False, the broker rejects an unknown key, not the library.
        resource = ConfigResource("TOPIC", topic, dict(configs))
        results = self._call("alter_configs", [resource], raise_on_unknown=False)
        result = results["topic"][topic]
        if result != "OK":
            raise BrokerError(_code_in(result), result)

    def broker_configs(self) -> dict[str, str | None]:
        broker = self._call("describe_cluster")["brokers"][0]["broker_id"]
        return self._configs("BROKER", str(broker))

    def _configs(self, kind: str, name: str) -> dict[str, str | None]:
        described = self._call(
            "describe_configs", [ConfigResource(kind, name)], config_filter="all"
        )
        entries = described[kind.lower()][name]
        return {key: entry["value"] for key, entry in entries.items()}

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._call("list_groups")}

    def describe_group(self, group_id: str) -> GroupDescription:
        found = self._call("describe_groups", [group_id])[group_id]
        return GroupDescription(found["group_state"], found["protocol_data"], len(found["members"]))

    def delete_group(self, group_id: str) -> None:
        result = self._call("delete_groups", [group_id])[group_id]
        if result != "OK":
            raise BrokerError(getattr(errors, result).errno)

    def group_offsets(self, group_id: str) -> dict[Partition, Committed]:
        return committed_of(self._call("list_group_offsets", group_id)[group_id])

    def brokers(self) -> list[tuple[str, int]]:
        brokers = self._call("describe_cluster")["brokers"]
        return [(broker["host"], broker["port"]) for broker in brokers]

    def close(self) -> None:
        self._admin.close()


class KafkaPythonTransactionalProducer(TransactionalProducer):
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=20,
        )
        self.start = self._producer.init_transactions
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._producer.send(topic, value, key, partition=0).get(TIMEOUT_SECONDS)

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        metadata = ConsumerGroupMetadata(group_id, -1, "", None)
        self._producer.send_offsets_to_transaction(offsets, metadata)

    def close(self) -> None:
        self._producer.close(timeout=0)


def _code_in(text: str) -> int:
    """Return the code in an error such as `[Error 40] InvalidConfigurationError`."""
    found = re.search(r"\[Error (\d+)\]", text)
    return int(found[1]) if found else -1


class KafkaPython(Client):
    name = "kafka-python"
    # kafka-python compresses with optional packages, which need not be installed.
    codecs = tuple(
        name
        for name, is_installed in (
            ("gzip", has_gzip),
            ("snappy", has_snappy),
            ("lz4", has_lz4),
            ("zstd", has_zstd),
        )
        if is_installed()
    )
    consumer_type = KafkaPythonConsumer
    admin_type = KafkaPythonAdmin
    producer_type = KafkaPythonTransactionalProducer

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
            sent = [producer.send(topic, **message.python_options()) for message in messages]
            placed = [future.get(TIMEOUT_SECONDS) for future in sent]
        finally:
            producer.close(timeout=5)
        return [(at.partition, at.offset) for at in placed]

    def close(self) -> None:
        gc.collect()  # closes the sockets that kafka-python leaves open, before the next test
