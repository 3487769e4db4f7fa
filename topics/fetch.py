"""Reading stored batches for consumers: whole, as they lie in the log, up to byte limits.

Upstream: ReplicaManager.readFromLog. The limits are soft in one point: the first batch that is
found is given whole, however large, so that a consumer always gets on (KIP-74).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..log.errors import LogError, OffsetOutOfRange
from ..protocol.errors import ErrorCode
from .partition import LEADER_EPOCH, Partition

__all__ = ["Found", "Wanted", "check_leader_epoch", "read_all"]

NO_EPOCH: Final = -1


class Wanted(NamedTuple):
    """What a consumer wants of one partition; `error` where that was decided before reading."""

    number: int
    partition: Partition | None
    offset: int
    bytes_max: int
    error: ErrorCode = ErrorCode.none


class Found(NamedTuple):
    number: int
    error: ErrorCode
    high_watermark: int = -1
    start_offset: int = -1
    records: bytes = b""


def check_leader_epoch(epoch: int) -> ErrorCode:
    """Whether the epoch that a client believes in is ours; -1 believes nothing (KIP-320)."""
    if epoch <= NO_EPOCH or epoch == LEADER_EPOCH:
        return ErrorCode.none
    return ErrorCode.unknown_leader_epoch if epoch > LEADER_EPOCH else ErrorCode.fenced_leader_epoch


def read_all(wanted: Sequence[Wanted], bytes_max: int) -> tuple[list[Found], int]:
    """What is there now for each of `wanted`, in order, and how many bytes that is in all."""
    found = []
    total = 0
    for each in wanted:
        one = _read(each, bytes_max - total, first=not total)
        total += len(one.records)
        found.append(one)
    return found, total


def _read(wanted: Wanted, bytes_left: int, *, first: bool) -> Found:
    number, partition, offset, bytes_max, error = wanted
    if partition is None or error is not ErrorCode.none:
        return Found(number, error)
    limit = min(bytes_max, bytes_left)
    try:
        high_watermark = partition.high_watermark
        start_offset = partition.start_offset
        if not start_offset <= offset <= high_watermark:
            return Found(number, ErrorCode.offset_out_of_range)
        if offset == high_watermark or (limit <= 0 and not first):
            return Found(number, ErrorCode.none, high_watermark, start_offset)
        records = partition.read(offset, max(limit, 0), minimum_one=first)
    except OffsetOutOfRange:
        return Found(number, ErrorCode.offset_out_of_range)
    except (OSError, LogError):
        return Found(number, ErrorCode.kafka_storage_error)
    return Found(number, ErrorCode.none, high_watermark, start_offset, records)
