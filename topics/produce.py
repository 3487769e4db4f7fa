"""A producer's batch on its way into a partition: looked at, refused or appended, never opened.

The checks are those of the header and the checksum (upstream: ProduceRequest.validateRecords,
UnifiedLog.analyzeAndValidateRecords, LogValidator). Records are decoded only where a topic's
configuration asks for it: keys of compacted topics, and which records have a wrong timestamp.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..log.batch import (
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    check_produced,
    read_header,
    with_append_time,
    with_base_offset,
)
from ..log.errors import CorruptBatch, InvalidRecord, LogError
from ..log.records import Record, records
from ..protocol.errors import ErrorCode
from .configs import TopicSettings
from .errors import RecordError, Refused
from .partition import Partition

__all__ = ["Appended", "Terms", "append"]

NO_TIMESTAMP: Final = -1
# What Kafka reads of a batch before it knows the size: fewer bytes than this at the end of what
# was sent are no batch, and are dropped (upstream: ByteBufferLogInputStream).
SIZE_AND_MAGIC_BYTES: Final = 17
# Refusals that do not tell where the log starts (upstream: ReplicaManager.appendRecordsToLeader).
WITHOUT_START: Final = (
    ErrorCode.message_too_large,
    ErrorCode.corrupt_message,
    ErrorCode.transactional_id_authorization_failed,
    ErrorCode.invalid_producer_id_mapping,
)
ZSTD: Final = 4
CODEC_MAX: Final = 4


class Terms(NamedTuple):
    """What a request says about all its batches, and what the broker adds."""

    now_ms: int
    zstd_allowed: bool
    """KIP-110: from Produce v7 on every consumer of the batch can be expected to read zstd."""
    transactional_id: str | None
    producer_expiration_ms: Callable[[], int]


class Appended(NamedTuple):
    base_offset: int
    append_time_ms: int
    """-1 where records keep their producer's time."""
    size: int
    """Bytes that readers have more now; 0 for a batch that was here already."""


def append(partition: Partition, data: bytes | None, terms: Terms) -> Appended:
    """Appends the one batch in `data`, stored as it came. Raises Refused."""
    batch, header = _sole_batch(data or b"")
    try:
        # First: of a partition whose log cannot be opened nothing else is told, as in Kafka.
        start_offset = partition.start_offset
        try:
            _check_batch(partition, batch, header, partition.settings, terms)
            return _append(partition, batch, header, terms)
        except Refused as refused:
            if refused.error not in WITHOUT_START:
                refused.log_start_offset = start_offset
            raise
    except (OSError, LogError) as error:
        log = partition.opened_log
        if log is not None and log.failed is not None:
            partition.close()  # the next use opens what the disk really holds
        raise Refused(ErrorCode.kafka_storage_error, str(error)) from error


def _append(partition: Partition, batch: bytes, header: BatchHeader, terms: Terms) -> Appended:
    log = partition.log
    producers = None
    if header.producer_id >= 0:
        producers = partition.producers(terms.producer_expiration_ms, terms.now_ms)
        if (seen := producers.duplicate_of(header)) is not None:
            return Appended(seen.base_offset, seen.max_timestamp, 0)
        producers.check(header, partition.name)
    append_time_ms = NO_TIMESTAMP
    if partition.settings.log_append_time:
        append_time_ms = terms.now_ms
        batch = with_append_time(batch, append_time_ms)
        header = header._replace(max_timestamp=append_time_ms)
    base_offset = log.append(with_base_offset(batch, log.end_offset, partition.leader_epoch))
    if producers is not None:
        producers.note(header, base_offset, terms.now_ms)
    partition.unflushed_records += header.count
    return Appended(base_offset, append_time_ms, len(batch))


def _sole_batch(data: bytes) -> tuple[bytes, BatchHeader]:
    """The batch that is all of `data`: one per partition and request since Produce v3."""
    size = len(data)
    if size >= SIZE_AND_MAGIC_BYTES and data[16] != 2:
        if data[16] > 2:
            complaint = f"Invalid magic found in record: {data[16]}"
            raise Refused(ErrorCode.corrupt_message, complaint)
        raise Refused(
            ErrorCode.invalid_record, "Produce requests take record batches with magic 2 only"
        )
    if size >= HEADER_BYTES:
        header = read_header(data)
        if header.size == size:
            return data, header
        if HEADER_BYTES <= header.size <= size < header.size + SIZE_AND_MAGIC_BYTES:
            return data[: header.size], header
    raise Refused(
        ErrorCode.invalid_record,
        "Produce requests must have exactly one record batch per partition",
    )


