"""Encodes and decodes the records of __consumer_offsets in Kafka's layout.

A key is an int16 record type and its fields. A value is an int16 version and its fields, or null
for a tombstone. For groups that kohort does not serve (share and streams groups), only the group id
is decoded. Records of unknown types are not decoded at all. Upstream: CoordinatorRecordType,
GroupCoordinatorRecordSerde.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, cast
from uuid import UUID

from ..protocol.primitives import INT16, INT32, Reader, string
from .record_schemas import RECORD_SPECS, decode_value, encode_value
from .records import (
    ConsumerGroupRecord,
    ConsumerRecordType,
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    GroupType,
    OffsetAndMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    UndecodableRecord,
    UnencodableRecord,
    UnknownRecord,
)

# Type 0 has the same key as type 1. Since 0.9, Kafka reads both types and writes only type 1.
_LEGACY_OFFSET, _OFFSET, _GROUP = 0, 1, 2
_TYPES_OF_OTHER_GROUPS: Final = {
    **dict.fromkeys((9, 10, 11, 12, 13, 14, 15), GroupType.SHARE),
    **dict.fromkeys((17, 18, 19, 20, 21, 22, 23, 24), GroupType.STREAMS),
}
_CONSUMER_TYPES: Final = {int(type_): type_ for type_ in ConsumerRecordType}
_DECODED_TYPES: Final = tuple(map(INT16.pack, (_LEGACY_OFFSET, _OFFSET, _GROUP, *_CONSUMER_TYPES)))
# Like Kafka, kohort writes version 3 of the group metadata value.
_GROUP_VERSION: Final = 3
_CONSUMER_VERSION: Final = 0

_KEY_START: Final = Struct(">hh")  # record type, length of the group id
_pack_key_start: Final = _KEY_START.pack
_unpack_key_start: Final = _KEY_START.unpack_from
_pack_partition: Final = INT32.pack
_unpack_partition: Final = INT32.unpack

# Topic names and their encodings (length and bytes). A full cache (a few MiB) is cleared.
_TOPICS_MAX = 16_384
_encoded_topics: dict[str, bytes] = {}
_decoded_topics: dict[bytes, str] = {}
# Cache of offset keys, about 4 MiB when it is full.
_KEYS_MAX = 16_384
_keys: Final[dict[tuple[str, str, int], bytes]] = {}


# --- encoding


def encode_record(record: OffsetsRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value. Raises UnencodableRecord."""
    if type(record) is OffsetCommitRecord:
        topic_partition = record[:3]
        return _keys.get(topic_partition) or _cache_key(topic_partition), record[3]
    match record:
        case OffsetTombstone(group_id, topic, partition):
            return _offset_key(group_id, topic, partition), None
        case GroupMetadataRecord(group_id, group):
            return _group_key(group_id), encode_group_value(group)
        case GroupTombstone(group_id):
            return _group_key(group_id), None
        case ConsumerGroupRecord():
            return _encode_consumer_record(record)
        case OtherGroupRecord(_, _, _, key, value) | UnknownRecord(_, key, value):
            return key, value
    raise TypeError(f"{record!r} is not a record of __consumer_offsets")


def encode_records(records: Sequence[OffsetsRecord]) -> list[tuple[bytes, bytes | None]]:
    """Return the keys and values of a decision's records. The commits of earlier pipelined requests
    (`earlier`) come first. Raises UnencodableRecord."""
    first = records[0]
    last = [encode_record(first)] if len(records) == 1 else list(map(encode_record, records))
    if type(first) is not OffsetCommitRecord or not first.earlier:
        return last
    # All pipelined commits have the same partitions.
    encoded, count = last * (len(first.earlier) + 1), len(last)
    for place, record in enumerate(cast("Sequence[OffsetCommitRecord]", records)):
        key = last[place][0]
        encoded[place:-count:count] = [(key, value) for value in record.earlier]
    return encoded


