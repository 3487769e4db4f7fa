"""Burrow's rules for a partition's window of commits, restated: whoever alerts on Burrow's words
gets the same ones.

Facts: linkedin/Burrow, core/internal/evaluator/caching.go (the rules) and
core/internal/storage/inmemory.go (what a window keeps).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from .story import Commit

__all__ = ["INTERVALS", "completeness", "group_status", "merged", "partition_status"]

INTERVALS: Final = 10
"""Commits that a window keeps: Burrow's `intervals`."""


def merged(commits: Sequence[Commit], min_distance_ms: int = 1_000) -> list[Commit]:
    """Commits nearer to the one before than `min-distance` take its place, and keep its time: else
    a client that commits all the time would never fill a window."""
    kept: list[Commit] = []
    for commit in commits:
        if kept and commit.commit_ms - kept[-1].commit_ms < min_distance_ms:
            kept[-1] = commit._replace(commit_ms=kept[-1].commit_ms)
        else:
            kept.append(commit)
    return kept


def completeness(commits: Sequence[Commit], intervals: int = INTERVALS) -> float:
    return min(len(commits), intervals) / intervals


def partition_status(
    commits: Sequence[Commit],
    log_ends: Sequence[int],
    now_ms: int,
    *,
    intervals: int = INTERVALS,
    minimum_complete: float = 0.0,
    allowed_lag: int = 0,
) -> str:
    """OK, WARN, STOP, STALL or REWIND, of the last `intervals` commits, oldest first. `log_ends`
    are the log's last ends that were seen, the newest one last; lag counts against it."""
    window = list(commits)[-intervals:]
    if not window or not log_ends or completeness(window, intervals) < minimum_complete:
        return "OK"
    if max(log_ends[-1] - window[-1].offset, 0) <= allowed_lag:
        return "OK"
    if _stopped(window, now_ms) and not _covered_lately(window, log_ends):
        return "STOP"
    # Asked whatever the lag was: who had read everything may have been sent back to the beginning.
    if _rewound(window):
        return "REWIND"
    lags = [commit.lag for commit in window if commit.lag is not None]
    if all(lag > allowed_lag for lag in lags):
        if all(commit.offset == window[0].offset for commit in window):
            return "STALL"
        if all(lag >= before for before, lag in pairwise(lags)):
            return "WARN"
    return "OK"


def group_status(partitions: Sequence[str]) -> str:
    """NOTFOUND without partitions; else OK, WARN, or ERR if one is worse than that."""
    if not partitions:
        return "NOTFOUND"
    if any(status in ("STOP", "STALL", "REWIND") for status in partitions):
        return "ERR"
    return "WARN" if "WARN" in partitions else "OK"


def _stopped(window: list[Commit], now_ms: int) -> bool:
    """Silent for longer than the whole window took."""
    return now_ms - window[-1].commit_ms > window[-1].commit_ms - window[0].commit_ms


def _covered_lately(window: list[Commit], log_ends: Sequence[int]) -> bool:
    """The lag was zero a few samples ago: records have only just come."""
    return any(end <= window[-1].offset for end in log_ends)


def _rewound(window: list[Commit]) -> bool:
    """Went back, the first time that it did, and has not reached that place again."""
    for index in range(1, len(window)):
        before = window[index - 1].offset
        if window[index].offset < before:
            return all(commit.offset < before for commit in window[index:])
    return False
