"""What a record of a log says: a commit, a topic of the registry, the end of a transaction, or what
a producer wrote.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from ...log.batch import CODECS
from ...log.records import Record, records
from ...log.recovery import ValidBatch
from ...offsets.errors import UndecodableRecord
from ...offsets.record_schemas import read_assignment, read_entry, read_subscription
from ...topics.records import UnreadableRecord
from ...topics.records import decode as decode_registry
from .sources import Source

__all__ = ["Content", "Decoded", "content_of", "decoded", "shown"]

# A control record's key is a version and a type, its value a version and, at the end of a
# transaction, the coordinator's epoch (upstream: ControlRecordType, EndTransactionMarker).
CONTROL_KEY: Final = Struct(">hh")
CONTROL_VALUE: Final = Struct(">hi")
CONTROL_KINDS: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
PLAIN: Final = "Record"
UNKNOWN: Final = "Unknown"
UNDECODABLE: Final = "Undecodable"


class Decoded(NamedTuple):
    """A record; docs/log.md tells what each field means."""

    partition: str
    file: str
    position: int
    offset: int
    timestamp: int
    timestamp_type: str
    kind: str
    key: Any
    version: int | None
    value: Any
    headers: list[tuple[str, Any]]
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: bool
    codec: str
    error: str | None


class Content(NamedTuple):
    """`version`: of a value that has one. `error`: why key and value are given in hex."""

    kind: str
    key: Any
    version: int | None
    value: Any
    error: str | None = None


def decoded(source: Source, file: str, sound: ValidBatch, floor: int) -> Iterator[Decoded]:
    """The records of a batch from offset `floor` on.

    Raises InvalidRecord when the batch is not what its header says.
    """
    header = sound.header
    codec = CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec)
    timestamp_type = "LogAppendTime" if header.timestamp_type else "CreateTime"
    for record in records(sound.batch):
        if record.offset < floor:
            continue
        content = content_of(source, record, is_control=header.is_control)
        sequence = header.base_sequence
        if sequence >= 0:
            sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        yield Decoded(
            source.name,
            file,
            sound.position,
            record.offset,
            record.timestamp,
            timestamp_type,
            content.kind,
            content.key,
            content.version,
            content.value,
            [(name, shown(value)) for name, value in record.headers],
            header.leader_epoch,
            header.producer_id,
            header.producer_epoch,
            sequence,
            header.is_transactional,
            header.is_control,
            codec,
            content.error,
        )


def content_of(source: Source, record: Record, *, is_control: bool) -> Content:
    """Key and value, decoded as the topic's name has it."""
    try:
        if is_control:
            return _control(record)
        if source.is_offsets:
            return _of_offsets(record)
        if source.is_registry:
            return _of_registry(record)
    except (UndecodableRecord, UnreadableRecord, struct_error) as error:
        return Content(UNDECODABLE, _hex(record.key), None, _hex(record.value), str(error))
    return Content(PLAIN, shown(record.key), None, shown(record.value))


def shown(data: bytes | None) -> Any:
    """Text where it is text, else {"hex": …}."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return _hex(data)


def _hex(data: bytes | None) -> Any:
    return None if data is None else {"hex": data.hex()}


def _control(record: Record) -> Content:
    version, kind = CONTROL_KEY.unpack_from(record.key or b"")
    key = {"version": version, "type": kind}
    name = CONTROL_KINDS[kind] if 0 <= kind < len(CONTROL_KINDS) else UNKNOWN
    if name in ("ABORT", "COMMIT") and record.value is not None:
        version, epoch = CONTROL_VALUE.unpack_from(record.value)
        return Content(name, key, version, {"coordinatorEpoch": epoch})
    return Content(name, key, None, _hex(record.value))


def _of_offsets(record: Record) -> Content:
    entry = read_entry(record.key, record.value)
    if entry is None:
        return Content(UNKNOWN, _hex(record.key), None, _hex(record.value))
    value = entry.value
    if value is not None and value.get("protocolType") == "consumer":
        value = {**value, "members": [_member(member) for member in value["members"]]}
    return Content(entry.kind, entry.key, entry.version, value)


def _member(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """With what it wants and was given; where that cannot be read it is left as it is, as what
    clients agree upon is opaque to a broker."""
    read = dict(member)
    for name, of in (("subscription", read_subscription), ("assignment", read_assignment)):
        with suppress(UndecodableRecord):
            read[name] = of(member[name])
    return read


def _of_registry(record: Record) -> Content:
    kind = type(decode_registry(record.key, record.value)).__name__
    value = None if record.value is None else json.loads(record.value)
    return Content(kind, json.loads(record.key or b"{}"), None, value)
