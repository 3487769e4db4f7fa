"""CPU time of assignments with the assignors of kohort, of the client libraries and of Java."""

import base64
import contextlib
import gc
import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kohort.assignors.client_adapter import by_topic
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.resolve import BUILTIN

from .machine import Setting

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
SUBSCRIPTIONS = ("equal", "different")
SIZES = ((100, 1_000), (300, 3_000), (1_000, 10_000), (1_000, 100_000))
# Maximum wall-clock time of a measurement. A library that takes longer is interrupted, and larger
# groups are skipped.
LIMIT_S = 40.0
REPEATED_BELOW_S = 1.0
KAFKA_JARS = "KOHORT_BENCH_KAFKA_JARS"
KAFKA_PROGRAM = Path(__file__).parents[1] / "tests" / "assignors" / "KafkaAssignors.java"
KAFKA_LIMIT_S = 300.0

TOO_LONG, FAILS = "too long", "fails"

Cell = dict[str, float | str]
TOPICS = 10
Run = Callable[[], Any]


@dataclass(frozen=True)
class Group:
    strategy: str
    topics: Topics
    members: Mapping[str, Subscription]

    def as_json(self) -> str:
        """Return the input of tests/assignors/KafkaAssignors.java."""
        members = {}
        for name, member in self.members.items():
            members[name] = {"topics": member.topics, "owned": member.owned_partitions}
            if member.generation_id is not None:
                members[name]["generation"] = member.generation_id
            if member.user_data is not None:
                members[name]["user_data"] = base64.b64encode(member.user_data).decode()
        sizes = dict(self.topics.partitions)
        return json.dumps({"assignor": self.strategy, "partitions": sizes, "members": members})


def measure(setting: Setting) -> list[Cell]:
    """Return a cell per group: milliseconds by library, or the reason why they are missing."""
    groups = list(_groups(setting))
    gc.freeze()  # so that collections before each measurement skip existing objects
    # To skip larger groups, the time per partition is assumed not to fall with group size.
    least_ms_each: dict[tuple[str, ...], float] = {}
    for cell, group in groups:
        partitions = sum(group.topics.partitions.values())
        for library, make in LIBRARIES.items():
            kind = library, cell["strategy"], cell["subscriptions"], cell["event"]
            run = make(group)
            if run is None:
                continue
            if partitions * least_ms_each.get(kind, 0) > LIMIT_S * 1e3:
                cell[library] = TOO_LONG
                continue
            cell[library] = time_ms = _ms(run, setting.rounds)
            if time_ms != FAILS:
                least_ms = LIMIT_S * 1e3 if time_ms == TOO_LONG else float(time_ms)
                least_ms_each[kind] = least_ms / partitions
    java_times = _java_ms([group for _, group in groups])
    for (cell, _), time_ms in zip(groups, java_times, strict=False):
        cell["Java"] = time_ms
    return [cell for cell, _ in groups]


def _groups(setting: Setting) -> Iterator[tuple[Cell, Group]]:
    """Yield the groups, sorted by size within each kind."""
    for strategy, subscriptions, size in itertools.product(STRATEGIES, SUBSCRIPTIONS, SIZES):
        members, partitions = max(2, setting.scaled(size[0])), setting.scaled(size[1])
        new = new_group(strategy, subscriptions, members, partitions)
        for event, group in (("new group", new), ("one leaves", after_one_left(new))):
            cell: Cell = {"strategy": strategy, "subscriptions": subscriptions, "event": event}
            yield cell | {"members": members, "partitions": partitions}, group


class TooLong(Exception):
    """The time limit was reached."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def end(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ms(run: Run, rounds: int) -> float | str:
    """Return CPU time: the minimum of several runs, or a single run if it is long."""
    gc.collect()
    best = float("inf")
    try:
        with _limited(LIMIT_S):
            for _ in range(max(rounds, 1) * 3):
                started = time.process_time()
                run()
                best = min(best, time.process_time() - started)
                if best > REPEATED_BELOW_S:
                    break
    except TooLong:
        return TOO_LONG if best == float("inf") else best * 1e3
    except KeyError:
        # kafka-python 3.0 fails in roundrobin with different subscriptions.
        return FAILS
    return best * 1e3


def _java_ms(groups: list[Group]) -> list[float | str]:
    """Return the minimum of many runs, after JIT compilation; empty without Kafka's jars."""
    jars = os.environ.get(KAFKA_JARS)
    if not jars:
        return []
    command = ["java", "-Xmx2g", "-cp", f"{jars}/*", str(KAFKA_PROGRAM), "time"]
    lines = "".join(f"{group.as_json()}\n" for group in groups)
    try:
        done = subprocess.run(
            command, input=lines.encode(), capture_output=True, check=True, timeout=KAFKA_LIMIT_S
        )
        output = done.stdout
    except subprocess.TimeoutExpired as ended:
        output = ended.stdout or b""
    times: list[float | str] = [json.loads(line) / 1e6 for line in output.splitlines()]
    return times + [TOO_LONG] * (len(groups) - len(times))


