"""Vectorized decoding of OffsetCommit records: the numpy counterpart of offsets/record_codec.py.

A record begins where the previous one ends, so a batch is walked record by record. However, many
batches can be walked together: record 0 of all batches in one numpy operation, then record 1 of the
batches that have one, and so on. Then each field is decoded for all records in one operation.

Keys and values in the layouts of `_read_keys` and `_read_values` are decoded here; all other
records are only marked (`is_commit` is False), and records.py decodes them. For the records that
are decoded here, records.py would return the same rows."""

from typing import Any, Final, NamedTuple

import numpy as np

from ...protocol.primitives import read_varint

# With fewer batches, a step takes more time than it saves: thirty numpy calls take as long as
# Python needs for this number of records.
ALIVE_MIN: Final = 150
# How far beyond the data an invalid position may be. At most a few varints and one fixed layout are
# added to a position before it is clipped to the end of its batch.
PAD_BYTES: Final = 128
# Length, attributes, two deltas, two lengths and a count.
RECORD_BYTES_MIN: Final = 7
# 35 bits: enough for any length or offset delta, and for timestamp deltas of up to 198 days.
VARINT_BYTES_MAX: Final = 5

Numbers = Any  # np.ndarray of int64


# --- record boundaries


class RecordBounds(NamedTuple):
    """`begins`, `ends`: the bounds of each record, excluding its length prefix, batch by batch.
    `valid`: for each batch, whether its records fill it exactly."""

    begins: Numbers
    ends: Numbers
    valid: Any


def find_records(data: bytes, begins: Numbers, ends: Numbers, counts: Numbers) -> RecordBounds:
    """Find the records of all batches in `data`: `counts[i]` records between `begins[i]` and
    `ends[i]`. `data` is padded by PAD_BYTES. The counts must be plausible."""
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    found = RecordBounds(
        np.zeros(total, np.int64), np.zeros(total, np.int64), np.ones(len(begins), bool)
    )
    at = begins.copy()
    number = 0
    alive = np.flatnonzero(counts > 0)
    octets = np.frombuffer(data, np.uint8)
    while len(alive) >= ALIVE_MIN:
        length, begin = _varints(octets, at[alive], found.valid, alive)
        end = begin + length
        wrong = (length < 0) | (end > ends[alive])
        if wrong.any():
            found.valid[alive[wrong]] = False
            end = np.where(wrong, ends[alive], end)
            begin = np.minimum(begin, end)
        found.begins[first[alive] + number] = begin
        found.ends[first[alive] + number] = end
        at[alive] = end
        number += 1
        alive = alive[counts[alive] > number]
    for batch in alive.tolist():
        place = int(first[batch]) + number
        at[batch] = _walk(
            data, int(at[batch]), int(ends[batch]), int(counts[batch]) - number, place, found
        )
    found.valid[at != ends] = False
    return found


def _walk(data: bytes, at: int, end: int, count: int, place: int, found: RecordBounds) -> int:
    """Find the `count` records of one batch from `at` on; return their end, -1 if they do not
    fit."""
    begins, ends = [], []
    try:
        for _ in range(count):
            length = data[at]
            if length < 128:  # inlined: most lengths are one byte
                at += 1
                length = (length >> 1) ^ -(length & 1)
            else:
                length, at = read_varint(data, at)
            begins.append(at)
            at += length
            if length < 0 or at > end:
                return -1
            ends.append(at)
    except (IndexError, ValueError):
        return -1
    found.begins[place : place + count] = begins
    found.ends[place : place + count] = ends
    return at


def _varints(octets: Any, at: Numbers, valid: Any, owner: Numbers) -> tuple[Numbers, Numbers]:
    """Return (zig-zag varints at the positions `at`, positions after them). `valid[owner]` becomes
    False for a varint of more than VARINT_BYTES_MAX."""
    raw = octets[at].astype(np.int64)
    after = at + 1
    longer = np.flatnonzero(raw >= 128)
    if len(longer):
        raw[longer] &= 0x7F
        for place in range(1, VARINT_BYTES_MAX):
            byte = octets[after[longer]].astype(np.int64)
            raw[longer] |= (byte & 0x7F) << (7 * place)
            after[longer] += 1
            longer = longer[byte >= 128]
            if not len(longer):
                break
        valid[owner[longer]] = False
    return (raw >> 1) ^ -(raw & 1), after


# --- commits

# The size of a key without its two strings: record type, two lengths, partition.
KEY_BYTES: Final = 10
# Position of the metadata's length in a value, by version; in version 4 the length is one byte.
METADATA_AT: Final = np.array([10, 10, 10, 14, 14])
WITH_EXPIRY, WITH_EPOCH_SINCE, FLEXIBLE_SINCE = 1, 3, 4
# A value of version 4 ends with no tagged field, or with a topic id.
TOPIC_ID_BYTES: Final = 16
TOPIC_ID_TAG_BYTES: Final = 2 + TOPIC_ID_BYTES


class Span(NamedTuple):
    begins: Numbers
    ends: Numbers


