"""Computes the part of a log to which the cleanup policies apply: the part that has expired
(`delete`), and the part that is cleanable and worth compacting (`compact`).

Upstream: UnifiedLog.deleteOldSegments, LogCleanerManager.
"""

from __future__ import annotations

from typing import NamedTuple

from .log import Log
from .segment import segment_number


def retention_offset(
    log: Log, *, retention_ms: int, retention_bytes: int, durable_offset: int, now_ms: int
) -> int:
    """Return the log start offset that the retention limits require. A limit of -1 means no limit.
    Only whole segments are deleted. If the active segment has also expired, the log end offset is
    returned, and the caller must roll the log first. Segments without timestamps never expire by
    age."""
    segments = log.segments
    if not segments:
        return log.start_offset
    ends = [*(segment.base_offset for segment in segments[1:]), log.end_offset]
    excess_bytes = log.size - retention_bytes if retention_bytes >= 0 else -1
    all_before_expired = retention_ms >= 0
    offset = log.start_offset
    for segment, end in zip(segments, ends, strict=True):
        is_old = 0 <= segment.max_timestamp < now_ms - retention_ms
        all_before_expired = all_before_expired and (is_old or not segment.size)
        is_excess = segment.size <= excess_bytes
        if end > durable_offset or not (all_before_expired or is_excess):
            break
        excess_bytes -= segment.size
        offset = max(offset, end)
    return offset


class CompactionPolicy(NamedTuple):
    """Kafka's topic configs of the same names. Lags are in ms."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class CleanableRange(NamedTuple):
    """`first_dirty` is the start of the dirty section. `ratio` is cleanable dirty bytes / (clean +
    cleanable dirty bytes)."""

    first_dirty: int
    first_uncleanable: int
    ratio: float
    is_cleanable: bool


def cleanable_range(
    log: Log, cleaned_offset: int, durable_offset: int, policy: CompactionPolicy, now_ms: int
) -> CleanableRange:
    """Return the part of the log that may be compacted. `cleaned_offset` is the end of the last
    compaction, or 0 before the first. Records from `durable_offset` on may still be truncated.
    """
    segments = log.segments
    start_offset = log.start_offset
    first_dirty = max(cleaned_offset, start_offset)
    if not segments or cleaned_offset > log.end_offset:
        # The log was truncated after its last compaction, so all of it is dirty, as in Kafka.
        first_dirty = start_offset
    active = segments[-1] if segments else None
    if active is None or first_dirty >= active.base_offset:
        return CleanableRange(first_dirty, first_dirty, 0.0, is_cleanable=False)
    closed = segments[:-1]
    dirty = closed[segment_number(segments, first_dirty) :]
    uncleanable = min(durable_offset, active.base_offset)
    if policy.min_compaction_lag_ms > 0:
        young = (s for s in dirty if s.max_timestamp > now_ms - policy.min_compaction_lag_ms)
        uncleanable = min(uncleanable, next(young, active).base_offset)
    uncleanable = max(uncleanable, first_dirty)
    clean_bytes = sum(segment.size for segment in closed if segment.base_offset < first_dirty)
    # Segments that are only partly cleanable are excluded.
    end = segments[segment_number(segments, uncleanable)].base_offset
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < end)
    ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
    first_times = [segment.first_timestamp for segment in dirty if segment.first_timestamp > 0]
    is_due = min(first_times, default=now_ms) < now_ms - policy.max_compaction_lag_ms
    is_cleanable = dirty_bytes > 0 and (is_due or ratio > policy.min_cleanable_dirty_ratio)
    return CleanableRange(first_dirty, uncleanable, ratio, is_cleanable)
