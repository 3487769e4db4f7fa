"""`RealKafka`: a real Kafka cluster with the interface of `Kafka` (backend.py selects it).

The topics and groups that a test names must not exist before the test, and are deleted at its end.
Other groups that are created during the test are also deleted, unless they use other topics. Topics
that a client creates on its own are not deleted.

A real cluster has no virtual clock, faults, history or disk, so the first use of one of these skips
the test with a reason. A wait polls the group's description. Classic groups have neither a
generation nor a leader here, because DescribeGroups does not return them. Partitions that a member
of a consumer group owns outside its target assignment count as being revoked.
"""

import hashlib
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NoReturn, Self, TypeVar
from unittest import SkipTest

from ..suggestions import did_you_mean
from .aio import AsyncGroup, AsyncKafka, awaited
from .client_checks import ClientChecks
from .deadline import poll
from .group import Group
from .group_view import GroupView, Member
from .kafka import Kafka
from .kafka_python.cluster import RETRY_SECONDS, RealCluster
from .kafka_python.group_views import UNKNOWN
from .loop_thread import TIMEOUT_SECONDS, check_callable, check_may_block, is_true, timed_out
from .presets import Config, config_texts
from .topic import (
    Headers,
    StoredRecord,
    Topic,
    Values,
    check_partitions,
    choose_partitions,
    new_records,
)

T = TypeVar("T")

# The attributes of a Kafka: its methods and properties, and those set in __init__.
_ATTRIBUTES = frozenset({*dir(Kafka), "clock", "disk", "faults", "fake_members", "client_checks"})


SKIPPED = "which only a kohort broker has"


def skip(what: str, why: str = SKIPPED) -> NoReturn:
    """Skip the current pytest or unittest test with a reason."""
    raise SkipTest(f"the test uses {what}, {why}")


class _Turn:
    """A lock that makes tests in parallel processes (pytest-xdist) take turns on the cluster,
    because they may use the same topic and group names. The turns of one test may overlap."""

    def __init__(self) -> None:
        self._users = 0
        self._file: IO[str] | None = None

    def begin(self, servers: str) -> None:
        if self._users == 0 and sys.platform != "win32":  # no fcntl: see docs/not-implemented.md
            import fcntl

            name = f"kohort-{hashlib.sha256(servers.encode()).hexdigest()[:16]}.lock"
            self._file = (Path(tempfile.gettempdir()) / name).open("w")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._users += 1

    def end(self) -> None:
        self._users -= 1
        if self._users == 0 and self._file is not None:
            self._file.close()


_turn = _Turn()


# Attributes whose use skips the test. Otherwise, the reason would name an internal attribute that
# their implementation uses.
_SKIPPED_OF_KAFKA = frozenset({"fake_member", "security", "transactions", "wait_request"})


class _NoHost:
    """A replacement for BrokerHost. Using it skips the test."""

    def __getattr__(self, name: str) -> NoReturn:
        is_internal = name in ("run", "call") or not hasattr(Kafka, name)
        skip("broker internals" if is_internal else f"kafka.{name}")


