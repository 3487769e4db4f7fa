"""Partitions that stay in a rack that has them."""

from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.examples.in_rack import InRack
from kohort.assignors.model import Subscription, Topics

from ..groups import group, shares, spread


def test_each_partition_goes_to_a_member_in_a_rack_of_its_replica() -> None:
    members = group({"m1": "a", "m2": "b", "m3": "c"}, m1="t", m2="t", m3="t")
    given = InRack().assign(spread("abc", 1, t=6), members)
    assert given == shares(m1="t-0,3", m2="t-1,4", m3="t-2,5")


def test_partitions_with_less_choice_are_given_first_so_that_the_others_even_it_out() -> None:
    topics = Topics({"t": 4}, {"t": [["a", "b"], ["a", "b"], ["a"], ["a"]]})
    members = group({"m1": "a", "m2": "b"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-2,3", m2="t-0,1")


def test_near_goes_before_even() -> None:
    topics = Topics({"t": 4}, {"t": [["a"]] * 4})
    members = group({"m1": "a", "m2": "b"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-0,1,2,3", m2="")


def test_members_of_one_rack_share_it_evenly() -> None:
    topics = Topics({"t": 4}, {"t": [["a"]] * 4})
    members = group({"m1": "a", "m2": "a"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-0,2", m2="t-1,3")


def test_a_partition_without_a_member_near_goes_to_who_has_least() -> None:
    topics = Topics({"t": 3}, {"t": [["a"], [None], ["z"]]})
    members = group({"m1": "a"}, m1="t", m2="t")
    assert InRack().assign(topics, members) == shares(m1="t-0,2", m2="t-1")


def test_without_racks_it_is_an_even_share() -> None:
    members = {"m1": Subscription(("t",)), "m2": Subscription(("t",))}
    assert InRack().assign(Topics({"t": 4}), members) == shares(m1="t-0,2", m2="t-1,3")


@given(
    st.lists(st.sets(st.sampled_from("abc")), min_size=1, max_size=12),
    st.dictionaries(st.sampled_from("pqrs"), st.sampled_from([*"abc", None]), min_size=1),
)
def test_nothing_is_read_from_another_rack_that_a_member_near_could_read(
    replicas: list[set[str]], racks: dict[str, str | None]
) -> None:
    topics = Topics({"t": len(replicas)}, {"t": [sorted(r) for r in replicas]})
    members = {member: Subscription(("t",), rack=rack) for member, rack in racks.items()}
    given = InRack().assign(topics, members)
    assert sorted(p for share in given.values() for _, p in share) == list(range(len(replicas)))
    for member, share in given.items():
        for _, partition in share:
            near = replicas[partition] & set(racks.values())
            assert not near or racks[member] in near
