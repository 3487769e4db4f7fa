"""Why a partition moved from one round to the next, in words that are true.

What can be read off the two rounds is: a member that is gone, a topic that is, a claim that is
older. Where the assignor weighed one thing against another it is asked again, with other racks or
for the next round; it remembers nothing, so its answer is what it would have done.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from .model import Assignment, Assignor, Subscription, TopicPartition, Topics

__all__ = ["PROBE", "Move", "Reason", "compare", "is_forgetful", "moves"]

# A group in which all that is free to choose is who gets which.
PROBE: Final = Topics({"probe": 2})
GENERATION: Final = 1  # of what all own in a round that is made up; any would do


class Reason(StrEnum):
    NOBODY_HAD_IT = "nobody had it"
    PARTITION_GONE = "partition gone"
    NOT_WANTED = "not wanted"
    """No member subscribes to the topic."""
    OWNER_LEFT = "owner left"
    OWNER_UNSUBSCRIBED = "owner unsubscribed"
    CLAIMED_TWICE = "claimed twice"
    """By members of the same generation: Kafka's sticky assignors trust none of them."""
    OLD_CLAIM = "old claim"
    """Of an earlier generation than another: it does not count."""
    HELD_BACK = "held back"
    """Cooperative: whoever has it gives it back first, and the next round gives it away."""
    RACK = "rack"
    FORGETFUL = "forgetful"
    """The assignor answers the same whoever had what, as range and roundrobin do."""
    EXCHANGE = "exchange"
    """The owner got other partitions in its place."""
    BALANCE = "balance"
    """With it the owner would be ahead of the member that has it now, by two or more."""
    CHOICE = "choice"
    """The assignor's own; nothing here says more."""


@dataclass(frozen=True, slots=True)
class Move:
    """A partition whose owners of the round before are not those of this one."""

    partition: TopicPartition
    before: tuple[str, ...]
    """Sorted; more than one where members claim the same."""
    member: str | None
    """Who has it now."""
    reason: Reason
    words: str


