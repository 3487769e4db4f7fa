"""Offsets logs as files and as batches, from records or byte by byte."""

from pathlib import Path
from typing import NamedTuple

from kohort.log.batch import (
    BatchHeader,
    assemble,
    encode_record,
)
from kohort.log.codecs import compress
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets import record_codec
from kohort.offsets.record_codec import encode_commit_value, encode_group_value
from kohort.offsets.records import GroupMetadata, MemberMetadata, OffsetCommitRecord, OffsetsRecord
from kohort.pipeline.source.batches import Chunk, walk
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from kohort.protocol.primitives import string, unsigned_varint
from support.log import NewRecord, build

NOW_MS = 1_700_000_000_000


# --- files


def commit(offset: int, group: str = "orders") -> OffsetsRecord:
    return OffsetCommitRecord(
        group, "clicks", 3, encode_commit_value(offset, 7, "note", NOW_MS + offset)
    )


def batch_of(base_offset: int, *records: OffsetsRecord, at_ms: int = NOW_MS) -> bytes:
    made = [NewRecord(*record_codec.encode_record(record), at_ms) for record in records]
    return build(made, base_offset=base_offset)


def write(folder: Path, *batches: bytes, segment_bytes: int = 1024 * 1024) -> Log:
    folder.mkdir(parents=True, exist_ok=True)
    log = Log.open(folder, DiskFiles(), LogConfig(segment_bytes=segment_bytes))
    for batch in batches:
        log.append(batch)
    return log


def write_at(folder: Path, *times_ms: int, segment_bytes: int = 1024 * 1024) -> None:
    """Append a record of any topic at each of these times."""
    log = write(folder, segment_bytes=segment_bytes)
    for ms in times_ms:
        log.append(build([NewRecord(b"k", b"v", ms)], base_offset=log.end_offset))
    log.close()


# --- records of consumer groups (KIP-848), recorded from Kafka 4.3


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


_TEXT = Path(__file__).with_name("kafka_4_3_consumer_groups.txt").read_text()
RECORDS = [_stored(line) for line in _TEXT.splitlines() if not line.startswith("#")]
"""In log order of each group; only the last commit of each partition is included."""


def newest(group: str, until_ms: int = 2**63) -> list[tuple[bytes, bytes | None]]:
    """The records of a group in a log that was compacted at that time."""
    found = {r.key: r.value for r in RECORDS if r.group == group and r.at_ms <= until_ms}
    return [(key, value) for key, value in found.items() if value is not None]


# --- records and batches, byte by byte


def record(
    key: bytes | None, value: bytes | None, offset_delta: int, ms: int = 0, headers: int = 0
) -> bytes:
    return encode_record(offset_delta, ms, key, value, [("h", b"v")] * headers)


def batch(
    records: list[bytes],
    *,
    base_offset: int = 0,
    last_delta: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    count: int | None = None,
    base_ms: int = NOW_MS,
) -> bytes:
    """A batch with a valid checksum, even if its fields contradict each other."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,  # set by assemble, like the magic and the checksum
        leader_epoch=7,
        magic=0,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1 if last_delta is None else last_delta,
        base_timestamp=base_ms,
        max_timestamp=base_ms + 9,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=-1,
        count=len(records) if count is None else count,
    )
    return assemble(header, compress(header.codec, b"".join(records)))


def text(of: str, *, compact: bool = False) -> bytes:
    raw = of.encode()
    return unsigned_varint(len(raw) + 1) + raw if compact else string(of)


def offset_key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    return kind.to_bytes(2, "big") + text(group) + text(topic) + partition.to_bytes(4, "big")


def offset_value(version: int, offset: int, metadata: str, ms: int, tags: bytes = b"\0") -> bytes:
    found = version.to_bytes(2, "big") + offset.to_bytes(8, "big", signed=True)
    if version >= 3:
        found += (offset % 5 - 1).to_bytes(4, "big", signed=True)
    found += text(metadata, compact=version == 4) + ms.to_bytes(8, "big", signed=True)
    if version == 1:
        found += (ms + 5 if offset % 2 else -1).to_bytes(8, "big", signed=True)
    return found + (tags if version == 4 else b"")


def a_group(protocol_type: str, version: int, instance: str | None, blob: bytes) -> bytes:
    owned = (TopicPartitions("clicks", (0, 2)),)
    member = MemberMetadata(
        "m-1",
        instance,
        "client",
        "/10.0.0.1",
        300_000,
        45_000,
        blob or encode_subscription(Subscription(("clicks",), None, owned, 4, "rack"), version),
        blob or encode_assignment(Assignment(owned)),
    )
    return encode_group_value(GroupMetadata(protocol_type, 4, "range", "m-1", NOW_MS, (member,)))


def chunk_of(data: bytes) -> Chunk:
    """`data`: whole batches."""
    chunk, end = walk(data)
    assert end == len(data)
    return chunk
