"""The same tests on a real Kafka cluster (backend.py decides).

Each test starts clean: topics and groups that it names must not exist before, and are deleted at
its end, along with groups created in the meantime that have offsets of those topics only. Topics
that a client creates on its own are not deleted.

A real cluster has no virtual clock, faults, history or disk: the first use of them skips the test
with a reason. Groups are polled with DescribeGroups: only classic groups are supported, without
generation and leader. All access is through kafka-python, whose errors are passed on, except for
retriable ones.
"""

import hashlib
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import IO, Any, NoReturn, Self, TypeVar
from unittest import SkipTest

try:
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.admin import MemberToRemove
except ImportError as error:
    raise ImportError(
        "tests on a real cluster need kafka-python 3: pip install 'kafka-python>=3'"
    ) from error

from ..suggestions import did_you_mean
from .aio import AsyncGroup, AsyncKafka, awaited
from .client_checks import ClientChecks
from .group import Group
from .group_view import Member
from .kafka import Kafka
from .loop_thread import TIMEOUT_SECONDS, check_callable, check_may_block, is_true, timed_out
from .presets import Config, config_texts
from .topic import (
    Headers,
    RecordToAppend,
    StoredRecord,
    Topic,
    Values,
    check_partitions,
    choose_partitions,
    new_records,
)

T = TypeVar("T")

POLL_SECONDS = 0.05
# Transient errors (a moving coordinator, the first use of __consumer_offsets, a topic that is not
# yet known to all brokers) end within a few seconds.
RETRY_SECONDS = 15.0
# A closed consumer has left within that time; an unclosed one stays for its session.
LEAVE_SECONDS = 5.0

_DELETED = ("OK", "GroupIdNotFoundError")

# kafka-python is not fully typed.
_ADMIN: Any = KafkaAdminClient
_CONSUMER: Any = KafkaConsumer
_ERROR_CLASS: Any = kafka_errors.for_code
_MEMBER_TO_REMOVE: Any = MemberToRemove
_PRODUCER: Any = KafkaProducer


# Of a Kafka: its methods and properties, and what its __init__ sets.
_ATTRIBUTES = frozenset({*dir(Kafka), "clock", "disk", "faults", "fake_members", "client_checks"})


SKIPPED = "which only a broker of kohort has"


def skip(what: str) -> NoReturn:
    """Skip the test, of pytest or unittest, with a reason."""
    raise SkipTest(f"the test uses {what}, {SKIPPED}")


class _Turn:
    """Tests of parallel processes (pytest-xdist) use the cluster in turn: they name the same topics
    and groups. A test may use it several times at once."""

    def __init__(self) -> None:
        self._users = 0
        self._file: IO[str] | None = None

    def begin(self, servers: str) -> None:
        self._users += 1
        if self._users == 1:
            if sys.platform == "win32":  # has no fcntl: see docs/not-implemented.md
                return
            import fcntl

            name = f"kohort-{hashlib.sha256(servers.encode()).hexdigest()[:16]}.lock"
            self._file = (Path(tempfile.gettempdir()) / name).open("w")
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def end(self) -> None:
        self._users -= 1
        if self._users == 0 and self._file is not None:
            self._file.close()


_turn = _Turn()


class _NoHost:
    """Takes the place of the BrokerHost."""

    def __getattr__(self, name: str) -> NoReturn:
        is_internal = name in ("run", "call") or not hasattr(Kafka, name)
        skip("the inside of a broker" if is_internal else f"kafka.{name}")


