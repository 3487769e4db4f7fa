"""What one seed draws before anything happens. What happens then, each actor draws for itself, from
a source of chance of its own: so that a story goes on much the same without one of its actors."""

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator.decision import GroupConfig

Durability = Literal["fsync", "os"]
_HOUR_MS = 3_600_000
# Retention and interval of its sweeps. In the first two much expires in the midst of chaos, in the
# last nothing does before everybody has gone home.
RETENTIONS_MS = ((4_000, 1_000), (15_000, 2_500), (7 * 24 * _HOUR_MS, 12 * _HOUR_MS))

# The topic that everybody reads, and one that comes and goes: who does not read it may have
# committed for it all the same.
TOPIC, FLEETING = TOPICS = ("t", "u")


def _subscription(*topics: str) -> bytes:
    """Version 0 of the consumer protocol's, but for the user data at its end."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names


# What consumers may say when they join; what they mean by it. What begins otherwise no broker
# can read.
SUBSCRIPTIONS = {_subscription(*topics): frozenset(topics) for topics in ((TOPIC,), TOPICS)}


def metadata(subscription: bytes, user_data: bytes) -> bytes:
    return (
        subscription + len(user_data).to_bytes(4, "big") + user_data if subscription else user_data
    )


def topics_in(metadata: bytes) -> frozenset[str] | None:
    """What the broker can know of it; None: nothing."""
    said = [topics for words, topics in SUBSCRIPTIONS.items() if metadata.startswith(words)]
    return said[0] if said else None


@dataclass(frozen=True)
class Seat:
    """A place in a group, on which one consumer sits at a time."""

    name: str
    group_id: str
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    version: int  # of its JoinGroup
    troubles_ms: int  # how often, about, something happens to it
    subscription: bytes  # one of SUBSCRIPTIONS; empty: it says what no broker can read


@dataclass(frozen=True)
class Setting:
    durability: Durability
    nodes: int
    config: GroupConfig
    retention_check_interval_ms: int
    offsets_partitions: int
    topic_partitions: int
    seats: tuple[Seat, ...]
    latency_ms: int  # of the network, at most
    sync_ms: int  # of the disk, at most
    segment_bytes: int
    chaos_ms: int
    faults_ms: int  # how often, about, broker, disk and network fail
    write_ahead_bytes: int
    night_ms: int  # once all have gone home, the broker is killed after that time

    @property
    def bound_ms(self) -> int:
        """How long a group may need until it is stable, once faults have stopped.

        Whoever left ghosts behind: their pending ids and sessions end after a session timeout, a
        round that waits for them closes after a rebalance timeout, its successor may owe syncs for
        as long; and a round before may just have begun.
        """
        session_ms = max((seat.session_ms for seat in self.seats), default=0)
        rebalance_ms = max((seat.rebalance_ms for seat in self.seats), default=0)
        return 2 * session_ms + 4 * rebalance_ms + self.config.group_initial_rebalance_delay_ms


def draw(seed: int) -> Setting:
    chance = Random(f"{seed} setting")
    retention_ms, interval_ms = chance.choice(RETENTIONS_MS)
    seats = [
        _seat(chance, group, place)
        for group in range(chance.choice([1, 1, 2]))
        for place in range(chance.choice([1, 2, 3, 3, 4]))
    ]
    return Setting(
        durability=chance.choice(["fsync", "fsync", "fsync", "os"]),
        config=replace(
            group_config(BrokerConfig()),
            group_initial_rebalance_delay_ms=chance.choice([0, 0, 500, 3_000]),
            group_max_size=chance.choice([2_147_483_647, 2_147_483_647, 5]),
            offsets_retention_ms=retention_ms,
        ),
        retention_check_interval_ms=interval_ms,
        nodes=chance.choice([1, 1, 2, 3]),
        offsets_partitions=chance.choice([1, 2, 3]),
        topic_partitions=chance.randint(1, 6),
        seats=tuple(seats),
        latency_ms=chance.choice([1, 10, 100, 1_000]),
        sync_ms=chance.choice([0, 5, 50, 300]),
        segment_bytes=chance.choice([600, 4_096, 1 << 30]),
        chaos_ms=chance.randint(8_000, 22_000),
        faults_ms=chance.choice([2_000, 5_000, 10_000]),
        night_ms=chance.choice([0, chance.randint(0, 2 * retention_ms)]),
        write_ahead_bytes=chance.choice([300, 4_096, 1 << 30]),
    )


def _seat(chance: Random, group: int, place: int) -> Seat:
    session_ms = chance.choice([3_000, 6_000])
    return Seat(
        name=f"c{group}{place}",
        group_id=f"group-{group}",
        instance_id=f"i{group}{place}" if chance.random() < 0.4 else None,
        session_ms=session_ms,
        rebalance_ms=chance.choice([4_000, 8_000]),
        version=chance.choice([3, 5, 8, 9]),
        troubles_ms=chance.choice([3_000, 8_000, 20_000]),
        subscription=chance.choice([*SUBSCRIPTIONS, *SUBSCRIPTIONS, b""]),
    )
