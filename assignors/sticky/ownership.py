"""Which member owns which partition: the user data of sticky members, and conflicting claims.

StickyAssignor writes the owned partitions into the user data: an array of topics with their
partitions and, since version 1, the generation. CooperativeStickyAssignor writes only the
generation, because the owned partitions are a field of the subscription.

Claims conflict if a member has missed a rebalance. The claim from the newest generation wins. If
several members of that generation claim a partition, all claims are ignored.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..model import NO_GENERATION, Subscription, TopicPartition
from ..ordering import hash_map_order

_INT, _SHORT = struct.Struct(">i"), struct.Struct(">h")


class MemberData(NamedTuple):
    """The partitions that a member claims, and their generation (MemberData in Kafka)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


# --- user data


def sticky_user_data(owned_partitions: Sequence[TopicPartition], generation: int) -> bytes:
    """Encode the user data of StickyAssignor, version 1."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(owned_partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_INT.pack(len(by_topic))]
    for topic, partitions in by_topic.items():
        name, count = topic.encode(), len(partitions)
        parts.append(struct.pack(f">h{len(name)}si{count}i", len(name), name, count, *partitions))
    return b"".join(parts) + _INT.pack(generation)


def sticky_member_data(subscription: Subscription) -> MemberData:
    """Return a member's claim. As in Kafka, only the user data counts, because the owned partitions
    in the subscription may come from another assignor."""
    data = subscription.user_data
    if not data:
        return MemberData((), None)
    try:
        partitions, end = _read_partitions(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return MemberData((), NO_GENERATION)
    if len(data) < end + 4:  # version 0
        return MemberData(partitions, None)
    return MemberData(partitions, _INT.unpack_from(data, end)[0])


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    """Return the partitions and the end position. Raises struct.error if the data is too short, and
    UnicodeDecodeError or ValueError if it is invalid."""
    (topics,) = _INT.unpack_from(data)
    position = 4
    partitions: list[TopicPartition] = []
    for _ in range(_length(topics)):
        (length,) = _SHORT.unpack_from(data, position)
        position += 2 + _length(length)
        # If the name is truncated, reading the count fails.
        topic = data[position - length : position].decode()
        (count,) = _INT.unpack_from(data, position)
        # A count that is too large fails before memory is allocated.
        numbers = struct.unpack_from(f">{_length(count)}i", data, position + 4)
        partitions += [(topic, number) for number in numbers]
        position += 4 + 4 * count
    return partitions, position


def _length(number: int) -> int:
    if number < 0:
        raise ValueError("negative length")
    return number


def cooperative_user_data(generation: int | None) -> bytes:
    return _INT.pack(NO_GENERATION if generation is None else generation)


def cooperative_member_data(subscription: Subscription) -> MemberData:
    """Return a member's claim. The generation is in the user data with version 1 of the
    subscription, and a field of the subscription in later versions."""
    generation, data = _non_negative(subscription.generation_id), subscription.user_data
    if generation is None and data is not None:
        generation = _INT.unpack_from(data)[0] if len(data) >= 4 else NO_GENERATION
    return MemberData(subscription.owned_partitions, generation)


def _non_negative(generation: int | None) -> int | None:
    """Return None for negative generations, which mean "no generation" on the wire."""
    return None if generation is None or generation < 0 else generation


def _as_number(generation: int | None) -> int:
    return NO_GENERATION if generation is None else generation


# --- claims


@dataclass(slots=True)
class Ownership:
    """The owned partitions after conflicting claims are resolved."""

    partitions: dict[str, list[TopicPartition]] = field(default_factory=dict)
    """The owned partitions of each member, with all members in the order of a HashMap."""
    contested: set[TopicPartition] = field(default_factory=set)
    """The partitions that several members of the newest claiming generation claim
    (partitionsWithMultiplePreviousOwners in Kafka)."""
    same_subscription: bool = True
    """Whether all members subscribe to the same topics."""
    max_generation: int = NO_GENERATION


def resolve_claims(
    sizes: Mapping[str, int], members: Mapping[str, Subscription], claims: Mapping[str, MemberData]
) -> Ownership:
    """Resolve conflicting claims (allSubscriptionsEqual in Kafka). `sizes` are the partition counts
    of the subscribed topics."""
    merged = Ownership()
    owner: dict[TopicPartition, str] = {}
    first: frozenset[str] = frozenset()
    for member in hash_map_order(members):
        if merged.same_subscription:
            subscribed = frozenset(members[member].topics)
            # As in Kafka, a member without topics breaks equality only if it comes after a member
            # with topics.
            merged.same_subscription = not first or subscribed == first
            first = first or subscribed
        generation = _as_number(claims[member].generation)
        merged.max_generation = max(merged.max_generation, generation)
        kept = merged.partitions[member] = []
        for partition in dict.fromkeys(claims[member].partitions):
            if not 0 <= partition[1] < sizes.get(partition[0], 0):
                continue
            other = owner.get(partition)
            if other is not None:
                # Kafka compares the generation in the subscription even if the user data contains
                # one.
                other_generation = _as_number(_non_negative(members[other].generation_id))
                if generation < other_generation:
                    continue
                if partition not in merged.contested:
                    merged.partitions[other].remove(partition)
                if generation == other_generation:
                    merged.contested.add(partition)
                    owner[partition] = member
                    continue
                merged.contested.discard(partition)
            owner[partition] = member
            kept.append(partition)
    return merged


def previous_owners(newest: int, claims: Mapping[str, MemberData]) -> dict[TopicPartition, str]:
    """Return the owners in generations before `newest` (prepopulateCurrentAssignments in Kafka)."""
    owners: dict[TopicPartition, tuple[int, str]] = {}
    is_stale = any(_as_number(claim.generation) < newest for claim in claims.values())
    for member in hash_map_order(claims) if is_stale else ():
        generation = _as_number(claims[member].generation)
        if generation >= newest:
            continue
        for partition in claims[member].partitions:
            if partition not in owners or owners[partition][0] < generation:
                owners[partition] = generation, member
    return {partition: member for partition, (_, member) in owners.items()}
