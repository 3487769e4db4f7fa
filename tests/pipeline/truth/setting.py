"""What one seed draws before anything happens: topics, groups, how their members are set up."""

from dataclasses import dataclass
from random import Random

from truth.libraries import AIOKAFKA, JAVA, LIBRARIES, LIBRDKAFKA, Library

_EAGER = ("range", "roundrobin", "sticky")
_COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class TopicSetting:
    name: str
    partitions: int
    busy: float  # the share of its partitions that is written to


@dataclass(frozen=True, slots=True)
class GroupSetting:
    group_id: str
    library: Library
    assignors: tuple[str, ...]
    size: int
    is_static: bool
    topics: tuple[str, ...]
    session_ms: int
    max_poll_ms: int
    poll_ms: int
    metadata_ms: int
    client_id: str  # with {} for the member's number, or one for all
    deeds: int
    plan: tuple[str, ...] = ()  # deeds by name, instead of so many that are drawn

    @property
    def is_cooperative(self) -> bool:
        return self.assignors == (_COOPERATIVE,)


@dataclass(frozen=True, slots=True)
class Setting:
    nodes: int
    latency_ms: int
    topics: tuple[TopicSetting, ...]
    groups: tuple[GroupSetting, ...]
    has_night: bool  # at the end all go home, and their groups expire


def draw(seed: int) -> Setting:
    chance = Random(f"{seed} setting")
    topics = tuple(
        TopicSetting(f"topic-{n}", chance.randint(1, 8), chance.choice((1.0, 1.0, 1.0, 0.5, 0.0)))
        for n in range(chance.randint(2, 3))
    )
    names = [each.name for each in topics]
    groups = tuple(_group(chance, f"group-{n}", names) for n in range(chance.choice((1, 2, 2, 3))))
    return Setting(
        nodes=chance.choice((1, 2)),
        latency_ms=chance.choice((2, 10, 50)),
        topics=topics,
        groups=groups,
        has_night=chance.random() < 0.15,
    )


def _group(chance: Random, group_id: str, topics: list[str]) -> GroupSetting:
    library = chance.choice((JAVA, JAVA, *LIBRARIES))
    cooperative = library is not AIOKAFKA and chance.random() < 0.4
    max_poll_ms = chance.choice((300_000, 60_000, 30_000))
    session_ms = library.session_ms
    if chance.random() < 0.5:
        session_ms = chance.choice((6_000, 10_000, 30_000))
    if library is LIBRDKAFKA:  # it refuses a longer one
        session_ms = min(session_ms, max_poll_ms)
    own_ids = chance.random() < 0.5
    return GroupSetting(
        group_id=group_id,
        library=library,
        assignors=(_COOPERATIVE,) if cooperative else (chance.choice(_EAGER),),
        size=chance.choice((1, 2, 2, 3, 3, 4, 6)),
        is_static=chance.random() < 0.25,
        topics=tuple(sorted(chance.sample(topics, chance.randint(1, 2)))),
        session_ms=session_ms,
        max_poll_ms=max_poll_ms,
        poll_ms=chance.choice((500, 1_000, 3_000)),
        metadata_ms=chance.choice((5_000, 30_000)),
        client_id="worker-{}" if own_ids else library.client_id.format(group=group_id),
        deeds=chance.randint(3, 8),
    )
