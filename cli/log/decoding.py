"""Records of any topic as data and as text."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from ...coordinator.transactions.states import TransactionState
from ...log.batch import CODECS
from ...log.records import Record, records
from ...log.recovery import ValidBatch
from ...offsets.record_schemas import RECORD_SPECS, RecordSpec, decode_as_dicts
from ...offsets.records import UndecodableRecord
from ...offsets.transaction_codec import TRANSACTION_SPEC, TRANSACTION_SPECS
from ...printable import printable_json
from ...protocol.consumer_protocol import ASSIGNMENT, SUBSCRIPTION, decode_as_dict
from ...protocol.errors import DecodeError
from ...topics.registry_log import UndecodableRegistryRecord
from ...topics.registry_log import decode as decode_registry
from .partition_logs import PartitionLog

# The key of a control record is a version and a type. The value is a version and, at the end of a
# transaction, the coordinator epoch (ControlRecordType, EndTransactionMarker).
CONTROL_KEY: Final = Struct(">hh")
CONTROL_VALUE: Final = Struct(">hi")
CONTROL_TYPES: Final = (
    "ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION",
    "KRAFT_VOTERS",
)  # fmt: skip
ORDINARY: Final = "Record"
UNKNOWN: Final = "Unknown"
UNDECODABLE: Final = "Undecodable"


class DecodedRecord(NamedTuple):
    """The fields are described in docs/log.md."""

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
    """The decoded key and value of a record."""

    kind: str
    key: Any
    version: int | None
    """The version of the value."""
    value: Any
    error: str | None = None
    """The reason why key and value could not be decoded and are in hex."""


def decode_batch(
    log: PartitionLog, file: str, batch: ValidBatch, first_offset: int
) -> Iterator[DecodedRecord]:
    """Yield the records of a batch, starting at `first_offset`. Raises InvalidRecord."""
    header = batch.header
    codec = CODECS[header.codec] if header.codec < len(CODECS) else str(header.codec)
    timestamp_type = "LogAppendTime" if header.timestamp_type else "CreateTime"
    for record in records(batch.batch):
        if record.offset < first_offset:
            continue
        content = decode_content(log, record, is_control=header.is_control)
        sequence = header.base_sequence
        if sequence >= 0:
            sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
        yield DecodedRecord(
            log.name,
            file,
            batch.position,
            record.offset,
            record.timestamp,
            timestamp_type,
            *content[:4],
            [(name, _text_or_hex(value)) for name, value in record.headers],
            header.leader_epoch,
            header.producer_id,
            header.producer_epoch,
            sequence,
            header.is_transactional,
            header.is_control,
            codec,
            content.error,
        )


def decode_content(log: PartitionLog, record: Record, *, is_control: bool) -> Content:
    """Decode key and value with the schema of the log's topic."""
    try:
        if is_control:
            return _control(record)
        if log.is_registry:
            return _registry_record(record)
        if log.is_offsets:
            return _coordinator_record(record, RECORD_SPECS)
        if log.is_transactions:
            return _coordinator_record(record, TRANSACTION_SPECS)
    except (UndecodableRecord, UndecodableRegistryRecord, struct_error) as error:
        return Content(UNDECODABLE, _hex(record.key), None, _hex(record.value), str(error))
    return Content(ORDINARY, _text_or_hex(record.key), None, _text_or_hex(record.value))


def _text_or_hex(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return _hex(data)


def _hex(data: bytes | None) -> Any:
    return None if data is None else {"hex": data.hex()}


def _control(record: Record) -> Content:
    version, number = CONTROL_KEY.unpack_from(record.key or b"")
    key = {"version": version, "type": number}
    kind = CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else UNKNOWN
    if kind in ("ABORT", "COMMIT") and record.value is not None:
        version, epoch = CONTROL_VALUE.unpack_from(record.value)
        return Content(kind, key, version, {"coordinatorEpoch": epoch})
    return Content(kind, key, None, _hex(record.value))


def _coordinator_record(record: Record, specs: Mapping[int, RecordSpec]) -> Content:
    entry = decode_as_dicts(record.key, record.value, specs)
    if entry is None:
        return Content(UNKNOWN, _hex(record.key), None, _hex(record.value))
    value = entry.value
    if value is not None and value.get("protocolType") == "consumer":
        value = {**value, "members": [_consumer(member) for member in value["members"]]}
    return Content(entry.kind, entry.key, entry.version, value)


def _consumer(member: Mapping[str, Any]) -> Mapping[str, Any]:
    """Decode subscription and assignment if possible. Brokers accept any bytes there."""
    decoded = dict(member)
    for name, spec in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
        with suppress(DecodeError):
            decoded[name] = decode_as_dict(spec, member[name])
    return decoded


def _registry_record(record: Record) -> Content:
    kind = type(decode_registry(record.key, record.value)).__name__
    value = None if record.value is None else json.loads(record.value)
    return Content(kind, json.loads(record.key or b"{}"), None, value)


# --- text

# Values that need no quotes in `name=value`.
UNQUOTED: Final = re.compile(r'[^\s"]+')


def _base64(value: bytes) -> str:
    """Encode bytes in decoded content as Kafka's JSON does."""
    return b64encode(value).decode()


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_base64).encode


def to_json(value: Any) -> str:
    """Encode as JSON that is safe to print."""
    return printable_json(_encode(value))


def value_text(kind: str, value: Any) -> str:
    """Format a value as text; the state of a transaction is shown by name."""
    if kind == TRANSACTION_SPEC.name and value["transactionStatus"] in list(TransactionState):
        state = TransactionState(value["transactionStatus"])
        value = {**value, "transactionStatus": state.text}
    return content_text(value)


def content_text(content: Any) -> str:
    """Format the fields of an object as `name=value`; other values as JSON."""
    if isinstance(content, Mapping):
        return " ".join(f"{name}={_value_text(value)}" for name, value in content.items())
    return to_json(content)


def _value_text(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and UNQUOTED.fullmatch(value) and value.isprintable():
        return value
    return to_json(value)


def describe_key(log: PartitionLog, record: Record) -> str:
    """Return the kind and key of a record as text, even if its value cannot be decoded."""
    content = decode_content(log, record, is_control=False)
    if content.kind == UNDECODABLE:
        content = decode_content(log, record._replace(value=None), is_control=False)
    return f"{content.kind} {content_text(content.key)}"


def format_time(timestamp_ms: int) -> str:
    second = _format_second(timestamp_ms // 1000)
    return str(timestamp_ms) if second is None else f"{second}.{timestamp_ms % 1000:03d}Z"


@lru_cache(1024)  # records are mostly in the order of their timestamps
def _format_second(seconds: int) -> str | None:
    """Format a time. Return None if it is out of datetime's range."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return None
