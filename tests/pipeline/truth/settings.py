"""The settings of a simulated world, drawn from a seed: topics, groups and client libraries."""

from dataclasses import dataclass
from random import Random
from typing import Literal

Commits = Literal["polls", "background-changes", "background"]
"""Java and kafka-python commit everything they own within poll(); librdkafka's timer commits only
changes; aiokafka's task commits everything, even while the application is busy."""


@dataclass(frozen=True, slots=True)
class Library:
    name: str
    software: str  # as in ApiVersions
    session_ms: int
    commits: Commits
    sends_reasons: bool  # KIP-800
    sends_poll_interval: (
        bool  # whether the rebalance timeout is max.poll.interval.ms, not session.timeout.ms
    )
    watches_partitions: Literal["leader", "all"]  # which members rejoin after partitions were added
    client_id: str  # default client id


JAVA = Library(
    "java", "apache-kafka-java/4.1.0", 45_000, "polls", True, True, "leader", "consumer-{group}-1"
)
LIBRDKAFKA = Library(
    "librdkafka", "librdkafka/2.12.1", 45_000, "background-changes", False, True, "all", "rdkafka"
)
KAFKA_PYTHON = Library(
    "kafka-python",
    "kafka-python/3.0.12",
    45_000,
    "polls",
    False,
    True,
    "leader",
    "kafka-python-3.0.12",
)
AIOKAFKA = Library(
    "aiokafka", "aiokafka/0.12.0", 10_000, "background", False, False, "leader", "aiokafka-0.12.0"
)
LIBRARIES = (JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA)

_EAGER = ("range", "roundrobin", "sticky")
_COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class TopicSetting:
    name: str
    partitions: int
    busy: float  # share of the partitions that receive records


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
    client_id: str  # with {} for the member's number; without it, all share the id
    actions: int
    plan: tuple[str, ...] = ()  # names of actions; random actions if empty

    @property
    def is_cooperative(self) -> bool:
        return self.assignors == (_COOPERATIVE,)


@dataclass(frozen=True, slots=True)
class Setting:
    nodes: int
    latency_ms: int
    topics: tuple[TopicSetting, ...]
    groups: tuple[GroupSetting, ...]
    has_idle_end: bool  # all consumers close at the end, and the groups expire


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
        has_idle_end=chance.random() < 0.15,
    )


def _group(chance: Random, group_id: str, topics: list[str]) -> GroupSetting:
    library = chance.choice((JAVA, JAVA, *LIBRARIES))
    cooperative = library is not AIOKAFKA and chance.random() < 0.4
    max_poll_ms = chance.choice((300_000, 60_000, 30_000))
    session_ms = library.session_ms
    if chance.random() < 0.5:
        session_ms = chance.choice((6_000, 10_000, 30_000))
    if library is LIBRDKAFKA:  # librdkafka rejects longer sessions
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
        actions=chance.randint(3, 8),
    )
