"""Lag in time, its trend, and when a consumer will have caught up."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from .story import Commit, LogEnd

__all__ = ["consume_rate", "log_end_at", "produce_rate", "since", "time_lag_ms", "trend"]

DEAD_BAND: Final = 0.05
"""A lag that moves by less than this share of itself over the samples is FLAT."""

SAMPLES: Final = 10

TIME_LAG_MAX_MS: Final = 7 * 24 * 3_600_000
"""What lies before the oldest sample is reckoned by its rate, at most so far back: Kafka's
log.retention.hours."""


def time_lag_ms(committed: int, samples: Sequence[LogEnd], now_ms: int) -> int | None:
    """How long ago the log's end was where the consumer is now: kafka-lag-exporter's method. None
    without samples, or where they do not tell."""
    if not samples:
        return None
    if samples[-1].log_end <= committed:
        return 0
    after: LogEnd | None = None
    for sample in reversed(samples):
        if sample.log_end <= committed:
            assert after is not None
            written = _interpolated(sample, after, committed)
            return max(now_ms - written, 0)
        after = sample
    if len(samples) < 2:
        return None
    grown = [sample for sample in samples if sample.log_end > samples[0].log_end]
    if not grown:
        return None
    written = _interpolated(samples[0], grown[0], committed)
    return min(max(now_ms - written, 0), TIME_LAG_MAX_MS)


def _interpolated(first: LogEnd, second: LogEnd, offset: int) -> int:
    per_record = (second.sampled_ms - first.sampled_ms) / (second.log_end - first.log_end)
    return round(first.sampled_ms + (offset - first.log_end) * per_record)


def log_end_at(time_ms: int, samples: Sequence[LogEnd]) -> int | None:
    """Where the log ended then, between the samples before and after; None beyond them."""
    after = bisect_left(samples, time_ms, key=lambda sample: sample.sampled_ms)
    if after == len(samples):
        return None
    later = samples[after]
    if later.sampled_ms == time_ms:
        return later.log_end
    if not after:
        return None
    earlier = samples[after - 1]
    passed = (time_ms - earlier.sampled_ms) / (later.sampled_ms - earlier.sampled_ms)
    return round(earlier.log_end + passed * (later.log_end - earlier.log_end))


def since(time_ms: int, samples: Sequence[LogEnd]) -> Sequence[LogEnd]:
    """The samples from the last one before `time_ms` on, and at least two if there are two."""
    first = bisect_right(samples, time_ms, key=lambda sample: sample.sampled_ms) - 1
    return samples[max(min(first, len(samples) - 2), 0) :]


def trend(lags: Sequence[tuple[int, int]]) -> str | None:
    """GROWING, SHRINKING or FLAT of (time, lag) pairs by their Theil-Sen slope: the median of the
    slopes between all pairs, which one outlier does not bend. None of fewer than three."""
    last = list(lags)[-SAMPLES:]
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


def consume_rate(commits: Sequence[Commit]) -> float | None:
    """Records per second that commits went ahead by."""
    if len(commits) < 2 or commits[-1].commit_ms <= commits[0].commit_ms:
        return None
    ahead = sum(max(after.offset - before.offset, 0) for before, after in pairwise(commits))
    return 1000 * ahead / (commits[-1].commit_ms - commits[0].commit_ms)


def produce_rate(samples: Sequence[LogEnd]) -> float | None:
    """Records per second that the log's end went ahead by."""
    if len(samples) < 2 or samples[-1].sampled_ms <= samples[0].sampled_ms:
        return None
    ahead = max(samples[-1].log_end - samples[0].log_end, 0)
    return 1000 * ahead / (samples[-1].sampled_ms - samples[0].sampled_ms)
