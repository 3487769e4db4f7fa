"""What every user of Kafka expects of its strategies, in the examples that all tutorials show."""

import pytest
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Assignment, Topics

from .groups import assigned, group, having, partitions, shares


def test_range_gives_five_partitions_to_three_members_two_two_and_one() -> None:
    given = assigned("range", Topics({"t": 5}), group(c0="t", c1="t", c2="t"))
    assert given == shares(c0="t-0,1", c1="t-2,3", c2="t-4")


def test_range_splits_each_of_two_topics_of_four_in_halves() -> None:
    given = assigned("range", Topics({"t0": 4, "t1": 4}), group(C0="t0 t1", C1="t0 t1"))
    assert given == shares(C0="t0-0,1 t1-0,1", C1="t0-2,3 t1-2,3")


def test_range_gives_the_first_member_the_odd_partition_of_every_topic() -> None:
    given = assigned("range", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert given == shares(C0="t0-0,1 t1-0,1", C1="t0-2 t1-2")


def test_roundrobin_shares_two_topics_of_three_evenly() -> None:
    given = assigned("roundrobin", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert given == shares(C0="t0-0,2 t1-1", C1="t0-1 t1-0,2")


THREE_MEMBERS = group(Ca="Ta Tb", Cb="Ta Tb", Cc="Ta Tb")


def test_range_leaves_the_third_member_idle_where_each_topic_has_two_partitions() -> None:
    given = assigned("range", Topics({"Ta": 2, "Tb": 2}), THREE_MEMBERS)
    assert given == shares(Ca="Ta-0 Tb-0", Cb="Ta-1 Tb-1", Cc="")


def test_roundrobin_has_a_partition_for_the_third_member_too() -> None:
    given = assigned("roundrobin", Topics({"Ta": 2, "Tb": 2}), THREE_MEMBERS)
    assert given == shares(Ca="Ta-0 Tb-1", Cb="Ta-1", Cc="Tb-0")


STAIRS = Topics({"t0": 1, "t1": 2, "t2": 3})


def test_roundrobin_over_unequal_subscriptions_loads_the_member_that_wants_most() -> None:
    given = assigned("roundrobin", STAIRS, group(C0="t0", C1="t0 t1", C2="t0 t1 t2"))
    assert given == shares(C0="t0-0", C1="t1-0", C2="t1-1 t2-0,1,2")


def test_roundrobin_over_unequal_subscriptions_deals_anew_when_a_member_leaves() -> None:
    given = assigned("roundrobin", STAIRS, group(C1="t0 t1", C2="t0 t1 t2"))
    assert given == shares(C1="t0-0 t1-1", C2="t1-0 t2-0,1,2")


FOUR_PAIRS = Topics({"t0": 2, "t1": 2, "t2": 2, "t3": 2})
ALL_FOUR = "t0 t1 t2 t3"


def test_roundrobin_deals_four_topics_of_two_to_three_members() -> None:
    given = assigned("roundrobin", FOUR_PAIRS, group(C0=ALL_FOUR, C1=ALL_FOUR, C2=ALL_FOUR))
    assert given == shares(C0="t0-0 t1-1 t3-0", C1="t0-1 t2-0 t3-1", C2="t1-0 t2-1")


def test_roundrobin_deals_four_topics_of_two_anew_when_the_second_member_leaves() -> None:
    given = assigned("roundrobin", FOUR_PAIRS, group(C0=ALL_FOUR, C2=ALL_FOUR))
    assert given == shares(C0="t0-0 t1-0 t2-0 t3-0", C2="t0-1 t1-1 t2-1 t3-1")


STICKY = ("sticky", "cooperative-sticky")


def sticky_stairs(strategy: str) -> Assignment:
    return assigned(strategy, STAIRS, group(C0="t0", C1="t0 t1", C2="t0 t1 t2"))


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_over_unequal_subscriptions_loads_nobody_more_than_it_must(strategy: str) -> None:
    given = sticky_stairs(strategy)
    assert given == shares(C0="t0-0", C1="t1-0,1", C2="t2-0,1,2")


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_over_unequal_subscriptions_keeps_five_when_a_member_leaves(strategy: str) -> None:
    given = sticky_stairs(strategy)
    del given["C0"]
    left = having(strategy, group(C1="t0 t1", C2="t0 t1 t2"), given)
    given = assigned(strategy, STAIRS, left)
    assert given == shares(C1="t0-0 t1-0,1", C2="t2-0,1,2")


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_deals_four_topics_of_two_as_roundrobin_does(strategy: str) -> None:
    members = group(C0=ALL_FOUR, C1=ALL_FOUR, C2=ALL_FOUR)
    given = assigned(strategy, FOUR_PAIRS, members)
    assert given == assigned("roundrobin", FOUR_PAIRS, members)


@pytest.mark.parametrize("strategy", STICKY)
def test_sticky_shares_out_only_what_the_member_that_left_had(strategy: str) -> None:
    before = assigned(strategy, FOUR_PAIRS, group(C0=ALL_FOUR, C1=ALL_FOUR, C2=ALL_FOUR))
    shared_out = set(before.pop("C1"))
    assert shared_out == set(partitions("t0-1 t2-0 t3-1"))
    left = having(strategy, group(C0=ALL_FOUR, C2=ALL_FOUR), before)
    given = assigned(strategy, FOUR_PAIRS, left)
    for member, kept in before.items():
        assert len(given[member]) == 4
        assert set(kept) <= set(given[member])
        assert set(given[member]) <= set(kept) | shared_out


@pytest.mark.parametrize("strategy", ["range", "roundrobin", *STICKY])
def test_the_last_of_eight_members_gets_nothing_of_seven_partitions(strategy: str) -> None:
    members = group(**{f"c{n}": "t" for n in range(8)})
    given = assigned(strategy, Topics({"t": 7}), members)
    assert given == shares(**{f"c{n}": f"t-{n}" for n in range(7)}, c7="")


@pytest.mark.parametrize("strategy", BUILTIN)
def test_topics_without_metadata_are_skipped(strategy: str) -> None:
    given = assigned(strategy, Topics({"t": 2, "empty": 0}), group(c0="gone t empty"))
    assert given == shares(c0="t-0,1")