# --- groups


def new_group(strategy: str, subscriptions: str, members: int, partitions: int) -> Group:
    """Return a group; members subscribe to all topics ("equal") or half of them ("different")."""
    chance = random.Random(f"{members} {partitions}")
    names = [f"topic-{n}" for n in range(TOPICS)]
    topics = {
        name: partitions // TOPICS + (n < partitions % TOPICS) for n, name in enumerate(names)
    }
    ids = [f"consumer-{n}-{chance.getrandbits(128):032x}" for n in range(members)]
    topics_of = {
        name: tuple(chance.sample(names, TOPICS // 2))
        if subscriptions == "different"
        else tuple(names)
        for name in ids
    }
    data = BUILTIN[strategy].subscription_user_data
    joining = {
        name: Subscription(subscribed, user_data=data(subscribed, (), None))
        for name, subscribed in topics_of.items()
    }
    return Group(strategy, Topics(topics), joining)


def after_one_left(group: Group) -> Group:
    """Return a group after one member has left; the others own what our assignor assigned them."""
    assigned = BUILTIN[group.strategy].assign(group.topics, group.members)
    names = sorted(group.members)
    del names[len(names) // 2]
    data = BUILTIN[group.strategy].subscription_user_data
    remaining = {
        name: replace(
            group.members[name],
            owned_partitions=tuple(assigned[name]),
            generation_id=1,
            user_data=data(group.members[name].topics, assigned[name], 1),
        )
        for name in names
    }
    return Group(group.strategy, group.topics, remaining)


# --- libraries


def kohort(group: Group) -> Run:
    assignor = BUILTIN[group.strategy]
    return lambda: assignor.assign(group.topics, group.members)


class Cluster:
    """The methods of ClusterMetadata that the libraries' assignors call."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = {name: set(range(size)) for name, size in topics.partitions.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


def _sticky_metadata(kind: Any, member: Subscription, topic_partition: Any) -> Any:
    owned = [topic_partition(*one) for one in member.owned_partitions] or None
    return kind._metadata(member.topics, owned, member.generation_id or -1)


def kafka_python(group: Group) -> Run:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
    from kafka.structs import TopicPartition

    kinds = (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
    assignor = next(kind for kind in kinds if kind.name == group.strategy)()

    def metadata(member: Subscription) -> Any:
        if group.strategy == "sticky":
            return _sticky_metadata(StickyPartitionAssignor, member, TopicPartition)
        topic_partition = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=2,
            topics=list(member.topics),
            user_data=b"",
            owned_partitions=[
                topic_partition(topic=t, partitions=ps)
                for t, ps in by_topic(member.owned_partitions)
            ],
            generation_id=member.generation_id or -1,
        )

    cluster = Cluster(group.topics)
    members = [
        SimpleNamespace(member_id=name, group_instance_id=None, metadata=metadata(member))
        for name, member in group.members.items()
    ]
    return lambda: assignor.assign(cluster, members)


def aiokafka(group: Group) -> Run | None:
    """Return a run with aiokafka's assignor, or None if it has no such assignor."""
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
    from aiokafka.structs import TopicPartition

    kinds = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
    assignor = next((kind for kind in kinds if kind.name == group.strategy), None)
    if assignor is None:
        return None

    def metadata(member: Subscription) -> Any:
        if group.strategy == "sticky":
            return _sticky_metadata(StickyPartitionAssignor, member, TopicPartition)
        return ConsumerProtocolMemberMetadata(0, list(member.topics), b"")

    cluster = Cluster(group.topics)
    members = {name: metadata(member) for name, member in group.members.items()}
    return lambda: assignor.assign(cluster, members)


LIBRARIES = {"kohort": kohort, "kafka-python": kafka_python, "aiokafka": aiokafka}
