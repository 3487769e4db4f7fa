"""The numbers are those of Kafka's RangeAssignorTest."""

from dataclasses import replace

import pytest
from kohort.assignors.model import Subscription, Topics

from .groups import assigned, group, shares, spread

THREE_RACKS = {"c0": "a", "c1": "b", "c2": "c"}


def test_a_static_member_comes_before_a_dynamic_one_of_a_lower_id() -> None:
    members = group(a="t1 t2", z="t1 t2")
    members["z"] = replace(members["z"], group_instance_id="instance")
    given = assigned("range", Topics({"t1": 3, "t2": 3}), members)
    assert given == shares(z="t1-0,1 t2-0,1", a="t1-2 t2-2")


def test_static_members_are_in_the_order_of_their_instances() -> None:
    members = group(a="t", b="t", c="t")
    members["b"] = replace(members["b"], group_instance_id="2")
    members["c"] = replace(members["c"], group_instance_id="1")
    given = assigned("range", Topics({"t": 3}), members)
    assert given == shares(c="t-0", b="t-1", a="t-2")


def test_members_are_in_the_order_of_javas_strings() -> None:
    last, first = "\ufb01", "\U00010000"  # in UTF-16 the latter begins with D800
    given = assigned("range", Topics({"t": 2}), group(**{last: "t", first: "t"}))
    assert given == {first: [("t", 0)], last: [("t", 1)]}


def members_of_three(racks: dict[str, str] | None = None) -> dict[str, Subscription]:
    return group(racks, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t2 t3")


PLAIN = shares(c0="t1-0,1 t2-0,1,2 t3-0", c1="t1-2,3 t2-3,4 t3-1", c2="t1-4,5 t2-5,6")


def test_without_racks_each_topic_goes_by_ranges() -> None:
    assert assigned("range", Topics({"t1": 6, "t2": 7, "t3": 2}), members_of_three()) == PLAIN


def test_racks_that_hold_every_partition_change_nothing() -> None:
    topics = spread("abc", 3, t1=6, t2=7, t3=2)
    assert assigned("range", topics, members_of_three(THREE_RACKS)) == PLAIN


def test_racks_of_members_that_hold_no_partition_change_nothing() -> None:
    topics = spread("xyz", 1, t1=6, t2=7, t3=2)
    assert assigned("range", topics, members_of_three(THREE_RACKS)) == PLAIN


def test_an_empty_rack_is_none() -> None:
    topics = spread("abc", 1, t1=6, t2=7, t3=2)
    empty = dict.fromkeys(THREE_RACKS, "")
    assert assigned("range", topics, members_of_three(empty)) == PLAIN


@pytest.mark.parametrize("rack", [" ", "\t", "\u00a0"])
def test_a_rack_named_by_a_space_is_a_rack_as_for_java(rack: str) -> None:
    members = group({"c0": rack}, c0="t", c1="t")
    topics = Topics({"t": 2}, {"t": [["z"], [rack]]})
    assert assigned("range", topics, members) == shares(c0="t-1", c1="t-0")


def test_one_replica_in_three_racks_is_given_to_the_member_there() -> None:
    given = assigned("range", spread("abc", 1, t1=6, t2=7, t3=2), members_of_three(THREE_RACKS))
    assert given == shares(c0="t1-0,3 t2-0,3,6", c1="t1-1,4 t2-1,4 t3-0", c2="t1-2,5 t2-2,5 t3-1")


def test_two_replicas_in_three_racks_leave_one_partition_away_from_its_member() -> None:
    given = assigned("range", spread("abc", 2, t1=6, t2=7, t3=2), members_of_three(THREE_RACKS))
    assert given == shares(c0="t1-0,2 t2-0,2,3 t3-1", c1="t1-1,3 t2-1,4 t3-0", c2="t1-4,5 t2-5,6")


def test_topics_of_one_size_stay_together_though_their_racks_differ() -> None:
    given = assigned("range", spread("abc", 1, t1=5, t2=5, t3=5), members_of_three(THREE_RACKS))
    plain = assigned("range", Topics({"t1": 5, "t2": 5, "t3": 5}), members_of_three())
    assert given == plain


def test_topics_with_the_same_members_and_size_are_matched_together() -> None:
    racks = {"c0": "a", "c1": "b", "c2": "b", "c3": "a"}
    members = group(racks, c0="t1 t2", c1="t1 t2", c2="t3 t4", c3="t3 t4")
    given = assigned("range", spread("ab", 1, t1=6, t2=6, t3=2, t4=2), members)
    assert given == shares(
        c0="t1-0,2,4 t2-0,2,4", c1="t1-1,3,5 t2-1,3,5", c2="t3-1 t4-1", c3="t3-0 t4-0"
    )
