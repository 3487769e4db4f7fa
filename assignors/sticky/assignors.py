"""`sticky` (StickyAssignor) and `cooperative-sticky` (CooperativeStickyAssignor, KIP-429)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import Assignment, Assignor, Subscription, TopicPartition, Topics
from ..ordering import subscribers_by_topic
from ..racks import RackInfo
from .constrained import assign_constrained
from .general import assign_general
from .ownership import (
    MemberData,
    cooperative_member_data,
    cooperative_user_data,
    previous_owners,
    resolve_claims,
    sticky_member_data,
    sticky_user_data,
)


class StickyAssignor(Assignor):
    """The sticky assignor of the eager protocol: moves take effect immediately."""

    name = "sticky"
    cooperative = False

    def subscription_user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned_partitions: Sequence[TopicPartition],
        generation_id: int | None,
    ) -> bytes | None:
        return None if generation_id is None else sticky_user_data(owned_partitions, generation_id)

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        claims = {name: sticky_member_data(member) for name, member in members.items()}
        return _target(topics, members, claims).assignment


class CooperativeStickyAssignor(Assignor):
    """The sticky assignor of the cooperative protocol.

    Partitions that move remain unassigned in the first rebalance. Their owners revoke them and
    rejoin, and the second rebalance assigns them. With racks or different subscriptions, Kafka's
    second rebalance may move more partitions, which requires a third. Here the first rebalance
    computes the second one in advance, and also revokes the partitions that the second would move.
    """

    name = "cooperative-sticky"
    cooperative = True

    def subscription_user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned_partitions: Sequence[TopicPartition],  # noqa: ARG002
        generation_id: int | None,
    ) -> bytes:
        return cooperative_user_data(generation_id)

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        claims = {name: cooperative_member_data(member) for name, member in members.items()}
        # Claims are resolved by the generation in the subscription. Members of version 1 send it in
        # the user data, where Kafka ignores it. Kafka therefore accepts stale claims, and assigns
        # partitions twice.
        members = {name: _dated(member, claims[name]) for name, member in members.items()}
        target = _target(topics, members, claims)
        kept = _without_moving(target)
        is_final = target.is_final or not _is_revoking(claims, kept)
        if is_final or not _revoke_ahead(topics, members, kept):
            return kept
        # Swaps could prevent convergence, so there are none here.
        kept = _without_moving(_target(topics, members, claims, swap=False))
        while _revoke_ahead(topics, members, kept, swap=False):
            pass
        return kept


def _dated(member: Subscription, claim: MemberData) -> Subscription:
    if member.generation_id == claim.generation:
        return member  # the usual case, without the copy
    return replace(member, generation_id=claim.generation)


def _is_revoking(claims: Mapping[str, MemberData], kept: Assignment) -> bool:
    """Whether members revoke partitions, so that a second rebalance follows (even if no member can
    get these partitions, because their topic was deleted)."""
    return any(set(claim.partitions).difference(kept[name]) for name, claim in claims.items())


def _revoke_ahead(
    topics: Topics, members: Mapping[str, Subscription], kept: Assignment, *, swap: bool = True
) -> int:
    """Remove from `kept` the partitions that the next rebalance would revoke. Return their
    number."""
    claims = {member: MemberData(partitions, 0) for member, partitions in kept.items()}
    following = _target(topics, members, claims, swap=swap).assignment
    for member, partitions in kept.items():
        stays = set(following[member])
        kept[member] = [partition for partition in partitions if partition in stays]
    return sum(len(claim.partitions) for claim in claims.values()) - sum(map(len, kept.values()))


# --- the target assignment, after all moves


@dataclass(frozen=True, slots=True)
class _Target:
    assignment: Assignment
    moving: frozenset[TopicPartition]
    """Partitions that are assigned to a member while another member may still own them."""
    is_final: bool
    """True if the next rebalance certainly revokes nothing; False if that is unknown."""


def _without_moving(target: _Target) -> Assignment:
    return {
        member: [partition for partition in partitions if partition not in target.moving]
        for member, partitions in target.assignment.items()
    }


def _target(
    topics: Topics,
    members: Mapping[str, Subscription],
    claims: Mapping[str, MemberData],
    *,
    swap: bool = True,
) -> _Target:
    """Return the target assignment. With `swap`, undo needless moves afterwards, unlike Kafka."""
    subscribers = subscribers_by_topic(topics, members)
    sizes = {topic: topics.partitions[topic] for topic in subscribers}
    racks = RackInfo(topics, list(subscribers), members)
    ownership = resolve_claims(sizes, members, claims)
    is_final = ownership.same_subscription and not racks.in_use
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    if not ownership.same_subscription:
        previous = previous_owners(ownership.max_generation, claims)
        assigned = assign_general(subscribers, sizes, ownership, previous, racks)
    elif subscribers:
        # Unlike kohort, Kafka also assigns partitions to members without topics.
        subscribed = {m: owned for m, owned in ownership.partitions.items() if members[m].topics}
        assigned |= assign_constrained(sizes, replace(ownership, partitions=subscribed), racks)
    lost = _lost(ownership.partitions, assigned)
    if lost and swap and not is_final:
        swap_back(assigned, ownership.partitions, members, racks)
        lost = _lost(ownership.partitions, assigned)
    assignment = {member: sorted(partitions) for member, partitions in assigned.items()}
    return _Target(assignment, frozenset(lost | ownership.contested), is_final)


def _lost(
    owned: Mapping[str, Sequence[TopicPartition]], assigned: Mapping[str, Sequence[TopicPartition]]
) -> set[TopicPartition]:
    return {p for member, had in owned.items() for p in set(had).difference(assigned[member])}


def swap_back(
    assigned: dict[str, list[TopicPartition]],
    owned: Mapping[str, Sequence[TopicPartition]],
    members: Mapping[str, Subscription],
    racks: RackInfo,
) -> None:
    """Swap partitions between members, so that they keep more of their partitions. Modifies
    `assigned`.

    With racks, Kafka revokes every partition with a rack mismatch and reassigns it, even if no
    better member exists, so two members may exchange partitions. A swap changes no load and adds no
    rack mismatch.
    """
    lost = {member: _difference(owned[member], share) for member, share in assigned.items()}
    new = {member: _difference(share, owned[member]) for member, share in assigned.items()}
    affected = [member for member in assigned if lost[member] and new[member]]
    owner = {partition: member for member, share in new.items() for partition in share}
    # For each member, the pairs (other member, added rack mismatches) that allow no swap, so that
    # they are not checked again for thousands of partitions.
    failed: dict[str, set[tuple[str, int]]] = {member: set() for member in affected}

    def swap(member: str, old: TopicPartition) -> bool:
        """Return `old` to `member` in exchange for one of its new partitions, if possible."""
        other = owner[old]
        added = racks.is_mismatch(member, old) - racks.is_mismatch(other, old)
        if (other, added) in failed[member]:
            return False
        for fresh in new[member]:
            removed = racks.is_mismatch(member, fresh) - racks.is_mismatch(other, fresh)
            if removed >= added and fresh[0] in members[other].topics:
                del lost[member][old], new[other][old], new[member][fresh]
                owner[fresh] = other
                if fresh in lost[other]:
                    del lost[other][fresh]
                else:
                    new[other][fresh] = None
                    failed.get(other, set()).clear()
                return True
        failed[member].add((other, added))
        return False

    swapped = True
    while swapped:  # each swap returns at least one partition to its owner
        swapped = False
        for member in affected:
            subscribed = [p for p in lost[member] if p[0] in members[member].topics]
            for partition in subscribed:
                swapped |= partition in lost[member] and swap(member, partition)
    for member in assigned:
        assigned[member] = [p for p in owned[member] if p not in lost[member]] + list(new[member])


def _difference(
    partitions: Sequence[TopicPartition], others: Sequence[TopicPartition]
) -> dict[TopicPartition, None]:
    known = set(others)
    return {partition: None for partition in partitions if partition not in known}
