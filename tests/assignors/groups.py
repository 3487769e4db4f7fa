"""Groups and what they are given, in short: `group(c0="t0 t1")`, `shares(c0="t0-0 t1-2,3")`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics


def partitions(text: str) -> list[TopicPartition]:
    """Of "t0-0,2 t1-1": the topic, and after the last dash its partitions."""
    pairs = (word.rsplit("-", 1) for word in text.split())
    return [(topic, int(p)) for topic, numbers in pairs for p in numbers.split(",")]


def shares(**members: str) -> Assignment:
    return {member: partitions(text) for member, text in members.items()}


def group(racks: Mapping[str, str] | None = None, **members: str) -> dict[str, Subscription]:
    """By member what it subscribes; `racks` by member."""
    return {
        member: Subscription(tuple(topics.split()), rack=(racks or {}).get(member))
        for member, topics in members.items()
    }


def spread(racks: str, replication: int, **sizes: int) -> Topics:
    """Replica j of the k-th partition, counted through all topics, is in `racks`[(k + j) % n]."""
    replica_racks: dict[str, Sequence[Sequence[str]]] = {}
    k = 0
    for topic, size in sizes.items():
        replica_racks[topic] = [
            [racks[(k + p + j) % len(racks)] for j in range(replication)] for p in range(size)
        ]
        k += size
    return Topics(sizes, replica_racks)


def assigned(strategy: str, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
    return BUILTIN[strategy].assign(topics, members)


def having(
    strategy: str,
    members: Mapping[str, Subscription],
    owned: Mapping[str, Sequence[TopicPartition]],
    generation: int = 1,
) -> dict[str, Subscription]:
    """The `members` as they join again, each with what it has got; others join as before."""
    again = dict(members)
    for name, partitions_ in owned.items():
        data = BUILTIN[strategy].user_data(members[name].topics, partitions_, generation)
        again[name] = replace(
            members[name], owned=tuple(partitions_), generation=generation, user_data=data
        )
    return again


def rounds(
    strategy: str, topics: Topics, members: Mapping[str, Subscription], generation: int = 1
) -> list[Assignment]:
    """What the members are given until nobody has to give anything back any more."""
    given = [assigned(strategy, topics, members)]
    while any(
        set(members[name].owned) - set(partitions_) for name, partitions_ in given[-1].items()
    ):
        members = having(strategy, members, given[-1], generation := generation + 1)
        given.append(assigned(strategy, topics, members))
        assert len(given) < 10, given
    return given