def compare(
    before: Mapping[str, Sequence[TopicPartition]], after: Mapping[str, Sequence[TopicPartition]]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """The partitions that were kept, and those that were not; both sorted."""
    had, has = _owners(before), _owners(after)
    kept = sorted(partition for partition, owners in had.items() if has.get(partition) == owners)
    moved = sorted((had.keys() | has.keys()) - set(kept))
    return kept, moved


def moves(
    assignor: Assignor,
    topics: Topics,
    members: Mapping[str, Subscription],
    before: Mapping[str, Sequence[TopicPartition]],
    after: Assignment,
) -> list[Move]:
    """All that moved, sorted by partition. `after` is what `assignor` answers for `members`."""
    rounds = _Rounds(assignor, topics, members, before, after)
    return [rounds.move(partition) for partition in compare(before, after)[1]]


def is_forgetful(assignor: Assignor) -> bool:
    """Whether it makes no difference to `assignor` who had what."""
    answers = []
    for owners in (("A", "B"), ("B", "A")):
        members = {}
        for partition, name in enumerate(owners):
            owned = (("probe", partition),)
            user_data = assignor.user_data(("probe",), owned, GENERATION)
            members[name] = Subscription(("probe",), owned, GENERATION, user_data=user_data)
        answers.append(_owners(assignor.assign(PROBE, members)))
    return answers[0] == answers[1]


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


class _Rounds:
    """The round before and this one, and what the assignor would do in others."""

    def __init__(
        self,
        assignor: Assignor,
        topics: Topics,
        members: Mapping[str, Subscription],
        before: Mapping[str, Sequence[TopicPartition]],
        after: Assignment,
    ) -> None:
        self._assignor, self._topics, self._members = assignor, topics, members
        self._after = after
        self._had, self._has = _owners(before), _owners(after)
        self._gained: dict[str, list[TopicPartition]] = {
            member: sorted(set(partitions) - set(before.get(member, ())))
            for member, partitions in after.items()
        }
        self._wanted = {topic for member in members.values() for topic in member.topics}

    def move(self, at: TopicPartition) -> Move:
        before, member = self._had.get(at, ()), _owner(self._has, at)
        waits_for = [owner for owner in before if owner in self._members]
        if member is None and waits_for and self._exists(at) and self._assignor.cooperative:
            reason, words = Reason.HELD_BACK, self._held_back(at, waits_for)
        else:
            reason, words = self._why(at, before, member, self._after)
        return Move(at, before, member, reason, words)

    def _exists(self, at: TopicPartition) -> bool:
        topic, partition = at
        return partition < self._topics.partitions.get(topic, 0) and topic in self._wanted

    def _held_back(self, at: TopicPartition, waits_for: Sequence[str]) -> str:
        have = "has" if len(waits_for) == 1 else "have"
        words = f"{_and(waits_for)} {have} to give it back first"
        member = _owner(self._has_next, at)
        if member is None:
            return words
        words += f", {member} gets it in the next round"
        if waits_for != [member]:
            words += f": {self._why(at, tuple(waits_for), member, self._next_round)[1]}"
        return words

    def _why(
        self, at: TopicPartition, before: tuple[str, ...], member: str | None, shares: Assignment
    ) -> tuple[Reason, str]:
        """Why `member` has it in `shares`, and those `before` no longer."""
        if not before:
            return Reason.NOBODY_HAD_IT, "nobody had it"
        topic, partition = at
        count = self._topics.partitions.get(topic, 0)
        if not count:
            return Reason.PARTITION_GONE, f"there is no topic {topic} any more"
        if partition >= count:
            return Reason.PARTITION_GONE, f"{topic} has only {count} partition{'s' * (count > 1)}"
        if topic not in self._wanted:
            return Reason.NOT_WANTED, f"nobody subscribes to {topic}"
        left = [owner for owner in before if owner not in self._members]
        there = [owner for owner in before if owner in self._members]
        wanting = [owner for owner in there if topic in self._members[owner].topics]
        if wanting in ([], [member]):
            if left:
                return Reason.OWNER_LEFT, f"{_and(left)} left the group"
            lost = [owner for owner in there if owner not in wanting]
            no_longer = "does" if len(lost) == 1 else "do"
            words = f"{_and(lost)} {no_longer} not subscribe to {topic} any more"
            return Reason.OWNER_UNSUBSCRIBED, words
        return self._why_not(at, there, member, shares)

    def _why_not(
        self, at: TopicPartition, there: list[str], member: str | None, shares: Assignment
    ) -> tuple[Reason, str]:
        """Of owners that are `there`, of whom one at least could have kept it."""
        name = self._assignor.name
        latest = max(map(self._generation, there))
        newest = [owner for owner in there if self._generation(owner) == latest]
        owner = newest[0]
        if len(newest) == 1 and member is not None and self._racks_took(at, owner):
            return Reason.RACK, self._racks_say(at, owner, member)
        if self._forgetful:
            return Reason.FORGETFUL, f"{name} deals all partitions out anew, whoever had them"
        if len(newest) > 1:
            return Reason.CLAIMED_TWICE, f"{_and(newest)} claim it, and one can have it"
        wants_it = at[0] in self._members[owner].topics
        if member == owner or not wants_it:
            older = _and([other for other in there if other != owner])
            words = f"{owner}'s claim is newer than that of {older}"
            return Reason.OLD_CLAIM, words + f", but it wants no {at[0]} any more" * (not wants_it)
        if member is None:
            return Reason.CHOICE, f"{name} gives it to nobody"
        if gained := self._gained[owner]:
            topic, partition = gained[0]
            others = f" and {len(gained) - 1} more" * (len(gained) > 1)
            return Reason.EXCHANGE, f"{owner} got {topic}-{partition}{others} in its place"
        if counts := self._balance(at, owner, member, shares):
            return Reason.BALANCE, f"balance: {counts}"
        return Reason.CHOICE, f"{name} gives it to {member}"

    def _balance(
        self, at: TopicPartition, owner: str, member: str, shares: Assignment
    ) -> str | None:
        """The counts, where `owner` with it would be ahead by two or more: in all; or in its topic,
        as strategies balance that go topic by topic; or at least with all that it had, of which it
        then lost others, too."""
        having, getting = len(shares[owner]), len(shares[member])
        if having >= getting:
            return f"{owner} has {having} without it, {member} {getting} with it"
        if self._could_keep[owner] > getting:
            return f"{owner} had {self._could_keep[owner]} to keep, {member} has {getting} with it"
        topic, _ = at
        having, getting = (sum(its == topic for its, _ in shares[name]) for name in (owner, member))
        if having >= getting:
            return f"of {topic} {owner} has {having} without it, {member} {getting} with it"
        return None

    @cached_property
    def _could_keep(self) -> Counter[str]:
        """By member, how many of those it had are there and wanted by it."""
        return Counter(
            owner
            for (topic, partition), owners in self._had.items()
            if partition < self._topics.partitions.get(topic, 0)
            for owner in owners
            if owner in self._members and topic in self._members[owner].topics
        )

    def _generation(self, member: str) -> int:
        generation = self._members[member].generation
        return -1 if generation is None else generation

    def _racks_took(self, at: TopicPartition, owner: str) -> bool:
        """Whether `owner`, far from it, would have kept it in a world without racks."""
        racks, rack = self._racks_of(at), self._members[owner].rack
        far = bool(racks) and bool(rack) and rack not in racks
        return far and owner != _owner(self._has, at) and owner == _owner(self._without_racks, at)

    def _racks_say(self, at: TopicPartition, owner: str, member: str) -> str:
        words = f"no replica is in {owner}'s rack {self._members[owner].rack}"
        rack = self._members[member].rack
        return words + f", one is in {member}'s {rack}" * (rack in self._racks_of(at))

    def _racks_of(self, at: TopicPartition) -> set[str]:
        topic, partition = at
        racks_of = self._topics.replica_racks.get(topic)
        return {rack for rack in racks_of[partition] if rack} if racks_of else set()

    @cached_property
    def _forgetful(self) -> bool:
        return is_forgetful(self._assignor)

    @cached_property
    def _without_racks(self) -> dict[TopicPartition, tuple[str, ...]]:
        bare = Topics(self._topics.partitions)
        return _owners(self._assignor.assign(bare, self._members))

    @cached_property
    def _next_round(self) -> Assignment:
        """What follows when everyone has given back what it does not have in this round."""
        members = {}
        for name, member in self._members.items():
            owned = tuple(self._after[name])
            user_data = self._assignor.user_data(member.topics, owned, GENERATION)
            members[name] = replace(member, owned=owned, generation=GENERATION, user_data=user_data)
        return self._assignor.assign(self._topics, members)

    @cached_property
    def _has_next(self) -> dict[TopicPartition, tuple[str, ...]]:
        return _owners(self._next_round)


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
