"""Compares two assignments of a group: balance, and number of moves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kohort.assignors.model import TopicPartition
from kohort.assignors.sticky.ownership import cooperative_member_data, sticky_member_data

from .cases import Case, read

Assigned = Mapping[str, Sequence[Any]]
"""By member, pairs of topic and partition, as tuples or lists."""

Comparison = Literal["better", "equal", "worse"]


def partitions(assigned: Assigned, member: str) -> set[TopicPartition]:
    return {(topic, partition) for topic, partition in assigned[member]}


def imbalance(assigned: Assigned) -> int:
    """The sum of the load differences of all pairs of members: Kafka's balance score."""
    loads = sorted(len(share) for share in assigned.values())
    return sum(load * (2 * index - len(loads) + 1) for index, load in enumerate(loads))


def revoked(case: Case, assigned: Assigned) -> int:
    """How many partitions were taken from an owner that still subscribes to their topic.

    If claims conflict, the newest generation wins; a partition it claims twice has no owner.
    """
    strategy, topics, members = read(case)
    member_data = sticky_member_data if strategy == "sticky" else cooperative_member_data
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for name, member in members.items():
        data = member_data(member)
        for topic, partition in set(data.partitions):
            if 0 <= partition < topics.partitions.get(topic, 0):
                generation = -1 if data.generation is None else data.generation
                claims.setdefault((topic, partition), []).append((generation, name))
    count = 0
    for partition, claimed in claims.items():
        newest = max(claimed)[0]
        owners = [name for generation, name in claimed if generation == newest]
        if len(owners) == 1 and partition[0] in members[owners[0]].topics:
            count += partition not in partitions(assigned, owners[0])
    return count


def has_revocations(case: Case, assigned: Assigned) -> bool:
    """Whether a member lost something that it owned, so that another rebalance follows."""
    _, _, members = read(case)
    return any(
        set(members[name].owned_partitions) - partitions(assigned, name) for name in assigned
    )


def is_valid(case: Case, assigned: Assigned) -> bool:
    """Whether members get only topics of their subscriptions, and each partition has one owner."""
    _, topics, members = read(case)
    counts = Counter(one for name in assigned for one in partitions(assigned, name))
    return (
        assigned.keys() == members.keys()
        and all(counts[one] == 1 and one[1] < topics.partitions.get(one[0], 0) for one in counts)
        and all(
            one[0] in members[name].topics
            for name in assigned
            for one in partitions(assigned, name)
        )
    )


def compare(ours: int, theirs: int) -> Comparison:
    return "better" if ours < theirs else "equal" if ours == theirs else "worse"
