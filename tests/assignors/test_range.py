"""The range assignor. The numbers are those of Kafka's RangeAssignorTest."""

from dataclasses import replace

import pytest
from kohort.assignors.model import Subscription, Topics

from .groups import assign, group, shares, spread

THREE_RACKS = {"c0": "a", "c1": "b", "c2": "c"}


def test_a_static_member_comes_before_a_dynamic_one_with_a_lower_id() -> None:
    members = group(a="t1 t2", z="t1 t2")
    members["z"] = replace(members["z"], group_instance_id="instance")
    result = assign("range", Topics({"t1": 3, "t2": 3}), members)
    assert result == shares(z="t1-0,1 t2-0,1", a="t1-2 t2-2")


def test_static_members_are_in_the_order_of_their_instance_ids() -> None:
    members = group(a="t", b="t", c="t")
    members["b"] = replace(members["b"], group_instance_id="2")
    members["c"] = replace(members["c"], group_instance_id="1")
    result = assign("range", Topics({"t": 3}), members)
    assert result == shares(c="t-0", b="t-1", a="t-2")


def test_members_are_in_the_order_of_javas_strings() -> None:
    last, first = "\ufb01", "\U00010000"  # in UTF-16 the second begins with D800
    result = assign("range", Topics({"t": 2}), group(**{last: "t", first: "t"}))
    assert result == {first: [("t", 0)], last: [("t", 1)]}


def members_of_three(racks: dict[str, str] | None = None) -> dict[str, Subscription]:
    return group(racks, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t2 t3")


PLAIN = shares(c0="t1-0,1 t2-0,1,2 t3-0", c1="t1-2,3 t2-3,4 t3-1", c2="t1-4,5 t2-5,6")


def test_without_racks_each_topic_is_assigned_by_ranges() -> None:
    assert assign("range", Topics({"t1": 6, "t2": 7, "t3": 2}), members_of_three()) == PLAIN


def test_racks_with_every_partition_change_nothing() -> None:
    topics = spread("abc", 3, t1=6, t2=7, t3=2)
    assert assign("range", topics, members_of_three(THREE_RACKS)) == PLAIN


def test_member_racks_without_any_replica_change_nothing() -> None:
    topics = spread("xyz", 1, t1=6, t2=7, t3=2)
    assert assign("range", topics, members_of_three(THREE_RACKS)) == PLAIN


def test_an_empty_rack_counts_as_none() -> None:
    topics = spread("abc", 1, t1=6, t2=7, t3=2)
    empty = dict.fromkeys(THREE_RACKS, "")
    assert assign("range", topics, members_of_three(empty)) == PLAIN


@pytest.mark.parametrize("rack", [" ", "\t", "\u00a0"])
def test_a_rack_named_by_a_blank_is_a_rack_as_in_java(rack: str) -> None:
    members = group({"c0": rack}, c0="t", c1="t")
    topics = Topics({"t": 2}, {"t": [["z"], [rack]]})
    assert assign("range", topics, members) == shares(c0="t-1", c1="t-0")


def test_with_one_replica_partitions_go_to_the_member_in_its_rack() -> None:
    result = assign("range", spread("abc", 1, t1=6, t2=7, t3=2), members_of_three(THREE_RACKS))
    assert result == shares(c0="t1-0,3 t2-0,3,6", c1="t1-1,4 t2-1,4 t3-0", c2="t1-2,5 t2-2,5 t3-1")


def test_with_two_replicas_one_partition_has_a_rack_mismatch() -> None:
    result = assign("range", spread("abc", 2, t1=6, t2=7, t3=2), members_of_three(THREE_RACKS))
    assert result == shares(c0="t1-0,2 t2-0,2,3 t3-1", c1="t1-1,3 t2-1,4 t3-0", c2="t1-4,5 t2-5,6")


def test_topics_of_one_size_stay_copartitioned_if_their_racks_differ() -> None:
    result = assign("range", spread("abc", 1, t1=5, t2=5, t3=5), members_of_three(THREE_RACKS))
    plain = assign("range", Topics({"t1": 5, "t2": 5, "t3": 5}), members_of_three())
    assert result == plain


def test_topics_with_the_same_subscribers_and_size_are_matched_together() -> None:
    racks = {"c0": "a", "c1": "b", "c2": "b", "c3": "a"}
    members = group(racks, c0="t1 t2", c1="t1 t2", c2="t3 t4", c3="t3 t4")
    result = assign("range", spread("ab", 1, t1=6, t2=6, t3=2, t4=2), members)
    assert result == shares(
        c0="t1-0,2,4 t2-0,2,4", c1="t1-1,3,5 t2-1,3,5", c2="t3-1 t4-1", c3="t3-0 t4-0"
    )
