"""Ranges as the broker gives them."""

from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.server_range import ServerRange

from ..groups import assigned, group, shares, spread


def test_each_topic_is_split_by_itself_and_the_first_members_get_more() -> None:
    given = assigned("server-range", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert given == shares(C0="t0-0,1 t1-0,1", C1="t0-2 t1-2")


def test_only_the_subscribers_of_a_topic_share_it() -> None:
    given = ServerRange().assign(Topics({"t0": 4, "t1": 2}), group(C0="t0", C1="t0 t1"))
    assert given == shares(C0="t0-0,1", C1="t0-2,3 t1-0,1")


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = {
        "a": Subscription(("t",)),
        "y": Subscription(("t",), group_instance_id="2"),
        "z": Subscription(("t",), group_instance_id="1"),
    }
    assert ServerRange().assign(Topics({"t": 4}), members) == shares(z="t-0,1", y="t-2", a="t-3")


def test_racks_do_not_matter() -> None:
    members = group({"C0": "b", "C1": "a"}, C0="t", C1="t")
    assert ServerRange().assign(spread("ab", 1, t=2), members) == shares(C0="t-0", C1="t-1")
    assert assigned("range", spread("ab", 1, t=2), members) == shares(C0="t-1", C1="t-0")


def test_the_last_of_more_members_than_partitions_gets_nothing() -> None:
    given = ServerRange().assign(Topics({"t": 7}), group(**{f"c{n}": "t" for n in range(8)}))
    assert [len(given[f"c{n}"]) for n in range(8)] == [1] * 7 + [0]


@given(
    st.dictionaries(st.sampled_from("pqrstu"), st.sets(st.sampled_from(["t0", "t1"])), min_size=1),
    st.fixed_dictionaries({"t0": st.integers(0, 9), "t1": st.integers(0, 9)}),
)
def test_each_topic_is_cut_into_one_range_for_each_that_wants_it_and_they_differ_by_one(
    wants: dict[str, set[str]], sizes: dict[str, int]
) -> None:
    members = {name: Subscription(tuple(topics)) for name, topics in wants.items()}
    given = ServerRange().assign(Topics(sizes), members)
    for topic, size in sizes.items():
        ranges = [[p for t, p in given[name] if t == topic] for name in sorted(wants)]
        wanting = [r for name, r in zip(sorted(wants), ranges, strict=True) if topic in wants[name]]
        assert [p for one in ranges for p in one] == (list(range(size)) if wanting else [])
        assert max(map(len, wanting), default=0) - min(map(len, wanting), default=0) <= 1


def test_the_order_in_which_members_are_named_does_not_matter() -> None:
    members = group(**{f"c{n}": "t0 t1" if n % 2 else "t1" for n in range(7)})
    backwards = dict(reversed(members.items()))
    for name in ("uniform", "server-range"):
        given = assigned(name, Topics({"t0": 5, "t1": 9}), members)
        assert assigned(name, Topics({"t1": 9, "t0": 5}), backwards) == given
