"""Gives back what changed hands without need, which upstream does not do.

Where racks matter, upstream takes from a member all that is far from it and deals it out again,
also where nobody else is nearer: two members may so come to change their partitions. And where one
member gets a partition that is new to it, in place of one that it had, it may as well keep that.
An exchange leaves each member as many partitions as it was given, and never more that are far.
"""

from collections.abc import Mapping, Sequence

from ..model import Subscription, TopicPartition
from .near import Near


def exchange(
    given: dict[str, list[TopicPartition]],
    owned: Mapping[str, Sequence[TopicPartition]],
    members: Mapping[str, Subscription],
    near: Near,
) -> None:
    """Changes `given`, by what each member `owned` before."""
    lost = {member: _without(owned[member], share) for member, share in given.items()}
    new = {member: _without(share, owned[member]) for member, share in given.items()}
    torn = [member for member in given if lost[member] and new[member]]
    owner = {partition: member for member, share in new.items() for partition in share}
    # By member, who takes nothing that is new to it, and by how much its own is farther from it:
    # asked once, not for each of many thousand partitions.
    refused: dict[str, set[tuple[str, int]]] = {member: set() for member in torn}

    def swap(member: str, old: TopicPartition) -> bool:
        """Gets `old` back to `member` for something that is new to it, if there is such."""
        other = owner[old]
        farther = near.far(member, old) - near.far(other, old)
        if (other, farther) in refused[member]:
            return False
        for fresh in new[member]:
            nearer = near.far(member, fresh) - near.far(other, fresh)
            if nearer >= farther and fresh[0] in members[other].topics:
                del lost[member][old], new[other][old], new[member][fresh]
                owner[fresh] = other
                if fresh in lost[other]:
                    del lost[other][fresh]
                else:
                    new[other][fresh] = None
                    refused.get(other, set()).clear()
                return True
        refused[member].add((other, farther))
        return False

    swapped = True
    while swapped:  # each swap gives at least one partition back
        swapped = False
        for member in torn:
            wanted = [p for p in lost[member] if p[0] in members[member].topics]
            for partition in wanted:
                swapped |= partition in lost[member] and swap(member, partition)
    for member in given:
        given[member] = [p for p in owned[member] if p not in lost[member]] + list(new[member])


def _without(
    partitions: Sequence[TopicPartition], others: Sequence[TopicPartition]
) -> dict[TopicPartition, None]:
    known = set(others)
    return {partition: None for partition in partitions if partition not in known}
