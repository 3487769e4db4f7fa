"""Explains why each partition moved between two assignments.

Some reasons follow from the assignments alone (a member or topic is gone, a stale claim). For
others, the stateless assignor is run again, without racks or for the next rebalance.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from .model import Assignment, Assignor, Subscription, TopicPartition, Topics

__all__ = ["PROBE", "Move", "Reason", "compare", "is_sticky", "moves"]

# The topic with which `is_sticky` tests an assignor: a partition for each of two members.
PROBE: Final = Topics({"probe": 2})
# The generation of owned partitions in computed assignments. Any number works.
GENERATION: Final = 1


class Reason(StrEnum):
    NO_PREVIOUS_OWNER = "no previous owner"
    PARTITION_GONE = "partition gone"
    """The topic was deleted, or has fewer partitions."""
    NO_SUBSCRIBER = "no subscriber"
    OWNER_LEFT = "owner left"
    OWNER_UNSUBSCRIBED = "owner unsubscribed"
    CLAIMED_TWICE = "claimed twice"
    """Several members of the newest generation claim the partition, so all claims are ignored."""
    STALE_CLAIM = "stale claim"
    """The claim is from an older generation than another claim, and is ignored."""
    PENDING_REVOCATION = "pending revocation"
    """The owner must first revoke the partition; the next rebalance assigns it (KIP-429)."""
    RACK = "rack"
    NOT_STICKY = "not sticky"
    """The assignor ignores previous owners, as range and roundrobin do."""
    EXCHANGE = "exchange"
    """The owner got other partitions instead."""
    BALANCE = "balance"
    """If the owner had kept the partition, it would have at least two partitions more than the new
    owner."""
    ASSIGNOR_CHOICE = "assignor's choice"
    """No other reason applies."""


@dataclass(frozen=True, slots=True)
class Move:
    """A partition whose owners changed."""

    partition: TopicPartition
    before: tuple[str, ...]
    """The previous owners, sorted. There are several if members claim the same partition."""
    member: str | None
    """The new owner."""
    reason: Reason
    explanation: str


def compare(
    before: Mapping[str, Sequence[TopicPartition]], after: Mapping[str, Sequence[TopicPartition]]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return the partitions that kept their owner, and the partitions that moved, sorted."""
    previous, current = _owners(before), _owners(after)
    kept = sorted(p for p, owners in previous.items() if current.get(p) == owners)
    moved = sorted((previous.keys() | current.keys()) - set(kept))
    return kept, moved


def moves(
    assignor: Assignor,
    topics: Topics,
    members: Mapping[str, Subscription],
    before: Mapping[str, Sequence[TopicPartition]],
    after: Assignment,
) -> list[Move]:
    """Return all moves, sorted by partition. `after` is the result of `assignor` for `members`."""
    explainer = _Explainer(assignor, topics, members, before, after)
    return [explainer.move(partition) for partition in compare(before, after)[1]]


def is_sticky(assignor: Assignor) -> bool:
    """Whether the result depends on the previous owners."""
    results = []
    for owners in (("A", "B"), ("B", "A")):
        members = {}
        for partition, name in enumerate(owners):
            owned = (("probe", partition),)
            user_data = assignor.subscription_user_data(("probe",), owned, GENERATION)
            members[name] = Subscription(("probe",), owned, GENERATION, user_data=user_data)
        results.append(_owners(assignor.assign(PROBE, members)))
    return results[0] != results[1]


def _owners(
    assignment: Mapping[str, Sequence[TopicPartition]],
) -> dict[TopicPartition, tuple[str, ...]]:
    owners: dict[TopicPartition, tuple[str, ...]] = {}
    for member in sorted(assignment):
        for partition in assignment[member]:
            owners[partition] = (*owners.get(partition, ()), member)
    return owners


def _owner(owners: Mapping[TopicPartition, tuple[str, ...]], at: TopicPartition) -> str | None:
    return next(iter(owners.get(at, ())), None)


