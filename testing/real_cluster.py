"""A real Kafka, through kafka-python: what tests put into it, what it tells, what they leave.

Nothing tells when something has happened there, so who waits asks again and again. Errors of
kafka-python come through, but for those that pass: they are waited out.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeVar

try:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import MemberToRemove
except ImportError as error:
    complaint = "tests on a real cluster need kafka-python 3: pip install 'kafka-python>=3'"
    raise ImportError(complaint) from error

from .described import describe_error
from .topic import StoredRecord, Wanted

T = TypeVar("T")

# Between two questions of who waits.
POLL_SECONDS = 0.05
# What passes by itself (a coordinator that moves, the first use of __consumer_offsets, a topic on
# its way to all brokers) does so within a few seconds.
PATIENCE_SECONDS = 15.0
# A consumer that was closed has left within that; one that was not stays for its session.
LEAVE_SECONDS = 5.0

_GONE = ("OK", "GroupIdNotFoundError")

# kafka-python is not typed as its callers need it.
_ADMIN: Any = KafkaAdminClient
_CONSUMER: Any = KafkaConsumer
_ERROR_OF: Any = kafka_errors.for_code
_LEAVER: Any = MemberToRemove
_PRODUCER: Any = KafkaProducer


class RealCluster:
    """`bootstrap`: HOST:PORT[,HOST:PORT]."""

    def __init__(self, bootstrap: str) -> None:
        self._servers = bootstrap.split(",")
        self._closing = ExitStack()
        self._admin = self._closing.enter_context(_ADMIN(bootstrap_servers=self._servers))
        self._producer: Any = None

    def close(self) -> None:
        self._closing.close()

    # --- topics

    def topics(self) -> set[str]:
        return set(self._ask(self._admin.list_topics))

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, str]) -> None:
        count = -1 if partitions is None else partitions
        told = {name: {"num_partitions": count, "replication_factor": -1, "configs": dict(config)}}
        try:
            self._admin.create_topics(told)
        except (kafka_errors.InvalidRequestError, kafka_errors.BrokerResponseError) as error:
            raise ValueError(f"topic {name}: {error}") from error
        self._admin.wait_for_topics([name], timeout_ms=PATIENCE_SECONDS * 1000)

    def partitions(self, topic: str) -> int:
        (told,) = self._admin.describe_topics([topic])
        if told["error_code"]:
            raise LookupError(f"there is no topic {topic}")
        return len(told["partitions"])

    def grow(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total})
        until(lambda: self.partitions(topic) == total, PATIENCE_SECONDS)

    def delete_topics(self, names: Iterable[str]) -> None:
        """And wait until nobody sees them any more."""
        going = self.topics() & set(names)
        if going:
            self._admin.delete_topics(sorted(going))
            until(lambda: not going & self.topics(), PATIENCE_SECONDS)

    def produce(self, topic: str, records: Iterable[tuple[Wanted, int]]) -> list[tuple[int, int]]:
        """Each to its partition -> (partition, offset) of each."""
        if self._producer is None:
            self._producer = _PRODUCER(bootstrap_servers=self._servers, acks="all")
            # What is under way when a test has failed need not arrive any more.
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

    def records(self, topic: str, partitions: Iterable[int]) -> list[StoredRecord]:
        """All that is there now, one partition after the other."""
        found: list[StoredRecord] = []
        with self._consumer() as consumer:
            for place in (TopicPartition(topic, index) for index in partitions):
                end = consumer.end_offsets([place])[place]
                consumer.assign([place])
                consumer.seek_to_beginning(place)
                while consumer.position(place) < end:
                    for read in consumer.poll(timeout_ms=1_000).values():
                        found += [_record(each) for each in read]
        return found

    def bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        """Partition (None: each) -> its first offset, and that of the next record."""
        indexes = range(self.partitions(topic)) if partition is None else (partition,)
        places = [TopicPartition(topic, index) for index in indexes]
        with self._consumer() as consumer:
            starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        return {each.partition: (int(starts[each]), int(ends[each])) for each in places}

    # --- groups

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._ask(self._admin.list_groups)}

    def describe(self, group: str) -> dict[str, Any]:
        """`group_state` (Dead where there is none) and `members`, as DescribeGroups has them."""

        def told() -> dict[str, Any]:
            told: dict[str, Any] = self._admin.describe_groups([group])[group]
            error = describe_error(told["error"])
            if error is None:
                return told
            kind = _ERROR_OF(error.code)
            if kind is kafka_errors.GroupIdNotFoundError:  # since Kafka 4.0
                return {"group_state": "Dead", "members": []}
            raise kind(error.message)

        return self._ask(told)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        place = TopicPartition(topic, partition)
        found = self._ask(lambda: self._admin.list_group_offsets({group: [place]}))
        told = found.get(group, {}).get(place)
        return None if told is None or told.offset < 0 else int(told.offset)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        found = self._ask(lambda: self._admin.list_group_offsets([group])).get(group, {})
        return {
            (place.topic, int(place.partition)): int(told.offset)
            for place, told in found.items()
            if told.offset >= 0
        }

    def is_left_over(self, group: str, topics: Set[str]) -> bool:
        """Whether it has to do with these topics alone; or with none, and nobody is in it."""
        told = self.describe(group)
        used = {topic for topic, _ in self.offsets(group)}
        used |= {topic for member in told["members"] for topic, _ in partitions_of(member)}
        return used <= topics and (bool(used) or told["group_state"] in ("Empty", "Dead"))

    def delete_groups(self, names: Iterable[str]) -> None:
        """Those that are there. Warns of one whose members stay."""
        for name in sorted(self.groups() & set(names)):
            if until(partial(self._is_deleted, name), LEAVE_SECONDS) is None:
                warnings.warn(
                    f"group {name} stays on {','.join(self._servers)}: its members have not left; "
                    "a test has to close its consumers",
                    stacklevel=2,
                )

    def _is_deleted(self, group: str) -> bool:
        if self._ask(lambda: self._admin.delete_groups([group])[group]) in _GONE:
            return True
        # Static members do not leave when they are closed (KIP-345).
        members = self.describe(group)["members"]
        names = [name for each in members if (name := each["group_instance_id"]) is not None]
        stayed = [_LEAVER(group_instance_id=name) for name in names]
        self._ask(lambda: self._admin.remove_group_members(group, stayed))
        return False

    def _ask(self, what: Callable[[], T]) -> T:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return what()
            except kafka_errors.KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def _consumer(self) -> Any:
        return closing(_CONSUMER(bootstrap_servers=self._servers, enable_auto_commit=False))


def until(check: Callable[[], T | None], seconds: float) -> T | None:
    """The first answer of `check` that is neither None nor False; None when time is up."""
    deadline = time.monotonic() + seconds
    while (found := check()) is None or found is False:
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return found


def partitions_of(member: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """What a member of `describe` was assigned."""
    return _places(member["member_assignment"], "assigned_partitions")


def owned_by(member: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """What it had when it joined, as it said."""
    return _places(member["member_metadata"], "owned_partitions")


def _places(said: Any, name: str) -> Iterator[tuple[str, int]]:
    # Empty bytes while the group has no assignment, or where it is no ConsumerProtocol.
    for topic in (said.get(name) or ()) if isinstance(said, dict) else ():
        for index in topic["partitions"]:
            yield topic["topic"], index


def _record(each: Any) -> StoredRecord:
    headers = tuple(each.headers)
    return StoredRecord(each.offset, each.timestamp, each.key, each.value, headers, each.partition)
