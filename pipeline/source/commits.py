"""What commits say, all of them at once: each field is one gather at the positions of all records.

A commit, or its tombstone, in one of the layouts that clients write is `plain`. Every other record,
however small its oddness, is left to records.py, which says the same of it, and slowly.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from .lockstep import Records, varints

__all__ = ["Commits", "read_commits"]

Numbers = Any

# Of a key without its two strings: type, two lengths, partition.
KEY_BYTES: Final = 10
# Where the length of the metadata stands in a value, by version; of version 4 in one byte.
METADATA_AT: Final = np.array([10, 10, 10, 14, 14])
WITH_EXPIRY, WITH_EPOCH_SINCE, FLEXIBLE = 1, 3, 4
# A value of version 4 ends with no tag, or with that of a topic's id.
TOPIC_ID_TAG_BYTES: Final = 2 + 16


class Span(NamedTuple):
    begins: Numbers
    ends: Numbers


class Commits(NamedTuple):
    """A column of numbers for each field, of all records; right where `plain` says so. Keys and
    values lie in the data; `-1` for a leader epoch or a time that is not told."""

    timestamp_delta: Numbers
    offset_delta: Numbers
    key: Span  # of a null one, and of a null value: ends before it begins
    value: Span
    plain: Any
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


class _Fields:
    """Big-endian numbers at any position."""

    def __init__(self, data: bytes) -> None:
        self.int8 = np.frombuffer(data, np.uint8)
        self._data = data

    def at(self, kind: str, positions: Numbers) -> Numbers:
        size = np.dtype(kind).itemsize
        shape = (len(self._data) - size + 1,)
        every = np.ndarray(shape, kind, self._data, 0, (1,))
        return every[positions].astype(np.int64)


def read_commits(data: bytes, records: Records, owner: Numbers) -> Commits:
    """`owner`: the batch of each record. Marks batches as not sound whose records are not what they
    should be, or have headers; what is said of their records then means nothing."""
    fields = _Fields(data)
    sound, ends = records.sound, records.ends
    timestamp_delta, at = varints(fields.int8, records.begins + 1, sound, owner)
    offset_delta, at = varints(fields.int8, at, sound, owner)
    key_size, key_at = varints(fields.int8, at, sound, owner)
    key = Span(key_at, np.minimum(key_at + key_size, ends))
    value_size, value_at = varints(fields.int8, np.maximum(key.ends, key_at), sound, owner)
    value = Span(value_at, np.minimum(value_at + value_size, ends))
    behind = np.maximum(value.ends, value_at)
    # One byte is left, which says that there are no headers.
    whole = (fields.int8[behind] == 0) & (behind + 1 == ends)
    whole &= (key_at + key_size <= ends) & (value_at + value_size <= ends)
    sound[owner[~whole]] = False
    of_key = _read_keys(fields, key, ends)
    of_value = _read_values(fields, value, ends)
    tombstone = value_size < 0
    plain = of_key.pop("plain") & (of_value.pop("plain") | tombstone)
    return Commits(
        timestamp_delta, offset_delta, key, value, plain, tombstone=tombstone, **of_key, **of_value
    )


def _read_keys(fields: _Fields, key: Span, ends: Numbers) -> dict[str, Any]:
    at = np.minimum(key.begins, ends)
    kind, group_size = fields.at(">i2", at), fields.at(">i2", at + 2)
    group = Span(at + 4, np.minimum(at + 4 + np.maximum(group_size, 0), ends))
    topic_size = fields.at(">i2", group.ends)
    topic_at = group.ends + 2
    topic = Span(topic_at, np.minimum(topic_at + np.maximum(topic_size, 0), ends))
    plain = (kind == 0) | (kind == 1)
    plain &= (group_size >= 0) & (topic_size >= 0)
    plain &= KEY_BYTES + group_size + topic_size == key.ends - key.begins
    partition = fields.at(">i4", topic.ends)
    return {"plain": plain, "group": group, "topic": topic, "partition": partition}


def _read_values(fields: _Fields, value: Span, ends: Numbers) -> dict[str, Any]:
    at = np.minimum(value.begins, ends)
    version = fields.at(">i2", at)
    known = (version >= 0) & (version <= FLEXIBLE)
    version = np.where(known, version, 0)
    has_epoch, flexible = version >= WITH_EPOCH_SINCE, version == FLEXIBLE
    size_at = at + METADATA_AT[version]
    size = fields.at(">i2", size_at)
    if flexible.any():
        compact = fields.int8[size_at].astype(np.int64)
        size = np.where(flexible, np.where(compact < 128, compact - 1, -1), size)
    metadata_at = size_at + 2 - flexible
    metadata = Span(metadata_at, np.minimum(metadata_at + np.maximum(size, 0), ends))
    behind = metadata.ends + 8 + 8 * (version == WITH_EXPIRY)
    if flexible.any():
        tags = fields.int8[behind]
        topic_id = flexible & (tags == 1) & (fields.at(">i2", behind + 1) == 0x0010)
        known &= ~flexible | (tags == 0) | topic_id
        behind = behind + flexible + topic_id * TOPIC_ID_TAG_BYTES
    return {
        "plain": known & (size >= 0) & (behind <= value.ends),
        "version": version,
        "offset": fields.at(">i8", at + 2),
        "leader_epoch": np.where(has_epoch, fields.at(">i4", at + 10), -1),
        "metadata": metadata,
        "commit_ms": fields.at(">i8", metadata.ends),
        "expire_ms": np.where(version == WITH_EXPIRY, fields.at(">i8", metadata.ends + 8), -1),
    }
