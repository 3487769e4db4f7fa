"""Every reason holds, for two rebalances of random groups and every assignor. The condition of each
reason in docs/assign.md is checked against the two assignments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.explain import Move, Reason, compare, moves
from kohort.assignors.model import Assignment, Assignor, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN

NAMES = ("t", "u", "v")
MEMBERS = ("A", "B", "C", "D")
RACKS = st.none() | st.sampled_from("ab")


@dataclass(frozen=True)
class Group:
    topics: Topics
    members: Mapping[str, Subscription]


@st.composite
def groups(draw: st.DrawFn) -> Group:
    partitions = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5)))
    racks = st.lists(RACKS, max_size=2)
    replica_racks = {
        topic: [draw(racks) for _ in range(count)]
        for topic, count in partitions.items()
        if draw(st.booleans())
    }
    topics = st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(tuple)
    members = st.builds(Subscription, topics, rack_id=RACKS)
    return Group(
        Topics(partitions, replica_racks),
        draw(st.dictionaries(st.sampled_from(MEMBERS), members, min_size=1)),
    )


def owning(assignor: Assignor, group: Group, owned: Assignment, generations: list[int]) -> Group:
    """The group with owned partitions, each member with its own generation."""
    members = dict(group.members)
    for name, generation in zip(sorted(members.keys() & owned.keys()), generations, strict=False):
        of_member = tuple(owned[name])
        user_data = assignor.subscription_user_data(members[name].topics, of_member, generation)
        members[name] = replace(
            members[name],
            owned_partitions=of_member,
            generation_id=generation,
            user_data=user_data,
        )
    return Group(group.topics, members)


class Facts:
    """The facts about one partition that moved."""

    def __init__(self, move: Move, group: Group, before: Assignment, after: Assignment) -> None:
        self.topic, partition = move.partition
        self.owners, self.member, self.before, self.after = move.before, move.member, before, after
        self.exists = partition < group.topics.partitions.get(self.topic, 0)
        members = group.members
        self.subscribers = [name for name in members if self.topic in members[name].topics]
        self.present = [owner for owner in move.before if owner in members]
        self.present.sort(key=lambda owner: members[owner].generation_id or -1, reverse=True)
        self.generations = [members[owner].generation_id or -1 for owner in self.present]
        self.could_keep = [owner for owner in self.present if owner in self.subscribers]
        self.gained = any(set(after[owner]) - set(before[owner]) for owner in self.could_keep)
        racks = group.topics.replica_racks.get(self.topic, ())
        self.in_rack = [name for name in members if self.exists and racks]
        self.in_rack = [name for name in self.in_rack if members[name].rack_id in racks[partition]]

    def improves_balance(self) -> bool:
        """Whether the owner, without the partition, has at least as many as the member with it, of
        all topics or of this topic, or could have kept more."""
        owner, member = self.after[self.could_keep[0]], self.after[self.member]
        return (
            len(owner) >= len(member)
            or self.of_topic(owner) >= self.of_topic(member)
            or len(self.before[self.could_keep[0]]) > len(member)
        )

    def of_topic(self, partitions: list[TopicPartition]) -> int:
        return sum(topic == self.topic for topic, _ in partitions)


CONDITIONS: dict[Reason, Callable[[Facts], bool]] = {
    Reason.NO_PREVIOUS_OWNER: lambda facts: not facts.owners,
    Reason.PARTITION_GONE: lambda facts: not facts.exists,
    Reason.NO_SUBSCRIBER: lambda facts: not facts.subscribers,
    Reason.OWNER_LEFT: lambda facts: (
        len(facts.present) < len(facts.owners) and facts.could_keep in ([], [facts.member])
    ),
    Reason.OWNER_UNSUBSCRIBED: lambda facts: (
        len(facts.could_keep) < len(facts.present) and facts.could_keep in ([], [facts.member])
    ),
    Reason.CLAIMED_TWICE: lambda facts: facts.generations[0] == facts.generations[1],
    Reason.STALE_CLAIM: lambda facts: (
        facts.generations[0] > facts.generations[1]
        and (facts.member == facts.present[0] or facts.present[0] not in facts.subscribers)
    ),
    Reason.PENDING_REVOCATION: lambda facts: (
        facts.member is None and bool(facts.present) and bool(facts.subscribers)
    ),
    Reason.RACK: lambda facts: facts.could_keep[0] not in facts.in_rack,
    Reason.NOT_STICKY: lambda facts: bool(facts.could_keep),
    Reason.EXCHANGE: lambda facts: facts.gained,
    Reason.BALANCE: Facts.improves_balance,
    Reason.ASSIGNOR_CHOICE: lambda facts: bool(facts.could_keep),
}


@pytest.mark.parametrize("name", BUILTIN)
@given(
    first=groups(),
    second=groups(),
    generations=st.lists(st.integers(1, 2), min_size=4, max_size=4),
    claims=st.sets(st.sampled_from(MEMBERS)),
)
def test_every_reason_is_true(
    name: str, first: Group, second: Group, generations: list[int], claims: set[str]
) -> None:
    assignor = BUILTIN[name]
    before = assignor.assign(first.topics, first.members)
    everything = [at for partitions in before.values() for at in partitions]
    before |= dict.fromkeys(claims & before.keys(), everything)
    group = owning(assignor, second, before, generations)
    after = assignor.assign(group.topics, group.members)
    found = moves(assignor, group.topics, group.members, before, after)
    assert [move.partition for move in found] == compare(before, after)[1]
    assert [
        move for move in found if not CONDITIONS[move.reason](Facts(move, group, before, after))
    ] == []
