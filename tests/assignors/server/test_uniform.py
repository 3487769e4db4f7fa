"""The broker's default assignor in `kohort assign`. Recorded histories of groups (test_as_kafka.py)
and random ones (test_histories.py) test its assignments.
"""

from collections.abc import Mapping
from uuid import UUID

import pytest
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.resolve import BUILTIN
from kohort.assignors.server.homogeneous import assign_uniform
from kohort.assignors.server.model import Member, Topic

from .. import groups
from ..groups import assign, group, shares

uniform = BUILTIN["uniform"].assign


def owning(members: Mapping[str, Subscription], **owned: str) -> dict[str, Subscription]:
    return groups.owning("uniform", members, shares(**owned))


TWO = group(C0="t", C1="t")


def test_equal_members_get_equal_shares() -> None:
    result = assign("uniform", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert result == shares(C0="t0-0,1,2", C1="t1-0,1,2")


def test_in_a_new_group_the_last_members_get_one_more() -> None:
    result = uniform(Topics({"t": 5}), group(C0="t", C1="t", C2="t"))
    assert result == shares(C0="t-0", C1="t-1,2", C2="t-3,4")


def test_only_what_exceeds_the_quotas_moves_to_a_new_member() -> None:
    three = group(C0="t0 t1", C1="t0 t1", C2="t0 t1")
    members = owning(three, C0="t0-0,1,2", C1="t1-0,1,2")
    result = uniform(Topics({"t0": 3, "t1": 3}), members)
    assert result == shares(C0="t0-0,1", C1="t1-0,1", C2="t0-2 t1-2")


def test_after_a_member_leaves_the_others_keep_everything() -> None:
    members = owning(TWO, C0="t-0,3", C1="t-1,4")
    assert uniform(Topics({"t": 6}), members) == shares(C0="t-0,2,3", C1="t-1,4,5")


def test_unsubscribed_and_deleted_partitions_are_not_kept() -> None:
    members = owning(group(C0="t1", C1="t0 t1"), C0="t0-0 t1-0,7", C1="gone-1")
    assert uniform(Topics({"t0": 1, "t1": 1}), members) == shares(C0="t1-0", C1="t0-0")


def test_of_two_owners_the_one_of_the_newer_generation_keeps_a_partition() -> None:
    claims = {"C0": (("t", 0), ("t", 1)), "C1": (("t", 0), ("t", 2))}
    members = {m: Subscription(("t",), owned, 1) for m, owned in claims.items()}
    members["C1"] = Subscription(("t",), claims["C1"], 2)
    assert uniform(Topics({"t": 4}), members) == shares(C0="t-1,3", C1="t-0,2")
    members["C1"] = Subscription(("t",), claims["C1"], 1)
    assert uniform(Topics({"t": 4}), members) == shares(C0="t-0,1", C1="t-2,3")


def test_topics_without_partitions_are_skipped() -> None:
    assert uniform(Topics({"t": 1, "none": 0}), group(C0="t none unknown")) == shares(C0="t-0")


@pytest.mark.parametrize(("unknown", "expected"), [(0, {17: [0]}), (12, {2: [0]})])
def test_tables_have_room_for_topics_that_do_not_exist(
    unknown: int, expected: dict[int, list[int]]
) -> None:
    """The id 17 comes first in a table of 16 buckets, and last in one of 32."""
    topics = {"a": Topic(UUID(int=17), 2), "b": Topic(UUID(int=2), 1)}
    members = {each: Member(("a", "b"), unknown=unknown) for each in ("m1", "m2")}
    targets = assign_uniform(members, topics, True)
    assert {topic.int: list(each) for topic, each in targets["m1"].items()} == expected


class CountedId:
    """A topic id that counts how often ids are compared."""

    comparisons = 0

    def __init__(self, number: int) -> None:
        self.int = number

    def __hash__(self) -> int:
        return hash(self.int)

    def __eq__(self, other: object) -> bool:
        CountedId.comparisons += 1
        return isinstance(other, CountedId) and self.int == other.int


def test_thousands_of_topics_move_to_a_new_member_in_linear_time() -> None:
    """10,000 topics of one member stopped the broker for 25 s when a second member joined."""
    count = 2_000
    topics = {f"t{number}": Topic(CountedId(number), 1) for number in range(count)}
    first = Member(tuple(topics), {topic.id: [0] for topic in topics.values()})
    CountedId.comparisons = 0
    targets = assign_uniform({"C0": first, "C1": Member(tuple(topics))}, topics, True)
    assert [len(target) for target in targets.values()] == [count // 2] * 2
    assert CountedId.comparisons < 10 * count