def _check_batch(
    partition: Partition,
    batch: bytes,
    header: BatchHeader,
    settings: TopicSettings,
    terms: Terms,
) -> None:
    if len(batch) > settings.max_message_bytes:
        raise Refused(
            ErrorCode.message_too_large,
            f"The record batch size in the append to {partition.name} is {len(batch)} bytes "
            f"which exceeds the maximum configured value of {settings.max_message_bytes}.",
        )
    try:
        check_crc(batch, 0, len(batch))
    except CorruptBatch as error:
        raise Refused(ErrorCode.corrupt_message, str(error)) from error
    if header.is_transactional:
        _refuse_transaction(terms)
    _check_header(partition, header, terms)
    _check_records(partition, batch, header, settings, terms.now_ms)


def _check_header(partition: Partition, header: BatchHeader, terms: Terms) -> None:
    try:
        check_produced(header)
    except InvalidRecord as error:
        raise Refused(ErrorCode.invalid_record, str(error)) from error
    if header.base_offset != 0:
        raise Refused(
            ErrorCode.invalid_record,
            f"The baseOffset of the record batch in the append to {partition.name} "
            f"should be 0, but it is {header.base_offset}",
        )
    if header.codec > CODEC_MAX:
        # Kafka stumbles (UNKNOWN_SERVER_ERROR), which clients take for worth a retry.
        complaint = f"Unknown compression type id: {header.codec}"
        raise Refused(ErrorCode.invalid_record, complaint)
    if header.codec == ZSTD and not terms.zstd_allowed:
        raise Refused(
            ErrorCode.unsupported_compression_type,
            "Produce requests before version 7 must not use zstd",
        )


def _refuse_transaction(terms: Terms) -> None:
    """There are no transactions here, so none is open: what Kafka says to a stranger."""
    if terms.transactional_id is None:
        raise Refused(
            ErrorCode.transactional_id_authorization_failed,
            "A transactional batch came in a request without a transactional id.",
        )
    raise Refused(
        ErrorCode.invalid_producer_id_mapping,
        "The transactional id has no producer here: this broker has no transactions.",
    )


def _check_records(
    partition: Partition, batch: bytes, header: BatchHeader, settings: TopicSettings, now_ms: int
) -> None:
    """Of each record its key, and if that is well its timestamp; all are told of at once (upstream:
    LogValidator.validateRecord, processRecordErrors)."""
    low = now_ms - settings.timestamp_before_max_ms
    high = now_ms + settings.timestamp_after_max_ms
    is_own_time = settings.log_append_time
    # With the default bounds batches end here. That no record is too old is seen only by looking
    # at each: the header has the first timestamp, not the lowest.
    is_doubtful = header.timestamp_type if is_own_time else header.max_timestamp > high or low > 0
    if not is_doubtful and not settings.compacted:
        return
    keyless, mistimed = list[RecordError](), list[RecordError]()
    for index, record in enumerate(_decoded(batch)):
        if settings.compacted and record.key is None:
            complaint = (
                "Compacted topic cannot accept message without key in topic partition "
                f"{partition.name}"
            )
            keyless.append(RecordError(index, complaint))
        elif is_own_time:
            if header.timestamp_type:
                complaint = "Producer should not set timestamp type to LogAppendTime."
                mistimed.append(RecordError(index, complaint))
        elif record.timestamp != NO_TIMESTAMP and not low <= record.timestamp <= high:
            complaint = (
                f"Timestamp {record.timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{low}, {high}]"
            )
            mistimed.append(RecordError(index, complaint))
    if mistimed:
        raise Refused(
            ErrorCode.invalid_timestamp,
            "One or more records have been rejected due to invalid timestamp",
            sorted(keyless + mistimed),
        )
    if keyless:
        raise Refused(ErrorCode.invalid_record, _counted(keyless), keyless)


def _counted(errors: Sequence[RecordError]) -> str:
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )


def _decoded(batch: bytes) -> list[Record]:
    try:
        return list(records(batch))
    except InvalidRecord as error:
        raise Refused(ErrorCode.invalid_record, str(error)) from error
