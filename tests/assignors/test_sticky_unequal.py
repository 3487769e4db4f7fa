"""Members that want different topics: the numbers are those of AbstractStickyAssignorTest."""

import pytest
from kohort.assignors.model import Assignment, Topics

from .groups import assigned, group, having, rounds, shares, spread

STICKY = ("sticky", "cooperative-sticky")
SIZES = {"t1": 6, "t2": 7, "t3": 2}
RACKS = {"c0": "a", "c1": "b", "c2": "c"}
PLAIN = shares(c0="t1-5 t2-0,2,4,6", c1="t1-3 t2-1,3,5 t3-0", c2="t1-0,1,2,4 t3-1")
ONE_REPLICA = shares(c0="t1-3 t2-0,2,3,6", c1="t1-4 t2-1,4,5 t3-0", c2="t1-0,1,2,5 t3-1")
TWO_REPLICAS = shares(c0="t1-3 t2-0,2,5,6", c1="t1-0 t2-1,3,4 t3-0", c2="t1-1,2,4,5 t3-1")

PLACES = [
    pytest.param(Topics(SIZES), PLAIN, id="without racks"),
    pytest.param(spread("abc", 3, **SIZES), PLAIN, id="in all racks"),
    pytest.param(spread("ab", 3, **SIZES), PLAIN, id="in both of two racks"),
    pytest.param(spread("abc", 1, **SIZES), ONE_REPLICA, id="one replica"),
    pytest.param(spread("abc", 2, **SIZES), TWO_REPLICAS, id="two replicas"),
]


@pytest.mark.parametrize("strategy", STICKY)
@pytest.mark.parametrize(("topics", "expected"), PLACES)
def test_a_member_that_wants_fewer_topics_has_as_many_partitions(
    strategy: str, topics: Topics, expected: Assignment
) -> None:
    members = group(RACKS, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t3")
    given = assigned(strategy, topics, members)
    assert given == expected
    assert assigned(strategy, topics, having(strategy, members, given)) == expected


def test_cooperative_members_give_back_first_what_others_shall_have() -> None:
    members = group(RACKS, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t3")
    owned = shares(c0="t1-0,1,2,3,4", c1="t1-5 t2-0,1,2,3", c2="t2-4,5,6 t3-0,1")
    members = having("cooperative-sticky", members, owned)
    first, second = rounds("cooperative-sticky", spread("abc", 3, **SIZES), members)
    assert first == shares(c0="t1-2,3,4", c1="t2-0,1,2,3", c2="t3-0,1")
    assert second == shares(c0="t1-2,3,4 t2-4,5", c1="t2-0,1,2,3,6", c2="t1-0,1,5 t3-0,1")


@pytest.mark.parametrize("strategy", STICKY)
def test_the_member_that_wants_most_gets_what_only_it_wants(strategy: str) -> None:
    given = assigned(strategy, Topics({"t1": 3, "t2": 2}), group(c1="t1", c2="t1 t2", c3="t1"))
    assert given == shares(c1="t1-0,2", c2="t2-0,1", c3="t1-1")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_topic_that_is_no_longer_wanted_goes_to_who_wants_it(strategy: str) -> None:
    members = having(strategy, group(a="t0", b="t0 t1"), shares(a="t1-0,1", b="t0-0,1"))
    given = rounds(strategy, Topics({"t0": 2, "t1": 2}), members)[-1]
    assert given == shares(a="t0-0,1", b="t1-0,1")


CLAIMED_TWICE = having("sticky", group(a="t", b="t", c="t u", z="t"), shares(b="t-0,1,2"), 2)
CLAIMED_TWICE |= having("sticky", {"z": CLAIMED_TWICE["z"]}, shares(z="t-0"), 1)


def test_an_owner_of_an_earlier_generation_gets_back_what_has_to_move() -> None:
    given = assigned("sticky", Topics({"t": 3, "u": 2}), CLAIMED_TWICE)
    assert given == shares(a="t-1", b="t-2", c="u-0,1", z="t-0")


def test_an_owner_of_an_earlier_generation_waits_until_its_successor_gives_back() -> None:
    given = assigned("cooperative-sticky", Topics({"t": 3, "u": 2}), CLAIMED_TWICE)
    assert given == shares(a="", b="t-2", c="u-0,1", z="")


def test_an_earlier_owner_that_wants_the_topic_no_more_is_of_no_account() -> None:
    """Upstream looks for its share in vain, and fails."""
    members = having("sticky", group(a="u", b="t", c="t"), shares(b="t-0,1,2", c=""), generation=2)
    members |= having("sticky", {"a": members["a"]}, shares(a="t-0"), generation=1)
    given = assigned("sticky", Topics({"t": 3, "u": 2}), members)
    assert given == shares(a="u-0,1", b="t-1,2", c="t-0")


def test_a_partition_of_a_topic_that_is_gone_is_given_back_without_a_third_round() -> None:
    """Near and far are weighed anew in the second round, in which nothing else may move then."""
    topics = Topics({"t": 2, "u": 2}, {"t": [["b"], ["b"]], "u": [["b"], ["a"]]})
    members = group({"c0": "a", "c1": "a", "c2": "b"}, c0="t", c1="t u", c2="t u")
    owned = shares(c0="gone-0", c1="", c2="t-0 u-0")
    played = rounds("cooperative-sticky", topics, having("cooperative-sticky", members, owned))
    assert len(played) == 2
