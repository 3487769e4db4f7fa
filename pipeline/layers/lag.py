"""Lag and time lag of commits, from samples of the log ends of their topics.

A commit is compared with the last earlier sample if that is at most two sampling periods old;
otherwise its lag is unknown. The time lag is the age of the next record to be read, interpolated
between samples (the method of kafka-lag-exporter).
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ..diagnosis.lag import TIME_LAG_MAX_MS
from .ordering import NEVER, Bools, Ints, Runs, ints, keys, newest_before

# Two periods of 30 s, a usual sampling interval of lag exporters.
TOLERANCE_MS: Final = 60_000

_TOPIC: Final = ["topic", "partition"]


class _Points(NamedTuple):
    """The known points (time, log end) of each log, each paired with the next one."""

    key: Ints
    at_ms: Ints
    log_end: Ints
    next_end: Ints
    next_ms: Ints


def lags(rows: pa.Table, samples: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return `lag` and `lag_ms` of rows with topic, partition, offset, commit_ts. `samples` have
    the schema of bronze_log_end."""
    log, key = keys(_TOPIC, samples, rows)
    at, end = ints(samples["sampled_at"]), ints(samples["log_end"])
    offset, time = ints(rows["offset"]), ints(rows["commit_ts"])

    order = np.lexsort((end, at))
    seen = newest_before((log[order], at[order]), (key, time), inclusive=True)
    seen_ms, seen_end = _take(at[order], seen) // 1000, _take(end[order], seen)
    time_ms = time // 1000
    known = _valid(seen) & (offset != NEVER) & (time_ms - seen_ms <= TOLERANCE_MS)
    lag = np.where(known, np.maximum(seen_end - offset, 0), 0)

    points = _points(log, at // 1000, end)
    below = newest_before((points.key, points.log_end), (key, offset), inclusive=True)
    low, high = _take(points.log_end, below), _take(points.next_end, below)
    low_ms, high_ms = _take(points.at_ms, below), _take(points.next_ms, below)
    between = known & (lag > 0) & _valid(below) & (high > offset)
    span = np.where(between, high - low, 1)
    written_ms = low_ms + _whole(np.where(between, offset - low, 0) * ((high_ms - low_ms) / span))
    lag_ms = np.where(between, np.clip(time_ms - written_ms, 0, TIME_LAG_MAX_MS), 0)
    return pa.array(lag, mask=~known), pa.array(lag_ms, mask=~(between | (known & (lag == 0))))


def _points(log: Ints, at_ms: Ints, end: Ints) -> _Points:
    """Pair each sample with the next one. A log that grew also gets a point at offset -1 before its
    samples, extrapolated from the oldest two samples between which it grew."""
    # If several samples have the same log end, the last one is used, because the next record was
    # written after it.
    order = np.lexsort((at_ms, end, log))
    log, at_ms, end = log[order], at_ms[order], end[order]
    last = Runs(log).last
    next_end, next_ms = np.roll(end, -1), np.roll(at_ms, -1)
    next_end[last] = next_ms[last] = NEVER
    unchanged = Runs(log, end)
    oldest = unchanged.last[Runs(log[unchanged.first]).first]
    grows = oldest[next_end[oldest] > end[oldest]]
    ms_per_record: Any = (next_ms[grows] - at_ms[grows]) / (next_end[grows] - end[grows])
    before = _Points(
        log[grows],
        at_ms[grows] - _whole((end[grows] + 1) * ms_per_record),
        np.full(len(grows), -1),
        end[grows],
        at_ms[grows],
    )
    pairs = zip(before, (log, at_ms, end, next_end, next_ms), strict=True)
    return _Points(*(np.concatenate(pair) for pair in pairs))


def _take(values: Ints, rows: pa.Array) -> Ints:
    return np.append(values, NEVER)[ints(rows, len(values))]


def _valid(rows: pa.Array) -> Bools:
    return np.asarray(rows.is_valid())


def _whole(values: Any) -> Ints:
    # Larger values would overflow. They are meaningless, and the time lag is clipped again later.
    found: Ints = np.trunc(np.clip(values, -(2.0**62), 2.0**62)).astype(np.int64)
    return found


def thin_out(samples: pa.Table, now: datetime) -> pa.Table:
    """Return state_log_end: all samples of the last ten minutes, the first of each minute of the
    last hour, and the first of each hour of the last week."""
    (log,) = keys(["cluster", *_TOPIC], samples)
    at = ints(samples["sampled_at"])
    age_ms = int(now.timestamp() * 1000) - at // 1000
    order = np.lexsort((at, log))

    def is_first_of(minutes: int) -> Bools:
        runs = Runs(log[order], at[order] // (minutes * 60_000_000))
        found = np.empty(len(at), np.bool_)
        found[order] = at[order] == runs.spread(runs.min(at[order]))
        return found

    kept = (
        (age_ms <= 600_000)
        | (is_first_of(1) & (age_ms <= 3_600_000))
        | (is_first_of(60) & (age_ms <= TIME_LAG_MAX_MS))
    )
    return samples.filter(pa.array(kept))
