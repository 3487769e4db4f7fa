"""The iteration order of Java's hash tables.

If several members have an equal claim to a partition, Kafka's assignors prefer the first member in
a HashMap, and a member gives up the last partitions in a HashSet. The number of buckets of a table
is a power of two. Within a bucket, entries stay in the order in which they were added, even when
the number of buckets doubles. Buckets of nine or more entries become trees if the table has 64
buckets or more; the order of such trees is not reproduced.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..ordering import (
    BUCKETS_MIN,
    UINT32_MASK,
    bucket,
    bucket_count,
    copy_table_size,
    java_order,
    string_hash,
)
from .model import TopicId

UINT64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
UINT16_MAX: Final = 0xFFFF
FIBONACCI: Final = 0x9E37_79B9_7F4A_7C15  # the factor of BaseHashTable.findSlot
TIMELINE_BUCKETS_MIN: Final = 2  # BaseHashTable.MIN_CAPACITY
TREEIFY_THRESHOLD: Final = 8  # a longer bucket becomes a tree,
TREE_BUCKETS_MIN: Final = 64  # but only in a table of this size; smaller ones grow instead


# --- members and subscriptions (ModernGroup.members, TargetAssignmentBuilder.build)


def group_spec_order(
    member_ids: Sequence[str],
    size_max: int,
    updated: str | None = None,
    replaced: str | None = None,
) -> list[str]:
    """Return the order in which Kafka's assignors iterate over the members of a group.

    `member_ids` are the members before this heartbeat, in the order in which they joined.
    `size_max` is the highest number of members since the group was created or loaded, because
    Kafka's table never shrinks. `updated` is the member whose heartbeat triggers the assignment,
    and `replaced` the static member that it replaces.
    """
    hashes = {member: string_hash(member) for member in member_ids}
    buckets = TIMELINE_BUCKETS_MIN
    while (max(size_max, len(hashes)) + 1) * 3 > buckets * 4:
        buckets *= 2
    shift = 65 - buckets.bit_length()

    def slot(member: str) -> int:
        signed = hashes[member] - (hashes[member] >> 31 << 32)
        return (signed * FIBONACCI & UINT64_MASK) >> shift

    ordered = list(reversed(hashes))  # Kafka reads a bucket of a TimelineHashMap from its end
    ordered.sort(key=slot)
    size = len(ordered)
    if updated is not None and updated not in hashes:
        hashes[updated] = string_hash(updated)
        ordered.append(updated)
        # Kafka makes both changes in a HashMap; the replaced member may be removed first.
        if replaced is None or not _comes_before(hashes[replaced], hashes[updated]):
            size += 1
    buckets = bucket_count(size)
    ordered.sort(key=lambda member: bucket(hashes[member], buckets))
    return [member for member in ordered if member != replaced]


def _comes_before(one: int, other: int) -> bool:
    return bucket(one, BUCKETS_MIN) < bucket(other, BUCKETS_MIN)


def subscription_order(
    names: Iterable[str],
    regex_topics: Iterable[str] = (),
    exists: Callable[[str], object] = lambda _name: True,
) -> tuple[str, ...]:
    """Return the subscription of a member: the names that it sent and the topics that match its
    regular expression, in the order of Kafka's sets. Topics that do not exist are omitted, because
    hashing thousands of names takes a long time."""
    named = list(names)
    resolved = sorted(regex_topics, key=java_order)
    small, large = (named, resolved)
    if resolved and len(set(named)) > len(set(resolved)):
        small, large = resolved, named
    ordered = (*_hash_set_of_names(large, exists), *_hash_set_of_names(small, exists))
    return tuple(dict.fromkeys(ordered))


def _hash_set_of_names(names: list[str], exists: Callable[[str], object]) -> list[str]:
    buckets = copy_table_size(len(names))
    existing = dict.fromkeys(filter(exists, names))
    return sorted(existing, key=lambda name: bucket(string_hash(name), buckets))


# --- topics


class TopicHashes(dict[TopicId, int]):
    """The hash codes of topic ids (Uuid.hashCode), spread as by HashMap.hash; cached."""

    def __missing__(self, topic_id: TopicId) -> int:
        number = topic_id.int
        halves = (number >> 64 ^ number) & UINT64_MASK
        code = (halves >> 32 ^ halves) & UINT32_MASK
        self[topic_id] = code = code ^ code >> 16
        return code

    def sort(self, topic_ids: Iterable[TopicId], buckets: int) -> list[TopicId]:
        """Return the iteration order of a HashMap to which the ids were added in this order."""
        ordered = list(topic_ids)
        if len(ordered) > 1:
            mask = buckets - 1
            ordered.sort(key=lambda topic_id: self[topic_id] & mask)
        return ordered


def id_order(topic_id: TopicId) -> int:
    """Return a sort key for Uuid.compareTo, which compares both halves as signed numbers."""
    return topic_id.int ^ (1 << 127 | 1 << 63)


# --- partitions


class PartitionSet:
    """A HashSet of integers."""

    __slots__ = ("_buckets", "_partitions")

    def __init__(self, buckets: int = BUCKETS_MIN) -> None:
        self._partitions: dict[int, None] = {}
        self._buckets = buckets

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partitions: Sequence[int]) -> None:
        """Add partitions, none of which is in the set yet."""
        present = self._partitions
        if (
            self._buckets < TREE_BUCKETS_MIN
            and len(present) + len(partitions) > TREEIFY_THRESHOLD
            and (present or partitions[-1] - partitions[0] != len(partitions) - 1)
        ):  # a bucket may become too long, unless the partitions are a range
            partitions = self._add_each(partitions)
        present.update(dict.fromkeys(partitions))
        while len(present) > self._buckets * 3 // 4:
            self._buckets *= 2

    def _add_each(self, partitions: Sequence[int]) -> Sequence[int]:
        """Add partitions until buckets can become trees. Return the remaining partitions."""
        for number, partition in enumerate(partitions):
            if self._buckets >= TREE_BUCKETS_MIN:
                return partitions[number:]
            self._partitions[partition] = None
            if self._bucket_size(partition) > TREEIFY_THRESHOLD:
                self._buckets *= 2
            if len(self._partitions) > self._buckets * 3 // 4:
                self._buckets *= 2
        return ()

    def _bucket_size(self, partition: int) -> int:
        if len(self._partitions) <= TREEIFY_THRESHOLD:
            return 0  # within the threshold
        mask = self._buckets - 1
        return sum(not (other ^ partition) & mask for other in self._partitions)

    def remove(self, partition: int) -> None:
        del self._partitions[partition]

    def ordered(self) -> list[int]:
        """Return the partitions in iteration order."""
        mask = self._buckets - 1
        partitions = self._partitions
        if max(partitions, default=0) > UINT16_MAX:
            return sorted(partitions, key=lambda partition: bucket(partition, mask + 1))
        return sorted(partitions, key=mask.__and__)


def copied_set(partitions: Sequence[int]) -> PartitionSet:
    """Return a copy of a collection, as created by HashSet's constructor."""
    copy = PartitionSet(copy_table_size(len(partitions)))
    copy.add(partitions)
    return copy
