"""Records of consumer groups (KIP-848), recorded from Kafka 4.3."""

from pathlib import Path
from typing import Final, NamedTuple


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
"""In log order of each group; only the last commit of each partition is included."""


def newest(group: str, until_ms: int = 2**63) -> list[tuple[bytes, bytes | None]]:
    """The records of a group in a log that was compacted at that time."""
    found = {r.key: r.value for r in RECORDS if r.group == group and r.at_ms <= until_ms}
    return [(key, value) for key, value in found.items() if value is not None]
