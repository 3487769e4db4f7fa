"""The examples that Kafka's Javadoc and most tutorials use."""

import pytest
from kohort.assignors.model import Assignment, Topics
from kohort.assignors.resolve import BUILTIN

from .groups import assign, group, owning, partitions, shares


def test_range_assigns_five_partitions_to_three_members() -> None:
    result = assign("range", Topics({"t": 5}), group(c0="t", c1="t", c2="t"))
    assert result == shares(c0="t-0,1", c1="t-2,3", c2="t-4")


def test_range_splits_each_topic_in_halves() -> None:
    result = assign("range", Topics({"t0": 4, "t1": 4}), group(C0="t0 t1", C1="t0 t1"))
    assert result == shares(C0="t0-0,1 t1-0,1", C1="t0-2,3 t1-2,3")


def test_range_assigns_the_odd_partition_of_every_topic_to_the_first_member() -> None:
    result = assign("range", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert result == shares(C0="t0-0,1 t1-0,1", C1="t0-2 t1-2")


def test_roundrobin_balances_two_topics_of_three() -> None:
    result = assign("roundrobin", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert result == shares(C0="t0-0,2 t1-1", C1="t0-1 t1-0,2")


THREE_MEMBERS = group(Ca="Ta Tb", Cb="Ta Tb", Cc="Ta Tb")


def test_range_leaves_the_third_member_idle_if_each_topic_has_two_partitions() -> None:
    result = assign("range", Topics({"Ta": 2, "Tb": 2}), THREE_MEMBERS)
    assert result == shares(Ca="Ta-0 Tb-0", Cb="Ta-1 Tb-1", Cc="")


def test_roundrobin_has_a_partition_for_the_third_member() -> None:
    result = assign("roundrobin", Topics({"Ta": 2, "Tb": 2}), THREE_MEMBERS)
    assert result == shares(Ca="Ta-0 Tb-1", Cb="Ta-1", Cc="Tb-0")


STAIRS = Topics({"t0": 1, "t1": 2, "t2": 3})


def test_roundrobin_with_unequal_subscriptions_is_unbalanced() -> None:
    result = assign("roundrobin", STAIRS, group(C0="t0", C1="t0 t1", C2="t0 t1 t2"))
    assert result == shares(C0="t0-0", C1="t1-0", C2="t1-1 t2-0,1,2")


def test_roundrobin_with_unequal_subscriptions_after_a_member_leaves() -> None:
    result = assign("roundrobin", STAIRS, group(C1="t0 t1", C2="t0 t1 t2"))
    assert result == shares(C1="t0-0 t1-1", C2="t1-0 t2-0,1,2")


FOUR_PAIRS = Topics({"t0": 2, "t1": 2, "t2": 2, "t3": 2})
ALL_FOUR = "t0 t1 t2 t3"


def test_roundrobin_assigns_four_topics_of_two_to_three_members() -> None:
    result = assign("roundrobin", FOUR_PAIRS, group(C0=ALL_FOUR, C1=ALL_FOUR, C2=ALL_FOUR))
    assert result == shares(C0="t0-0 t1-1 t3-0", C1="t0-1 t2-0 t3-1", C2="t1-0 t2-1")


def test_roundrobin_reassigns_everything_when_the_second_member_leaves() -> None:
    result = assign("roundrobin", FOUR_PAIRS, group(C0=ALL_FOUR, C2=ALL_FOUR))
    assert result == shares(C0="t0-0 t1-0 t2-0 t3-0", C2="t0-1 t1-1 t2-1 t3-1")


STICKY = ("sticky", "cooperative-sticky")


def sticky_stairs(strategy: str) -> Assignment:
    return assign(strategy, STAIRS, group(C0="t0", C1="t0 t1", C2="t0 t1 t2"))


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_balances_unequal_subscriptions(strategy: str) -> None:
    result = sticky_stairs(strategy)
    assert result == shares(C0="t0-0", C1="t1-0,1", C2="t2-0,1,2")


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_keeps_five_partitions_of_six_when_a_member_leaves(strategy: str) -> None:
    result = sticky_stairs(strategy)
    del result["C0"]
    left = owning(strategy, group(C1="t0 t1", C2="t0 t1 t2"), result)
    result = assign(strategy, STAIRS, left)
    assert result == shares(C1="t0-0 t1-0,1", C2="t2-0,1,2")


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_assigns_a_new_group_as_roundrobin_does(strategy: str) -> None:
    members = group(C0=ALL_FOUR, C1=ALL_FOUR, C2=ALL_FOUR)
    result = assign(strategy, FOUR_PAIRS, members)
    assert result == assign("roundrobin", FOUR_PAIRS, members)


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_reassigns_only_the_partitions_of_the_member_that_left(strategy: str) -> None:
    before = assign(strategy, FOUR_PAIRS, group(C0=ALL_FOUR, C1=ALL_FOUR, C2=ALL_FOUR))
    unassigned = set(before.pop("C1"))
    assert unassigned == set(partitions("t0-1 t2-0 t3-1"))
    left = owning(strategy, group(C0=ALL_FOUR, C2=ALL_FOUR), before)
    result = assign(strategy, FOUR_PAIRS, left)
    for member, kept in before.items():
        assert len(result[member]) == 4
        assert set(kept) <= set(result[member])
        assert set(result[member]) <= set(kept) | unassigned


@pytest.mark.parametrize("strategy", ["range", "roundrobin", *STICKY])
def test_the_last_of_eight_members_gets_none_of_seven_partitions(strategy: str) -> None:
    members = group(**{f"c{n}": "t" for n in range(8)})
    result = assign(strategy, Topics({"t": 7}), members)
    assert result == shares(**{f"c{n}": f"t-{n}" for n in range(7)}, c7="")


@pytest.mark.parametrize("strategy", BUILTIN)
def test_topics_without_metadata_are_skipped(strategy: str) -> None:
    result = assign(strategy, Topics({"t": 2, "empty": 0}), group(c0="gone t empty"))
    assert result == shares(c0="t-0,1")
