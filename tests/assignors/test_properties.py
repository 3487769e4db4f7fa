"""Properties of all assignors, for random groups with arbitrary claims."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN
from kohort.assignors.sticky.ownership import cooperative_member_data

from .groups import owning, rebalances

EAGER = ("range", "roundrobin", "sticky")
STICKY = ("sticky", "cooperative-sticky")
CLIENT_SIDE = (*EAGER, "cooperative-sticky")
TOPICS = ("t0", "t1", "t2", "t3")
SUBSCRIBABLE = (*TOPICS, "unknown")
IDS = st.one_of(
    st.integers(0, 30).map(lambda n: f"m{n}"), st.text("aé\ufb01\U00010000-", min_size=1)
)
RACKS = st.sampled_from((None, "", "a", "b", "c"))
REPLICAS = st.sampled_from(((None,), ("a",), ("b",), ("c",), ("a", "b"), ("c", "", "a")))


@st.composite
def random_topics(draw: st.DrawFn) -> Topics:
    sizes = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 6)))
    racks = {}
    if draw(st.booleans()):
        racks = {
            topic: draw(st.lists(REPLICAS, min_size=size, max_size=size))
            for topic, size in sizes.items()
        }
    return Topics(sizes, racks)


@st.composite
def random_members(draw: st.DrawFn) -> dict[str, Subscription]:
    """Members that join for the first time; half of the groups have one subscription."""
    names = draw(st.lists(IDS, min_size=1, max_size=8, unique=True))
    choice = st.lists(st.sampled_from(SUBSCRIBABLE), unique=True).map(tuple)
    common = draw(st.none() | choice)
    with_racks = draw(st.booleans())
    return {
        name: Subscription(
            draw(choice) if common is None else common,
            rack_id=draw(RACKS) if with_racks else None,
            group_instance_id=draw(st.none() | st.just(f"instance of {name}")),
        )
        for name in names
    }


@st.composite
def claiming(draw: st.DrawFn, strategy: str) -> dict[str, Subscription]:
    """Members with claims, valid or not, of the current or an older generation. The claims are in
    the subscription or, for members of old versions, in the user data alone."""
    partitions = st.lists(st.tuples(st.sampled_from(SUBSCRIBABLE), st.integers(0, 6)), max_size=5)
    group = {
        name: _owning(strategy, member, draw(partitions), draw(st.none() | st.integers(-1, 3)))
        for name, member in draw(random_members()).items()
    }
    old = draw(st.sets(st.sampled_from(sorted(group))))
    return group | {name: replace(group[name], generation_id=None) for name in old}


def _owning(
    strategy: str, member: Subscription, owned: list[tuple[str, int]], generation: int | None
) -> Subscription:
    data = BUILTIN[strategy].subscription_user_data(member.topics, owned, generation)
    return replace(member, owned_partitions=tuple(owned), generation_id=generation, user_data=data)


def assignable(topics: Topics, members: Mapping[str, Subscription]) -> set[TopicPartition]:
    names = {topic for member in members.values() for topic in member.topics}
    return {(t, p) for t in names for p in range(topics.partitions.get(t, 0))}


@pytest.mark.parametrize("strategy", CLIENT_SIDE)
@given(data=st.data(), topics=random_topics())
def test_each_partition_is_assigned_to_one_subscriber(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(claiming(strategy))
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
@given(data=st.data(), topics=random_topics())
def test_the_order_of_members_and_topics_does_not_matter(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(claiming(strategy))
    reordered = {name: members[name] for name in data.draw(st.permutations(list(members)))}
    sizes = {name: topics.partitions[name] for name in sorted(topics.partitions, reverse=True)}
    shares = BUILTIN[strategy].assign(topics, members)
    assert BUILTIN[strategy].assign(Topics(sizes, topics.replica_racks), reordered) == shares


@pytest.mark.parametrize("strategy", ["roundrobin", "sticky"])
@given(data=st.data(), topics=random_topics())
def test_members_with_equal_subscriptions_have_equal_loads_but_for_one(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(claiming(strategy))
    if len({frozenset(member.topics) for member in members.values()}) == 1:
        loads = [len(share) for share in BUILTIN[strategy].assign(topics, members).values()]
        assert max(loads) - min(loads) <= 1


def assert_balanced(shares: Assignment, members: Mapping[str, Subscription]) -> None:
    """No member has two more partitions than another member that subscribes to one of them."""
    for more, less in combinations(shares, 2):
        if len(shares[more]) < len(shares[less]):
            more, less = less, more
        if len(shares[more]) > len(shares[less]) + 1:
            topics = {topic for topic, _ in shares[more]}
            assert topics.isdisjoint(members[less].topics), (more, less)


@given(topics=random_topics(), members=claiming("sticky"))
def test_no_single_move_improves_the_balance_of_a_sticky_group(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    assert_balanced(BUILTIN["sticky"].assign(topics, members), members)


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=random_topics())
def test_a_group_that_rejoins_unchanged_keeps_everything(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(claiming(strategy))
    if len({frozenset(member.topics) for member in members.values()}) > 1:
        # With racks and different subscriptions, partitions may still move to a nearer member.
        topics = Topics(topics.partitions)
    shares = rebalances(strategy, topics, members)[-1]
    assert BUILTIN[strategy].assign(topics, owning(strategy, members, shares)) == shares


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=random_topics().map(lambda topics: Topics(topics.partitions)))
def test_after_a_member_leaves_the_others_keep_everything(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    names = data.draw(st.lists(IDS, min_size=2, max_size=12, unique=True))
    members = {name: Subscription(TOPICS) for name in names}
    shares = BUILTIN[strategy].assign(topics, members)
    del shares[names[0]], members[names[0]]
    after = BUILTIN[strategy].assign(topics, owning(strategy, members, shares))
    for name, share in shares.items():
        assert set(share) <= set(after[name])


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=random_topics().map(lambda topics: Topics(topics.partitions)))
def test_a_new_member_gets_no_more_than_its_share(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    names = data.draw(st.lists(IDS, min_size=2, max_size=12, unique=True))
    members = {name: Subscription(TOPICS) for name in names}
    old = {name: members[name] for name in names[1:]}
    shares = BUILTIN[strategy].assign(topics, old)
    after = BUILTIN[strategy].assign(topics, members | owning(strategy, old, shares))
    moved = sum(len(set(share) - set(after[name])) for name, share in shares.items())
    total = sum(topics.partitions.values())
    # Members with one more than the others may keep it if all quotas can be reached.
    assert moved == total // len(names) or moved == -(-total // len(names))


@given(topics=random_topics(), members=claiming("cooperative-sticky"))
def test_no_partition_has_a_second_owner_before_the_first_has_revoked_it(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    """The owners of a partition are the members whose claims to it have the newest generation."""
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


@given(topics=random_topics(), members=claiming("cooperative-sticky"))
def test_a_cooperative_group_settles_in_two_rebalances(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    results = rebalances("cooperative-sticky", topics, members)
    assert len(results) <= 2
    assigned = {partition for share in results[-1].values() for partition in share}
    assert assigned == assignable(topics, members)
    assert_balanced(results[-1], members)