class RealKafka(Kafka):
    """The Kafka cluster at `bootstrap_servers`. A test that uses a part of the harness that a real
    cluster lacks is skipped."""

    def __getattribute__(self, name: str) -> Any:
        if name in _SKIPPED_OF_KAFKA:
            skip(f"kafka.{name}")
        return super().__getattribute__(name)

    def __init__(self, bootstrap_servers: str, *, nodes: int = 1) -> None:
        self._host: Any = _NoHost()
        self._servers = bootstrap_servers
        self._nodes = nodes
        self._groups_of_test: set[str] = set()
        self._topics_of_test: set[str] = set()
        self._closing = ExitStack()

    def __getattr__(self, name: str) -> NoReturn:
        # Only attributes of Kafka skip the test; a mistyped name is an error.
        if name not in _ATTRIBUTES:
            hint = did_you_mean(name, _ATTRIBUTES)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")
        skip(f"kafka.{name}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self._servers}>"

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        with ExitStack() as closing:
            _turn.begin(self._servers)
            closing.callback(_turn.end)
            self.cluster = RealCluster(self._servers)
            closing.callback(self.cluster.close)
            if (brokers := self.cluster.broker_count()) < self._nodes:
                has = f"{brokers} broker{'s' * (brokers != 1)}"
                skip(f"Kafka(nodes={self._nodes})", f"but the cluster has {has}")
            self.client_checks = RealClientChecks(self._host)
            self._topics_before = self.cluster.topics()
            self._groups_before = self.cluster.groups()
            closing.callback(self.reset)
            self._closing = closing.pop_all()
        return self

    def stop(self) -> None:
        """Delete everything that the test has created, and disconnect."""
        self._closing.close()

    def reset(self) -> None:
        """Delete everything that the test has created so far."""
        topics, self._topics_of_test = self._topics_of_test, set()
        groups, self._groups_of_test = self._groups_of_test, set()
        try:
            new = self.cluster.groups() - self._groups_before - groups
            # New groups that the test did not name, such as those of a service under test, unless
            # they use other topics.
            own = {each for each in new if self.cluster.belongs_to_test(each, topics)}
            self.cluster.delete_groups(own | groups)
        finally:
            self.cluster.delete_topics(topics)

    @property
    def bootstrap_servers(self) -> str:
        return self._servers

    def topic(
        self, name: str, partitions: int | None = None, config: Config | None = None
    ) -> "RealTopic":
        if name in self._topics_before:
            hint = "an earlier test may have created it without kafka.topic"
            raise ValueError(_existed_before(f"topic {name}", hint))
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
            hint = "a consumer of an earlier test may still be open"
            raise ValueError(_existed_before(f"group {group_id}", hint))
        self._groups_of_test.add(group_id)

    @property
    def groups(self) -> list[Group]:
        """Groups that did not exist before the test."""
        names = sorted(self.cluster.groups() - self._groups_before)
        return [RealGroup(self.cluster, name) for name in names]

    def wait(
        self,
        condition: Callable[[], object],
        description: str = "the condition",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Poll until `condition()` is true."""
        check_may_block()
        check_callable(condition, description)
        if not poll(lambda: is_true(condition), timeout):
            raise timed_out(timeout, description)


def _existed_before(what: str, hint: str) -> str:
    return (
        f"{what} existed before the test, and would be deleted at the end of the test: delete it, "
        f"or use another name ({hint})"
    )


class RealClientChecks(ClientChecks):
    """Accepts `ignore`. A test that reads findings is skipped."""

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

    def records(
        self, partition: int | None = None, *, read_committed: bool = False
    ) -> list[StoredRecord]:
        indexes = range(self.partitions) if partition is None else (partition,)
        return self._cluster.records(self.name, indexes, read_committed=read_committed)

    def start_offset(self, partition: int) -> int:
        return self._cluster.bounds(self.name, partition)[partition][0]

    def end_offset(self, partition: int) -> int:
        return self._cluster.bounds(self.name, partition)[partition][1]

    def add_partitions(self, total: int) -> None:
        self._cluster.admin.create_partitions({self.name: total})
        poll(lambda: self.partitions == total, RETRY_SECONDS)

    def delete(self) -> None:
        self._cluster.delete_topics([self.name])


# Methods that control a group, and properties that only its coordinator knows.
_SKIPPED_OF_GROUP = frozenset(
    {
        *("rebalance", "lead", "expire", "fence", "evict", "loading", "move_to", "node_id"),
        *("hold_joins", "hold_syncs", "hold_heartbeats", "hold_assignment"),
        *("commits", "generations", "assignments", "exits", "explain"),
    }
)


class RealGroup(Group):
    def __getattribute__(self, name: str) -> Any:
        if name in _SKIPPED_OF_GROUP:
            skip(f"group.{name}")
        return super().__getattribute__(name)

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
            state = self._view or "does not exist"
            what = f"group {self.group_id} {what}"
            raise timed_out(timeout, what, f"Group {self.group_id} {state}")
        return result

    def _call(self, function: Callable[[], T]) -> T:
        return function()

    _written = _call

    def _is_write_pending(self) -> bool:
        return False  # a response contains only durable offsets

    @property
    def _view(self) -> GroupView | None:
        return self._cluster.describe(self.group_id)

    def _state(self) -> str:
        return "Dead" if (view := self._view) is None else view.state

    def _generation(self) -> int:
        return _known(super()._generation())

    def _epoch_of(self, member: Member) -> int:
        return _known(member.epoch)

    def _committed(self, topic: str, partition: int) -> int | None:
        return self._offsets().get((topic, partition))

    def _offsets(self) -> dict[tuple[str, int], int]:
        return self._cluster.offsets(self.group_id)

    def _bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        return self._cluster.bounds(topic, partition)


def _known(epoch: int) -> int:
    if epoch == UNKNOWN:
        skip("the generation of a classic group")
    return epoch


class AsyncRealGroup(AsyncGroup, RealGroup):
    """An AsyncGroup of a real cluster."""


class AsyncRealKafka(AsyncKafka, RealKafka):
    """An AsyncKafka for a real cluster."""

    groups: list[AsyncGroup]  # type: ignore[assignment]

    wait = awaited(RealKafka.wait)  # type: ignore[assignment]

    def group(self, group_id: str) -> AsyncRealGroup:
        self.add_group(group_id)
        return AsyncRealGroup(self.cluster, group_id)
