"""Reading stored batches for consumers: whole, as they lie in the log, up to byte limits.

Upstream: ReplicaManager.readFromLog. The limits are soft in one point: the first batch that is
found is given whole, however large, so that a consumer always gets on (KIP-74).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..log.batch import split
from ..log.errors import LogError, OffsetOutOfRange
from ..log.producer_state import AbortedTransaction
from ..protocol.errors import ErrorCode
from .partition import UNKNOWN_EPOCH, Partition

__all__ = ["NO_EPOCH", "Diverging", "Found", "Wanted", "available", "check_leader", "read_all"]

NO_EPOCH: Final = -1
_NONE = ErrorCode.none


class Wanted(NamedTuple):
    """What a consumer wants of one partition; `error` where that was decided before reading."""

    number: int
    partition: Partition | None
    offset: int
    bytes_max: int
    error: ErrorCode = _NONE
    last_epoch: int = NO_EPOCH
    """Of the last record that the consumer has; -1 where it does not say."""


class Diverging(NamedTuple):
    """Where the log of the consumer's last epoch ends: it has read what is not here (KIP-595)."""

    epoch: int
    end_offset: int


class Found(NamedTuple):
    number: int
    error: ErrorCode
    high_watermark: int = -1
    start_offset: int = -1
    records: bytes = b""
    diverging: Diverging | None = None
    aborted: tuple[AbortedTransaction, ...] = ()


def check_leader(
    partition: Partition, node_id: int, epoch: int, *, must_lead: bool = True
) -> ErrorCode:
    """Whether this node leads the partition, if it must, and in the epoch that the client believes
    in; -1 believes nothing (KIP-320). Upstream: Partition.getLocalLog."""
    current = partition.leader_epoch
    if epoch not in (NO_EPOCH, current):
        return ErrorCode.unknown_leader_epoch if epoch > current else ErrorCode.fenced_leader_epoch
    if must_lead and partition.leader_id != node_id:
        return ErrorCode.not_leader_or_follower
    return _NONE


def read_all(wanted: Sequence[Wanted], bytes_max: int) -> tuple[list[Found], int]:
    """What is there now for each of `wanted`, in order, and how many bytes that is in all."""
    found = []
    total = 0
    bytes_left = bytes_max
    for each in wanted:
        one = _read(each, bytes_left, first=not total)
        total += len(one.records)
        if each.partition is not None:
            # A limit below 0 spoils the first partition alone, as in Kafka.
            bytes_left = max(bytes_left - len(one.records), 0)
        found.append(one)
    return found, total


def available(wanted: Wanted, found: Found) -> int:
    """How many bytes a poll may count on: where more follows than the limit lets through, all that
    the limit allows, though whole batches are fewer (upstream: DelayedFetch)."""
    size = len(found.records)
    if not size:
        return 0
    *_, (_, last) = split(found.records)
    return size if last.next_offset >= found.high_watermark else max(size, wanted.bytes_max)


def _read(wanted: Wanted, bytes_left: int, *, first: bool) -> Found:
    number, partition, offset, bytes_max, error, last_epoch = wanted
    if partition is None or error is not _NONE:
        return Found(number, error)
    limit = min(bytes_max, bytes_left)
    try:
        high_watermark = partition.high_watermark
        start_offset = partition.start_offset
        if last_epoch > NO_EPOCH:
            # Upstream: Partition.readRecords.
            end = Diverging(*partition.end_of_epoch(last_epoch))
            if end.end_offset == UNKNOWN_EPOCH:
                return Found(number, ErrorCode.offset_out_of_range)
            if end.epoch < last_epoch or end.end_offset < offset:
                return Found(number, _NONE, high_watermark, start_offset, diverging=end)
        if not start_offset <= offset <= high_watermark:
            return Found(number, ErrorCode.offset_out_of_range)
        if offset < high_watermark and limit < 0:
            return Found(number, ErrorCode.unknown_server_error)
        if offset == high_watermark or (limit <= 0 and not first):
            return Found(number, _NONE, high_watermark, start_offset)
        records = partition.read(offset, max(limit, 0), minimum_one=first)
        aborted = partition.aborted_since(offset)
    except OffsetOutOfRange:
        return Found(number, ErrorCode.offset_out_of_range)
    except (OSError, LogError):
        return Found(number, ErrorCode.kafka_storage_error)
    return Found(number, _NONE, high_watermark, start_offset, records, aborted=aborted)
