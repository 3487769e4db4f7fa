"""Which records were written under which leader, told from the batches' own headers: each carries
the epoch of the leader that appended it, so nothing else need be kept (Kafka has a file for it).

A history is a list of (epoch, offset where its records begin), in order, the leader's of now last.
Upstream: LeaderEpochFileCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from .segment import Segment

UNKNOWN: Final = -1


def begun_in(segments: Iterable[Segment], start_offset: int) -> list[tuple[int, int]]:
    """The epochs that wrote something; none begins below `start_offset`."""
    begun: list[tuple[int, int]] = []
    for epoch, offset in (each for segment in segments for each in segment.epochs):
        if not begun or epoch > begun[-1][0]:
            begun.append((epoch, max(offset, start_offset)))
    return begun


def end_of(epoch: int, history: Sequence[tuple[int, int]], end_offset: int) -> tuple[int, int]:
    """(the last epoch up to `epoch`, the offset where its records end), both -1 if nobody knows.

    Of an epoch before all others, the end is where they begin.
    """
    if epoch == history[-1][0]:
        return epoch, end_offset
    later = next((offset for each, offset in history if each > epoch), None)
    if epoch == UNKNOWN or later is None:
        return UNKNOWN, UNKNOWN
    return max((each for each, _ in history if each <= epoch), default=epoch), later


def epoch_at(offset: int, history: Sequence[tuple[int, int]]) -> int:
    """The epoch that the record at `offset` was written in, or would be; -1 below all others."""
    return max((epoch for epoch, begin in history if begin <= offset), default=UNKNOWN)
