"""The broker's own strategy for groups of the new protocol: even, and little moves."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.model import Assignment, Subscription, Topics
from kohort.assignors.uniform import Uniform

from ..groups import assigned, group, partitions, shares

uniform = Uniform().assign


def owning(wants: Mapping[str, str], generation: int = 1, **owned: str) -> dict[str, Subscription]:
    return {
        member: Subscription(
            tuple(topics.split()), tuple(partitions(owned.get(member, ""))), generation
        )
        for member, topics in wants.items()
    }


def test_equal_members_get_equal_shares() -> None:
    given = assigned("uniform", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert given == shares(C0="t0-0,1,2", C1="t1-0,1,2")


def test_of_an_uneven_number_a_new_group_gives_the_last_member_more() -> None:
    given = uniform(Topics({"t": 5}), group(C0="t", C1="t", C2="t"))
    assert given == shares(C0="t-0", C1="t-1,2", C2="t-3,4")


def test_who_has_the_odd_partition_keeps_it() -> None:
    members = owning({"C0": "t", "C1": "t"}, C0="t-0,1", C1="t-2")
    assert uniform(Topics({"t": 3}), members) == shares(C0="t-0,1", C1="t-2")
    members = owning({"C0": "t", "C1": "t"}, C0="t-2", C1="t-0,1")
    assert uniform(Topics({"t": 3}), members) == shares(C0="t-2", C1="t-0,1")


def test_a_new_member_is_given_what_the_others_have_too_much_and_nothing_else_moves() -> None:
    wants = dict.fromkeys(("C0", "C1", "C2"), "t0 t1")
    members = owning(wants, C0="t0-0,1,2", C1="t1-0,1,2")
    given = uniform(Topics({"t0": 3, "t1": 3}), members)
    assert given == shares(C0="t0-0,1", C1="t1-0,1", C2="t0-2 t1-2")


def test_what_a_member_leaves_behind_goes_to_the_others_who_keep_all_they_had() -> None:
    members = owning({"C0": "t", "C1": "t"}, C0="t-0,3", C1="t-1,4")
    assert uniform(Topics({"t": 6}), members) == shares(C0="t-0,2,3", C1="t-1,4,5")


def test_unequal_subscriptions_are_evened_out_as_far_as_they_allow() -> None:
    members = group(C0="t0", C1="t0 t1", C2="t0 t1 t2")
    given = uniform(Topics({"t0": 1, "t1": 2, "t2": 3}), members)
    assert given == shares(C0="t0-0", C1="t1-0,1", C2="t2-0,1,2")


def test_partitions_move_from_who_has_most_when_another_wants_them_too() -> None:
    members = owning({"C0": "t0 t1", "C1": "t1"}, C0="t0-0,1 t1-0,1")
    assert uniform(Topics({"t0": 2, "t1": 2}), members) == shares(C0="t0-0,1", C1="t1-0,1")


def test_what_a_member_no_longer_wants_or_what_is_gone_is_not_kept() -> None:
    members = owning({"C0": "t1", "C1": "t0 t1"}, C0="t0-0 t1-0,7", C1="gone-1")
    assert uniform(Topics({"t0": 1, "t1": 1}), members) == shares(C0="t1-0", C1="t0-0")


def test_of_two_that_claim_a_partition_the_newer_generation_keeps_it() -> None:
    claims = {"C0": (("t", 0), ("t", 1)), "C1": (("t", 0), ("t", 2))}
    members = {m: Subscription(("t",), owned, 1) for m, owned in claims.items()}
    members["C1"] = Subscription(("t",), claims["C1"], 2)
    assert uniform(Topics({"t": 4}), members) == shares(C0="t-1,3", C1="t-0,2")
    members["C1"] = Subscription(("t",), claims["C1"], 1)
    assert uniform(Topics({"t": 4}), members) == shares(C0="t-0,1", C1="t-2,3")


def test_topics_without_partitions_are_skipped() -> None:
    assert uniform(Topics({"t": 1, "none": 0}), group(C0="t none unknown")) == shares(C0="t-0")


GROUPS = st.dictionaries(
    st.sampled_from("pqrstu"), st.sets(st.sampled_from(["t0", "t1", "t2"])), min_size=1
)
SIZES = st.fixed_dictionaries({f"t{n}": st.integers(0, 9) for n in range(3)})


def wanted_by(wants: Mapping[str, set[str]], owned: Assignment) -> dict[str, Subscription]:
    return {
        m: Subscription(tuple(sorted(topics)), tuple(owned.get(m, ())), 1)
        for m, topics in wants.items()
    }


@given(GROUPS, GROUPS, SIZES)
def test_each_partition_has_one_owner_that_wants_it_and_no_move_would_even_it_out(
    before: dict[str, set[str]], wants: dict[str, set[str]], sizes: dict[str, int]
) -> None:
    topics = Topics(sizes)
    members = wanted_by(wants, uniform(topics, wanted_by(before, {})))
    given = uniform(topics, members)
    assert given.keys() == members.keys()
    all_given = sorted(place for share in given.values() for place in share)
    wanted = set().union(*wants.values())
    assert all_given == [(t, p) for t in sorted(wanted) for p in range(sizes[t])]
    for member, share in given.items():
        for topic, _ in share:
            assert topic in wants[member]
            least = min(len(given[other]) for other in wants if topic in wants[other])
            assert len(share) - least <= 1


@given(GROUPS, SIZES)
def test_its_answer_is_its_own_answer_again(
    wants: dict[str, set[str]], sizes: dict[str, int]
) -> None:
    topics = Topics(sizes)
    once = uniform(topics, wanted_by(wants, {}))
    assert uniform(topics, wanted_by(wants, once)) == once


@given(
    st.sets(st.sampled_from("pqrstu"), min_size=1),
    st.sets(st.sampled_from("pqrstu"), min_size=1),
    SIZES,
)
def test_where_all_want_the_same_all_that_fits_into_a_members_share_stays(
    before: set[str], after: set[str], sizes: dict[str, int]
) -> None:
    topics, all_topics = Topics(sizes), {"t0", "t1", "t2"}
    owned = uniform(topics, wanted_by(dict.fromkeys(before, all_topics), {}))
    given = uniform(topics, wanted_by(dict.fromkeys(after, all_topics), owned))
    total, least = sum(sizes.values()), sum(sizes.values()) // len(after)
    kept = sum(len(set(given[m]) & set(owned.get(m, ()))) for m in after)
    sizes_now = sorted((len(owned.get(m, ())) for m in after), reverse=True)
    extras = total - least * len(after)
    could_stay = sum(min(had, least + (seat < extras)) for seat, had in enumerate(sizes_now))
    assert kept == could_stay
