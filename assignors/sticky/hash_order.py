"""The order in which a Java HashMap walks over strings.

Where several members have as good a right to a partition, upstream decides for the one that it
meets first in a HashMap. In the same order we decide the same, on whichever interpreter.
"""

from collections.abc import Iterable, Sequence
from operator import mul
from struct import unpack

from ..subscribers import java_order

BUCKETS_MIN = 16  # HashMap.DEFAULT_INITIAL_CAPACITY
_MASK = 0xFFFF_FFFF
_powers = [1]  # of 31, the greatest first


def string_hash(text: str) -> int:
    """String.hashCode, without its sign."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        encoded = java_order(text)
        units = unpack(f">{len(encoded) // 2}H", encoded)
    while len(_powers) < len(units):
        _powers.insert(0, _powers[0] * 31 & _MASK)
    total: int = sum(map(mul, units, _powers[-len(units) :]))
    return total & _MASK


def bucket(hashed: int, buckets: int) -> int:
    return (hashed ^ hashed >> 16) & (buckets - 1)


def buckets(size: int) -> int:
    """Of a table that has grown to `size` entries."""
    number = BUCKETS_MIN
    while size > number * 3 // 4:
        number *= 2
    return number


def hash_order(names: Iterable[str]) -> list[str]:
    """As from a map into which they were put in their own order."""
    ordered = sorted(names, key=java_order)
    number = buckets(len(ordered))
    return sorted(ordered, key=lambda name: bucket(string_hash(name), number))
