"""What sticky members write into their subscriptions, and what a leader reads there.

`sticky` (StickyAssignor) writes what it owns: an array of topics, each with its partitions, then
since version 1 the generation. `cooperative-sticky` (CooperativeStickyAssignor) writes the
generation only, since what it owns has a field of its own in the subscription.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from ..model import Subscription, TopicPartition

NO_GENERATION = -1

_INT, _SHORT = struct.Struct(">i"), struct.Struct(">h")


class Owned(NamedTuple):
    """What one member says it has, and since when (AbstractStickyAssignor.MemberData)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


def sticky_bytes(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Version 1."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned):
        by_topic.setdefault(topic, []).append(partition)
    parts = [struct.pack(">i", len(by_topic))]
    for topic, partitions in by_topic.items():
        name, count = topic.encode(), len(partitions)
        parts.append(struct.pack(f">h{len(name)}si{count}i", len(name), name, count, *partitions))
    return b"".join(parts) + struct.pack(">i", generation)


def read_sticky(subscription: Subscription) -> Owned:
    """Only of its user data, as upstream: a member may own what it got by another strategy."""
    data = subscription.user_data
    if not data:
        return Owned((), None)
    try:
        partitions, end = _topics(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return Owned((), NO_GENERATION)
    if len(data) < end + 4:  # version 0
        return Owned(partitions, None)
    return Owned(partitions, struct.unpack_from(">i", data, end)[0])


def _topics(data: bytes) -> tuple[list[TopicPartition], int]:
    """Partitions, and the place behind them. Raises struct.error where the bytes end too early."""
    (topics,) = _INT.unpack_from(data)
    at = 4
    partitions: list[TopicPartition] = []
    for _ in range(_length(topics)):
        (length,) = _SHORT.unpack_from(data, at)
        at += 2 + _length(length)
        # What is cut off in the name is missed by the count that has to follow it.
        topic = data[at - length : at].decode()
        (count,) = _INT.unpack_from(data, at)
        # A count that is longer than the bytes is refused before anything is made of it.
        numbers = struct.unpack_from(f">{_length(count)}i", data, at + 4)
        partitions += [(topic, number) for number in numbers]
        at += 4 + 4 * count
    return partitions, at


def _length(number: int) -> int:
    if number < 0:
        raise ValueError("a negative length")
    return number


def cooperative_bytes(generation: int | None) -> bytes:
    return struct.pack(">i", NO_GENERATION if generation is None else generation)


def read_cooperative(subscription: Subscription) -> Owned:
    """The generation is in the user data of members that speak version 1, and no later one."""
    generation, data = present(subscription.generation), subscription.user_data
    if generation is None and data is not None:
        generation = struct.unpack_from(">i", data)[0] if len(data) >= 4 else NO_GENERATION
    return Owned(subscription.owned, generation)


def present(generation: int | None) -> int | None:
    """A negative generation is the wire's word for none."""
    return None if generation is None or generation < 0 else generation
