"""Which part of a log may be compacted, and whether it pays. Upstream: LogCleanerManager."""

from __future__ import annotations

from typing import NamedTuple

from .reader import LogReader
from .segment import number_of


class Policy(NamedTuple):
    """Kafka's topic configs of the same names; times in milliseconds."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int


class CleanableRange(NamedTuple):
    first_dirty: int
    """Where records begin that have never been compacted."""
    first_uncleanable: int
    ratio: float
    """Dirty bytes that may be compacted, of these and the clean ones."""
    is_cleanable: bool


def dirtiness_of(
    log: LogReader, cleaned_offset: int, durable_offset: int, policy: Policy, now_ms: int
) -> CleanableRange:
    """`cleaned_offset`: what the last run has noted, 0 before the first. `durable_offset`: what is
    at or above it may still be taken back."""
    segments = log.segments
    start_offset = log.start_offset
    first_dirty = max(cleaned_offset, start_offset)
    if not segments or cleaned_offset > log.end_offset:
        # More was compacted than there is: the log was cut. Kafka takes none of it for clean then.
        first_dirty = start_offset
    active = segments[-1] if segments else None
    if active is None or first_dirty >= active.base_offset:
        return CleanableRange(first_dirty, first_dirty, 0.0, is_cleanable=False)
    closed = segments[:-1]
    dirty = closed[number_of(segments, first_dirty) :]
    uncleanable = min(durable_offset, active.base_offset)
    if policy.min_compaction_lag_ms > 0:
        young = (s for s in dirty if s.max_timestamp > now_ms - policy.min_compaction_lag_ms)
        first_young = next(young, active)
        uncleanable = min(uncleanable, first_young.base_offset)
    uncleanable = max(uncleanable, first_dirty)
    clean_bytes = sum(segment.size for segment in closed if segment.base_offset < first_dirty)
    # Of a segment that is cleanable in part nothing counts.
    end = segments[number_of(segments, uncleanable)].base_offset
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < end)
    ratio = dirty_bytes / (clean_bytes + dirty_bytes) if dirty_bytes else 0.0
    first_times = [segment.first_timestamp for segment in dirty if segment.first_timestamp > 0]
    is_due = min(first_times, default=now_ms) < now_ms - policy.max_compaction_lag_ms
    is_cleanable = dirty_bytes > 0 and (is_due or ratio > policy.min_cleanable_dirty_ratio)
    return CleanableRange(first_dirty, uncleanable, ratio, is_cleanable)
