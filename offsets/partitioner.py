"""Which partition of __consumer_offsets holds a group: Kafka's rule, by Java's String.hashCode."""

from collections.abc import Sequence
from struct import unpack


def java_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units (above U+FFFF two to a character), signed 32 bits."""
    number = 0
    for unit in text.encode() if text.isascii() else _utf16_units(text):
        number = (31 * number + unit) & 0xFFFF_FFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _utf16_units(text: str) -> Sequence[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(raw) // 2}H", raw)


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of this group, of so many. A microsecond for twenty letters: remember it."""
    number = java_hash(group_id)
    # Utils.abs: Java's own abs has no positive twin for the smallest int, so that becomes 0.
    return 0 if number == -(1 << 31) else abs(number) % partitions
