"""The order of Java's strings, and the iteration order of Java's HashMap.

Where several members have an equal claim to a partition, Kafka decides for the one that it meets
first in a HashMap. The same order gives the same result, on every interpreter.
"""

from collections.abc import Iterable, Sequence
from operator import mul
from struct import unpack
from typing import Final

BUCKETS_MIN: Final = 16  # HashMap.DEFAULT_INITIAL_CAPACITY
UINT32_MASK: Final = 0xFFFF_FFFF
_powers = [1]  # of 31, the highest first


def java_order(text: str) -> bytes:
    """Sort key: Java compares UTF-16 code units, which beyond U+FFFF is not Python's order."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """String.hashCode as an unsigned number."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        encoded = java_order(text)
        units = unpack(f">{len(encoded) // 2}H", encoded)
    while len(_powers) < len(units):
        _powers.insert(0, _powers[0] * 31 & UINT32_MASK)
    total: int = sum(map(mul, units, _powers[-len(units) :]))
    return total & UINT32_MASK


def bucket(hash_code: int, buckets: int) -> int:
    return (hash_code ^ hash_code >> 16) & (buckets - 1)


def bucket_count(size: int) -> int:
    """The table size of a HashMap that has grown to `size` entries."""
    number = BUCKETS_MIN
    while size > number * 3 // 4:
        number *= 2
    return number


def hash_map_order(names: Iterable[str]) -> list[str]:
    """The iteration order of a HashMap into which the names were put in sorted order."""
    ordered = sorted(names, key=java_order)
    buckets = bucket_count(len(ordered))
    return sorted(ordered, key=lambda name: bucket(string_hash(name), buckets))
