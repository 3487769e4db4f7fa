"""The records of __consumer_offsets: what each means, and its key and value in Kafka's bytes.

A key is an int16 record type and fixed fields; a value an int16 version and fields; a null value
(tombstone) says that what the key names is no more. Records of kinds that we do not keep (KIP-848,
share and streams groups) pass through as Unknown, byte for byte.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, TypeAlias, cast

from ..protocol.primitives import INT16, INT32
from .committed import OffsetAndMetadata, check_committed, committed_value, read_committed
from .errors import RecordError, UndecodableRecord, UnencodableRecord
from .fields import string_bytes
from .group_metadata import GroupMetadata, MemberMetadata, group_value, read_group

__all__ = [
    "GroupMetadata",
    "GroupMetadataRecord",
    "GroupTombstone",
    "MemberMetadata",
    "OffsetAndMetadata",
    "OffsetCommitRecord",
    "OffsetTombstone",
    "OffsetsRecord",
    "OpaqueRecord",
    "RecordError",
    "UndecodableRecord",
    "UnencodableRecord",
    "committed_value",
    "decode",
    "encode",
    "read_committed",
]


class OffsetCommitRecord(NamedTuple):
    """A commit. `value` is an OffsetCommitValue of any version (`committed_value` makes one);
    `earlier` are those that were committed in one breath with it, and are in the log before it."""

    group_id: str
    topic: str
    partition: int
    value: bytes
    earlier: tuple[bytes, ...] = ()


class OffsetTombstone(NamedTuple):
    """The committed offset of this partition was deleted or has expired."""

    group_id: str
    topic: str
    partition: int


class GroupMetadataRecord(NamedTuple):
    """A generation of a classic group."""

    group_id: str
    value: GroupMetadata


class GroupTombstone(NamedTuple):
    """The group was deleted or has expired; its offsets have tombstones of their own."""

    group_id: str


class OpaqueRecord(NamedTuple):
    """A record of a kind that we do not keep, as it came."""

    key: bytes
    value: bytes | None


OffsetsRecord: TypeAlias = (
    OffsetCommitRecord | OffsetTombstone | GroupMetadataRecord | GroupTombstone | OpaqueRecord
)

# Type 0 is type 1 in an older hand: Kafka reads it, and has long written only 1.
_LEGACY_OFFSET, _OFFSET, _GROUP = 0, 1, 2
_KNOWN_TYPES: Final = tuple(map(INT16.pack, (_LEGACY_OFFSET, _OFFSET, _GROUP)))
_HEAD: Final = Struct(">hh")  # the type, and the length of the group id that follows

# Topics as offset keys have them (length and name), both ways: there are few of them and each is in
# a great many keys. Begun anew when full, which takes some MiB.
_TOPICS_MAX = 16_384
_bytes_of_topic: dict[str, bytes] = {}
_topic_of_bytes: dict[bytes, str] = {}
# The keys of the offsets that are committed again and again; some 4 MiB when full.
_KEYS_MAX: Final = 16_384
_keys: Final[dict[tuple[str, str, int], bytes]] = {}
_pack_head: Final = _HEAD.pack
_pack_partition: Final = INT32.pack
_unpack_head: Final = _HEAD.unpack_from
_unpack_partition: Final = INT32.unpack


def encode(record: OffsetsRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record. Raises UnencodableRecord."""
    if type(record) is OffsetCommitRecord:
        where = record[:3]
        return _keys.get(where) or _remember_key(where), record[3]
    return _encode_other(record)


def encode_all(records: Sequence[OffsetsRecord]) -> list[tuple[bytes, bytes | None]]:
    """Key and value of all that is written for what was decided in one breath. Raises
    UnencodableRecord."""
    first = records[0]
    last = [encode(first)] if len(records) == 1 else list(map(encode, records))
    if type(first) is not OffsetCommitRecord or not first.earlier:
        return last
    # Who commits several times commits the same partitions each time.
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
            return _group_key(group_id), group_value(group)
        case GroupTombstone(group_id):
            return _group_key(group_id), None
        case OpaqueRecord(key, value):
            return key, value
    raise TypeError(f"{record!r} is no record of __consumer_offsets")


def decode(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """What a record means. Raises UndecodableRecord for a null key and for bytes that do not
    follow the layout of a type that we know; the value of a commit is checked, but kept as it is.
    """
    if key is None or len(key) < 4:
        return _decode_short(key, value)
    kind, size = _unpack_head(key)
    if kind in (_OFFSET, _LEGACY_OFFSET):
        end = 4 + size
        try:
            group_id = key[4:end].decode()
            # Never cut short: what is remembered begins with its own length.
            topic = _topic_of_bytes[key[end:-4]]
        except (KeyError, UnicodeDecodeError):
            group_id, topic = _read_offset_key(key)
        if size < 0:
            group_id, topic = _read_offset_key(key)
        partition: int = _unpack_partition(key[-4:])[0]
        if value is None:
            return OffsetTombstone(group_id, topic, partition)
        check_committed(value)
        return OffsetCommitRecord(group_id, topic, partition, value)
    if kind == _GROUP:
        group_id = _read_group_id(key)
        if value is None:
            return GroupTombstone(group_id)
        return GroupMetadataRecord(group_id, read_group(value))
    return OpaqueRecord(key, value)


def _decode_short(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """A key too short for any layout that we know; its type may still be one that we don't."""
    if key is None:
        raise UndecodableRecord("a record without a key")
    if len(key) < 2 or key[:2] in _KNOWN_TYPES:
        raise UndecodableRecord(f"key {key.hex() or '(no bytes)'}: cut short")
    return OpaqueRecord(key, value)


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
        string_bytes("a group id", group_id)  # says so if it was the group id
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
