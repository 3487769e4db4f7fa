"""The records of __consumer_offsets as bytes: keys and values in Kafka's layout.

A key is an int16 record type and its fields; a value is an int16 version and its fields, or null
for a tombstone. Record types of groups that are not served (KIP-848, share and streams groups) are
not decoded beyond the group id, and unknown types not at all. Upstream: CoordinatorRecordType,
GroupCoordinatorRecordSerde.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, cast

from ..protocol.primitives import INT16, INT32
from .commit_value import validate_commit_value
from .errors import UndecodableRecord, UnencodableRecord
from .fields import string_bytes
from .group_metadata import decode_group_value, encode_group_value
from .records import (
    GroupMetadataRecord,
    GroupTombstone,
    GroupType,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    UnknownRecord,
)

__all__ = ["decode_record", "encode_record", "encode_records"]

# Type 0 is the same key as type 1; Kafka reads both and has written only 1 since 0.9.
_LEGACY_OFFSET, _OFFSET, _GROUP = 0, 1, 2
_TYPES_OF_OTHER_GROUPS: Final = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), GroupType.SHARE),
    **dict.fromkeys((17, 18, 19, 20, 21, 22, 23, 24), GroupType.STREAMS),
}
_DECODED_TYPES: Final = tuple(map(INT16.pack, (_LEGACY_OFFSET, _OFFSET, _GROUP)))
_HEAD: Final = Struct(">hh")  # the type, and the length of the group id that follows

# Topics as in offset keys (length and name), both ways: they are few, and each is in many keys. A
# full cache takes some MiB and is cleared.
_TOPICS_MAX = 16_384
_bytes_of_topic: dict[str, bytes] = {}
_topic_of_bytes: dict[bytes, str] = {}
# Keys of offsets that are committed again and again; some 4 MiB when full.
_KEYS_MAX: Final = 16_384
_keys: Final[dict[tuple[str, str, int], bytes]] = {}
_pack_head: Final = _HEAD.pack
_pack_partition: Final = INT32.pack
_unpack_head: Final = _HEAD.unpack_from
_unpack_partition: Final = INT32.unpack


def encode_record(record: OffsetsRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record. Raises UnencodableRecord."""
    if type(record) is OffsetCommitRecord:
        where = record[:3]
        return _keys.get(where) or _remember_key(where), record[3]
    return _encode_other(record)


