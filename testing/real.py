"""The same tests on a real cluster (where.py says when).

A test sees a clean view of it: the topics and the groups that it asks for must not be there before,
and are deleted at its end, with the groups that came meanwhile and have offsets of those topics
alone. Topics that only a client makes are left where they are.

What steers a broker (its clock, faults, history, disk, …) cannot be done to a real one: the first
use skips the test and says so. Groups are told and waited for by polling DescribeGroups, so only
those of the classic protocol; that knows neither generation nor leader.
"""

from collections.abc import Callable, Coroutine, Mapping
from itertools import cycle
from typing import Any, NoReturn, Self, TypeVar

from .aio import AsyncGroup, AsyncKafka, awaited
from .asked import TopicPartition
from .doctor import Doctor
from .group import Group
from .kafka import Kafka
from .life import Life
from .members import Member
from .presets import Config, texts_of
from .real_cluster import RealCluster, owned_by, partitions_of, until
from .topic import Headers, StoredRecord, Topic, Values, check_partitions, new_records
from .waiting import TIMEOUT_SECONDS, BarrierTimeout, is_met, may_wait
from .where import skip

T = TypeVar("T")


class RealKafka(Kafka):
    """What can be had of the Kafka at `bootstrap_servers`. A part of the harness that this does not
    have skips the test."""

    def __init__(self, bootstrap_servers: str) -> None:
        # Nothing of Kafka's own: what is missed here is skipped (__getattr__).
        self._servers = bootstrap_servers
        self._touched: set[str] = set()
        self._topics: set[str] = set()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        skip(f"kafka.{name}")

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        self.cluster = RealCluster(self._servers)
        self.doctor = RealDoctor(self)
        self._topics_before = self.cluster.topics()
        self._groups_before = self.cluster.groups()
        return self

    def stop(self) -> None:
        """What the test made is deleted."""
        try:
            self._clean()
        finally:
            self.cluster.close()

    def reset(self) -> None:
        """What the test has made so far is deleted."""
        self._clean()

    def _clean(self) -> None:
        came = self.cluster.groups() - self._groups_before - self._touched
        # That of a service which the test did not name. Somebody else's has offsets elsewhere.
        ours = {each for each in came if self.cluster.is_left_over(each, self._topics)}
        topics, self._topics = self._topics, set()
        ours, self._touched = ours | self._touched, set()
        try:
            self.cluster.delete_groups(ours)
        finally:
            self.cluster.delete_topics(topics)

    @property
    def bootstrap_servers(self) -> str:
        return self._servers

    def topic(
        self, name: str, partitions: int | None = None, config: Config | None = None
    ) -> "RealTopic":
        if name in self._topics_before:
            raise ValueError(_there_before(f"topic {name}"))
        topic = RealTopic(self, name)
        if name in self.cluster.topics():
            check_partitions(name, topic.partitions, partitions)
        else:
            self.cluster.create_topic(name, partitions, texts_of(config or {}))
        self._topics.add(name)
        return topic

    def group(self, group_id: str) -> "RealGroup":
        self.touch(group_id)
        return RealGroup(self, group_id)

    def touch(self, group_id: str) -> None:
        if group_id in self._groups_before:
            raise ValueError(_there_before(f"group {group_id}"))
        self._touched.add(group_id)

    @property
    def groups(self) -> list[Group]:
        """Those that were not there before the test."""
        return [self.group(name) for name in sorted(self.cluster.groups() - self._groups_before)]

    def wait(
        self,
        condition: Callable[[], object],
        what: str = "its condition",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Until `condition()` is true; it is asked again and again."""
        may_wait()
        if not until(lambda: is_met(condition), timeout):
            raise BarrierTimeout(f"{what} was waited for {timeout:g} s, in vain")

    def run(self, awaitable: Coroutine[Any, Any, T], seconds: float = 0) -> T:  # noqa: ARG002
        awaitable.close()
        skip("this test")

    def ask(self, what: object) -> NoReturn:  # noqa: ARG002
        skip("this test")

    def change(self, what: object) -> NoReturn:  # noqa: ARG002
        skip("this test")


def _unsteered(name: str) -> property:
    def steered(_: RealKafka) -> NoReturn:
        skip(f"kafka.{name}")

    return property(steered)


for _name in (name for name in vars(Life) if not name.startswith("_")):
    setattr(RealKafka, _name, _unsteered(_name))


class RealDoctor(Doctor):
    """Finds nothing, and so may be told what to ignore."""

    @property
    def findings(self) -> NoReturn:
        skip("kafka.doctor.findings")

    @property
    def left_open(self) -> NoReturn:
        skip("kafka.doctor.left_open")


class RealTopic(Topic):
    _kafka: RealKafka

    @property
    def partitions(self) -> int:
        return self._kafka.cluster.partitions(self.name)

    def produce(
        self,
        values: Values,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        wanted = new_records(values, headers, timestamp_ms)
        turn = cycle(range(self.partitions) if partition is None else (partition,))
        return self._kafka.cluster.produce(self.name, [(each, next(turn)) for each in wanted])

    def records(self, partition: int | None = None) -> list[StoredRecord]:
        indexes = range(self.partitions) if partition is None else (partition,)
        return self._kafka.cluster.records(self.name, indexes)

    def start_offset(self, partition: int) -> int:
        return self._kafka.cluster.bounds(self.name, partition)[partition][0]

    def end_offset(self, partition: int) -> int:
        return self._kafka.cluster.bounds(self.name, partition)[partition][1]

    def add_partitions(self, total: int) -> None:
        self._kafka.cluster.grow(self.name, total)

    def delete(self) -> None:
        self._kafka.cluster.delete_topics([self.name])


class RealGroup(Group):
    kafka: RealKafka

    def __repr__(self) -> str:
        return f"<group {self.group_id}>"

    def _wait(
        self,
        check: Callable[[], T | None],
        what: str,
        timeout: float,
        place: TopicPartition | None = None,  # noqa: ARG002
        who: str | None = None,  # noqa: ARG002
    ) -> T:
        may_wait()
        found = until(check, timeout)
        if found is None:
            raise BarrierTimeout(
                f"{self.group_id} was waited for {timeout:g} s {what}, in vain.\n{self._tell()}"
            )
        return found

    def _look(self, what: Callable[[], T]) -> T:
        return what()

    _safely = _look

    def _is_being_written(self) -> bool:
        return False  # What it tells is.

    def _state(self) -> str:
        return str(self._described()["group_state"])

    def _generation(self) -> int:
        skip("the generation of a group")

    def _is_stable(self, members: int | None) -> bool:
        told = self._described()
        # Kafka is Stable once the leader has synced; the others have theirs within a moment.
        if told["group_state"] != "Stable" or members not in (None, len(told["members"])):
            return False
        owned = {place for each in told["members"] for place in owned_by(each)}
        # What nobody was assigned is given up first: another round follows (members.given_back).
        return owned <= {place for each in told["members"] for place in partitions_of(each)}

    def _members(self) -> list[Member]:
        return [_member(each) for each in self._described()["members"]]

    def _committed(self, topic: str, partition: int) -> int | None:
        return self.kafka.cluster.committed(self.group_id, topic, partition)

    def _offsets(self) -> dict[TopicPartition, int]:
        return self.kafka.cluster.offsets(self.group_id)

    def _bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        return self.kafka.cluster.bounds(topic, partition)

    def _tell(self) -> str:
        told = self._described()
        members = [f"  {each}" for each in map(_member, told["members"])]
        return "\n".join([f"{self.group_id} is {told['group_state']}", *members])

    def _described(self) -> dict[str, Any]:
        return self.kafka.cluster.describe(self.group_id)


class AsyncRealGroup(AsyncGroup, RealGroup):
    """An AsyncGroup of a real cluster."""


class AsyncRealKafka(AsyncKafka, RealKafka):
    """An AsyncKafka that is a real cluster."""

    groups: list[AsyncGroup]  # type: ignore[assignment]

    wait = awaited(RealKafka.wait)  # type: ignore[assignment]

    def group(self, group_id: str) -> AsyncRealGroup:
        self.touch(group_id)
        return AsyncRealGroup(self, group_id)


def _member(told: Mapping[str, Any]) -> Member:
    return Member(
        told["member_id"],
        told.get("group_instance_id"),
        told["client_id"],
        told["client_host"],
        False,
        tuple(partitions_of(told)),
    )


def _there_before(what: str) -> str:
    return f"{what} was there before the test, which would not see a clean view, and delete it"
