"""Properties of all assignors, for random groups with arbitrary claims."""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN
from kohort.assignors.sticky.ownership import cooperative_member_data

from . import strategies as drawn
from .groups import owning, rebalances

EAGER = ("range", "roundrobin", "sticky")
STICKY = ("sticky", "cooperative-sticky")
CLIENT_SIDE = (*EAGER, "cooperative-sticky")


def assignable(topics: Topics, members: Mapping[str, Subscription]) -> set[TopicPartition]:
    names = {topic for member in members.values() for topic in member.topics}
    return {(t, p) for t in names for p in range(topics.partitions.get(t, 0))}


@pytest.mark.parametrize("strategy", CLIENT_SIDE)
@given(data=st.data(), topics=drawn.topics())
def test_each_partition_is_assigned_to_one_subscriber(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    shares = BUILTIN[strategy].assign(topics, members)
    assert list(shares) == list(members) or shares.keys() == members.keys()
    owner_counts = Counter(partition for share in shares.values() for partition in share)
    assert set(owner_counts.values()) <= {1}
    for name, share in shares.items():
        assert share == sorted(share)
        assert {topic for topic, _ in share} <= set(members[name].topics)
    if strategy == "cooperative-sticky":
        assert owner_counts.keys() <= assignable(topics, members)
    else:
        assert owner_counts.keys() == assignable(topics, members)


@pytest.mark.parametrize("strategy", CLIENT_SIDE)
@given(data=st.data(), topics=drawn.topics())
def test_the_order_of_members_and_topics_does_not_matter(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    reordered = {name: members[name] for name in data.draw(st.permutations(list(members)))}
    sizes = {name: topics.partitions[name] for name in sorted(topics.partitions, reverse=True)}
    shares = BUILTIN[strategy].assign(topics, members)
    assert BUILTIN[strategy].assign(Topics(sizes, topics.replica_racks), reordered) == shares


@given(topics=drawn.topics(), members=drawn.members())
def test_range_assigns_equal_numbers_of_partitions_of_a_topic_but_for_one(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    shares = BUILTIN["range"].assign(topics, members)
    for topic in topics.partitions:
        counts = [
            sum(t == topic for t, _ in shares[name])
            for name, member in members.items()
            if topic in member.topics
        ]
        assert not counts or max(counts) - min(counts) <= 1


@pytest.mark.parametrize("strategy", ["roundrobin", "sticky"])
@given(data=st.data(), topics=drawn.topics())
def test_members_with_equal_subscriptions_have_equal_loads_but_for_one(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    if len({frozenset(member.topics) for member in members.values()}) == 1:
        loads = [len(share) for share in BUILTIN[strategy].assign(topics, members).values()]
        assert max(loads) - min(loads) <= 1


def assert_balanced(shares: Assignment, members: Mapping[str, Subscription]) -> None:
    """No member has two partitions more than another one that subscribes to one of them."""
    for more, less in combinations(shares, 2):
        if len(shares[more]) < len(shares[less]):
            more, less = less, more
        if len(shares[more]) > len(shares[less]) + 1:
            topics = {topic for topic, _ in shares[more]}
            assert topics.isdisjoint(members[less].topics), (more, less)


@given(topics=drawn.topics(), members=drawn.claiming("sticky"))
def test_no_single_move_improves_the_balance_of_a_sticky_group(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    assert_balanced(BUILTIN["sticky"].assign(topics, members), members)


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=drawn.topics())
def test_a_group_that_rejoins_unchanged_keeps_everything(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    if len({frozenset(member.topics) for member in members.values()}) > 1:
        # With racks and different subscriptions, partitions may still move to a nearer member.
        topics = Topics(topics.partitions)
    shares = rebalances(strategy, topics, members)[-1]
    assert BUILTIN[strategy].assign(topics, owning(strategy, members, shares)) == shares


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=drawn.topics().map(lambda topics: Topics(topics.partitions)))
def test_after_a_member_leaves_the_others_keep_everything(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    names = data.draw(st.lists(drawn.IDS, min_size=2, max_size=12, unique=True))
    members = {name: Subscription(drawn.TOPICS) for name in names}
    shares = BUILTIN[strategy].assign(topics, members)
    del shares[names[0]], members[names[0]]
    after = BUILTIN[strategy].assign(topics, owning(strategy, members, shares))
    for name, share in shares.items():
        assert set(share) <= set(after[name])


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=drawn.topics().map(lambda topics: Topics(topics.partitions)))
def test_a_new_member_gets_no_more_than_its_share(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    names = data.draw(st.lists(drawn.IDS, min_size=2, max_size=12, unique=True))
    members = {name: Subscription(drawn.TOPICS) for name in names}
    old = {name: members[name] for name in names[1:]}
    shares = BUILTIN[strategy].assign(topics, old)
    after = BUILTIN[strategy].assign(topics, members | owning(strategy, old, shares))
    moved = sum(len(set(share) - set(after[name])) for name, share in shares.items())
    total = sum(topics.partitions.values())
    # Members with one more than the others may keep it if all quotas can be reached.
    assert moved == total // len(names) or moved == -(-total // len(names))


@given(topics=drawn.topics(), members=drawn.claiming("cooperative-sticky"))
def test_no_partition_has_a_second_owner_before_the_first_has_revoked_it(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    """The owners are all members that claim it in the newest generation of its claims."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for name, member in members.items():
        data = cooperative_member_data(member)
        generation = -1 if data.generation is None else data.generation
        for partition in data.partitions:
            claims.setdefault(partition, []).append((generation, name))
    for name, share in BUILTIN["cooperative-sticky"].assign(topics, members).items():
        for partition in share:
            newest = max(claims.get(partition, [(0, name)]))[0]
            owners = {
                owner for generation, owner in claims.get(partition, ()) if generation == newest
            }
            assert owners <= {name}


@given(topics=drawn.topics(), members=drawn.claiming("cooperative-sticky"))
def test_a_cooperative_group_settles_in_two_rebalances(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    results = rebalances("cooperative-sticky", topics, members)
    assert len(results) <= 2
    assigned = {partition for share in results[-1].values() for partition in share}
    assert assigned == assignable(topics, members)
    assert_balanced(results[-1], members)
