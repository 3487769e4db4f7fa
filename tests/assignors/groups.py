"""Short notations for groups and assignments: `group(c0="t0 t1")`, `shares(c0="t0-0 t1-2,3")`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN


def partitions(text: str) -> list[TopicPartition]:
    """Parse "t0-0,2 t1-1": topics, with their partitions after the last dash."""
    pairs = (word.rsplit("-", 1) for word in text.split())
    return [(topic, int(p)) for topic, numbers in pairs for p in numbers.split(",")]


def shares(**members: str) -> Assignment:
    return {member: partitions(text) for member, text in members.items()}


def group(racks: Mapping[str, str] | None = None, **members: str) -> dict[str, Subscription]:
    """Return subscriptions by member, with the racks in `racks`."""
    return {
        member: Subscription(tuple(topics.split()), rack_id=(racks or {}).get(member))
        for member, topics in members.items()
    }


def spread(racks: str, replication: int, **sizes: int) -> Topics:
    """Replica j of the k-th partition, counted over all topics, is in `racks`[(k + j) % n]."""
    replica_racks: dict[str, Sequence[Sequence[str]]] = {}
    k = 0
    for topic, size in sizes.items():
        replica_racks[topic] = [
            [racks[(k + p + j) % len(racks)] for j in range(replication)] for p in range(size)
        ]
        k += size
    return Topics(sizes, replica_racks)


def assign(strategy: str, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
    return BUILTIN[strategy].assign(topics, members)


def owning(
    strategy: str,
    members: Mapping[str, Subscription],
    owned: Mapping[str, Sequence[TopicPartition]],
    generation: int = 1,
) -> dict[str, Subscription]:
    """Return `members` as they rejoin; those in `owned` own these partitions."""
    rejoining = dict(members)
    for name, of_member in owned.items():
        data = BUILTIN[strategy].subscription_user_data(members[name].topics, of_member, generation)
        rejoining[name] = replace(
            members[name],
            owned_partitions=tuple(of_member),
            generation_id=generation,
            user_data=data,
        )
    return rejoining


def rebalances(
    strategy: str, topics: Topics, members: Mapping[str, Subscription]
) -> list[Assignment]:
    """Return the assignments of all rebalances until no member has to revoke anything."""
    results = [assign(strategy, topics, members)]
    while any(
        set(members[name].owned_partitions) - set(of_member)
        for name, of_member in results[-1].items()
    ):
        members = owning(strategy, members, results[-1], generation=len(results) + 1)
        results.append(assign(strategy, topics, members))
        assert len(results) < 10, results
    return results
