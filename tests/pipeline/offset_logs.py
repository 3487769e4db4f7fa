"""Offsets logs as files and as batches. For Hypothesis, batches are plain, compressed, compacted or
transactional, with headers, all types of records and versions of values, and malformed."""

import random
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from kohort.log.batch import (
    APPEND_TIME,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    assemble,
    encode_record,
    read_header,
    seal,
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
TEXTS = ("", "orders", "a group", "Bücher", "数", "x" * 130)


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


def index_of(log: Log) -> None:
    """Write Kafka's .index of each segment, with an entry for every third batch: its last offset
    and its position. The file ends with preallocated zeros, as for a live segment."""
    for segment in log.segments:
        entries, position = [], 0
        data = segment.path.read_bytes()
        while position + 61 <= len(data) and data[position + 16] == 2:
            header = read_header(data, position)
            entries.append((header.last_offset - segment.base_offset, position))
            position += header.size
        raw = b"".join(
            offset.to_bytes(4, "big") + at.to_bytes(4, "big") for offset, at in entries[1::3]
        )
        segment.path.with_suffix(".index").write_bytes(raw + bytes(80))


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


TAGS = (
    b"\0",
    b"\1\0\x10" + bytes(16),
    b"\1\7\2ab",
    b"\2\0\x10" + bytes(16) + b"\7\1x",
    b"\1\0\x10",
)
TIMES = (NOW_MS, NOW_MS + 1, -1, 0, 1 << 60, -(1 << 62))

# --- strategies

names = st.sampled_from(TEXTS)
partitions = st.integers(0, 300)
keys = st.builds(offset_key, names, names, partitions, st.sampled_from((1, 1, 1, 0)))
values = st.builds(
    offset_value,
    st.integers(0, 4),
    st.integers(-1, 1 << 40),
    names,
    st.sampled_from(TIMES),
    st.sampled_from(TAGS),
)
group_keys = names.map(lambda name: b"\0\2" + text(name))
groups = st.builds(
    a_group,
    st.sampled_from(("consumer", "consumer", "connect", "")),
    st.integers(0, 3),
    st.sampled_from((None, "i-1")),
    st.sampled_from((b"", b"", b"\0\1", b"\0\1" + b"\0\0\0\1\0\1x" * 3)),
)
commits = st.tuples(keys, values)


def damaged(pair: tuple[bytes, bytes], seed: int) -> tuple[bytes | None, bytes | None]:
    """The pair with one changed byte, with bytes removed or added, or with one side null."""
    key, value = map(bytearray, pair)
    draw = random.Random(seed)
    side = draw.choice((key, value))
    change = draw.randrange(4)
    if change == 0:
        side[draw.randrange(len(side))] = draw.choice((0, 255, 127, 128, 195))
    elif change == 1:
        del side[draw.randrange(len(side)) :]
    elif change == 2:
        side += b"more"
    else:
        return (None, bytes(value)) if side is key else (bytes(key), None)
    return bytes(key), bytes(value)


pairs: Any = st.one_of(
    commits,
    commits,
    commits,
    commits,
    commits,
    st.tuples(keys, st.none()),
    st.tuples(group_keys, st.one_of(groups, st.none())),
    st.tuples(st.sampled_from((b"\0\3\0\1g", b"\0\5", b"\xff\xff")), st.sampled_from((b"v", None))),
    st.builds(damaged, commits, st.integers(0, 1 << 30)),
    st.builds(damaged, st.tuples(group_keys, groups), st.integers(0, 1 << 30)),
)
deltas = st.lists(st.integers(0, 3), max_size=12)
attributes_of = st.builds(
    lambda codec, more: codec | more,
    st.sampled_from((0, 0, 0, 0, 1, 2, 3, 4)),
    st.sampled_from((0, 0, 0, APPEND_TIME, TRANSACTIONAL)),
)


@st.composite
def some_batch(draw: Any, base_offset: int) -> bytes:
    odd = draw(st.integers(0, 4)) == 0
    attributes = draw(attributes_of)
    if draw(st.integers(0, 9)) == 0:
        key = draw(st.sampled_from((b"\0\0\0\0", b"\0\0\0\1", b"\0\0")))
        attributes = CONTROL | TRANSACTIONAL
    offset = 0
    made = []
    for delta in draw(deltas):
        offset += delta
        pair = (key, bytes(6)) if attributes & CONTROL else draw(pairs)
        ms = draw(st.sampled_from((0, 1, -70, 1 << 33, 1 << 36 if odd else 5)))
        made.append(record(*pair, offset, ms, headers=2 * (odd and draw(st.booleans()))))
        offset += 1
    wrong_count = draw(st.sampled_from((len(made) + 1, max(0, len(made) - 1), 1 << 30)))
    found = batch(
        made,
        base_offset=base_offset,
        last_delta=offset + draw(st.integers(0, 2)),
        attributes=attributes,
        count=wrong_count if odd and draw(st.booleans()) else None,
        producer_id=17 if attributes & TRANSACTIONAL else -1,
        base_ms=draw(st.sampled_from((NOW_MS, NOW_MS, NOW_MS, -1, 1 << 61))),
    )
    if odd and draw(st.booleans()) and len(found) > HEADER_BYTES:
        return with_wrong_byte(
            found, draw(st.integers(HEADER_BYTES, len(found) - 1)), draw(st.integers(1, 255))
        )
    return found


def with_wrong_byte(whole: bytes, at: int, change: int) -> bytes:
    """The batch with one changed byte and a valid checksum."""
    changed, header = bytearray(whole), read_header(whole)
    changed[at] ^= change
    return seal(bytes(changed[CRC_START:]), header.base_offset, header.leader_epoch)


@st.composite
def some_log(draw: Any) -> list[bytes]:
    found: list[bytes] = []
    offset = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 8))):
        found.append(draw(some_batch(offset)))
        offset = read_header(found[-1]).next_offset + draw(st.sampled_from((0, 0, 2)))
    return found


def chunk_of(data: bytes) -> Chunk:
    """`data`: whole batches."""
    chunk, end = walk(data)
    assert end == len(data)
    return chunk
