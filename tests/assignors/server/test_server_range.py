"""The broker's range assignor."""

from uuid import UUID

from kohort.assignors.model import Subscription, Topics
from kohort.assignors.server.model import Member, Topic
from kohort.assignors.server.range import assign_range

from ..groups import assign, group, shares, spread


def test_each_topic_is_split_by_itself_and_the_first_members_get_more() -> None:
    result = assign("server-range", Topics({"t0": 3, "t1": 3}), group(C0="t0 t1", C1="t0 t1"))
    assert result == shares(C0="t0-0,1 t1-0,1", C1="t0-2 t1-2")


def test_only_the_subscribers_of_a_topic_share_it() -> None:
    result = assign("server-range", Topics({"t0": 4, "t1": 2}), group(C0="t0", C1="t0 t1"))
    assert result == shares(C0="t0-0,1", C1="t0-2,3 t1-0,1")


def test_static_members_come_first_by_instance_id() -> None:
    members = {
        "a": Subscription(("t",)),
        "y": Subscription(("t",), group_instance_id="2"),
        "z": Subscription(("t",), group_instance_id="1"),
    }
    assert assign("server-range", Topics({"t": 4}), members) == shares(z="t-0,1", y="t-2", a="t-3")


def test_members_of_a_homogeneous_group_share_what_the_first_one_subscribes_to() -> None:
    """Kafka may learn only later that the second one subscribes to nothing."""
    topic = Topic(UUID(int=2), 5)
    members = {"a": Member(("t",)), "b": Member(())}
    targets = assign_range(members, {"t": topic}, True)
    assert targets == {"a": {topic.id: [0, 1, 2]}, "b": {topic.id: [3, 4]}}


def test_racks_are_ignored() -> None:
    members = group({"C0": "b", "C1": "a"}, C0="t", C1="t")
    assert assign("server-range", spread("ab", 1, t=2), members) == shares(C0="t-0", C1="t-1")
    assert assign("range", spread("ab", 1, t=2), members) == shares(C0="t-1", C1="t-0")


def test_the_order_of_the_members_does_not_matter() -> None:
    members = group(**{f"c{n}": "t0 t1" if n % 2 else "t1" for n in range(7)})
    backwards = dict(reversed(members.items()))
    for name in ("uniform", "server-range"):
        result = assign(name, Topics({"t0": 5, "t1": 9}), members)
        assert assign(name, Topics({"t1": 9, "t0": 5}), backwards) == result