@dataclass
class _Explainer:
    """Explains moves by comparing both assignments, and by computing assignments under other
    conditions."""

    _assignor: Assignor
    _topics: Topics
    _members: Mapping[str, Subscription]
    _before: Mapping[str, Sequence[TopicPartition]]
    _after: Assignment

    def __post_init__(self) -> None:
        self._previous_owners, self._new_owners = _owners(self._before), _owners(self._after)
        self._gained = {
            member: sorted(set(partitions) - set(self._before.get(member, ())))
            for member, partitions in self._after.items()
        }
        self._subscribed = {topic for member in self._members.values() for topic in member.topics}

    def move(self, at: TopicPartition) -> Move:
        before, member = self._previous_owners.get(at, ()), _owner(self._new_owners, at)
        owners = [owner for owner in before if owner in self._members]
        if member is None and owners and self._is_assignable(at) and self._assignor.cooperative:
            reason, explanation = Reason.PENDING_REVOCATION, self._pending_revocation(at, owners)
        else:
            reason, explanation = self._reason(at, before, member, self._after)
        return Move(at, before, member, reason, explanation)

    def _is_assignable(self, at: TopicPartition) -> bool:
        topic, partition = at
        return partition < self._topics.partitions.get(topic, 0) and topic in self._subscribed

    def _pending_revocation(self, at: TopicPartition, owners: Sequence[str]) -> str:
        text = f"{_and(owners)} must revoke it first"
        member = _owner(self._owners_after_next, at)
        if member is None:
            return text
        text += f"; the next rebalance assigns it to {member}"
        if owners != [member]:
            text += f": {self._reason(at, tuple(owners), member, self._next_assignment)[1]}"
        return text

    def _reason(
        self, at: TopicPartition, before: tuple[str, ...], member: str | None, after: Assignment
    ) -> tuple[Reason, str]:
        """Explain why `member` owns the partition in `after` but not in `before`."""
        if not before:
            return Reason.NO_PREVIOUS_OWNER, "no previous owner"
        topic, partition = at
        count = self._topics.partitions.get(topic, 0)
        if not count:
            return Reason.PARTITION_GONE, f"topic {topic} no longer exists"
        if partition >= count:
            return Reason.PARTITION_GONE, f"{topic} has only {count} partition{'s' * (count > 1)}"
        if topic not in self._subscribed:
            return Reason.NO_SUBSCRIBER, f"no member subscribes to {topic}"
        left = [owner for owner in before if owner not in self._members]
        present = [owner for owner in before if owner in self._members]
        subscribed = [owner for owner in present if topic in self._members[owner].topics]
        if subscribed in ([], [member]):
            if left:
                return Reason.OWNER_LEFT, f"{_and(left)} left the group"
            unsubscribed = [owner for owner in present if owner not in subscribed]
            return Reason.OWNER_UNSUBSCRIBED, f"{_and(unsubscribed)} unsubscribed from {topic}"
        return self._reason_not_kept(at, present, member, after)

    def _reason_not_kept(
        self, at: TopicPartition, present: list[str], member: str | None, after: Assignment
    ) -> tuple[Reason, str]:
        """Explain the move if a previous owner in `present` could have kept the partition."""
        name = self._assignor.name
        latest = max(map(self._generation, present))
        newest = [owner for owner in present if self._generation(owner) == latest]
        owner = newest[0]
        if len(newest) == 1 and member is not None and self._is_due_to_racks(at, owner):
            return Reason.RACK, self._rack_text(at, owner, member)
        if not self._is_sticky:
            return Reason.NOT_STICKY, f"{name} ignores previous owners"
        if len(newest) > 1:
            return Reason.CLAIMED_TWICE, f"{_and(newest)} claim it in the same generation"
        subscribed = at[0] in self._members[owner].topics
        if member == owner or not subscribed:
            older = _and([other for other in present if other != owner])
            text = f"the claim of {owner} is newer than that of {older}"
            text += f", but {owner} unsubscribed from {at[0]}" * (not subscribed)
            return Reason.STALE_CLAIM, text
        if member is None:
            return Reason.ASSIGNOR_CHOICE, f"{name} leaves it unassigned"
        if gained := self._gained[owner]:
            topic, partition = gained[0]
            others = f" and {len(gained) - 1} more" * (len(gained) > 1)
            return Reason.EXCHANGE, f"{owner} got {topic}-{partition}{others} instead"
        if counts := self._balance(at, owner, member, after):
            return Reason.BALANCE, f"balance: {counts}"
        return Reason.ASSIGNOR_CHOICE, f"{name} assigns it to {member}"

    def _balance(
        self, at: TopicPartition, owner: str, member: str, after: Assignment
    ) -> str | None:
        """Explain the move by balance: with the partition, `owner` would have at least two
        partitions more than `member` without it. Compares all partitions of both members, then the
        partitions that the owner could have kept, and then only partitions of the topic, because
        some assignors balance each topic separately. Return None if balance is not the reason."""
        owner_has, member_has = len(after[owner]), len(after[member])
        if owner_has >= member_has:
            return f"{owner} has {owner_has} without it, {member} {member_has} with it"
        if (keepable := self._keepable[owner]) > member_has:
            return f"{owner} could have kept {keepable}, {member} has {member_has} with it"
        topics = {name: [topic for topic, _ in after[name]] for name in (owner, member)}
        owner_has, member_has = topics[owner].count(at[0]), topics[member].count(at[0])
        if owner_has >= member_has:
            return f"of {at[0]}, {owner} has {owner_has} without it, {member} {member_has} with it"
        return None

    @cached_property
    def _keepable(self) -> Counter[str]:
        """The number of previous partitions that each member could have kept."""
        return Counter(
            owner
            for (topic, partition), owners in self._previous_owners.items()
            if partition < self._topics.partitions.get(topic, 0)
            for owner in owners
            if owner in self._members and topic in self._members[owner].topics
        )

    def _generation(self, member: str) -> int:
        generation_id = self._members[member].generation_id
        return -1 if generation_id is None else generation_id

    def _is_due_to_racks(self, at: TopicPartition, owner: str) -> bool:
        """Whether `owner` has a rack mismatch, and would have kept the partition without racks."""
        racks, rack = self._racks_of(at), self._members[owner].rack_id
        mismatch = bool(racks) and bool(rack) and rack not in racks
        lost = owner != _owner(self._new_owners, at)
        return mismatch and lost and owner == _owner(self._owners_without_racks, at)

    def _rack_text(self, at: TopicPartition, owner: str, member: str) -> str:
        text = f"no replica in {owner}'s rack {self._members[owner].rack_id}"
        rack = self._members[member].rack_id
        return text + f", one in {member}'s rack {rack}" * (rack in self._racks_of(at))

    def _racks_of(self, at: TopicPartition) -> set[str]:
        topic, partition = at
        racks_of = self._topics.replica_racks.get(topic)
        return {rack for rack in racks_of[partition] if rack} if racks_of else set()

    @cached_property
    def _is_sticky(self) -> bool:
        return is_sticky(self._assignor)

    @cached_property
    def _owners_without_racks(self) -> dict[TopicPartition, tuple[str, ...]]:
        without_racks = Topics(self._topics.partitions)
        return _owners(self._assignor.assign(without_racks, self._members))

    @cached_property
    def _next_assignment(self) -> Assignment:
        """The assignment of the next rebalance, after all revocations."""
        members = {}
        for name, member in self._members.items():
            owned = tuple(self._after[name])
            members[name] = replace(
                member,
                owned_partitions=owned,
                generation_id=GENERATION,
                user_data=self._assignor.subscription_user_data(member.topics, owned, GENERATION),
            )
        return self._assignor.assign(self._topics, members)

    @cached_property
    def _owners_after_next(self) -> dict[TopicPartition, tuple[str, ...]]:
        return _owners(self._next_assignment)


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
