"""Topics, records, groups and offsets of a cluster, through kafka-python. Group requests and
listings of topics are retried after retriable errors. An invalid topic raises ValueError; other
kafka-python errors are propagated."""

import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeVar

try:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import MemberToRemove
except ImportError as error:
    raise ImportError(
        "tests on a real cluster need kafka-python 3: pip install 'kafka-python>=3'"
    ) from error

from ..deadline import POLL_SECONDS, poll
from ..group_view import GroupView
from ..topic import RecordToAppend, StoredRecord
from .consumer_group_describe import describe_consumer_group, forget_coordinators
from .group_views import DescribedClassicGroup, DescribedConsumerGroup

T = TypeVar("T")

# Transient errors (a moving coordinator, the first use of __consumer_offsets, a topic that is not
# yet known to all brokers) end within a few seconds.
RETRY_SECONDS = 15.0
# A closed consumer leaves within this time. Other members stay until their sessions expire.
LEAVE_SECONDS = 5.0

_DELETED = ("OK", "GroupIdNotFoundError")
_NOT_FOUND = kafka_errors.GroupIdNotFoundError
# Groups may also be of type `share` or `streams`.
_CONSUMER_TYPES = ("classic", "consumer")

# kafka-python is not fully typed.
_ADMIN: Any = KafkaAdminClient
_CONSUMER: Any = KafkaConsumer
_ERROR_CLASS: Any = kafka_errors.for_code
_MEMBER_TO_REMOVE: Any = MemberToRemove
_PRODUCER: Any = KafkaProducer


