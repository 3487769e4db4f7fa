"""Which of a log's oldest segments are too old or too many (upstream:
UnifiedLog.deleteOldSegments).
"""

from __future__ import annotations

from .reader import LogReader


def kept_from(
    log: LogReader, *, retention_ms: int, retention_bytes: int, durable_offset: int, now_ms: int
) -> int:
    """The offset from which on records stay; -1 for either limit is none. Whole segments go, the
    active one too: then it is the end of the log, and another segment has to be begun first.

    A segment without any timestamp has no age.
    """
    segments = log.segments
    if not segments:
        return log.start_offset
    ends = [*(segment.base_offset for segment in segments[1:]), log.end_offset]
    too_many = log.size - retention_bytes if retention_bytes >= 0 else -1
    all_before_are_old = retention_ms >= 0
    offset = log.start_offset
    for segment, end in zip(segments, ends, strict=True):
        is_old = 0 <= segment.max_timestamp < now_ms - retention_ms
        all_before_are_old = all_before_are_old and (is_old or not segment.size)
        is_too_much = segment.size <= too_many
        if end > durable_offset or not (all_before_are_old or is_too_much):
            break
        too_many -= segment.size
        offset = max(offset, end)
    return offset