def _cache_key(topic_partition: tuple[str, str, int]) -> bytes:
    if len(_keys) >= _KEYS_MAX:
        _keys.clear()
    key = _keys[topic_partition] = _offset_key(*topic_partition)
    return key


def encode_group_value(group: GroupMetadata) -> bytes:
    """Encode the value of a group's record. Raises UnencodableRecord."""
    return encode_value(RECORD_SPECS[_GROUP].value, _GROUP_VERSION, group)


def _encode_consumer_record(record: ConsumerGroupRecord) -> tuple[bytes, bytes | None]:
    type_, group_id, name, value = record
    spec = RECORD_SPECS[type_]
    key = INT16.pack(type_) + _string("group id", group_id)
    if len(spec.key.fields) > 1:
        key += _string("member id or regular expression", name)
    return key, None if value is None else encode_value(spec.value, _CONSUMER_VERSION, value)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    try:
        group = group_id.encode()
        return (
            _pack_key_start(_OFFSET, len(group))
            + group
            + (_encoded_topics.get(topic) or _cache_topic(topic))
            + _pack_partition(partition)
        )
    except (StructError, UnicodeEncodeError) as error:
        _string("group id", group_id)  # raises if the group id cannot be encoded
        raise UnencodableRecord(f"partition {partition} is out of range") from error


def _group_key(group_id: str) -> bytes:
    return INT16.pack(_GROUP) + _string("group id", group_id)


def _cache_topic(topic: str) -> bytes:
    encoded = _string("topic", topic)
    if len(_encoded_topics) >= _TOPICS_MAX:
        _encoded_topics.clear()
        _decoded_topics.clear()
    _encoded_topics[topic] = encoded
    _decoded_topics[encoded] = topic
    return encoded


def _string(name: str, text: str) -> bytes:
    try:
        return string(text)
    except ValueError as error:
        raise UnencodableRecord(f"{name} cannot be encoded: {error}") from error


# --- decoding


