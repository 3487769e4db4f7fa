"""Members that say how strong they are."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.examples.weighted import Weighted
from kohort.assignors.model import Subscription, Topics


def group(weights: Mapping[str, int], *topics: str) -> dict[str, Subscription]:
    return {
        member: Subscription(topics, user_data=Weighted(weight).user_data(topics, (), None))
        for member, weight in weights.items()
    }


def counts(topics: Topics, members: Mapping[str, Subscription]) -> dict[str, int]:
    shares = Weighted().assign(topics, members)
    given = sorted(place for share in shares.values() for place in share)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert given == sorted(
        (t, p) for t, n in topics.partitions.items() if t in wanted for p in range(n)
    )
    return {member: len(share) for member, share in shares.items()}


def test_shares_are_in_the_proportion_of_the_weights() -> None:
    members = group({"small": 1, "middle": 2, "large": 3}, "t")
    assert counts(Topics({"t": 12}), members) == {"small": 2, "middle": 4, "large": 6}


def test_equal_weights_are_an_even_share() -> None:
    assert counts(Topics({"t": 5, "u": 5}), group({"a": 7, "b": 7}, "t", "u")) == {"a": 5, "b": 5}


def test_a_member_that_says_nothing_weighs_one() -> None:
    members = {**group({"large": 3}, "t"), "plain": Subscription(("t",))}
    assert counts(Topics({"t": 8}), members) == {"large": 6, "plain": 2}


def test_nobody_gets_what_it_does_not_want_however_strong() -> None:
    members = {**group({"large": 9}, "t"), **group({"small": 1}, "u")}
    assert counts(Topics({"t": 1, "u": 4}), members) == {"large": 1, "small": 4}


def test_user_data_that_are_no_weight_are_refused_with_their_member() -> None:
    members = {**group({"a": 1}, "t"), "b": Subscription(("t",), user_data=b"heavy")}
    with pytest.raises(ValueError, match="user data of b are no weight: b'heavy'"):
        Weighted().assign(Topics({"t": 1}), members)


def test_a_weight_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Weighted(0)


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=1), st.integers(1, 60))
def test_no_other_member_has_a_better_claim_to_a_partition(
    weights: dict[str, int], partitions: int
) -> None:
    given = counts(Topics({"t": partitions}), group(weights, "t"))
    for giver, receiver in ((g, r) for g in given for r in given if g != r and given[g]):
        assert (given[receiver] + 1) / weights[receiver] >= given[giver] / weights[giver]
