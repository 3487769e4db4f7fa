"""Equal subscriptions. Most numbers are those of AbstractStickyAssignorTest."""

import pytest
from kohort.assignors.model import TopicPartition, Topics
from kohort.assignors.racks import RackInfo

from .groups import assign, group, owning, rebalances, shares, spread

STICKY = ("sticky", "cooperative-sticky")
THREE = group(c1="t", c2="t", c3="t")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_new_group_is_assigned_in_turn(strategy: str) -> None:
    result = assign(strategy, Topics({"t": 7}), THREE)
    assert result == shares(c1="t-0,3,6", c2="t-1,4", c3="t-2,5")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_partition_claimed_twice_in_one_generation_has_no_owner(strategy: str) -> None:
    members = owning(strategy, THREE, shares(c1="t-0,1", c2="t-0,2", c3=""))
    result = assign(strategy, Topics({"t": 3}), members)
    assert result == shares(c1="t-1", c2="t-2", c3="t-0" if strategy == "sticky" else "")


@pytest.mark.parametrize("strategy", STICKY)
def test_unowned_partitions_are_assigned_at_once_despite_a_double_claim(strategy: str) -> None:
    members = owning(strategy, THREE, shares(c1="t-0,1", c2="t-0,2", c3=""))
    result = assign(strategy, Topics({"t": 4}), members)
    assert result == shares(c1="t-1,3", c2="t-2", c3="t-0" if strategy == "sticky" else "")


@pytest.mark.parametrize("strategy", STICKY)
def test_the_owner_of_the_newer_generation_keeps_a_partition(strategy: str) -> None:
    members = owning(strategy, THREE, shares(c1="t-0,1"), generation=1)
    members |= owning(strategy, {"c2": THREE["c2"]}, shares(c2="t-1,2"), generation=2)
    result = assign(strategy, Topics({"t": 4}), members)
    assert result == shares(c1="t-0", c2="t-1,2", c3="t-3")


@pytest.mark.parametrize("strategy", STICKY)
def test_two_stale_claims_do_not_affect_the_newest_owner(strategy: str) -> None:
    members = owning(strategy, THREE, shares(c1="t-0", c2="t-0"), generation=1)
    members |= owning(strategy, {"c3": THREE["c3"]}, shares(c3="t-0"), generation=2)
    result = assign(strategy, Topics({"t": 3}), members)
    assert result == shares(c1="t-1", c2="t-2", c3="t-0")


TWO_TOPICS = group(consumer1="t1 t2", consumer2="t1 t2", consumer3="t1 t2")
# In HashMap order the second one comes first.


def test_a_new_member_gets_the_surplus_of_another() -> None:
    members = owning(
        "sticky", TWO_TOPICS, shares(consumer1="t1-0 t2-0", consumer2="t1-1 t2-1", consumer3="")
    )
    result = assign("sticky", Topics({"t1": 2, "t2": 2}), members)
    assert result == shares(consumer1="t1-0", consumer2="t1-1 t2-1", consumer3="t2-0")


def test_a_new_cooperative_member_gets_it_in_the_second_rebalance() -> None:
    members = owning(
        "cooperative-sticky",
        TWO_TOPICS,
        shares(consumer1="t1-0 t2-0", consumer2="t1-1 t2-1", consumer3=""),
    )
    first, second = rebalances("cooperative-sticky", Topics({"t1": 2, "t2": 2}), members)
    assert first == shares(consumer1="t1-0", consumer2="t1-1 t2-1", consumer3="")
    assert second == shares(consumer1="t1-0", consumer2="t1-1 t2-1", consumer3="t2-0")


@pytest.mark.parametrize("strategy", STICKY)
def test_new_partitions_go_to_members_below_their_quota(strategy: str) -> None:
    two = {name: TWO_TOPICS[name] for name in ("consumer1", "consumer2")}
    members = owning(strategy, two, shares(consumer1="t1-0 t2-1", consumer2="t1-1 t2-2"))
    result = assign(strategy, Topics({"t1": 2, "t2": 3}), members)
    assert result == shares(consumer1="t1-0 t2-0,1", consumer2="t1-1 t2-2")


@pytest.mark.parametrize("strategy", STICKY)
def test_a_new_topic_is_assigned_to_old_and_new_members(strategy: str) -> None:
    members = owning(strategy, TWO_TOPICS, shares(consumer1="t1-0", consumer2="t1-1", consumer3=""))
    result = assign(strategy, Topics({"t1": 2, "t2": 3}), members)
    assert result == shares(consumer1="t1-0 t2-1", consumer2="t1-1 t2-2", consumer3="t2-0")


def test_partitions_with_a_rack_mismatch_move_in_two_rebalances() -> None:
    racks = {"c0": "a", "c1": "b", "c2": "c"}
    members = group(racks, c0="t1 t2 t3", c1="t1 t2 t3", c2="t1 t2 t3")
    owned = shares(c0="t1-0,1,2,3,4", c1="t1-5 t2-0,1,2,3", c2="t2-4,5,6 t3-0,1")
    members = owning("cooperative-sticky", members, owned)
    first, second = rebalances("cooperative-sticky", spread("abc", 1, t1=6, t2=7, t3=2), members)
    assert first == shares(c0="t1-0,3", c1="t2-1", c2="t2-5 t3-1")
    assert second == shares(c0="t1-0,3 t2-0,3,6", c1="t1-1,4 t2-1,4 t3-0", c2="t1-2,5 t2-2,5 t3-1")


@pytest.mark.parametrize("strategy", STICKY)
def test_changed_racks_are_checked_a_constant_number_of_times_per_partition(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def is_mismatch(racks: RackInfo, member: str, partition: TopicPartition) -> bool:
        nonlocal calls
        calls += 1
        return original(racks, member, partition)

    original = RackInfo.is_mismatch
    monkeypatch.setattr(RackInfo, "is_mismatch", is_mismatch)
    topics = spread("ab", 1, t=2_000)
    racks = {"c0": "a", "c1": "b"}
    result = assign(strategy, topics, group(racks, c0="t", c1="t"))
    swapped = group({"c0": "b", "c1": "a"}, c0="t", c1="t")
    assign(strategy, topics, owning(strategy, swapped, result))
    assert 0 < calls < 20 * 2_000


@pytest.mark.parametrize("strategy", STICKY)
def test_members_without_topics_get_nothing(strategy: str) -> None:
    result = assign(strategy, Topics({"t": 2}), group(a="", b="t", c=""))
    assert result == shares(a="", b="t-0,1", c="")


@pytest.mark.parametrize("strategy", STICKY)
def test_claims_of_partitions_that_do_not_exist_are_ignored(strategy: str) -> None:
    members = owning(strategy, THREE, shares(c1="t-0,7", c2="gone-0", c3="t-1"))
    result = assign(strategy, Topics({"t": 3}), members)
    assert result == shares(c1="t-0", c2="t-2", c3="t-1")
