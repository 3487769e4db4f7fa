"""Two assignments of one group, held against each other: which is more even, which moves less."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kohort.assignors.model import TopicPartition
from kohort.assignors.sticky.user_data import read_cooperative, read_sticky

from .cases import Case, read

Given = Mapping[str, Sequence[Any]]
"""By member, pairs of topic and partition, be they tuples or lists."""

Verdict = Literal["better", "equal", "worse"]


def partitions(given: Given, member: str) -> set[TopicPartition]:
    return {(topic, partition) for topic, partition in given[member]}


def unevenness(given: Given) -> int:
    """Of all pairs of members, by how much their loads differ: Kafka's own score of balance."""
    loads = sorted(len(share) for share in given.values())
    return sum(load * (2 * place - len(loads) + 1) for place, load in enumerate(loads))


def moved(asked: Case, given: Given) -> int:
    """How many partitions were taken from a member that owned them and still wants their topic.

    Where members disagree, the newest generation owns; where that is two of them, nobody does.
    """
    strategy, topics, members = read(asked)
    told = read_sticky if strategy == "sticky" else read_cooperative
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for name, member in members.items():
        owned = told(member)
        for topic, partition in set(owned.partitions):
            if 0 <= partition < topics.partitions.get(topic, 0):
                generation = -1 if owned.generation is None else owned.generation
                claims.setdefault((topic, partition), []).append((generation, name))
    count = 0
    for partition, claimed in claims.items():
        newest = max(claimed)[0]
        owners = [name for generation, name in claimed if generation == newest]
        if len(owners) == 1 and partition[0] in members[owners[0]].topics:
            count += partition not in partitions(given, owners[0])
    return count


def gives_back(asked: Case, given: Given) -> bool:
    """Whether some member owned what it is not given again, so that a next round follows."""
    _, _, members = read(asked)
    return any(set(members[name].owned) - partitions(given, name) for name in given)


def valid(asked: Case, given: Given) -> bool:
    """Whether everyone is given only what it wants, and nothing is given twice."""
    _, topics, members = read(asked)
    times = Counter(one for name in given for one in partitions(given, name))
    return (
        given.keys() == members.keys()
        and all(times[one] == 1 and one[1] < topics.partitions.get(one[0], 0) for one in times)
        and all(one[0] in members[name].topics for name in given for one in partitions(given, name))
    )


def verdict(ours: int, theirs: int) -> Verdict:
    return "better" if ours < theirs else "equal" if ours == theirs else "worse"
