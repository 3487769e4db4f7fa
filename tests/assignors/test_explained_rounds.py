"""Two rounds of drawn groups by each strategy: every reason that is told is true.

Method: what a reason claims is looked up in the two rounds here, as docs/assign.md defines it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.explain import Move, Reason, compare, moves
from kohort.assignors.model import Assignment, Assignor, Subscription, TopicPartition, Topics

NAMES = ("t", "u", "v")
MEMBERS = ("A", "B", "C", "D")
RACKS = st.none() | st.sampled_from("ab")


@dataclass(frozen=True)
class Round:
    topics: Topics
    members: Mapping[str, Subscription]


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    partitions = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5)))
    racks = st.lists(RACKS, max_size=2)
    replica_racks = {
        topic: [draw(racks) for _ in range(count)]
        for topic, count in partitions.items()
        if draw(st.booleans())
    }
    topics = st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(tuple)
    members = st.builds(Subscription, topics, rack=RACKS)
    return Round(
        Topics(partitions, replica_racks),
        draw(st.dictionaries(st.sampled_from(MEMBERS), members, min_size=1)),
    )


def owning(assignor: Assignor, now: Round, had: Assignment, generations: list[int]) -> Round:
    """The same round, whose members tell what they had, each of its own generation."""
    members = dict(now.members)
    for name, generation in zip(sorted(members.keys() & had.keys()), generations, strict=False):
        owned = tuple(had[name])
        user_data = assignor.user_data(members[name].topics, owned, generation)
        members[name] = replace(
            members[name], owned=owned, generation=generation, user_data=user_data
        )
    return Round(now.topics, members)


class Facts:
    """What is so for one partition that moved."""

    def __init__(self, move: Move, now: Round, had: Assignment, has: Assignment) -> None:
        self.topic, partition = move.partition
        self.before, self.member, self.had, self.has = move.before, move.member, had, has
        self.exists = partition < now.topics.partitions.get(self.topic, 0)
        self.wanting = [name for name in now.members if self.topic in now.members[name].topics]
        self.there = [owner for owner in move.before if owner in now.members]
        self.there.sort(key=lambda owner: now.members[owner].generation or -1, reverse=True)
        self.generations = [now.members[owner].generation or -1 for owner in self.there]
        self.could = [owner for owner in self.there if owner in self.wanting]
        self.gained = any(set(has[owner]) - set(had[owner]) for owner in self.could)
        racks = now.topics.replica_racks.get(self.topic, ())
        self.near = [name for name in now.members if self.exists and racks]
        self.near = [name for name in self.near if now.members[name].rack in racks[partition]]

    def ahead(self) -> bool:
        """Whether the owner has no less without it than the other with it, in all or of its topic,
        or had more to keep."""
        owner, member = self.has[self.could[0]], self.has[self.member]
        return (
            len(owner) >= len(member)
            or self.of_topic(owner) >= self.of_topic(member)
            or len(self.had[self.could[0]]) > len(member)
        )

    def of_topic(self, partitions: list[TopicPartition]) -> int:
        return sum(topic == self.topic for topic, _ in partitions)


TRUE: dict[Reason, Callable[[Facts], bool]] = {
    Reason.NOBODY_HAD_IT: lambda so: not so.before,
    Reason.PARTITION_GONE: lambda so: not so.exists,
    Reason.NOT_WANTED: lambda so: not so.wanting,
    Reason.OWNER_LEFT: lambda so: len(so.there) < len(so.before) and so.could in ([], [so.member]),
    Reason.OWNER_UNSUBSCRIBED: lambda so: (
        len(so.could) < len(so.there) and so.could in ([], [so.member])
    ),
    Reason.CLAIMED_TWICE: lambda so: so.generations[0] == so.generations[1],
    Reason.OLD_CLAIM: lambda so: (
        so.generations[0] > so.generations[1]
        and (so.member == so.there[0] or so.there[0] not in so.wanting)
    ),
    Reason.HELD_BACK: lambda so: so.member is None and bool(so.there) and bool(so.wanting),
    Reason.RACK: lambda so: so.could[0] not in so.near,
    Reason.FORGETFUL: lambda so: bool(so.could),
    Reason.EXCHANGE: lambda so: so.gained,
    Reason.BALANCE: Facts.ahead,
    Reason.CHOICE: lambda so: bool(so.could),
}


@pytest.mark.parametrize("name", BUILTIN)
@given(
    first=rounds(),
    second=rounds(),
    generations=st.lists(st.integers(1, 2), min_size=4, max_size=4),
    claims=st.sets(st.sampled_from(MEMBERS)),
)
def test_every_reason_is_true(
    name: str, first: Round, second: Round, generations: list[int], claims: set[str]
) -> None:
    assignor = BUILTIN[name]
    had = assignor.assign(first.topics, first.members)
    everything = [at for partitions in had.values() for at in partitions]
    had |= dict.fromkeys(claims & had.keys(), everything)
    now = owning(assignor, second, had, generations)
    has = assignor.assign(now.topics, now.members)
    told = moves(assignor, now.topics, now.members, had, has)
    assert [move.partition for move in told] == compare(had, has)[1]
    assert [move for move in told if not TRUE[move.reason](Facts(move, now, had, has))] == []
