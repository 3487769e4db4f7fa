"""OffsetCommitValue: one committed offset in Kafka's bytes. The hot half of the commit path.

    v0, v2  offset int64, metadata string, commit timestamp int64
    v1      v0 and expire timestamp int64
    v3      offset int64, leader epoch int32, metadata string, commit timestamp int64
    v4      v3, flexible, with the topic's id in tag 0

An int16 with the version comes first. Kafka 4.3 writes v4, brokers before it v3. Structs instead
of kio here, because each commit pays for it.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from struct import error as struct_error
from typing import Final

from ..protocol.primitives import INT64
from .errors import UndecodableRecord, UnencodableRecord
from .fields import FieldReader, string_bytes
from .records import OffsetAndMetadata, OffsetCommitRecord

VERSION_MAX: Final = 4  # Kafka 4.3 refuses what is above
FLEXIBLE_SINCE: Final = 4
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

_WHAT: Final = "OffsetCommitValue"
_BARE: Final = Struct(">hqihq")  # v3 with empty metadata, as nearly all commits are
_BARE_SIZE: Final = _BARE.size
# v4 with empty metadata, and no tag or that of a topic id: what Kafka 4.3 writes.
_FLEXIBLE_BARE: Final = Struct(">hqibq")
_NO_TAG: Final = b"\x00"
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"  # one tag, number 0, of 16 bytes
_HEAD: Final = Struct(">hqi")
_OLD_HEAD: Final = Struct(">hq")
_OLD_TAIL: Final = Struct(">qq")
# Half the time of the constructor that NamedTuple generates.
_new: Final = tuple.__new__


def encode_commit_value(
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None = None,
) -> bytes:
    """The bytes of a commit: v3; v1, which has no leader epoch, when it carries an expiry time.

    That is Kafka's choice (GroupCoordinatorRecordHelpers.newOffsetCommitRecord); so is writing
    null metadata as empty. Raises UnencodableRecord.
    """
    try:
        if expire_timestamp_ms is not None:
            return (
                _OLD_HEAD.pack(1, offset)
                + string_bytes("the metadata of a commit", metadata or "")
                + _OLD_TAIL.pack(commit_timestamp_ms, expire_timestamp_ms)
            )
        if not metadata:
            return _BARE.pack(3, offset, leader_epoch, 0, commit_timestamp_ms)
        return (
            _HEAD.pack(3, offset, leader_epoch)
            + string_bytes("the metadata of a commit", metadata)
            + INT64.pack(commit_timestamp_ms)
        )
    except struct_error as error:
        raise UnencodableRecord(f"a number of a commit is out of range: {error}") from error


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    offsets: Sequence[int],
    leader_epoch: int,
    metadata: str | None,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None = None,
) -> OffsetCommitRecord:
    """Return the record of a commit of the last of `offsets`; those before it were pipelined.

    Raises UnencodableRecord.
    """
    value = encode_commit_value(
        offsets[-1], leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms
    )
    earlier = _with_offsets(value, offsets[:-1]) if len(offsets) > 1 else ()
    return _new(OffsetCommitRecord, (group_id, topic, partition, value, earlier))


def _with_offsets(value: bytes, offsets: Sequence[int]) -> tuple[bytes, ...]:
    """Return the same commit for other offsets; in all versions they follow the version."""
    version, rest = value[:2], value[10:]
    try:
        return tuple(map(_around_offset(len(rest)), repeat(version), offsets, repeat(rest)))
    except struct_error as error:
        raise UnencodableRecord(f"a number of a commit is out of range: {error}") from error


@lru_cache(64)
def _around_offset(size: int) -> Callable[[bytes, int, bytes], bytes]:
    """The packer of a value with `size` bytes after its offset."""
    return Struct(f">2sq{size}s").pack


def decode_commit_value(value: bytes) -> OffsetAndMetadata:
    """What the bytes of a commit say, in any version. Raises UndecodableRecord."""
    if len(value) == _BARE_SIZE and value[1] == 3:
        version, offset, leader_epoch, size, timestamp_ms = _BARE.unpack(value)
        if version == 3 and size == 0:
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp_ms)
    tail = value[23:26]
    if tail == _NO_TAG or (tail == _TOPIC_ID_TAG and len(value) == 42):
        version, offset, leader_epoch, size, timestamp_ms = _FLEXIBLE_BARE.unpack_from(value)
        if version == 4 and size == 1:
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp_ms)
    return _read_fields(value)


def _read_fields(value: bytes) -> OffsetAndMetadata:
    version = value_version(_WHAT, value, VERSION_MAX)
    fields = FieldReader(f"{_WHAT} v{version}", value, 2, flexible=version >= FLEXIBLE_SINCE)
    offset = fields.int64()
    leader_epoch = fields.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = fields.string()
    commit_timestamp_ms = fields.int64()
    expire_timestamp_ms = fields.int64() if version == 1 else NO_TIMESTAMP
    fields.skip_tags()
    return OffsetAndMetadata(
        offset,
        leader_epoch,
        metadata,
        commit_timestamp_ms,
        None if expire_timestamp_ms == NO_TIMESTAMP else expire_timestamp_ms,
    )


def validate_commit_value(value: bytes) -> None:
    """Raise UndecodableRecord if decode_commit_value would; free for the usual bytes."""
    # Version 3 and a metadata length of zero, at their places in a value of exactly that size.
    if not (len(value) == _BARE_SIZE and value[1] == 3 and value[15] == value[14] == value[0] == 0):
        decode_commit_value(value)


def value_version(what: str, value: bytes, version_max: int) -> int:
    """The version a value begins with. Raises UndecodableRecord for none and for one unknown."""
    if len(value) < 2:
        raise UndecodableRecord(f"{what}: {len(value)} bytes hold no version")
    version = int.from_bytes(value[:2], "big", signed=True)
    if not 0 <= version <= version_max:
        raise UndecodableRecord(f"{what}: version {version} is not one of 0 to {version_max}")
    return version
