"""Validates and appends a producer's batch, whose records are stored as received.

The header and the checksum are validated. Records are decompressed and decoded only to check the
keys of compacted topics and to find records with invalid timestamps. Upstream:
ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ..log.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    read_header,
    validate_produced,
    with_append_time,
    with_base_offset,
)
from ..log.codecs import with_decompressed
from ..log.errors import (
    CorruptBatch,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransaction,
    LogError,
    OutOfOrderSequence,
)
from ..log.producer_state import Verification
from ..log.records import Record, records
from ..log.tasks import CooperativeTask, run_synchronously
from ..protocol.budgets import (
    DECOMPRESSED_BYTES_MAX,
    EXPANSION_MAX,
    RECORD_ERRORS_MAX,
    ConcurrencyLimit,
)
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.primitives import INT8, INT32
from .topic import Partition, PartitionDeleted

OFFSET_BYTES: Final = 8  # the base offset, which precedes the length
SIZE_AND_MAGIC_BYTES: Final = 17
LENGTH_MIN: Final = 14  # minimum value of the length field, in any version of the batch format
# Errors whose responses omit the log start offset (upstream: ReplicaManager.appendRecordsToLeader,
# ProduceRequest.validateRecords).
WITHOUT_START_OFFSET: Final = (
    ErrorCode.message_too_large,
    ErrorCode.record_list_too_large,
    ErrorCode.corrupt_message,
    ErrorCode.transactional_id_authorization_failed,
    ErrorCode.invalid_producer_id_mapping,
)
# Number of records that are validated in one step, which takes about 0.5 ms.
RECORDS_PER_STEP: Final = 500
ZSTD: Final = 4
ATTRIBUTES_AT: Final = 22  # position of the low byte: the codec and the transactional flag
CODEC_MAX: Final = 4


class RecordError(NamedTuple):
    """The error of one record in a batch (KIP-467)."""

    batch_index: int
    batch_index_error_message: str


class AppendError(ApiError):
    """A batch was rejected."""

    log_start_offset = -1

    def __init__(
        self, error: ErrorCode, message: str | None, record_errors: Sequence[RecordError] = ()
    ) -> None:
        super().__init__(error, message)
        self.record_errors = tuple(record_errors)


class MalformedBatch(AppendError):
    """The first batch has an invalid length or magic. The response contains the message of this
    error, because Kafka finds the error before it handles the partitions. Of the other errors, only
    record errors have a message in the response."""


class ProduceContext(NamedTuple):
    """The values that the batches of a request share. `now_ms` is monotonic, for the expiration of
    producers. `wall_ms` is the system clock's time, for comparisons with timestamps."""

    now_ms: int
    wall_ms: int
    producer_expiration_ms: Callable[[], int]
    decompressions: ConcurrencyLimit
    """Limits concurrent decompression of large batches."""
    requires_min_isr: bool = False
    """Whether batches are rejected without enough in-sync replicas (`acks=all`)."""


class AppendResult(NamedTuple):
    """`append_time_ms` is -1 for CreateTime. For a duplicate, it is the maximum timestamp of the
    original, and `size` is 0."""

    base_offset: int
    append_time_ms: int
    size: int


def append(partition: Partition, data: bytes | None, context: ProduceContext) -> AppendResult:
    """Append the one batch in `data`. Raises AppendError."""
    return run_synchronously(append_in_steps(partition, *read_batch(data or b""), context))


def append_in_steps(
    partition: Partition,
    batch: bytes,
    header: BatchHeader,
    context: ProduceContext,
    verification: Verification | None = None,
) -> CooperativeTask[AppendResult]:
    """Like `append`, but as a task, for a batch from `read_batch`. Many records are validated in
    steps, but the batch is appended in a single step. `verification` proves that the partition is
    in the producer's transaction. It is not needed if the partition already contains records of the
    transaction."""
    try:
        # Open the log first, because its error takes precedence, as in Kafka.
        start_offset = partition.start_offset
        try:
            if context.requires_min_isr and len(partition.isr) < partition.min_isr:
                raise AppendError(ErrorCode.not_enough_replicas, None)
            yield from _validate(partition, batch, header, context)
            return _append(partition, batch, header, context, verification)
        except AppendError as error:
            if error.error not in WITHOUT_START_OFFSET:
                error.log_start_offset = start_offset
            raise
    except PartitionDeleted as error:
        raise AppendError(ErrorCode.unknown_topic_or_partition, str(error)) from error
    except (OSError, LogError) as error:
        log = partition.opened_log
        if log is not None and log.failed is not None:
            partition.close_failed()
        raise AppendError(ErrorCode.kafka_storage_error, str(error)) from error


