"""The order of members and topics in Kafka's assignors, and of Java's strings and HashMap.

If several members have an equal claim to a partition, Kafka prefers the first member in the
iteration order of a HashMap. Using Kafka's order gives the same result.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import mul
from typing import Final, Protocol

from .model import Subscription, Topics

BUCKETS_MIN: Final = 16  # HashMap.DEFAULT_INITIAL_CAPACITY
UINT32_MASK: Final = 0xFFFF_FFFF
_powers = [1]  # powers of 31, the highest first


# --- members and topics (AbstractPartitionAssignor.MemberInfo)


class HasInstanceId(Protocol):
    @property
    def group_instance_id(self) -> str | None: ...


def member_order(members: Mapping[str, HasInstanceId]) -> list[str]:
    """Return static members by instance id, followed by dynamic members by member id (KIP-345)."""

    def key(member: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member].group_instance_id
        return instance_id is None, java_order(instance_id or ""), java_order(member)

    return sorted(members, key=key)


def subscribers_by_topic(
    topics: Topics, members: Mapping[str, Subscription]
) -> dict[str, list[str]]:
    """Return topics in order, each with its subscribers in order. Topics without partitions or
    without metadata are omitted. Topics with the same subscribers share one list object."""
    ordered = member_order(members)
    # Members are grouped by subscription, because often all of them have the same subscription.
    indexes_by_subscription: dict[tuple[str, ...], list[int]] = {}
    for index, member in enumerate(ordered):
        indexes_by_subscription.setdefault(members[member].topics, []).append(index)
    subscriptions: defaultdict[str, list[int]] = defaultdict(list)
    for number, subscribed in enumerate(indexes_by_subscription):
        for topic in dict.fromkeys(subscribed):
            subscriptions[topic].append(number)
    indexes = list(indexes_by_subscription.values())
    merged: dict[tuple[int, ...], list[str]] = {}
    by_topic: dict[str, list[str]] = {}
    for topic in sorted(subscriptions, key=java_order):
        if topics.partitions.get(topic, 0) > 0:
            numbers = tuple(subscriptions[topic])
            if numbers not in merged:
                chained = chain.from_iterable(map(indexes.__getitem__, numbers))
                merged[numbers] = [ordered[index] for index in sorted(chained)]
            by_topic[topic] = merged[numbers]
    return by_topic


# --- Java


def java_order(text: str) -> bytes:
    """Return a sort key for Java's string order, which compares UTF-16 code units. Beyond
    U+FFFF, this order differs from Python's."""
    return text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=16_384)  # enough for the member ids of a few large groups: about 2 MiB
def string_hash(text: str) -> int:
    """Return Java's String.hashCode as an unsigned number."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        encoded = java_order(text)
        units = [high << 8 | low for high, low in zip(encoded[::2], encoded[1::2], strict=True)]
    while len(_powers) < len(units):
        _powers.insert(0, _powers[0] * 31 & UINT32_MASK)
    total: int = sum(map(mul, units, _powers[-len(units) :]))
    return total & UINT32_MASK


def bucket(hash_code: int, buckets: int) -> int:
    return (hash_code ^ hash_code >> 16) & (buckets - 1)


def bucket_count(size: int) -> int:
    """Return the table size of a HashMap that has grown to `size` entries."""
    number = BUCKETS_MIN
    while size > number * 3 // 4:
        number *= 2
    return number


def table_size(size: int) -> int:
    """Return the table size of a HashMap that is created with room for `size` entries."""
    return 1 << (size * 4 // 3).bit_length()


def copy_table_size(size: int) -> int:
    """Return the table size of a HashSet copied from a collection of `size` entries."""
    return max(BUCKETS_MIN, table_size(size))


def hash_map_order(names: Iterable[str]) -> list[str]:
    """Return the iteration order of a HashMap into which the names were put in sorted order."""
    ordered = sorted(names, key=java_order)
    buckets = bucket_count(len(ordered))
    return sorted(ordered, key=lambda name: bucket(string_hash(name), buckets))
