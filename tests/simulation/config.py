"""The parameters of a simulation, all drawn from its seed.

What happens later is drawn by each actor from its own random generator, so a run changes
little when another actor is left out.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator.decision import GroupConfig
from kohort.protocol.consumer_protocol import decode_subscribed_topics
from kohort.topics.configs.effective import ConsumerGroupConfig

_HOUR_MS = 3_600_000
# Every third seed has groups in which consumers of both protocols start (KIP-848). The extra time
# that such groups may take: regular expressions are resolved every ten seconds, and clients that
# could not convert a classic group start again after ten seconds.
MIXED_SEEDS = 3
NEW_PROTOCOL_EXTRA_MS = 30_000
# offsets.retention.minutes and the check interval. With the first two, much expires while faults
# happen; with the last, nothing expires before all clients have stopped.
RETENTIONS_MS = ((4_000, 1_000), (15_000, 2_500), (7 * 24 * _HOUR_MS, 12 * _HOUR_MS))

# Every consumer reads TOPIC. Some also read RECREATED, which is deleted and created again; the
# others may still commit for it.
TOPIC, RECREATED = TOPICS = ("t", "u")


def _subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription v0, without the user data at its end."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names


# The subscriptions of consumers. The broker cannot parse metadata that begins otherwise.
SUBSCRIPTIONS = {_subscription(*topics): frozenset(topics) for topics in ((TOPIC,), TOPICS)}


def metadata(subscription: bytes, user_data: bytes) -> bytes:
    if not subscription:
        return user_data
    return subscription + len(user_data).to_bytes(4, "big") + user_data


def topics_in(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None if the broker cannot parse it."""
    if metadata.startswith(b"\0\3"):  # sent by consumers in groups of both protocols
        return frozenset(decode_subscribed_topics(metadata))
    matches = (topics for start, topics in SUBSCRIPTIONS.items() if metadata.startswith(start))
    return next(matches, None)


@dataclass(frozen=True)
class SlotConfig:
    """A place in a group that one consumer at a time occupies."""

    name: str
    group_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    join_version: int
    fault_interval_ms: int  # mean
    subscription: bytes  # one of SUBSCRIPTIONS; empty: metadata that the broker cannot parse
    # The probability that a consumer uses the consumer protocol (KIP-848) when it starts; None: it
    # uses the classic one, with assignments that no coordinator can convert.
    new_protocol: float | None = None


@dataclass(frozen=True)
class SimulationConfig:
    durability: Literal["fsync", "os"]
    nodes: int
    group_config: GroupConfig
    retention_check_interval_ms: int
    offsets_partitions: int
    topic_partitions: int
    slots: tuple[SlotConfig, ...]
    latency_max_ms: int
    sync_max_ms: int
    segment_bytes: int
    chaos_ms: int  # duration of the faults
    fault_interval_ms: int  # mean interval of each kind of fault of broker, disk and network
    write_ahead_bytes: int
    consumer_group: ConsumerGroupConfig
    idle_ms: int  # time from the stop of the last client to a restart of the broker

    @property
    def settle_max_ms(self) -> int:
        """How long a group may take to become stable after the last fault.

        Pending ids and sessions of lost consumers expire after a session timeout. A rebalance that
        waits for them ends after a rebalance timeout, and the syncs due in the next generation may
        take another. An earlier rebalance may just have started.
        """
        session_ms = max((slot.session_timeout_ms for slot in self.slots), default=0)
        if any(slot.new_protocol is not None for slot in self.slots):
            session_ms += self.consumer_group.session_timeout_ms + NEW_PROTOCOL_EXTRA_MS
        rebalance_ms = max((slot.rebalance_timeout_ms for slot in self.slots), default=0)
        delay_ms = self.group_config.group_initial_rebalance_delay_ms
        return 2 * session_ms + 4 * rebalance_ms + delay_ms


def draw(seed: int) -> SimulationConfig:
    # Seeds keep their meaning as long as generators are seeded with the same strings, and values
    # are drawn in the same order.
    random = Random(f"{seed} setting")
    mixed = Random(f"{seed} mixed")
    retention_ms, interval_ms = random.choice(RETENTIONS_MS)
    slots = [
        _slot(random, group, index)
        for group in range(random.choice([1, 1, 2]))
        for index in range(random.choice([1, 2, 3, 3, 4]))
    ]
    has_mixed = seed % MIXED_SEEDS == 0
    if has_mixed:
        slots = [_mixed(mixed, slot) for slot in slots]
    return SimulationConfig(
        consumer_group=ConsumerGroupConfig(
            mixed.choice([3_000, 6_000]), 1_000, mixed.choice([0, 0, 1_000, 4_000])
        ),
        durability=random.choice(["fsync", "fsync", "fsync", "os"]),
        group_config=replace(
            group_config(BrokerConfig()),
            group_initial_rebalance_delay_ms=random.choice([0, 0, 500, 3_000]),
            group_max_size=random.choice([2_147_483_647, 2_147_483_647, 5]),
            offsets_retention_ms=retention_ms,
        ),
        retention_check_interval_ms=interval_ms,
        nodes=random.choice([1, 1, 2, 3]),
        offsets_partitions=random.choice([1, 2, 3]),
        topic_partitions=random.randint(1, 6),
        slots=tuple(slots),
        latency_max_ms=random.choice([1, 10, 100, 1_000]),
        sync_max_ms=random.choice([0, 5, 50, 300]),
        segment_bytes=random.choice([600, 4_096, 1 << 30]),
        chaos_ms=random.randint(8_000, 22_000),
        fault_interval_ms=random.choice([2_000, 5_000, 10_000]),
        idle_ms=random.choice([0, random.randint(0, 2 * retention_ms)]),
        write_ahead_bytes=random.choice([300, 4_096, 1 << 30]),
    )


def is_mixed(group_id: str) -> bool:
    return group_id.startswith("mixed-")


def _mixed(random: Random, slot: SlotConfig) -> SlotConfig:
    group_id = f"mixed-{slot.group_id}"
    return replace(slot, group_id=group_id, new_protocol=random.choice([0.0, 0.5, 0.5, 1.0]))


def _slot(random: Random, group: int, index: int) -> SlotConfig:
    session_timeout_ms = random.choice([3_000, 6_000])
    return SlotConfig(
        name=f"c{group}{index}",
        group_id=f"group-{group}",
        instance_id=f"i{group}{index}" if random.random() < 0.4 else None,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=random.choice([4_000, 8_000]),
        join_version=random.choice([3, 5, 8, 9]),
        fault_interval_ms=random.choice([3_000, 8_000, 20_000]),
        subscription=random.choice([*SUBSCRIPTIONS, *SUBSCRIPTIONS, b""]),
    )