class RealCluster:
    """A Kafka cluster at `bootstrap`: HOST:PORT[,HOST:PORT]."""

    def __init__(self, bootstrap: str) -> None:
        self._servers = bootstrap.split(",")
        self._closing = ExitStack()
        self.admin = self._closing.enter_context(_ADMIN(bootstrap_servers=self._servers))
        self._producer: Any = None

    def close(self) -> None:
        self._closing.close()

    def broker_count(self) -> int:
        return len(self.admin.describe_cluster()["brokers"])

    # --- topics

    def topics(self) -> set[str]:
        return set(self._retry(self.admin.list_topics))

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> None:
        count = -1 if partitions is None else partitions
        new = {name: {"num_partitions": count, "replication_factor": -1, "configs": dict(config)}}
        try:
            self.admin.create_topics(new)
        except (kafka_errors.InvalidRequestError, kafka_errors.BrokerResponseError) as error:
            raise ValueError(f"Topic {name}: {error}") from error
        self.admin.wait_for_topics([name], timeout_ms=RETRY_SECONDS * 1000)

    def partitions(self, topic: str) -> int:
        (described,) = self.admin.describe_topics([topic])
        if described["error_code"]:
            raise LookupError(f"Topic {topic} does not exist")
        return len(described["partitions"])

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete existing topics, and wait up to RETRY_SECONDS until they are no longer listed."""
        existing = self.topics() & set(names)
        if existing:
            self.admin.delete_topics(sorted(existing))
            poll(lambda: not existing & self.topics(), RETRY_SECONDS)

    def produce(
        self, topic: str, records: Iterable[tuple[RecordToAppend, int]]
    ) -> list[tuple[int, int]]:
        """Produce each record to its partition. Return the (partition, offset) of each record."""
        if self._producer is None:
            self._producer = _PRODUCER(bootstrap_servers=self._servers, acks="all")
            # After a failed test, pending records need not be sent.
            self._closing.callback(partial(self._producer.close, timeout=0))
        sent = [
            self._producer.send(
                topic,
                key=each.key,
                value=each.value,
                headers=list(each.headers),
                partition=partition,
                timestamp_ms=each.timestamp_ms,
            )
            for each, partition in records
        ]
        self._producer.flush()
        return [(done.partition, done.offset) for done in (each.get() for each in sent)]

    def records(
        self, topic: str, partitions: Iterable[int], *, read_committed: bool = False
    ) -> list[StoredRecord]:
        """Return all records, partition by partition."""
        found: list[StoredRecord] = []
        isolation = "read_committed" if read_committed else "read_uncommitted"
        with self._consumer(isolation_level=isolation) as consumer:
            for partition in (TopicPartition(topic, index) for index in partitions):
                end = consumer.end_offsets([partition])[partition]
                consumer.assign([partition])
                consumer.seek_to_beginning(partition)
                while consumer.position(partition) < end:
                    for read in consumer.poll(timeout_ms=1_000).values():
                        found += [_stored_record(each) for each in read]
        return found

    def bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        """Return the log start offset and log end offset of a partition (None: all partitions)."""
        indexes = range(self.partitions(topic)) if partition is None else (partition,)
        partitions = [TopicPartition(topic, index) for index in indexes]
        with self._consumer() as consumer:
            starts = consumer.beginning_offsets(partitions)
            ends = consumer.end_offsets(partitions)
        return {each.partition: (int(starts[each]), int(ends[each])) for each in partitions}

    # --- groups

    def groups(self) -> set[str]:
        """Return all classic groups and consumer groups."""
        return {each for each, type_ in self._group_types().items() if type_ in _CONSUMER_TYPES}

    def _group_types(self) -> dict[str, str]:
        """Return the type of each group; before Kafka 3.8, all groups are classic."""
        listed = self._retry(self.admin.list_groups)
        return {each["group_id"]: each.get("group_type") or "classic" for each in listed}

    def describe(self, group: str) -> GroupView | None:
        """Return a group of either protocol; None if it does not exist. Raises ValueError for a
        group of another type, or whose members are not consumers."""

        def describe() -> GroupView | None:
            try:
                described = self.admin.describe_groups([group])[group]
            except ValueError as undecodable:  # kafka-python decodes all members as consumers
                raise ValueError(
                    f"The members of group {group} are not consumers: tests on a real cluster can "
                    "inspect only groups of consumers"
                ) from undecodable
            # kafka-python returns text instead of the error code: `[Error 69]
            # GroupIdNotFoundError: Group g not found.`
            code = re.match(r"\[Error (-?\d+)\] ", described["error"] or "")
            error = None if code is None else _ERROR_CLASS(int(code[1]))
            if error not in (None, _NOT_FOUND):
                raise error(described["error"])
            # Before Kafka 4.0 a group of another type is Dead.
            if error is None and described["group_state"] != "Dead":
                return DescribedClassicGroup(described)
            return self._describe_consumer_group(group)

        return self._retry(describe)

    def _describe_consumer_group(self, group: str) -> GroupView | None:
        described = describe_consumer_group(self.admin, group)
        if described is not None:
            error = _ERROR_CLASS(described["error_code"])
            if error is kafka_errors.NoError:
                return DescribedConsumerGroup(described)
            if error is not _NOT_FOUND:
                raise error(described["error_message"])
        type_ = self._group_types().get(group)
        if type_ is None:
            return None
        if type_ in _CONSUMER_TYPES:  # the group was created or converted in the meantime
            raise kafka_errors.NotCoordinatorError
        raise ValueError(
            f"Group {group} is a {type_} group: tests on a real cluster can inspect only classic "
            "groups and consumer groups"
        )

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return all committed offsets."""
        found = self._retry(lambda: self.admin.list_group_offsets([group])).get(group, {})
        return {
            (partition.topic, int(partition.partition)): int(committed.offset)
            for partition, committed in found.items()
            if committed.offset >= 0
        }

    def belongs_to_test(self, group: str, topics: Set[str]) -> bool:
        """Whether the group uses only these topics, or has neither offsets nor members."""
        try:
            view = self.describe(group)
        except ValueError:  # such as a group of Kafka Connect
            return False
        used = {topic for topic, _ in self.offsets(group)}
        if view is not None:
            used |= {topic for each in view.members for topic, _ in each.partitions + each.revoking}
        is_unused = view is None or view.state in ("Empty", "Dead")
        return used <= topics and (bool(used) or is_unused)

    def delete_groups(self, names: Iterable[str]) -> None:
        """Delete existing groups. Warns about groups that still have members."""
        for name in sorted(self.groups() & set(names)):
            if poll(partial(self._is_deleted, name), LEAVE_SECONDS) is None:
                warnings.warn(
                    f"group {name} was not deleted from {','.join(self._servers)}, because it has "
                    "members: a test must close its consumers",
                    stacklevel=2,
                )

    def _is_deleted(self, group: str) -> bool:
        if self._retry(lambda: self.admin.delete_groups([group])[group]) in _DELETED:
            return True
        # Static members do not leave when they are closed (KIP-345).
        try:
            view = self.describe(group)
        except ValueError:  # they are not consumers
            return False
        names = [each.instance_id for each in view.members if each.instance_id] if view else []
        static = [_MEMBER_TO_REMOVE(group_instance_id=name) for name in names]
        self._retry(lambda: self.admin.remove_group_members(group, static))
        return False

    def _retry(self, call: Callable[[], T]) -> T:
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                return call()
            except kafka_errors.KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
                forget_coordinators(self.admin)
            time.sleep(POLL_SECONDS)

    def _consumer(self, **config: str) -> Any:
        consumer = _CONSUMER(bootstrap_servers=self._servers, enable_auto_commit=False, **config)
        return closing(consumer)


def _stored_record(record: Any) -> StoredRecord:
    headers = tuple(record.headers)
    return StoredRecord(
        record.offset, record.timestamp, record.key, record.value, headers, record.partition
    )