class RealKafka(Kafka):
    """The Kafka cluster at `bootstrap_servers`. Using parts of the harness that it lacks skips the
    test."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._host: Any = _NoHost()
        self._servers = bootstrap_servers
        self._groups_of_test: set[str] = set()
        self._topics_of_test: set[str] = set()

    def __getattr__(self, name: str) -> NoReturn:
        # Only an attribute that a Kafka has skips the test; a mistyped name must not.
        if name not in _ATTRIBUTES:
            hint = did_you_mean(name, _ATTRIBUTES)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")
        skip(f"kafka.{name}")

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        _turn.begin(self._servers)
        try:
            self.cluster = RealCluster(self._servers)
            self.client_checks = RealClientChecks(self._host, ())
            self._topics_before = self.cluster.topics()
            self._groups_before = self.cluster.groups()
        except BaseException:
            _turn.end()
            raise
        return self

    def stop(self) -> None:
        """Delete everything the test has created."""
        try:
            self.reset()
        finally:
            self.cluster.close()
            _turn.end()

    def reset(self) -> None:
        """Delete everything the test has created so far."""
        new = self.cluster.groups() - self._groups_before - self._groups_of_test
        # New groups that the test did not name, such as a service's, unless they use other topics.
        own = {each for each in new if self.cluster.belongs_to_test(each, self._topics_of_test)}
        topics, self._topics_of_test = self._topics_of_test, set()
        groups, self._groups_of_test = own | self._groups_of_test, set()
        try:
            self.cluster.delete_groups(groups)
        finally:
            self.cluster.delete_topics(topics)

    @property
    def bootstrap_servers(self) -> str:
        return self._servers

    def topic(
        self, name: str, partitions: int | None = None, config: Config | None = None
    ) -> "RealTopic":
        if name in self._topics_before:
            raise ValueError(_existed_before(f"topic {name}"))
        topic = RealTopic(self.cluster, name)
        if name in self.cluster.topics():
            check_partitions(name, topic.partitions, partitions)
        else:
            self.cluster.create_topic(name, partitions, config_texts(config or {}))
        self._topics_of_test.add(name)
        return topic

    @property
    def topics(self) -> list[Topic]:
        """Topics that did not exist before the test."""
        names = sorted(self.cluster.topics() - self._topics_before)
        return [RealTopic(self.cluster, each) for each in names]

    def group(self, group_id: str) -> "RealGroup":
        self.add_group(group_id)
        return RealGroup(self.cluster, group_id)

    def add_group(self, group_id: str) -> None:
        """Register a group that the test names."""
        if group_id in self._groups_before:
            raise ValueError(_existed_before(f"group {group_id}"))
        self._groups_of_test.add(group_id)

    @property
    def groups(self) -> list[Group]:
        """Groups that did not exist before the test."""
        return [self.group(name) for name in sorted(self.cluster.groups() - self._groups_before)]

    def wait(
        self,
        condition: Callable[[], object],
        description: str = "the condition",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Wait until `condition()` is true, by polling."""
        check_may_block()
        check_callable(condition)
        if not poll(lambda: is_true(condition), timeout):
            raise timed_out(timeout, description)


def _existed_before(what: str) -> str:
    return f"{what} existed before the test, and would be deleted at the end of the test"


class RealClientChecks(ClientChecks):
    """Never has findings, so that tests may ignore some."""

    @property
    def findings(self) -> NoReturn:
        skip("kafka.client_checks.findings")

    @property
    def left_open(self) -> NoReturn:
        skip("kafka.client_checks.left_open")