def decode_record(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """Decode a record. A commit's value is validated, but kept encoded. Raises UndecodableRecord
    for a null key, and for bytes that do not follow the schema of their record type."""
    if key is None or len(key) < _KEY_START.size:
        return _decode_short_key(key, value)
    record_type, size = _unpack_key_start(key)
    if record_type in (_OFFSET, _LEGACY_OFFSET):
        end = 4 + size
        try:
            group_id = key[4:end].decode()
            # The length prefix prevents a match with a shorter topic name.
            topic = _decoded_topics[key[end:-4]]
        except (KeyError, UnicodeDecodeError):
            group_id, topic = _decode_offset_key(key)
        if size < 0:
            group_id, topic = _decode_offset_key(key)
        partition: int = _unpack_partition(key[-4:])[0]
        if value is None:
            return OffsetTombstone(group_id, topic, partition)
        validate_commit_value(value)
        return OffsetCommitRecord(group_id, topic, partition, value)
    if record_type == _GROUP:
        (group_id,) = _decode_strings("GroupMetadataKey", key, 1)
        if value is None:
            return GroupTombstone(group_id)
        return GroupMetadataRecord(group_id, decode_value(RECORD_SPECS[_GROUP].value, value))
    if record_type in _CONSUMER_TYPES:
        return _decode_consumer_record(_CONSUMER_TYPES[record_type], key, value)
    return _opaque_record(record_type, key, value)


def _decode_consumer_record(
    type_: ConsumerRecordType, key: bytes, value: bytes | None
) -> ConsumerGroupRecord:
    spec = RECORD_SPECS[type_]
    names = _decode_strings(f"{spec.name}Key", key, len(spec.key.fields))
    decoded = None if value is None else decode_value(spec.value, value)
    return ConsumerGroupRecord(type_, names[0], names[1] if len(names) > 1 else "", decoded)


def _decode_short_key(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """Decode a record whose key is too short for a group id. Its type may be unknown."""
    if key is None:
        raise UndecodableRecord("record without a key")
    if len(key) < INT16.size or key[:2] in _DECODED_TYPES:
        raise UndecodableRecord(f"truncated key: {key.hex() or '(no bytes)'}")
    return _opaque_record(INT16.unpack_from(key)[0], key, value)


def _opaque_record(record_type: int, key: bytes, value: bytes | None) -> OffsetsRecord:
    group_type = _TYPES_OF_OTHER_GROUPS.get(record_type)
    if group_type is None:
        return UnknownRecord(record_type, key, value)
    # Accept malformed keys of types that are not decoded, because such keys must not block loading.
    group_id = key[4 : 4 + int.from_bytes(key[2:4])].decode(errors="replace")
    return OtherGroupRecord(group_type, group_id, record_type, key, value)


def _decode_offset_key(key: bytes) -> tuple[str, str]:
    """Return the group id and the topic."""
    fields = Reader(key, INT16.size, flexible=False)
    try:
        group_id, topic, _ = fields.string(), fields.string(), fields.int32()
    except ValueError as error:
        raise UndecodableRecord(f"OffsetCommitKey {key.hex()}: {error}") from error
    if fields.position != len(key):
        raise UndecodableRecord(f"OffsetCommitKey {key.hex()}: extra bytes after its partition")
    _cache_topic(topic)
    return group_id, topic


def _decode_strings(name: str, key: bytes, count: int) -> list[str]:
    """Return the fields of a key that has `count` strings."""
    fields = Reader(key, INT16.size, flexible=False)
    try:
        strings = [fields.string() for _ in range(count)]
    except ValueError as error:
        raise UndecodableRecord(f"{name} {key.hex()}: {error}") from error
    if fields.position != len(key):
        raise UndecodableRecord(f"{name} {key.hex()}: extra bytes after its last field")
    return strings


# --- the value of a commit

# The generated decoders and encoders handle all versions. Nearly every commit, however, is of
# version 3 (older brokers) or 4 and has no metadata, so its value has a fixed size and is packed
# and unpacked with one struct.
_NO_EXPIRY: Final = -1

_V3: Final = Struct(">hqihq")  # with empty metadata
_V3_SIZE: Final = _V3.size
# Fields of version 4 with empty metadata. The topic id may follow as a tagged field.
_V4: Final = Struct(">hqibq")
_pack_v4: Final = _V4.pack
_V4_START: Final = b"\x00\x04"
_V4_END: Final = b"\x00"
_ID_TAG: Final = b"\x01\x00\x10"  # one tagged field, number 0, of 16 bytes
_TOPIC_ID_SIZE: Final = 16
_V4_WITH_TOPIC_ID: Final = Struct(">hqibq3s16s")
_V4_TOPIC_ID_SIZE: Final = _V4_WITH_TOPIC_ID.size
_pack_bare: Final = _V4_WITH_TOPIC_ID.pack
# The length of metadata shorter than this is encoded in one byte, as an unsigned varint.
_SHORT_METADATA_SIZE: Final = 127
# Twice as fast as the generated NamedTuple constructor.
_new: Final = tuple.__new__


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    offsets: Sequence[int],
    leader_epoch: int,
    metadata: str | None,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None = None,
    topic_id: bytes | None = None,
) -> OffsetCommitRecord:
    """Return the commit record for the last of `offsets`. The preceding offsets become `earlier`.
    Raises UnencodableRecord."""
    value = encode_commit_value(
        offsets[-1], leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id
    )
    earlier = _with_offsets(value, offsets[:-1]) if len(offsets) > 1 else ()
    return _new(OffsetCommitRecord, (group_id, topic, partition, value, earlier))


def encode_commit_value(
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None = None,
    topic_id: bytes | None = None,
) -> bytes:
    """Encode a commit in version 4, or in version 1 if it has an expiry time. Version 1 has neither
    leader epoch nor topic id. Kafka chooses the same versions, and also encodes null metadata as
    empty (GroupCoordinatorRecordHelpers.newOffsetCommitRecord). Raises UnencodableRecord."""
    if expire_timestamp_ms is None and (topic_id is not None or not metadata):
        try:
            if topic_id is None:
                return _pack_v4(4, offset, leader_epoch, 1, commit_timestamp_ms) + _V4_END
            if not metadata:
                return _pack_bare(
                    4, offset, leader_epoch, 1, commit_timestamp_ms, _ID_TAG, topic_id
                )
            text = metadata.encode()
            if (size := len(text)) < _SHORT_METADATA_SIZE:
                pack = _packer_around_metadata(size)
                return pack(
                    4, offset, leader_epoch, size + 1, text, commit_timestamp_ms, _ID_TAG, topic_id
                )
        except (StructError, UnicodeEncodeError):
            pass  # the encoder below reports which field is invalid
    version = 4 if expire_timestamp_ms is None else 1
    fields = (
        offset,
        leader_epoch,
        metadata or "",
        commit_timestamp_ms,
        expire_timestamp_ms,
        None if topic_id is None else _uuid(topic_id),
    )
    return encode_value(RECORD_SPECS[_OFFSET].value, version, _new(OffsetAndMetadata, fields))


@lru_cache(_SHORT_METADATA_SIZE)
def _packer_around_metadata(size: int) -> Callable[..., bytes]:
    """Return a function that packs the fields of version 4, with a topic id."""
    return Struct(f">hqib{size}sq3s16s").pack


@lru_cache(1024)
def _uuid(topic_id: bytes) -> UUID:
    return UUID(bytes=topic_id)


def _with_offsets(value: bytes, offsets: Sequence[int]) -> tuple[bytes, ...]:
    """Return copies of an encoded commit with other offsets (the field after the version)."""
    version, rest = value[:2], value[10:]
    try:
        return tuple(map(_packer_around_offset(len(rest)), repeat(version), offsets, repeat(rest)))
    except StructError as error:
        raise UnencodableRecord(f"a pipelined offset is out of range: {error}") from error


@lru_cache(64)
def _packer_around_offset(size: int) -> Callable[[bytes, int, bytes], bytes]:
    """Return a function that packs a value with `size` bytes after its offset."""
    return Struct(f">2sq{size}s").pack


def decode_commit_value(value: bytes) -> OffsetAndMetadata:
    """Decode any version. Raises UndecodableRecord."""
    if len(value) == _V3_SIZE and value[1] == 3:
        version, offset, leader_epoch, size, timestamp_ms = _V3.unpack(value)
        if version == 3 and size == 0:
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp_ms)
    end = value[23:26]
    if end == _V4_END or (end == _ID_TAG and len(value) == _V4_TOPIC_ID_SIZE):
        version, offset, leader_epoch, size, timestamp_ms = _V4.unpack_from(value)
        if version == 4 and size == 1:
            topic_id = value[-_TOPIC_ID_SIZE:] if end == _ID_TAG else None
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp_ms, None, topic_id)
    decoded = decode_value(RECORD_SPECS[_OFFSET].value, value)
    offset, leader_epoch, metadata, timestamp_ms, expire_ms, uuid, *others = decoded
    expires_ms = None if expire_ms == _NO_EXPIRY else expire_ms
    topic_id = None if uuid is None else uuid.bytes
    fields = (offset, leader_epoch, metadata, timestamp_ms, expires_ms, topic_id, *others)
    return _new(OffsetAndMetadata, fields)


def validate_commit_value(value: bytes) -> None:
    """Raise UndecodableRecord if decode_commit_value would raise it. Cheap for typical values."""
    # Sizes and some bytes identify values of version 4 with a topic id and empty metadata, and of
    # version 3 with empty metadata.
    if len(value) == _V4_TOPIC_ID_SIZE:
        if value[:2] == _V4_START and value[14] == 1 and value[23:26] == _ID_TAG:
            return
    elif len(value) == _V3_SIZE and value[1] == 3 and value[15] == value[14] == value[0] == 0:
        return
    decode_commit_value(value)
