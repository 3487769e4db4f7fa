"""What holds for every group that can be drawn, whatever its members say they own."""

from collections import Counter
from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.sticky.user_data import read_cooperative

from . import strategies as drawn
from .groups import having, rounds

EAGER = ("range", "roundrobin", "sticky")
STICKY = ("sticky", "cooperative-sticky")
CLIENT_SIDE = (*EAGER, "cooperative-sticky")


def wanted(topics: Topics, members: Mapping[str, Subscription]) -> set[TopicPartition]:
    names = {topic for member in members.values() for topic in member.topics}
    return {(t, p) for t in names for p in range(topics.partitions.get(t, 0))}


@pytest.mark.parametrize("strategy", CLIENT_SIDE)
@given(data=st.data(), topics=drawn.topics())
def test_each_partition_goes_to_one_member_that_wants_it(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    shares = BUILTIN[strategy].assign(topics, members)
    assert list(shares) == list(members) or shares.keys() == members.keys()
    times = Counter(partition for share in shares.values() for partition in share)
    assert set(times.values()) <= {1}
    for name, share in shares.items():
        assert share == sorted(share)
        assert {topic for topic, _ in share} <= set(members[name].topics)
    if strategy == "cooperative-sticky":
        assert times.keys() <= wanted(topics, members)
    else:
        assert times.keys() == wanted(topics, members)


@pytest.mark.parametrize("strategy", CLIENT_SIDE)
@given(data=st.data(), topics=drawn.topics())
def test_the_order_in_which_members_and_topics_are_told_is_of_no_account(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    turned = {name: members[name] for name in data.draw(st.permutations(list(members)))}
    sizes = {name: topics.partitions[name] for name in sorted(topics.partitions, reverse=True)}
    shares = BUILTIN[strategy].assign(topics, members)
    assert BUILTIN[strategy].assign(Topics(sizes, topics.replica_racks), turned) == shares


@given(topics=drawn.topics(), members=drawn.wishes())
def test_range_gives_subscribers_of_a_topic_as_many_partitions_but_for_one(
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
def test_members_of_one_mind_have_as_many_partitions_but_for_one(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    if len({frozenset(member.topics) for member in members.values()}) == 1:
        loads = [len(share) for share in BUILTIN[strategy].assign(topics, members).values()]
        assert max(loads) - min(loads) <= 1


def assert_even(shares: Assignment, members: Mapping[str, Subscription]) -> None:
    """Nobody has two partitions more than a member that wants one of them."""
    for more, less in combinations(shares, 2):
        if len(shares[more]) < len(shares[less]):
            more, less = less, more
        if len(shares[more]) > len(shares[less]) + 1:
            topics = {topic for topic, _ in shares[more]}
            assert topics.isdisjoint(members[less].topics), (more, less)


@given(topics=drawn.topics(), members=drawn.claiming("sticky"))
def test_no_move_of_one_partition_would_make_sticky_members_more_even(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    assert_even(BUILTIN["sticky"].assign(topics, members), members)


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=drawn.topics())
def test_a_group_that_joins_again_keeps_everything(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    members = data.draw(drawn.claiming(strategy))
    if len({frozenset(member.topics) for member in members.values()}) > 1:
        # With racks and different wishes it may be shared anew, for some to be nearer.
        topics = Topics(topics.partitions)
    shares = rounds(strategy, topics, members)[-1]
    assert BUILTIN[strategy].assign(topics, having(strategy, members, shares)) == shares


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=drawn.topics().map(lambda topics: Topics(topics.partitions)))
def test_when_a_member_leaves_an_equal_group_the_others_keep_all_they_had(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    names = data.draw(st.lists(drawn.IDS, min_size=2, max_size=12, unique=True))
    members = {name: Subscription(drawn.TOPICS) for name in names}
    shares = BUILTIN[strategy].assign(topics, members)
    del shares[names[0]], members[names[0]]
    after = BUILTIN[strategy].assign(topics, having(strategy, members, shares))
    for name, share in shares.items():
        assert set(share) <= set(after[name])


@pytest.mark.parametrize("strategy", STICKY)
@given(data=st.data(), topics=drawn.topics().map(lambda topics: Topics(topics.partitions)))
def test_a_new_member_of_an_equal_group_takes_no_more_than_its_share(
    strategy: str, data: st.DataObject, topics: Topics
) -> None:
    names = data.draw(st.lists(drawn.IDS, min_size=2, max_size=12, unique=True))
    members = {name: Subscription(drawn.TOPICS) for name in names}
    old = {name: members[name] for name in names[1:]}
    shares = BUILTIN[strategy].assign(topics, old)
    after = BUILTIN[strategy].assign(topics, members | having(strategy, old, shares))
    moved = sum(len(set(share) - set(after[name])) for name, share in shares.items())
    total = sum(topics.partitions.values())
    # Those that have one more than the others may keep it, as long as there is one for each.
    assert moved == total // len(names) or moved == -(-total // len(names))


@given(topics=drawn.topics(), members=drawn.claiming("cooperative-sticky"))
def test_no_partition_has_a_second_owner_before_the_first_has_given_it_back(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    """Whoever claims it in the newest generation that does is its owner, be they several."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for name, member in members.items():
        told = read_cooperative(member)
        generation = -1 if told.generation is None else told.generation
        for partition in told.partitions:
            claims.setdefault(partition, []).append((generation, name))
    for name, share in BUILTIN["cooperative-sticky"].assign(topics, members).items():
        for partition in share:
            newest = max(claims.get(partition, [(0, name)]))[0]
            owners = {who for when, who in claims.get(partition, ()) if when == newest}
            assert owners <= {name}


@given(topics=drawn.topics(), members=drawn.claiming("cooperative-sticky"))
def test_a_cooperative_group_settles_in_two_rounds(
    topics: Topics, members: dict[str, Subscription]
) -> None:
    played = rounds("cooperative-sticky", topics, members)
    assert len(played) <= 2
    given_out = {partition for share in played[-1].values() for partition in share}
    assert given_out == wanted(topics, members)
    assert_even(played[-1], members)
