"""Who may keep what: what members say they own, put together (allSubscriptionsEqual, and
prepopulateCurrentAssignments for what was owned earlier).

Members can claim the same partition: one of them missed a rebalance and does not know it yet.
The newer generation has it then; in the same generation nobody has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..model import Subscription, TopicPartition
from .hash_order import hash_order
from .user_data import NO_GENERATION, Owned, present


@dataclass(slots=True)
class Claims:
    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    """By every member, in the order in which Java meets them."""
    contested: set[TopicPartition] = field(default_factory=set)
    """Claimed by several members of the newest generation that claims them."""
    alike: bool = True
    """Whether all members subscribe the same topics."""
    generation: int = NO_GENERATION
    """The newest of any member."""


def claims(
    sizes: Mapping[str, int], members: Mapping[str, Subscription], told: Mapping[str, Owned]
) -> Claims:
    """`sizes` are the partitions of the topics to share, `told` is what each member says."""
    merged = Claims()
    holder: dict[TopicPartition, str] = {}
    first: frozenset[str] = frozenset()
    for member in hash_order(members):
        if merged.alike:
            wanted = frozenset(members[member].topics)
            # One without topics is met before the first that has some, or makes a difference.
            merged.alike = not first or wanted == first
            first = first or wanted
        generation = _number(told[member].generation)
        merged.generation = max(merged.generation, generation)
        kept = merged.owned[member] = []
        for partition in dict.fromkeys(told[member].partitions):
            if not 0 <= partition[1] < sizes.get(partition[0], 0):
                continue
            other = holder.get(partition)
            if other is not None:
                # Upstream compares with the generation in the subscription itself, also where
                # what a member owns is in its user data, with a generation of its own.
                others = _number(present(members[other].generation))
                if generation < others:
                    continue
                if partition not in merged.contested:
                    merged.owned[other].remove(partition)
                if generation == others:
                    merged.contested.add(partition)
                    holder[partition] = member
                    continue
                merged.contested.discard(partition)
            holder[partition] = member
            kept.append(partition)
    return merged


def earlier_owners(newest: int, told: Mapping[str, Owned]) -> dict[TopicPartition, str]:
    """Of what members had in generations before the `newest`, the last owner of each partition."""
    owners: dict[TopicPartition, tuple[int, str]] = {}
    stale = [name for name, owned in told.items() if _number(owned.generation) < newest]
    for member in hash_order(told) if stale else ():
        generation = _number(told[member].generation)
        if generation >= newest:
            continue
        for partition in told[member].partitions:
            if partition not in owners or owners[partition][0] < generation:
                owners[partition] = generation, member
    return {partition: member for partition, (_, member) in owners.items()}


def _number(generation: int | None) -> int:
    return NO_GENERATION if generation is None else generation
