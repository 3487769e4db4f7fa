"""Burrow's evaluation rules, so that alerts on its statuses keep working.

Sources: linkedin/Burrow, core/internal/evaluator/caching.go (rules) and
core/internal/storage/inmemory.go (the window of commits).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from .group_history import Commit

INTERVALS: Final = 10
"""Commits in a window: Burrow's `intervals`."""

MIN_DISTANCE_MS: Final = 1_000
"""Burrow's `min-distance`, with the value in Burrow's sample configuration."""


def merged(commits: Sequence[Commit]) -> list[Commit]:
    """Merge commits that are less than MIN_DISTANCE_MS apart. A merged commit combines the later
    offset with the earlier time; otherwise frequent commits would all be merged into one."""
    kept: list[Commit] = []
    for commit in commits:
        if kept and commit.commit_ms - kept[-1].commit_ms < MIN_DISTANCE_MS:
            kept[-1] = commit._replace(commit_ms=kept[-1].commit_ms)
        else:
            kept.append(commit)
    return kept


def partition_status(commits: Sequence[Commit], log_ends: Sequence[int], now_ms: int) -> str:
    """Return OK, WARN, STOP, STALL or REWIND from the last ten commits, oldest first.
    `minimum-complete` and `allowed-lag` are 0, Burrow's defaults. `log_ends` are recent samples of
    the log end; lag is relative to the last sample."""
    window = list(commits)[-INTERVALS:]
    if not window or not log_ends or log_ends[-1] <= window[-1].offset:
        return "OK"
    # If the lag was zero in a recent sample, the records have only just arrived.
    had_no_lag = any(end <= window[-1].offset for end in log_ends)
    silence_ms = now_ms - window[-1].commit_ms
    if silence_ms > window[-1].commit_ms - window[0].commit_ms and not had_no_lag:
        return "STOP"
    # Unlike STALL and WARN, REWIND does not require lag at every commit, because a group that had
    # no lag may have been reset to the beginning.
    if _is_rewound(window):
        return "REWIND"
    lags = [commit.lag for commit in window if commit.lag is not None]
    if all(lag > 0 for lag in lags):
        if all(commit.offset == window[0].offset for commit in window):
            return "STALL"
        if all(lag >= before for before, lag in pairwise(lags)):
            return "WARN"
    return "OK"


def group_status(partitions: Sequence[str]) -> str:
    """Return NOTFOUND without partitions, else the worst of OK, WARN and ERR."""
    if not partitions:
        return "NOTFOUND"
    if any(status in ("STOP", "STALL", "REWIND") for status in partitions):
        return "ERR"
    return "WARN" if "WARN" in partitions else "OK"


def _is_rewound(window: list[Commit]) -> bool:
    """Whether no commit after the first rewind in the window has reached the offset before it."""
    for index, (before, after) in enumerate(pairwise(window), 1):
        if after.offset < before.offset:
            return all(commit.offset < before.offset for commit in window[index:])
    return False
