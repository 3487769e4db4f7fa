"""Lag and time lag: commits beside the samples of how far their topics' logs had come.

A sample counts for a commit that comes after it, and not for long: without one of the last two
periods a lag is not known. How far a group is behind in time is when the record was written that
it reads next, which the samples tell by interpolation (as kafka-lag-exporter does).
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from .ordering import NEVER, Bools, Ints, Runs, ints, keys, newest_before

__all__ = ["LAG_MS_MAX", "TOLERANCE_MS", "lags", "remembered"]

# Two periods of 30 s, in which every exporter samples (Burrow's offset-refresh).
TOLERANCE_MS: Final = 60_000
# No record is older where log.retention.hours is Kafka's 168: what lies before the oldest sample
# is reckoned by the pace of the two oldest, and not believed beyond this.
LAG_MS_MAX: Final = 7 * 24 * 3_600_000

_TOPIC: Final = ["topic", "partition"]


class _Points(NamedTuple):
    """Of each log the points at which it is known when it had come how far, and the next one."""

    key: Ints
    at_ms: Ints
    log_end: Ints
    next_end: Ints
    next_ms: Ints


def lags(rows: pa.Table, samples: pa.Table) -> tuple[pa.Array, pa.Array]:
    """`lag` and `lag_ms` of rows with topic, partition, offset, commit_ts.

    `samples`: of schema bronze_log_end.
    """
    of, key = keys(_TOPIC, samples, rows)
    at, end = ints(samples["sampled_at"]), ints(samples["log_end"])
    offset, time = ints(rows["offset"]), ints(rows["commit_ts"])

    order = np.lexsort((end, at))
    # A sample of the same instant counts.
    seen = newest_before((of[order], at[order]), (key, time), inclusive=True)
    seen_at, seen_end = _taken(at[order], seen) // 1000, _taken(end[order], seen)
    time_ms = time // 1000
    known = _there(seen) & (offset != NEVER) & (time_ms - seen_at <= TOLERANCE_MS)
    lag = np.where(known, np.maximum(seen_end - offset, 0), 0)

    points = _points(of, at // 1000, end)
    below = newest_before((points.key, points.log_end), (key, offset), inclusive=True)
    low, high = _taken(points.log_end, below), _taken(points.next_end, below)
    low_ms, high_ms = _taken(points.at_ms, below), _taken(points.next_ms, below)
    between = known & (lag > 0) & _there(below) & (high > offset)
    span = np.where(between, high - low, 1)
    written_ms = low_ms + _whole(np.where(between, offset - low, 0) * ((high_ms - low_ms) / span))
    lag_ms = np.where(between, np.clip(time_ms - written_ms, 0, LAG_MS_MAX), 0)
    return pa.array(lag, mask=~known), pa.array(lag_ms, mask=~(between | (known & (lag == 0))))


def _points(of: Ints, at_ms: Ints, end: Ints) -> _Points:
    """Each sample with the next one, and before those of each log a point at offset -1 that lies
    on the line through the oldest two in which it had grown."""
    # Where a log stands still its last sample counts: the next record came after it.
    order = np.lexsort((at_ms, end, of))
    of, at_ms, end = of[order], at_ms[order], end[order]
    last = Runs(of).last
    next_end, next_ms = np.roll(end, -1), np.roll(at_ms, -1)
    next_end[last] = next_ms[last] = NEVER
    still = Runs(of, end)
    oldest = still.last[Runs(of[still.first]).first]
    grows = oldest[next_end[oldest] > end[oldest]]
    pace_ms: Any = (next_ms[grows] - at_ms[grows]) / (next_end[grows] - end[grows])
    before = _Points(
        of[grows],
        at_ms[grows] - _whole((end[grows] + 1) * pace_ms),
        np.full(len(grows), -1),
        end[grows],
        at_ms[grows],
    )
    each = zip(before, (of, at_ms, end, next_end, next_ms), strict=True)
    return _Points(*(np.concatenate(both) for both in each))


def _taken(values: Ints, rows: pa.Array) -> Ints:
    return np.append(values, NEVER)[ints(rows, len(values))]


def _there(rows: pa.Array) -> Bools:
    return np.asarray(rows.is_valid())


def _whole(values: Any) -> Ints:
    # What lies beyond is absurd, and cut off later.
    found: Ints = np.trunc(np.clip(values, -(2.0**62), 2.0**62)).astype(np.int64)
    return found


def remembered(samples: pa.Table, now: datetime) -> pa.Table:
    """state_log_end: all samples of the last ten minutes, of the last hour the first of each
    minute, of the last week the first of each hour."""
    (log,) = keys(["cluster", *_TOPIC], samples)
    at = ints(samples["sampled_at"])
    age_ms = int(now.timestamp() * 1000) - at // 1000

    order = np.lexsort((at, log))

    def first_of(minutes: int) -> Bools:
        runs = Runs(log[order], at[order] // (minutes * 60_000_000))
        firsts = np.empty(len(at), np.bool_)
        firsts[order] = at[order] == runs.spread(runs.least(at[order]))
        return firsts

    kept = (
        (age_ms <= 600_000)
        | (first_of(1) & (age_ms <= 3_600_000))
        | (first_of(60) & (age_ms <= LAG_MS_MAX))
    )
    return samples.filter(pa.array(kept))