def _append(
    partition: Partition,
    batch: bytes,
    header: BatchHeader,
    context: ProduceContext,
    verification: Verification | None,
) -> AppendResult:
    log = partition.log
    if header.producer_id >= 0:
        producers = log.producers
        producers.remove_expired(context.now_ms, context.producer_expiration_ms())
        if (duplicate := producers.find_duplicate(header)) is not None:
            return AppendResult(duplicate.base_offset, duplicate.max_timestamp, 0)
        try:
            producers.validate(header, partition.name, verification)
        except InvalidProducerEpoch as error:
            raise AppendError(ErrorCode.invalid_producer_epoch, str(error)) from error
        except OutOfOrderSequence as error:
            raise AppendError(ErrorCode.out_of_order_sequence_number, str(error)) from error
        except InvalidTransaction as error:
            raise AppendError(ErrorCode.invalid_txn_state, str(error)) from error
    append_time_ms = NO_TIMESTAMP
    if partition.settings.has_append_time:
        append_time_ms = context.wall_ms
        batch = with_append_time(batch, append_time_ms)
        header = header._replace(max_timestamp=append_time_ms)
    batch = with_base_offset(batch, log.end_offset, partition.leader_epoch)
    base_offset = log.append(batch, context.now_ms)
    partition.unflushed_records += header.count
    return AppendResult(base_offset, append_time_ms, len(batch))


def read_batch(data: bytes, *, zstd_allowed: bool = True) -> tuple[bytes, BatchHeader]:
    """Return the batch in `data` and its header. Produce v3 and later allow only one batch. Only v7
    and later allow zstd, which older consumers probably cannot decompress (KIP-110).
    Raises ApiError and AppendError. Upstream: ProduceRequest.validateRecords."""
    size = _batch_size(data, 0)
    one_batch = "Produce requests must have exactly one record batch, of magic 2, per partition"
    if size is None or data[MAGIC_AT] != MAGIC:
        raise AppendError(ErrorCode.invalid_record, one_batch)
    if not zstd_allowed and data[ATTRIBUTES_AT] & CODEC_MASK == ZSTD:
        raise ApiError(ErrorCode.unsupported_compression_type)
    if _batch_size(data, size) is not None:
        raise AppendError(ErrorCode.invalid_record, one_batch)
    if size < HEADER_BYTES:
        message = f"The record batch of {size} bytes is smaller than its header"
        raise AppendError(ErrorCode.corrupt_message, message)
    return data if size == len(data) else data[:size], read_header(data)


def _batch_size(data: bytes, at: int) -> int | None:
    """Return the size of the batch that begins at `at`. Return None for an incomplete batch, which
    Kafka ignores. Raises AppendError. Upstream: ByteBufferLogInputStream."""
    error_type = AppendError if at else MalformedBatch
    left = len(data) - at
    if left < LENGTH_END:
        return None
    length: int = INT32.unpack_from(data, at + OFFSET_BYTES)[0]
    if length < LENGTH_MIN:
        message = f"Record size {length} is less than the minimum record overhead ({LENGTH_MIN})"
        raise error_type(ErrorCode.corrupt_message, message)
    if left < SIZE_AND_MAGIC_BYTES:
        return None
    magic: int = INT8.unpack_from(data, at + MAGIC_AT)[0]
    if not 0 <= magic <= MAGIC:
        message = f"Invalid magic found in record: {magic}"
        raise error_type(ErrorCode.corrupt_message, message)
    size = LENGTH_END + length
    return size if size <= left else None


