"""Reads stored batches for consumers within byte limits. Batches are complete and unmodified.

The first batch found is returned whatever its size, so that a consumer always makes progress
(KIP-74). Upstream: ReplicaManager.readFromLog.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..log.batch import split
from ..log.errors import LogError, OffsetOutOfRange
from ..log.producer_state import AbortedTransaction
from ..log.segment import FileSlice
from ..protocol.errors import ErrorCode
from .topic import UNKNOWN_EPOCH, Partition, PartitionDeleted

NO_EPOCH: Final = -1
ISOLATION_LEVELS = READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_NONE = ErrorCode.none


class PartitionRequest(NamedTuple):
    """A consumer's request for a partition. `error` is set if validation failed. `last_epoch` is
    the leader epoch of the consumer's last record (last_fetched_epoch), or NO_EPOCH."""

    partition_index: int
    partition: Partition | None
    offset: int
    bytes_max: int
    error: ErrorCode = _NONE
    last_epoch: int = NO_EPOCH


class DivergingEpoch(NamedTuple):
    """The last epoch that the consumer's records may share with this log (KIP-595), and its end
    offset in this log. Later records differ."""

    epoch: int
    end_offset: int


class PartitionData(NamedTuple):
    partition_index: int
    error: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    start_offset: int = -1
    records: bytes | FileSlice = b""
    diverging: DivergingEpoch | None = None
    aborted: tuple[AbortedTransaction, ...] | None = ()


def leader_error(
    partition: Partition, node_id: int, epoch: int, *, must_lead: bool = True
) -> ErrorCode:
    """Return an error unless this node leads the partition in the given leader epoch. NO_EPOCH
    skips the epoch check (KIP-320). A node without a replica does not check the epoch. Upstream:
    Partition.getLocalLog."""
    if node_id not in partition.replicas:
        return ErrorCode.not_leader_or_follower
    current = partition.leader_epoch
    if epoch not in (NO_EPOCH, current):
        return ErrorCode.unknown_leader_epoch if epoch > current else ErrorCode.fenced_leader_epoch
    if must_lead and partition.leader_id != node_id:
        return ErrorCode.not_leader_or_follower
    return _NONE


def read_partitions(
    requests: Sequence[PartitionRequest],
    bytes_max: int,
    total: int = 0,
    *,
    committed_only: bool = False,
) -> tuple[list[PartitionData], int]:
    """Read each partition in order. Return the data and the total size, including the `total`
    already read. If `committed_only`, read up to the last stable offset and include the aborted
    transactions."""
    responses = []
    bytes_left = max(bytes_max - total, 0) if total else bytes_max
    for request in requests:
        data = _read(request, bytes_left, first=not total, committed_only=committed_only)
        total += len(data.records)
        if request.partition is not None:
            # A negative limit fails only the first partition, as in Kafka.
            bytes_left = max(bytes_left - len(data.records), 0)
        responses.append(data)
    return responses, total


def available_bytes(request: PartitionRequest, data: PartitionData, *, committed_only: bool) -> int:
    """Return the bytes that count towards fetch.min.bytes. If bytes_max has limited the data, the
    result is bytes_max, even if the complete batches are smaller (upstream: DelayedFetch)."""
    size = len(data.records)
    if not size:
        return 0
    end_offset = data.last_stable_offset if committed_only else data.high_watermark
    if _next_offset(bytes(data.records)) >= end_offset:
        return size
    return max(size, request.bytes_max)


def _read(
    request: PartitionRequest, bytes_left: int, *, first: bool, committed_only: bool
) -> PartitionData:
    index, partition, offset, bytes_max, error, last_epoch = request
    if partition is None or error is not _NONE:
        return PartitionData(index, error)
    limit = min(bytes_max, bytes_left)
    try:
        high_watermark = partition.high_watermark
        stable_offset = partition.last_stable_offset
        start_offset = partition.start_offset
        offsets = high_watermark, stable_offset, start_offset
        if last_epoch > NO_EPOCH:
            # Upstream: Partition.readRecords.
            end = DivergingEpoch(*partition.end_of_epoch(last_epoch))
            if end.end_offset == UNKNOWN_EPOCH or offset < start_offset:
                return PartitionData(index, ErrorCode.offset_out_of_range)
            if end.epoch < last_epoch or end.end_offset < offset:
                return PartitionData(index, _NONE, *offsets, diverging=end)
        if not start_offset <= offset <= high_watermark:
            return PartitionData(index, ErrorCode.offset_out_of_range)
        end_offset = stable_offset if committed_only else high_watermark
        if offset < end_offset and limit < 0:
            return PartitionData(index, ErrorCode.unknown_server_error)
        if offset >= end_offset:
            return PartitionData(index, _NONE, *offsets)
        records: bytes | FileSlice = b""
        if limit > 0 or first:
            records = partition.log.read(offset, max(limit, 0), minimum_one=first, up_to=end_offset)
        # Null if only a part of the first batch fits (upstream: ReplicaManager.readFromLog).
        is_listed = committed_only and (records or limit <= 0)
        aborted = _aborted(partition, offset, records, end_offset) if is_listed else None
    except OffsetOutOfRange:
        return PartitionData(index, ErrorCode.offset_out_of_range)
    except PartitionDeleted:
        return PartitionData(index, ErrorCode.unknown_topic_or_partition)
    except (OSError, LogError):
        return PartitionData(index, ErrorCode.kafka_storage_error)
    return PartitionData(index, _NONE, *offsets, records, aborted=aborted)


def _aborted(
    partition: Partition, offset: int, records: bytes | FileSlice, end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions of the records that were read at `offset`."""
    producers = partition.log.producers
    if not records or not producers.aborted:
        return ()
    if isinstance(records, FileSlice):
        return producers.aborted_between(offset, min(records.end_offset_max, end_offset))
    return producers.aborted_between(offset, _next_offset(records))


def _next_offset(records: bytes) -> int:
    *_, (_, last) = split(records)
    return last.next_offset
