"""Members that all want the same topics: the numbers are those of AbstractStickyAssignorTest."""

import pytest
from kohort.assignors.model import TopicPartition, Topics
from kohort.assignors.sticky.near import Near

from .groups import assigned, group, having, rounds, shares, spread

STICKY = ("sticky", "cooperative-sticky")
THREE = group(c1="t", c2="t", c3="t")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_fresh_group_is_dealt_out_in_turn(strategy: str) -> None:
    given = assigned(strategy, Topics({"t": 7}), THREE)
    assert given == shares(c1="t-0,3,6", c2="t-1,4", c3="t-2,5")


@pytest.mark.parametrize("strategy", STICKY)
def test_what_two_members_of_one_generation_claim_belongs_to_neither(strategy: str) -> None:
    members = having(strategy, THREE, shares(c1="t-0,1", c2="t-0,2", c3=""))
    given = assigned(strategy, Topics({"t": 3}), members)
    assert given == shares(c1="t-1", c2="t-2", c3="t-0" if strategy == "sticky" else "")


@pytest.mark.parametrize("strategy", STICKY)
def test_what_nobody_had_is_given_at_once_beside_what_two_claim(strategy: str) -> None:
    members = having(strategy, THREE, shares(c1="t-0,1", c2="t-0,2", c3=""))
    given = assigned(strategy, Topics({"t": 4}), members)
    assert given == shares(c1="t-1,3", c2="t-2", c3="t-0" if strategy == "sticky" else "")


@pytest.mark.parametrize("strategy", STICKY)
def test_what_an_older_generation_claims_stays_with_the_newer_owner(strategy: str) -> None:
    members = having(strategy, THREE, shares(c1="t-0,1"), generation=1)
    members |= having(strategy, {"c2": THREE["c2"]}, shares(c2="t-1,2"), generation=2)
    given = assigned(strategy, Topics({"t": 4}), members)
    assert given == shares(c1="t-0", c2="t-1,2", c3="t-3")


@pytest.mark.parametrize("strategy", STICKY)
def test_two_old_claims_do_not_cost_the_newest_owner_its_partition(strategy: str) -> None:
    members = having(strategy, THREE, shares(c1="t-0", c2="t-0"), generation=1)
    members |= having(strategy, {"c3": THREE["c3"]}, shares(c3="t-0"), generation=2)
    given = assigned(strategy, Topics({"t": 3}), members)
    assert given == shares(c1="t-1", c2="t-2", c3="t-0")


TWO_TOPICS = group(consumer1="t1 t2", consumer2="t1 t2", consumer3="t1 t2")
# Java, and so do we, meets the second of them first.


def test_a_new_member_is_given_what_another_one_has_too_much() -> None:
    members = having(
        "sticky", TWO_TOPICS, shares(consumer1="t1-0 t2-0", consumer2="t1-1 t2-1", consumer3="")
    )
    given = assigned("sticky", Topics({"t1": 2, "t2": 2}), members)
    assert given == shares(consumer1="t1-0", consumer2="t1-1 t2-1", consumer3="t2-0")


def test_a_new_cooperative_member_waits_for_it_one_round() -> None:
    members = having(
        "cooperative-sticky",
        TWO_TOPICS,
        shares(consumer1="t1-0 t2-0", consumer2="t1-1 t2-1", consumer3=""),
    )
    first, second = rounds("cooperative-sticky", Topics({"t1": 2, "t2": 2}), members)
    assert first == shares(consumer1="t1-0", consumer2="t1-1 t2-1", consumer3="")
    assert second == shares(consumer1="t1-0", consumer2="t1-1 t2-1", consumer3="t2-0")


@pytest.mark.parametrize("strategy", STICKY)
def test_new_partitions_go_to_whoever_has_too_little(strategy: str) -> None:
    two = {name: TWO_TOPICS[name] for name in ("consumer1", "consumer2")}
    members = having(strategy, two, shares(consumer1="t1-0 t2-1", consumer2="t1-1 t2-2"))
    given = assigned(strategy, Topics({"t1": 2, "t2": 3}), members)
    assert given == shares(consumer1="t1-0 t2-0,1", consumer2="t1-1 t2-2")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_new_topic_is_given_to_old_and_new_members(strategy: str) -> None:
    members = having(strategy, TWO_TOPICS, shares(consumer1="t1-0", consumer2="t1-1", consumer3=""))
    given = assigned(strategy, Topics({"t1": 2, "t2": 3}), members)
    assert given == shares(consumer1="t1-0 t2-1", consumer2="t1-1 t2-2", consumer3="t2-0")


def test_what_is_far_from_its_owner_moves_in_two_rounds() -> None:
    racks = {"c0": "a", "c1": "b", "c2": "c"}
    members = group(racks, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t2 t3")
    owned = shares(c0="t1-0,1,2,3,4", c1="t1-5 t2-0,1,2,3", c2="t2-4,5,6 t3-0,1")
    members = having("cooperative-sticky", members, owned)
    first, second = rounds("cooperative-sticky", spread("abc", 1, t1=6, t2=7, t3=2), members)
    assert first == shares(c0="t1-0,3", c1="t2-1", c2="t2-5 t3-1")
    assert second == shares(c0="t1-0,3 t2-0,3,6", c1="t1-1,4 t2-1,4 t3-0", c2="t1-2,5 t2-2,5 t3-1")


@pytest.mark.parametrize("strategy", STICKY)
def test_racks_that_are_changed_are_compared_a_few_times_a_partition_however_many_there_are(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def far(near: Near, member: str, partition: TopicPartition) -> bool:
        nonlocal compared
        compared += 1
        return whether(near, member, partition)

    whether = Near.far
    monkeypatch.setattr(Near, "far", far)
    topics = spread("ab", 1, t=2_000)
    racks = {"c0": "a", "c1": "b"}
    given = assigned(strategy, topics, group(racks, c0="t", c1="t"))
    turned = group({"c0": "b", "c1": "a"}, c0="t", c1="t")
    assigned(strategy, topics, having(strategy, turned, given))
    assert compared < 20 * 2_000


@pytest.mark.parametrize("strategy", STICKY)
def test_members_without_topics_get_nothing(strategy: str) -> None:
    given = assigned(strategy, Topics({"t": 2}), group(a="", b="t", c=""))
    assert given == shares(a="", b="t-0,1", c="")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_partition_that_is_no_longer_there_is_forgotten(strategy: str) -> None:
    members = having(strategy, THREE, shares(c1="t-0,7", c2="gone-0", c3="t-1"))
    given = assigned(strategy, Topics({"t": 3}), members)
    assert given == shares(c1="t-0", c2="t-2", c3="t-1")
