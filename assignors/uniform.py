"""The broker's own default strategy for groups of the new protocol (UniformAssignor, KIP-848).

What it answers is a target: a member may hold on to partitions of another until it has heard of
it. A broker has its members in no order of their own, here they come in that of the other
strategies; a partition that two claim is the newer generation's, or the first member's.
"""

from collections.abc import Mapping
from typing import TypeAlias

from .levels import LeastLoaded, MostLoaded
from .model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .subscribers import java_order, member_order, subscribers

PASSES_MAX = 16  # Kafka's MAX_ITERATION_COUNT: later passes move next to nothing

Wanting: TypeAlias = Mapping[str, list[str]]
"""By topic, in order, its subscribers, in order."""
Owners: TypeAlias = dict[str, list[str | None]]
"""By topic for each partition the member that has it."""


class Uniform(Assignor):
    name = "uniform"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        wanting = subscribers(topics, members)
        order = member_order(members)
        owners = _owners(topics, members, order, wanting)
        if len({frozenset(member.topics) for member in members.values()}) == 1:
            _share_equally(owners, order)
        else:
            _share_by_topic(owners, order, wanting)
        shares: Assignment = {member: [] for member in members}
        for topic, those_of_topic in owners.items():
            for partition, member in enumerate(those_of_topic):
                assert member is not None
                shares[member].append((topic, partition))
        return shares


def _owners(
    topics: Topics, members: Mapping[str, Subscription], order: list[str], wanting: Wanting
) -> Owners:
    """Who keeps what, as far as it exists and its owner still wants it."""
    owners: Owners = {topic: [None] * topics.partitions[topic] for topic in wanting}
    for member in sorted(order, key=lambda m: -_generation(members[m])):
        wanted = set(members[member].topics)
        for topic, partition in members[member].owned:
            if topic in wanted and topic in owners and partition < len(owners[topic]):
                owners[topic][partition] = owners[topic][partition] or member
    return owners


def _generation(member: Subscription) -> int:
    return -1 if member.generation is None else member.generation


def _share_equally(owners: Owners, order: list[str]) -> None:
    """All want the same: each keeps up to its share, and what is left fills up the others.

    One more than the least is for members that have more already, then for the last ones, as in
    Kafka 4.3; at first it was for the first ones, whatever they had.
    """
    least, extras = divmod(sum(map(len, owners.values())), len(order))
    kept: dict[str, list[TopicPartition]] = {member: [] for member in order}
    to_give: list[TopicPartition] = []
    for topic, those_of_topic in owners.items():
        for partition, member in enumerate(those_of_topic):
            (to_give if member is None else kept[member]).append((topic, partition))
    shares: dict[str, int] = {}
    for seat, member in enumerate(order):
        has_more = len(kept[member]) > least
        shares[member] = least + (extras > 0 and (has_more or len(order) - seat <= extras))
        extras -= shares[member] - least
        to_give += kept[member][shares[member] :]
    giving = iter(to_give)
    for member, share in shares.items():
        for _ in range(share - len(kept[member])):
            topic, partition = next(giving)
            owners[topic][partition] = member


def _share_by_topic(owners: Owners, order: list[str], wanting: Wanting) -> None:
    """Topics that load their subscribers most are shared out first: the others can even it out."""

    def first_the_heaviest(topic: str) -> tuple[float, int, bytes]:
        count = len(wanting[topic])
        return -len(owners[topic]) / count, count, java_order(topic)

    loads = dict.fromkeys(order, 0)
    for those_of_topic in owners.values():
        for member in those_of_topic:
            if member is not None:
                loads[member] += 1
    by_weight = sorted(wanting, key=first_the_heaviest)
    for topic in by_weight:
        receivers = LeastLoaded(wanting[topic], loads)
        for partition, member in enumerate(owners[topic]):
            if member is None:
                owners[topic][partition] = receivers.give()
    contested = [topic for topic in by_weight if len(wanting[topic]) > 1]
    unmoved = 0
    for topic in contested * PASSES_MAX:
        if unmoved == len(contested):
            return  # each has been looked at since the last partition moved
        unmoved = 0 if _even_out(owners[topic], wanting[topic], loads) else unmoved + 1


def _even_out(owners: list[str | None], wanting: list[str], loads: dict[str, int]) -> bool:
    """Whether any partition of a topic moved from who has most to who has least."""
    of_each = [loads[member] for member in wanting]
    if max(of_each) - min(of_each) <= 1:
        return False
    owned: dict[str, list[int]] = {member: [] for member in wanting}
    for partition, member in enumerate(owners):
        if member is not None:
            owned[member].append(partition)
    receivers, givers = LeastLoaded(wanting, loads), MostLoaded(wanting, loads)
    moved = False
    while giver := givers.next(owned):
        if loads[giver] - receivers.least <= 1:
            break
        loads[giver] -= 1
        owners[owned[giver].pop()] = receivers.give()
        moved = True
    return moved
