"""Time lag, trend, and the rates of consumption and production."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from .group_history import LogEnd

DEAD_BAND: Final = 0.05
"""A lag is FLAT if it changes by at most this share of its median over the samples."""

TREND_SAMPLES: Final = 10

TIME_LAG_MAX_MS: Final = 7 * 24 * 3_600_000
"""Limit for extrapolation before the oldest sample: the default of Kafka's log.retention.hours."""


def time_lag_ms(committed: int, samples: Sequence[LogEnd], now_ms: int) -> int | None:
    """Return how long ago the log end was at the committed offset, interpolated between samples
    (the method of kafka-lag-exporter); None if unknown."""
    if not samples:
        return None
    if samples[-1].log_end <= committed:
        return 0
    after = samples[-1]
    for sample in reversed(samples):
        if sample.log_end <= committed:
            return max(now_ms - _interpolated(sample, after, committed), 0)
        after = sample
    grown = next((sample for sample in samples if sample.log_end > samples[0].log_end), None)
    if grown is None:
        return None
    written = _interpolated(samples[0], grown, committed)
    return min(max(now_ms - written, 0), TIME_LAG_MAX_MS)


def _interpolated(first: LogEnd, second: LogEnd, offset: int) -> int:
    per_record = (second.sampled_ms - first.sampled_ms) / (second.log_end - first.log_end)
    return round(first.sampled_ms + (offset - first.log_end) * per_record)


def log_end_at(time_ms: int, samples: Sequence[LogEnd]) -> int | None:
    """Return the interpolated log end at that time; None outside of the samples."""
    after = bisect_left(samples, time_ms, key=lambda sample: sample.sampled_ms)
    if after == len(samples):
        return None
    later = samples[after]
    if later.sampled_ms == time_ms:
        return later.log_end
    if not after:
        return None
    earlier = samples[after - 1]
    part = (time_ms - earlier.sampled_ms) / (later.sampled_ms - earlier.sampled_ms)
    return round(earlier.log_end + part * (later.log_end - earlier.log_end))


def since(time_ms: int, samples: Sequence[LogEnd]) -> Sequence[LogEnd]:
    """Return the last sample up to that time and all later ones, but at least the last two."""
    first = bisect_right(samples, time_ms, key=lambda sample: sample.sampled_ms) - 1
    return samples[max(min(first, len(samples) - 2), 0) :]


def trend(lags: Sequence[tuple[int, int]]) -> str | None:
    """Return GROWING, SHRINKING or FLAT from the Theil-Sen slope of (time, lag) pairs: the median
    of the slopes between all pairs, robust against outliers. None for fewer than three pairs."""
    last = list(lags)[-TREND_SAMPLES:]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(last)
        for later in last[index + 1 :]
        if later[0] > earlier[0]
    ]
    if len(last) < 3 or not slopes:
        return None
    change = median(slopes) * (last[-1][0] - last[0][0])
    if abs(change) <= DEAD_BAND * max(median(lag for _, lag in last), 1):
        return "FLAT"
    return "GROWING" if change > 0 else "SHRINKING"


def rate(points: Sequence[tuple[int, int]]) -> float | None:
    """Return records per second from (time, offset) pairs. Offsets that go back are ignored."""
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    advanced = sum(max(after - before, 0) for (_, before), (_, after) in pairwise(points))
    return 1000 * advanced / (points[-1][0] - points[0][0])
