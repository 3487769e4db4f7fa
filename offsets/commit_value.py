"""The value of a commit, encoded and decoded: the hot part of the commit path.

record_schemas.py declares it in all versions, and the generated decoders and encoders would do for
all of them. Nearly every commit is of version 3 or 4 and has no metadata: its value has a fixed
size, and is packed and unpacked by one struct here. Kafka 4.3 writes version 4, older brokers 3.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from ..protocol.decoder import Decoder, compile_decoder
from ..protocol.encoder import BodyEncoder, compile_body_encoder
from ..protocol.primitives import INT16
from .errors import UndecodableRecord, UnencodableRecord
from .record_schemas import RECORD_SPECS, value_version
from .records import OffsetAndMetadata, OffsetCommitRecord

_SPEC: Final = RECORD_SPECS[1].value
_NO_EXPIRY: Final = -1

_V3: Final = Struct(">hqihq")  # with empty metadata
_V3_SIZE: Final = _V3.size
# With empty metadata and, after these fields, no tagged field or the topic id.
_V4: Final = Struct(">hqibq")
_V4_END: Final = b"\x00"
_V4_TOPIC_ID: Final = b"\x01\x00\x10"  # one tagged field, number 0, of 16 bytes
_V4_TOPIC_ID_SIZE: Final = 42
# Half the time of the constructor that NamedTuple generates.
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
) -> OffsetCommitRecord:
    """Return the record of a commit of the last of `offsets`; those before it were pipelined.

    Raises UnencodableRecord.
    """
    value = encode_commit_value(
        offsets[-1], leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms
    )
    earlier = _with_offsets(value, offsets[:-1]) if len(offsets) > 1 else ()
    return _new(OffsetCommitRecord, (group_id, topic, partition, value, earlier))


def encode_commit_value(
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None = None,
) -> bytes:
    """Encode in version 3; a commit with an expiry time in version 1, which has no leader epoch.

    That is Kafka's choice (GroupCoordinatorRecordHelpers.newOffsetCommitRecord); so is encoding
    null metadata as empty. Raises UnencodableRecord.
    """
    if not metadata and expire_timestamp_ms is None:
        try:
            return _V3.pack(3, offset, leader_epoch, 0, commit_timestamp_ms)
        except StructError:
            pass  # the encoder below names the field
    version = 3 if expire_timestamp_ms is None else 1
    fields = (offset, leader_epoch, metadata or "", commit_timestamp_ms, expire_timestamp_ms)
    return INT16.pack(version) + _encoder(version)(_new(OffsetAndMetadata, fields))


def _with_offsets(value: bytes, offsets: Sequence[int]) -> tuple[bytes, ...]:
    """Return the same commit for other offsets; in all versions they follow the version."""
    version, rest = value[:2], value[10:]
    try:
        return tuple(map(_around_offset(len(rest)), repeat(version), offsets, repeat(rest)))
    except StructError as error:
        raise UnencodableRecord(f"a pipelined offset is out of range: {error}") from error


@lru_cache(64)
def _around_offset(size: int) -> Callable[[bytes, int, bytes], bytes]:
    """The packer of a value with `size` bytes after its offset."""
    return Struct(f">2sq{size}s").pack


def decode_commit_value(value: bytes) -> OffsetAndMetadata:
    """Decode any version. Raises UndecodableRecord."""
    if len(value) == _V3_SIZE and value[1] == 3:
        version, offset, leader_epoch, size, timestamp_ms = _V3.unpack(value)
        if version == 3 and size == 0:
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp_ms)
    end = value[23:26]
    if end == _V4_END or (end == _V4_TOPIC_ID and len(value) == _V4_TOPIC_ID_SIZE):
        version, offset, leader_epoch, size, timestamp_ms = _V4.unpack_from(value)
        if version == 4 and size == 1:
            return OffsetAndMetadata(offset, leader_epoch, "", timestamp_ms)
    decode = _decoder(value_version(_SPEC, value))
    *fields, expire_timestamp_ms = decode(value, INT16.size, len(value))
    expires = expire_timestamp_ms != _NO_EXPIRY
    return _new(OffsetAndMetadata, (*fields, expire_timestamp_ms if expires else None))


def validate_commit_value(value: bytes) -> None:
    """Raise UndecodableRecord if decode_commit_value would; free for the usual values."""
    # Version 3 with empty metadata: those bytes of a value of this size.
    if not (len(value) == _V3_SIZE and value[1] == 3 and value[15] == value[14] == value[0] == 0):
        decode_commit_value(value)


@cache
def _decoder(version: int) -> Decoder:
    return compile_decoder(_SPEC.schema(version), UndecodableRecord, strict=True)


@cache
def _encoder(version: int) -> BodyEncoder:
    return compile_body_encoder(_SPEC.schema(version), UnencodableRecord)