class RealTopic(Topic):
    def __init__(self, cluster: "RealCluster", name: str) -> None:
        self._cluster = cluster
        self.name = name

    @property
    def partitions(self) -> int:
        return self._cluster.partitions(self.name)

    def produce(
        self,
        values: Values,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        records = new_records(values, headers, timestamp_ms)
        count = self.partitions if partition is None else 0
        indexes = choose_partitions(records, count, partition)
        return self._cluster.produce(self.name, zip(records, indexes, strict=True))

    def records(self, partition: int | None = None) -> list[StoredRecord]:
        indexes = range(self.partitions) if partition is None else (partition,)
        return self._cluster.records(self.name, indexes)

    def start_offset(self, partition: int) -> int:
        return self._cluster.bounds(self.name, partition)[partition][0]

    def end_offset(self, partition: int) -> int:
        return self._cluster.bounds(self.name, partition)[partition][1]

    def add_partitions(self, total: int) -> None:
        self._cluster.admin.create_partitions({self.name: total})
        poll(lambda: self.partitions == total, RETRY_SECONDS)

    def delete(self) -> None:
        self._cluster.delete_topics([self.name])


class RealGroup(Group):
    def __init__(self, cluster: "RealCluster", group_id: str) -> None:
        super().__init__(_NoHost(), group_id)  # type: ignore[arg-type]
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<Group {self.group_id}>"

    def _wait(
        self,
        check: Callable[[], T | None],
        what: str,
        timeout: float,
        partition: tuple[str, int] | None = None,  # noqa: ARG002
        member: str | None = None,  # noqa: ARG002
    ) -> T:
        check_may_block()
        result = poll(check, timeout)
        if result is None:
            description = self._describe()
            members = [f"  {each}" for each in map(_member, description["members"])]
            state = f"Group {self.group_id} is {description['group_state']}"
            what = f"group {self.group_id} {what}"
            raise timed_out(timeout, what, "\n".join([state, *members]))
        return result

    def _call(self, function: Callable[[], T]) -> T:
        return function()

    _written = _call

    def _is_write_pending(self) -> bool:
        return False  # a response contains only what has been written

    def _state(self) -> str:
        return str(self._describe()["group_state"])

    def _generation(self) -> int:
        skip("the generation of a group")

    def _is_stable(self, members: int | None) -> bool:
        description = self._describe()
        current = description["members"]
        # Kafka is Stable after the leader's SyncGroup; the others get their assignment soon after.
        if description["group_state"] != "Stable" or members not in (None, len(current)):
            return False
        owned = {partition for each in current for partition in owned_partitions(each)}
        # Partitions that were not assigned are revoked, and the group rebalances again (KIP-429).
        return owned <= {partition for each in current for partition in assigned_partitions(each)}

    def _settled_owner(self, partition: tuple[str, int]) -> Member | None:
        if not self._is_stable(None):
            return None
        return next((each for each in self._members() if partition in each.partitions), None)

    def _members(self) -> list[Member]:
        return [_member(each) for each in self._describe()["members"]]

    def _committed(self, topic: str, partition: int) -> int | None:
        return self._offsets().get((topic, partition))

    def _offsets(self) -> dict[tuple[str, int], int]:
        return self._cluster.offsets(self.group_id)

    def _bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        return self._cluster.bounds(topic, partition)

    def _describe(self) -> dict[str, Any]:
        return self._cluster.describe(self.group_id)


class AsyncRealGroup(AsyncGroup, RealGroup):
    """An AsyncGroup of a real cluster."""


class AsyncRealKafka(AsyncKafka, RealKafka):
    """An AsyncKafka for a real cluster."""

    groups: list[AsyncGroup]  # type: ignore[assignment]

    wait = awaited(RealKafka.wait)  # type: ignore[assignment]

    def group(self, group_id: str) -> AsyncRealGroup:
        self.add_group(group_id)
        return AsyncRealGroup(self.cluster, group_id)


def _member(described: Mapping[str, Any]) -> Member:
    return Member(
        described["member_id"],
        described.get("group_instance_id"),
        described["client_id"],
        described["client_host"],
        False,
        partitions := tuple(assigned_partitions(described)),
        target=partitions,
    )


# --- access through kafka-python


class RealCluster:
    """A Kafka cluster at `bootstrap`: HOST:PORT[,HOST:PORT]."""

    def __init__(self, bootstrap: str) -> None:
        self._servers = bootstrap.split(",")
        self._closing = ExitStack()
        self.admin = self._closing.enter_context(_ADMIN(bootstrap_servers=self._servers))
        self._producer: Any = None

    def close(self) -> None:
        self._closing.close()

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
        """Delete existing topics, and wait until they are no longer listed."""
        existing = self.topics() & set(names)
        if existing:
            self.admin.delete_topics(sorted(existing))
            poll(lambda: not existing & self.topics(), RETRY_SECONDS)

    def produce(
        self, topic: str, records: Iterable[tuple[RecordToAppend, int]]
    ) -> list[tuple[int, int]]:
        """Produce each record to its partition. Return (partition, offset) of each."""
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

    def records(self, topic: str, partitions: Iterable[int]) -> list[StoredRecord]:
        """Return all records, partition by partition."""
        found: list[StoredRecord] = []
        with self._consumer() as consumer:
            for partition in (TopicPartition(topic, index) for index in partitions):
                end = consumer.end_offsets([partition])[partition]
                consumer.assign([partition])
                consumer.seek_to_beginning(partition)
                while consumer.position(partition) < end:
                    for read in consumer.poll(timeout_ms=1_000).values():
                        found += [_stored_record(each) for each in read]
        return found

    def bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        """Partition (None: all) -> log start offset and log end offset."""
        indexes = range(self.partitions(topic)) if partition is None else (partition,)
        partitions = [TopicPartition(topic, index) for index in indexes]
        with self._consumer() as consumer:
            starts = consumer.beginning_offsets(partitions)
            ends = consumer.end_offsets(partitions)
        return {each.partition: (int(starts[each]), int(ends[each])) for each in partitions}

    # --- groups

    def groups(self) -> set[str]:
        return {each["group_id"] for each in self._retry(self.admin.list_groups)}

    def describe(self, group: str) -> dict[str, Any]:
        """Return `group_state` (Dead if it does not exist) and `members`, as in DescribeGroups."""

        def describe() -> dict[str, Any]:
            described: dict[str, Any] = self.admin.describe_groups([group])[group]
            # kafka-python has no code: `[Error 69] GroupIdNotFoundError: Group g not found.`
            error = re.match(r"\[Error (-?\d+)\] ", described["error"] or "")
            if error is None:
                return described
            kind = _ERROR_CLASS(int(error[1]))
            if kind is kafka_errors.GroupIdNotFoundError:  # since Kafka 4.0
                if group in self.groups():
                    raise ValueError(
                        f"Group {group} is not a classic group (group.protocol=classic): tests on "
                        "a real cluster can inspect only those"
                    )
                return {"group_state": "Dead", "members": []}
            raise kind(described["error"])

        return self._retry(describe)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return all committed offsets."""
        found = self._retry(lambda: self.admin.list_group_offsets([group])).get(group, {})
        return {
            (partition.topic, int(partition.partition)): int(committed.offset)
            for partition, committed in found.items()
            if committed.offset >= 0
        }

    def belongs_to_test(self, group: str, topics: Set[str]) -> bool:
        """Whether the group uses only these topics, or has neither topics nor members."""
        described = self.describe(group)
        used = {topic for topic, _ in self.offsets(group)}
        used |= {topic for each in described["members"] for topic, _ in assigned_partitions(each)}
        is_unused = described["group_state"] in ("Empty", "Dead")
        return used <= topics and (bool(used) or is_unused)

    def delete_groups(self, names: Iterable[str]) -> None:
        """Delete existing groups. Warns of groups that still have members."""
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
        members = self.describe(group)["members"]
        names = [name for each in members if (name := each["group_instance_id"]) is not None]
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
            time.sleep(POLL_SECONDS)

    def _consumer(self) -> Any:
        return closing(_CONSUMER(bootstrap_servers=self._servers, enable_auto_commit=False))


def poll(check: Callable[[], T | None], timeout: float) -> T | None:
    """Return the first result of `check` that is neither None nor False; None after the timeout."""
    deadline = time.monotonic() + timeout
    while (result := check()) is None or result is False:
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return result


def assigned_partitions(member: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    return _partitions(member["member_assignment"], "assigned_partitions")


def owned_partitions(member: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the partitions in the subscription of its last JoinGroup."""
    return _partitions(member["member_metadata"], "owned_partitions")


def _partitions(decoded: Any, name: str) -> Iterator[tuple[str, int]]:
    # Empty before the assignment, or if the group does not use the consumer protocol.
    for topic in (decoded.get(name) or ()) if isinstance(decoded, dict) else ():
        for index in topic["partitions"]:
            yield topic["topic"], index


def _stored_record(record: Any) -> StoredRecord:
    headers = tuple(record.headers)
    return StoredRecord(
        record.offset, record.timestamp, record.key, record.value, headers, record.partition
    )
