"""Different subscriptions. Most numbers are those of AbstractStickyAssignorTest."""

import pytest
from kohort.assignors.model import Assignment, Topics

from .groups import assign, group, owning, rebalances, shares, spread

STICKY = ("sticky", "cooperative-sticky")
SIZES = {"t1": 6, "t2": 7, "t3": 2}
RACKS = {"c0": "a", "c1": "b", "c2": "c"}
PLAIN = shares(c0="t1-5 t2-0,2,4,6", c1="t1-3 t2-1,3,5 t3-0", c2="t1-0,1,2,4 t3-1")
ONE_REPLICA = shares(c0="t1-3 t2-0,2,3,6", c1="t1-4 t2-1,4,5 t3-0", c2="t1-0,1,2,5 t3-1")
TWO_REPLICAS = shares(c0="t1-3 t2-0,2,5,6", c1="t1-0 t2-1,3,4 t3-0", c2="t1-1,2,4,5 t3-1")

RACK_LAYOUTS = [
    pytest.param(Topics(SIZES), PLAIN, id="without racks"),
    pytest.param(spread("abc", 3, **SIZES), PLAIN, id="in all racks"),
    pytest.param(spread("ab", 3, **SIZES), PLAIN, id="in both of two racks"),
    pytest.param(spread("abc", 1, **SIZES), ONE_REPLICA, id="one replica"),
    pytest.param(spread("abc", 2, **SIZES), TWO_REPLICAS, id="two replicas"),
]


@pytest.mark.parametrize("strategy", STICKY)
@pytest.mark.parametrize(("topics", "expected"), RACK_LAYOUTS)
def test_a_member_with_fewer_topics_has_as_many_partitions(
    strategy: str, topics: Topics, expected: Assignment
) -> None:
    members = group(RACKS, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t3")
    result = assign(strategy, topics, members)
    assert result == expected
    assert assign(strategy, topics, owning(strategy, members, result)) == expected


def test_cooperative_members_first_revoke_what_moves() -> None:
    members = group(RACKS, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t3")
    owned = shares(c0="t1-0,1,2,3,4", c1="t1-5 t2-0,1,2,3", c2="t2-4,5,6 t3-0,1")
    members = owning("cooperative-sticky", members, owned)
    first, second = rebalances("cooperative-sticky", spread("abc", 3, **SIZES), members)
    assert first == shares(c0="t1-2,3,4", c1="t2-0,1,2,3", c2="t3-0,1")
    assert second == shares(c0="t1-2,3,4 t2-4,5", c1="t2-0,1,2,3,6", c2="t1-0,1,5 t3-0,1")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_topic_with_one_subscriber_goes_to_it(strategy: str) -> None:
    result = assign(strategy, Topics({"t1": 3, "t2": 2}), group(c1="t1", c2="t1 t2", c3="t1"))
    assert result == shares(c1="t1-0,2", c2="t2-0,1", c3="t1-1")


@pytest.mark.parametrize("strategy", STICKY)
def test_partitions_of_a_member_that_unsubscribed_go_to_a_subscriber(strategy: str) -> None:
    members = owning(strategy, group(a="t0", b="t0 t1"), shares(a="t1-0,1", b="t0-0,1"))
    result = rebalances(strategy, Topics({"t0": 2, "t1": 2}), members)[-1]
    assert result == shares(a="t0-0,1", b="t1-0,1")


CLAIMED_TWICE = owning("sticky", group(a="t", b="t", c="t u", z="t"), shares(b="t-0,1,2"), 2)
CLAIMED_TWICE |= owning("sticky", {"z": CLAIMED_TWICE["z"]}, shares(z="t-0"), 1)


def test_a_partition_that_moves_returns_to_its_previous_owner() -> None:
    result = assign("sticky", Topics({"t": 3, "u": 2}), CLAIMED_TWICE)
    assert result == shares(a="t-1", b="t-2", c="u-0,1", z="t-0")


def test_a_cooperative_previous_owner_waits_for_the_revocation() -> None:
    result = assign("cooperative-sticky", Topics({"t": 3, "u": 2}), CLAIMED_TWICE)
    assert result == shares(a="", b="t-2", c="u-0,1", z="")


def test_a_previous_owner_that_unsubscribed_is_ignored() -> None:
    """Kafka throws a NullPointerException."""
    members = owning("sticky", group(a="u", b="t", c="t"), shares(b="t-0,1,2", c=""), generation=2)
    members |= owning("sticky", {"a": members["a"]}, shares(a="t-0"), generation=1)
    result = assign("sticky", Topics({"t": 3, "u": 2}), members)
    assert result == shares(a="u-0,1", b="t-1,2", c="t-0")


def test_a_deleted_topic_is_revoked_without_a_third_rebalance() -> None:
    """Racks are compared again in the second rebalance, in which nothing else may move."""
    topics = Topics({"t": 2, "u": 2}, {"t": [["b"], ["b"]], "u": [["b"], ["a"]]})
    members = group({"c0": "a", "c1": "a", "c2": "b"}, c0="t", c1="t u", c2="t u")
    owned = shares(c0="gone-0", c1="", c2="t-0 u-0")
    results = rebalances("cooperative-sticky", topics, owning("cooperative-sticky", members, owned))
    assert len(results) == 2