def encode_records(records: Sequence[OffsetsRecord]) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of the records of one decision: pipelined commits (`earlier`) come before
    the last ones. Raises UnencodableRecord."""
    first = records[0]
    last = [encode_record(first)] if len(records) == 1 else list(map(encode_record, records))
    if type(first) is not OffsetCommitRecord or not first.earlier:
        return last
    # Pipelined commits have the same partitions.
    encoded, count = last * (len(first.earlier) + 1), len(last)
    for place, record in enumerate(cast("Sequence[OffsetCommitRecord]", records)):
        key = last[place][0]
        encoded[place:-count:count] = [(key, value) for value in record.earlier]
    return encoded


def _remember_key(where: tuple[str, str, int]) -> bytes:
    if len(_keys) >= _KEYS_MAX:
        _keys.clear()
    key = _keys[where] = _offset_key(*where)
    return key


def _encode_other(record: OffsetsRecord) -> tuple[bytes, bytes | None]:
    match record:
        case OffsetTombstone(group_id, topic, partition):
            return _offset_key(group_id, topic, partition), None
        case GroupMetadataRecord(group_id, group):
            return _group_key(group_id), encode_group_value(group)
        case GroupTombstone(group_id):
            return _group_key(group_id), None
        case OtherGroupRecord(_, _, _, key, value) | UnknownRecord(_, key, value):
            return key, value
    raise TypeError(f"{record!r} is not a record of __consumer_offsets")


def decode_record(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """Decode a record; the value of a commit is validated and stays encoded.

    Raises UndecodableRecord for a null key, and for bytes that do not follow the schema of their
    record type.
    """
    if key is None or len(key) < 4:
        return _decode_short(key, value)
    kind, size = _unpack_head(key)
    if kind in (_OFFSET, _LEGACY_OFFSET):
        end = 4 + size
        try:
            group_id = key[4:end].decode()
            # Never a prefix of another topic: the cached bytes begin with their length.
            topic = _topic_of_bytes[key[end:-4]]
        except (KeyError, UnicodeDecodeError):
            group_id, topic = _read_offset_key(key)
        if size < 0:
            group_id, topic = _read_offset_key(key)
        partition: int = _unpack_partition(key[-4:])[0]
        if value is None:
            return OffsetTombstone(group_id, topic, partition)
        validate_commit_value(value)
        return OffsetCommitRecord(group_id, topic, partition, value)
    if kind == _GROUP:
        group_id = _read_group_id(key)
        if value is None:
            return GroupTombstone(group_id)
        return GroupMetadataRecord(group_id, decode_group_value(value))
    return _undecoded(kind, key, value)


def _decode_short(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """A key too short for the types that are decoded; its type may be another one."""
    if key is None:
        raise UndecodableRecord("a record without a key")
    if len(key) < 2 or key[:2] in _DECODED_TYPES:
        raise UndecodableRecord(f"key {key.hex() or '(no bytes)'}: cut short")
    return _undecoded(INT16.unpack_from(key)[0], key, value)


def _undecoded(record_type: int, key: bytes, value: bytes | None) -> OffsetsRecord:
    group_type = _TYPES_OF_OTHER_GROUPS.get(record_type)
    if group_type is None:
        return UnknownRecord(record_type, key, value)
    # A malformed key must not keep the partition from loading: nothing else of it is used.
    group_id = key[4 : 4 + int.from_bytes(key[2:4])].decode(errors="replace")
    return OtherGroupRecord(group_type, group_id, record_type, key, value)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    try:
        group = group_id.encode()
        return (
            _pack_head(_OFFSET, len(group))
            + group
            + (_bytes_of_topic.get(topic) or _remember(topic))
            + _pack_partition(partition)
        )
    except (struct_error, UnicodeEncodeError) as error:
        string_bytes("a group id", group_id)  # raises if the group id is at fault
        raise UnencodableRecord(f"partition {partition} is out of range") from error


def _group_key(group_id: str) -> bytes:
    return INT16.pack(_GROUP) + string_bytes("a group id", group_id)


def _remember(topic: str) -> bytes:
    raw = string_bytes("a topic", topic)
    if len(_bytes_of_topic) >= _TOPICS_MAX:
        _bytes_of_topic.clear()
        _topic_of_bytes.clear()
    _bytes_of_topic[topic] = raw
    _topic_of_bytes[raw] = topic
    return raw


def _read_offset_key(key: bytes) -> tuple[str, str]:
    """Group and topic of an offset's key."""
    group_id, at = _read_string(key, 2)
    topic, at = _read_string(key, at)
    if at + 4 != len(key):
        raise UndecodableRecord(f"key {key.hex()}: its strings do not leave an int32 partition")
    _remember(topic)
    return group_id, topic


def _read_group_id(key: bytes) -> str:
    group_id, at = _read_string(key, 2)
    if at != len(key):
        raise UndecodableRecord(f"GroupMetadataKey {key.hex()}: it does not end with its group id")
    return group_id


def _read_string(key: bytes, at: int) -> tuple[str, int]:
    end = at + 2
    size = int.from_bytes(key[at:end], "big", signed=True)
    if end > len(key) or size < 0 or end + size > len(key):
        raise UndecodableRecord(f"key {key.hex()}: no whole string at byte {at}")
    try:
        return key[end : end + size].decode(), end + size
    except UnicodeDecodeError as error:
        raise UndecodableRecord(f"key {key.hex()}: its string at byte {at} is not UTF-8") from error
