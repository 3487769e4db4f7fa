"""One group, shared out by our assignors and by those of the client libraries."""

import base64
import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from kohort.assignors.model import Assignment, Subscription, Topics
from kohort.assignors.resolve import BUILTIN

TOPICS = 10
Run = Callable[[], Any]


@dataclass(frozen=True)
class Group:
    strategy: str
    topics: Topics
    members: Mapping[str, Subscription]

    def as_json(self) -> str:
        """As tests/assignors/KafkaAssignors.java reads it."""
        members = {}
        for name, member in self.members.items():
            members[name] = {"topics": member.topics, "owned": member.owned_partitions}
            if member.generation_id is not None:
                members[name]["generation"] = member.generation_id
            if member.user_data is not None:
                members[name]["user_data"] = base64.b64encode(member.user_data).decode()
        sizes = dict(self.topics.partitions)
        return json.dumps({"assignor": self.strategy, "partitions": sizes, "members": members})


def fresh(strategy: str, wishes: str, members: int, partitions: int) -> Group:
    """Of one mind, or each wants half of the topics ("unequal")."""
    chance = random.Random(f"{members} {partitions}")
    names = [f"topic-{n}" for n in range(TOPICS)]
    topics = {
        name: partitions // TOPICS + (n < partitions % TOPICS) for n, name in enumerate(names)
    }
    ids = [f"consumer-{n}-{chance.getrandbits(128):032x}" for n in range(members)]
    wanted = {
        name: tuple(chance.sample(names, TOPICS // 2)) if wishes == "unequal" else tuple(names)
        for name in ids
    }
    data = BUILTIN[strategy].subscription_user_data
    told = {name: Subscription(w, user_data=data(w, (), None)) for name, w in wanted.items()}
    return Group(strategy, Topics(topics), told)


def one_leaves(group: Group) -> Group:
    """All had what we gave them, and the one in the middle is gone."""
    given = BUILTIN[group.strategy].assign(group.topics, group.members)
    names = sorted(group.members)
    del names[len(names) // 2]
    data = BUILTIN[group.strategy].subscription_user_data
    left = {
        name: replace(
            group.members[name],
            owned_partitions=tuple(given[name]),
            generation_id=1,
            user_data=data(group.members[name].topics, given[name], 1),
        )
        for name in names
    }
    return Group(group.strategy, group.topics, left)


def kohort(group: Group) -> Run:
    assignor = BUILTIN[group.strategy]

    def run() -> Assignment:
        return assignor.assign(group.topics, group.members)

    return run


class Cluster:
    """What the libraries' assignors ask their ClusterMetadata."""

    def __init__(self, topics: Topics) -> None:
        self._partitions = {name: set(range(size)) for name, size in topics.partitions.items()}

    def topics(self) -> set[str]:
        return set(self._partitions)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return self._partitions.get(topic)


def _by_topic(owned: Sequence[tuple[str, int]]) -> dict[str, list[int]]:
    partitions = defaultdict(list)
    for topic, partition in owned:
        partitions[topic].append(partition)
    return dict(partitions)


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
            owned = [TopicPartition(*one) for one in member.owned_partitions] or None
            return StickyPartitionAssignor._metadata(
                member.topics, owned, member.generation_id or -1
            )
        place = ConsumerProtocolSubscription.TopicPartition
        return ConsumerProtocolSubscription(
            version=2,
            topics=list(member.topics),
            user_data=b"",
            owned_partitions=[
                place(topic=t, partitions=ps)
                for t, ps in _by_topic(member.owned_partitions).items()
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
    """None where it has no such assignor."""
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
            owned = [TopicPartition(*one) for one in member.owned_partitions] or None
            return StickyPartitionAssignor._metadata(
                member.topics, owned, member.generation_id or -1
            )
        return ConsumerProtocolMemberMetadata(0, list(member.topics), b"")

    cluster = Cluster(group.topics)
    members = {name: metadata(member) for name, member in group.members.items()}
    return lambda: assignor.assign(cluster, members)