class Commits(NamedTuple):
    """One column per field, for all records; valid where `is_commit`. `key` and `value` are spans
    of the data; -1 means a missing leader epoch or time."""

    timestamp_delta: Numbers
    offset_delta: Numbers
    key: Span  # a null key or value is a span that ends before it begins
    value: Span
    is_commit: Any
    group: Span
    topic: Span
    partition: Numbers
    tombstone: Any
    version: Numbers
    offset: Numbers
    leader_epoch: Numbers
    metadata: Span
    commit_ms: Numbers
    expire_ms: Numbers
    topic_id: Numbers  # position of its 16 bytes; -1: none


def _integers(data: bytes, kind: str, positions: Numbers) -> Numbers:
    """Read big-endian integers at any positions."""
    shape = (len(data) - np.dtype(kind).itemsize + 1,)
    every = np.ndarray(shape, kind, data, 0, (1,))
    return every[positions].astype(np.int64)


def decode_commits(data: bytes, records: RecordBounds, owner: Numbers) -> Commits:
    """Decode commits. `owner`: the batch of each record. `records.valid` becomes False for batches
    whose records are malformed or have headers; the rows of these batches are meaningless."""
    octets, valid, ends = np.frombuffer(data, np.uint8), records.valid, records.ends
    timestamp_delta, at = _varints(octets, records.begins + 1, valid, owner)
    offset_delta, at = _varints(octets, at, valid, owner)
    key_size, key_at = _varints(octets, at, valid, owner)
    key = Span(key_at, np.minimum(key_at + key_size, ends))
    value_size, value_at = _varints(octets, np.maximum(key.ends, key_at), valid, owner)
    value = Span(value_at, np.minimum(value_at + value_size, ends))
    after = np.maximum(value.ends, value_at)
    # One byte remains: zero headers.
    complete = (octets[after] == 0) & (after + 1 == ends)
    complete &= (key_at + key_size <= ends) & (value_at + value_size <= ends)
    valid[owner[~complete]] = False
    of_key = _read_keys(data, key, ends)
    of_value = _read_values(data, value, ends)
    tombstone = value_size < 0
    is_commit = of_key.pop("is_commit") & (of_value.pop("is_commit") | tombstone)
    return Commits(
        timestamp_delta,
        offset_delta,
        key,
        value,
        is_commit,
        tombstone=tombstone,
        **of_key,
        **of_value,
    )


def _read_keys(data: bytes, key: Span, ends: Numbers) -> dict[str, Any]:
    at = np.minimum(key.begins, ends)
    type_, group_size = _integers(data, ">i2", at), _integers(data, ">i2", at + 2)
    group = Span(at + 4, np.minimum(at + 4 + np.maximum(group_size, 0), ends))
    topic_size = _integers(data, ">i2", group.ends)
    topic_at = group.ends + 2
    topic = Span(topic_at, np.minimum(topic_at + np.maximum(topic_size, 0), ends))
    is_commit = (type_ == 0) | (type_ == 1)
    is_commit &= (group_size >= 0) & (topic_size >= 0)
    is_commit &= KEY_BYTES + group_size + topic_size == key.ends - key.begins
    partition = _integers(data, ">i4", topic.ends)
    return {"is_commit": is_commit, "group": group, "topic": topic, "partition": partition}


def _read_values(data: bytes, value: Span, ends: Numbers) -> dict[str, Any]:
    at = np.minimum(value.begins, ends)
    version = _integers(data, ">i2", at)
    known = (version >= 0) & (version <= FLEXIBLE_SINCE)
    version = np.where(known, version, 0)
    has_epoch, flexible = version >= WITH_EPOCH_SINCE, version >= FLEXIBLE_SINCE
    size_at = at + METADATA_AT[version]
    size = _integers(data, ">i2", size_at)
    octets = np.frombuffer(data, np.uint8)
    if flexible.any():
        compact = octets[size_at].astype(np.int64)
        size = np.where(flexible, np.where(compact < 128, compact - 1, -1), size)
    metadata_at = size_at + 2 - flexible
    metadata = Span(metadata_at, np.minimum(metadata_at + np.maximum(size, 0), ends))
    with_expiry = version == WITH_EXPIRY
    after = metadata.ends + 8 + 8 * with_expiry
    topic_id_at = np.full(len(at), -1)
    if flexible.any():
        tags = octets[after]
        topic_id = flexible & (tags == 1) & (_integers(data, ">i2", after + 1) == 0x0010)
        known &= ~flexible | (tags == 0) | topic_id
        topic_id_at = np.where(topic_id, after + 3, -1)
        after = after + flexible + topic_id * TOPIC_ID_TAG_BYTES
    return {
        "is_commit": known & (size >= 0) & (after <= value.ends),
        "version": version,
        "offset": _integers(data, ">i8", at + 2),
        "leader_epoch": np.where(has_epoch, _integers(data, ">i4", at + 10), -1),
        "metadata": metadata,
        "commit_ms": _integers(data, ">i8", metadata.ends),
        "expire_ms": np.where(
            version == WITH_EXPIRY, _integers(data, ">i8", metadata.ends + 8), -1
        ),
        "topic_id": topic_id_at,
    }
