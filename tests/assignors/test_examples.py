"""The assignors in kohort.assignors.examples."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.examples import InRack, Weighted
from kohort.assignors.model import Subscription, Topics

from .groups import group, shares, spread


def test_each_partition_goes_to_a_member_in_a_rack_of_its_replica() -> None:
    members = group({"m1": "a", "m2": "b", "m3": "c"}, m1="t", m2="t", m3="t")
    result = InRack().assign(spread("abc", 1, t=6), members)
    assert result == shares(m1="t-0,3", m2="t-1,4", m3="t-2,5")


def test_partitions_with_the_fewest_candidates_are_assigned_first() -> None:
    topics = Topics({"t": 4}, {"t": [["a", "b"], ["a", "b"], ["a"], ["a"]]})
    members = group({"m1": "a", "m2": "b"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-2,3", m2="t-0,1")


def test_proximity_comes_before_balance() -> None:
    topics = Topics({"t": 4}, {"t": [["a"]] * 4})
    members = group({"m1": "a", "m2": "b"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-0,1,2,3", m2="")


def test_members_of_one_rack_get_equal_shares() -> None:
    topics = Topics({"t": 4}, {"t": [["a"]] * 4})
    members = group({"m1": "a", "m2": "a"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-0,2", m2="t-1,3")


def test_a_partition_without_a_member_in_its_racks_goes_to_the_least_loaded() -> None:
    topics = Topics({"t": 3}, {"t": [["a"], [None], ["z"]]})
    members = group({"m1": "a"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-0,2", m2="t-1")


def test_without_racks_members_get_equal_shares() -> None:
    members = {"m1": Subscription(("t",)), "m2": Subscription(("t",))}
    assert InRack().assign(Topics({"t": 4}), members) == shares(m1="t-0,2", m2="t-1,3")


@given(
    st.lists(st.sets(st.sampled_from("abc")), min_size=1, max_size=12),
    st.dictionaries(st.sampled_from("pqrs"), st.sampled_from([*"abc", None]), min_size=1),
)
def test_partitions_stay_in_a_rack_of_theirs_if_it_has_a_member(
    replicas: list[set[str]], racks: dict[str, str | None]
) -> None:
    topics = Topics({"t": len(replicas)}, {"t": [sorted(r) for r in replicas]})
    members = {member: Subscription(("t",), rack_id=rack) for member, rack in racks.items()}
    result = InRack().assign(topics, members)
    assert sorted(p for share in result.values() for _, p in share) == list(range(len(replicas)))
    for member, share in result.items():
        for _, partition in share:
            candidates = replicas[partition] & set(racks.values())
            assert not candidates or racks[member] in candidates


def weighted_group(weights: Mapping[str, int], *topics: str) -> dict[str, Subscription]:
    return {
        member: Subscription(
            topics, user_data=Weighted(weight).subscription_user_data(topics, (), None)
        )
        for member, weight in weights.items()
    }


def counts(topics: Topics, members: Mapping[str, Subscription]) -> dict[str, int]:
    assigned = Weighted().assign(topics, members)
    result = sorted(partition for share in assigned.values() for partition in share)
    subscribed = {topic for member in members.values() for topic in member.topics}
    assert result == sorted(
        (t, p) for t, n in topics.partitions.items() if t in subscribed for p in range(n)
    )
    return {member: len(share) for member, share in assigned.items()}


def test_shares_are_in_proportion_to_the_weights() -> None:
    members = weighted_group({"small": 1, "middle": 2, "large": 3}, "t")
    assert counts(Topics({"t": 12}), members) == {"small": 2, "middle": 4, "large": 6}


def test_members_of_equal_weight_get_equal_shares() -> None:
    assert counts(Topics({"t": 5, "u": 5}), weighted_group({"a": 7, "b": 7}, "t", "u")) == {
        "a": 5,
        "b": 5,
    }


def test_a_member_without_user_data_has_weight_1() -> None:
    members = {**weighted_group({"large": 3}, "t"), "plain": Subscription(("t",))}
    assert counts(Topics({"t": 8}), members) == {"large": 6, "plain": 2}


def test_members_get_only_topics_of_their_subscriptions() -> None:
    members = {**weighted_group({"large": 9}, "t"), **weighted_group({"small": 1}, "u")}
    assert counts(Topics({"t": 1, "u": 4}), members) == {"large": 1, "small": 4}


def test_invalid_user_data_are_reported_with_the_member() -> None:
    members = {**weighted_group({"a": 1}, "t"), "b": Subscription(("t",), user_data=b"heavy")}
    with pytest.raises(ValueError, match="invalid weight b'heavy' in the user data of b: expected"):
        Weighted().assign(Topics({"t": 1}), members)


def test_a_weight_is_at_least_1() -> None:
    with pytest.raises(ValueError, match="invalid weight 0: must be at least 1"):
        Weighted(0)


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=1), st.integers(1, 60))
def test_no_move_brings_the_shares_closer_to_the_weights(
    weights: dict[str, int], partitions: int
) -> None:
    result = counts(Topics({"t": partitions}), weighted_group(weights, "t"))
    for giver, receiver in ((g, r) for g in result for r in result if g != r and result[g]):
        assert (result[receiver] + 1) / weights[receiver] >= result[giver] / weights[giver]
