"""Hypothesis strategies for groups: few topics, many subscriptions, with and without claims."""

from dataclasses import replace

from hypothesis import strategies as st
from kohort.assignors.model import Subscription, Topics
from kohort.assignors.resolve import BUILTIN

TOPICS = ("t0", "t1", "t2", "t3")
SUBSCRIBABLE = (*TOPICS, "unknown")
IDS = st.one_of(
    st.integers(0, 30).map(lambda n: f"m{n}"), st.text("aé\ufb01\U00010000-", min_size=1)
)
RACKS = st.sampled_from((None, "", "a", "b", "c"))
REPLICAS = st.sampled_from(((None,), ("a",), ("b",), ("c",), ("a", "b"), ("c", "", "a")))


@st.composite
def topics(draw: st.DrawFn) -> Topics:
    sizes = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 6)))
    racks = {}
    if draw(st.booleans()):
        racks = {
            topic: draw(st.lists(REPLICAS, min_size=size, max_size=size))
            for topic, size in sizes.items()
        }
    return Topics(sizes, racks)


@st.composite
def members(draw: st.DrawFn) -> dict[str, Subscription]:
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
    """Members with claims, valid or not, of the current or an older generation, in their
    subscriptions or, as members of old versions, in their user data alone."""
    partitions = st.lists(st.tuples(st.sampled_from(SUBSCRIBABLE), st.integers(0, 6)), max_size=5)
    group = {
        name: _owning(strategy, member, draw(partitions), draw(st.none() | st.integers(-1, 3)))
        for name, member in draw(members()).items()
    }
    old = draw(st.sets(st.sampled_from(sorted(group))))
    return group | {name: replace(group[name], generation_id=None) for name in old}


def _owning(
    strategy: str, member: Subscription, owned: list[tuple[str, int]], generation: int | None
) -> Subscription:
    data = BUILTIN[strategy].subscription_user_data(member.topics, owned, generation)
    return replace(member, owned_partitions=tuple(owned), generation_id=generation, user_data=data)
