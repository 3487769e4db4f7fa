"""Maps a group to its partition of __consumer_offsets, by Java's String.hashCode."""

from collections.abc import Sequence
from struct import unpack


def java_hash(text: str) -> int:
    """Return String.hashCode of `text`: a signed 32-bit hash over UTF-16 code units."""
    number = 0
    for unit in text.encode() if text.isascii() else _utf16_units(text):
        number = (31 * number + unit) & 0xFFFF_FFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _utf16_units(text: str) -> Sequence[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(raw) // 2}H", raw)


def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of a group. Callers should cache it: hashing twenty characters takes a
    microsecond."""
    number = java_hash(group_id)
    # Utils.abs maps Integer.MIN_VALUE to 0.
    return 0 if number == -(1 << 31) else abs(number) % partitions
