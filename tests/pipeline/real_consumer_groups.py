"""Records of groups of the consumer protocol (KIP-848) in the bytes of a real Kafka 4.3."""

from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["RECORDS", "Stored", "newest"]


class Stored(NamedTuple):
    group: str
    at_ms: int
    key: bytes
    value: bytes | None

    @property
    def type(self) -> int:
        return int.from_bytes(self.key[:2], "big")


def _stored(line: str) -> Stored:
    group, at_ms, key, value = line.split()
    value_bytes = None if value == "-" else bytes.fromhex(value)
    return Stored(group, int(at_ms), bytes.fromhex(key), value_bytes)


_TEXT: Final = (Path(__file__).parent / "kafka_4_3_consumer_groups.txt").read_text()
RECORDS: Final = [_stored(line) for line in _TEXT.splitlines() if not line.startswith("#")]
"""In the order of each group's log, its commits but the last of each partition left out."""


def newest(group: str, until_ms: int = 2**63) -> list[tuple[bytes, bytes | None]]:
    """What a log that is compacted up to then holds of a group."""
    found = {r.key: r.value for r in RECORDS if r.group == group and r.at_ms <= until_ms}
    return [(key, value) for key, value in found.items() if value is not None]