def _validate(
    partition: Partition, batch: bytes, header: BatchHeader, context: ProduceContext
) -> CooperativeTask[None]:
    """Validate a batch. The order of the checks is Kafka's."""
    if header.base_offset != 0:
        message = (
            f"The baseOffset of the record batch in the append to {partition.name} "
            f"should be 0, but it is {header.base_offset}"
        )
        raise AppendError(ErrorCode.invalid_record, message)
    bytes_max = partition.settings.max_message_bytes
    if len(batch) > bytes_max:
        raise AppendError(
            ErrorCode.message_too_large,
            f"The record batch size in the append to {partition.name} is {len(batch)} bytes "
            f"which exceeds the maximum configured value of {bytes_max}.",
        )
    try:
        check_crc(batch, 0, len(batch))
        validate_produced(header)
        if header.codec > CODEC_MAX:
            # Kafka fails with UNKNOWN_SERVER_ERROR, which does not show the cause.
            raise InvalidRecord(f"Unknown compression type id: {header.codec}")
        yield from _validate_records(partition, batch, header, context)
    except CorruptBatch as error:
        raise AppendError(ErrorCode.corrupt_message, str(error)) from error
    except InvalidRecord as error:
        raise AppendError(ErrorCode.invalid_record, str(error)) from error
    if len(batch) > partition.settings.segment_bytes:
        raise AppendError(
            ErrorCode.record_list_too_large,
            f"Message batch size is {len(batch)} bytes in append to partition {partition.name}, "
            f"which exceeds the maximum configured segment size of "
            f"{partition.settings.segment_bytes}.",
        )


def _validate_records(
    partition: Partition, batch: bytes, header: BatchHeader, context: ProduceContext
) -> CooperativeTask[None]:
    """Validate the key of each record, then its timestamp. All errors are reported together
    (upstream: LogValidator.validateRecord, processRecordErrors)."""
    settings = partition.settings
    low = context.wall_ms - settings.message_timestamp_before_max_ms
    high = context.wall_ms + settings.message_timestamp_after_max_ms
    is_append_time = settings.has_append_time
    # The header contains the first and the maximum timestamp. Records that are too old can only be
    # found by decoding, which the default limits do not require.
    may_be_invalid = (
        header.timestamp_type if is_append_time else header.max_timestamp > high or low > 0
    )
    if not may_be_invalid and not settings.compacted:
        return
    yield from with_decompressed(
        header.codec,
        memoryview(batch)[HEADER_BYTES:],
        min(settings.max_message_bytes * EXPANSION_MAX, DECOMPRESSED_BYTES_MAX),
        context.decompressions,
        lambda decompressed: _validate_each(
            partition, header, records(batch, 0, decompressed), low=low, high=high
        ),
    )


def _validate_each(
    partition: Partition, header: BatchHeader, all_records: Iterable[Record], *, low: int, high: int
) -> CooperativeTask[None]:
    """Raise AppendError with the errors of all records, up to RECORD_ERRORS_MAX."""
    settings = partition.settings
    is_append_time = settings.has_append_time
    without_key, bad_timestamp = list[RecordError](), list[RecordError]()
    for index, record in enumerate(all_records):
        if index % RECORDS_PER_STEP == 0:
            yield None
        if len(without_key) + len(bad_timestamp) >= RECORD_ERRORS_MAX:
            break
        if settings.compacted and record.key is None:
            message = (
                "Compacted topic cannot accept message without key in topic partition "
                f"{partition.name}"
            )
            without_key.append(RecordError(index, message))
        elif is_append_time:
            if header.timestamp_type:
                message = "Producer should not set timestamp type to LogAppendTime."
                bad_timestamp.append(RecordError(index, message))
        elif record.timestamp != NO_TIMESTAMP and not low <= record.timestamp <= high:
            message = (
                f"Timestamp {record.timestamp} of message with offset {index} is out of range. "
                f"The timestamp should be within [{low}, {high}]"
            )
            bad_timestamp.append(RecordError(index, message))
    if bad_timestamp:
        message = "One or more records have been rejected due to invalid timestamp"
        errors = sorted(without_key + bad_timestamp)
        raise AppendError(ErrorCode.invalid_timestamp, message, errors)
    if without_key:
        raise AppendError(ErrorCode.invalid_record, _summary(without_key), without_key)


def _summary(errors: Sequence[RecordError]) -> str:
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:3]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
