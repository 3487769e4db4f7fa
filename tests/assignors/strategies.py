"""Groups as Hypothesis draws them: few topics and many wishes, with and without a past."""

from dataclasses import replace

from hypothesis import strategies as st
from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Subscription, Topics

TOPICS = ("t0", "t1", "t2", "t3")
WISHES = (*TOPICS, "unknown")
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
def wishes(draw: st.DrawFn) -> dict[str, Subscription]:
    """Members as they join for the first time; half of the groups are of one mind."""
    names = draw(st.lists(IDS, min_size=1, max_size=8, unique=True))
    choice = st.lists(st.sampled_from(WISHES), unique=True).map(tuple)
    common = draw(st.none() | choice)
    aware = draw(st.booleans())
    return {
        name: Subscription(
            draw(choice) if common is None else common,
            rack=draw(RACKS) if aware else None,
            group_instance_id=draw(st.none() | st.just(f"instance of {name}")),
        )
        for name in names
    }


@st.composite
def claiming(draw: st.DrawFn, strategy: str) -> dict[str, Subscription]:
    """Members that say they own this or that, rightly or not, since now or some time ago: in their
    subscriptions, or as members of old versions in their user data alone."""
    partitions = st.lists(st.tuples(st.sampled_from(WISHES), st.integers(0, 6)), max_size=5)
    members = {
        name: _owning(strategy, member, draw(partitions), draw(st.none() | st.integers(-1, 3)))
        for name, member in draw(wishes()).items()
    }
    old = draw(st.sets(st.sampled_from(sorted(members))))
    return members | {name: replace(members[name], generation=None) for name in old}


def _owning(
    strategy: str, member: Subscription, owned: list[tuple[str, int]], generation: int | None
) -> Subscription:
    data = BUILTIN[strategy].user_data(member.topics, owned, generation)
    return replace(member, owned=tuple(owned), generation=generation, user_data=data)
