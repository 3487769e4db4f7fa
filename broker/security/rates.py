"""Measures rates over a sliding window of samples, and computes throttle times.

Upstream: Rate, SampledStat, TokenBucket, QuotaUtils. Rates are per second.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ...topics.configs.config_def import INT_MAX

# Idle rates are removed when there are twice as many rates as after the last removal, and at least
# this many.
RATES_MIN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Window:
    """The window over which a rate is measured. It consists of `samples` samples of `sample_ms`
    each, the last of which is incomplete."""

    samples: int
    sample_ms: int


@dataclass(slots=True)
class _Sample:
    begin_ms: int
    last_ms: int
    total: float = 0.0


class Rate:
    """The sum of the values recorded within the window, divided by its length."""

    __slots__ = ("_current", "_samples", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        # At most one sample more than the window has, because the oldest may begin before it.
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self._samples:
            self._samples.append(_Sample(now_ms, now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.begin_ms >= self._window.sample_ms:
            sample = self._next_sample(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def _next_sample(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._window.samples + 1)
        sample = _Sample(now_ms, now_ms)
        if self._current < len(self._samples):
            self._samples[self._current] = sample
        else:
            self._samples.append(sample)
        return sample

    def measure(self, now_ms: int) -> float:
        self._remove_obsolete(now_ms)
        total = sum(each.total for each in self._samples)
        return total / (self._length_ms(now_ms) / 1000)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the time without requests after which the rate is back at the limit, or 0 if the
        rate is not above the limit."""
        excess = self.measure(now_ms) - limit
        if not excess > 0:  # including a limit of NaN
            return 0
        if not limit:
            return INT_MAX
        return _rounded_ms(excess / limit * self._length_ms(now_ms))

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing has been recorded within the window."""
        return all(self._is_obsolete(each, now_ms) for each in self._samples)

    def _is_obsolete(self, sample: _Sample, now_ms: int) -> bool:
        return now_ms - sample.last_ms >= self._window.samples * self._window.sample_ms

    def _remove_obsolete(self, now_ms: int) -> None:
        for place, each in enumerate(self._samples):
            if self._is_obsolete(each, now_ms):
                self._samples[place] = _Sample(now_ms, now_ms)

    def _length_ms(self, now_ms: int) -> int:
        """Return the window's length, which is at least the length of all complete samples, so that
        a new client is not throttled for its first requests."""
        sample_ms = self._window.sample_ms
        begin_ms = min((each.begin_ms for each in self._samples), default=now_ms)
        length_ms = now_ms - begin_ms
        missing = self._window.samples - 1 - length_ms // sample_ms
        return max(length_ms + max(missing, 0) * sample_ms, 1)


class TokenBucket:
    """Tokens that are refilled at the rate of the quota, up to the amount for a whole window. A
    request may overdraw them (KIP-599)."""

    __slots__ = ("_filled_ms", "_full_ms", "_tokens", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tokens: float | None = None  # full
        self._filled_ms = 0
        self._full_ms = 0.0  # when the bucket is full again

    def record(self, value: float, limit: float, now_ms: int) -> None:
        self._tokens = min(self._refilled(limit, now_ms) - value, self._burst(limit))
        self._filled_ms = now_ms
        self._full_ms = now_ms + (self._burst(limit) - self._tokens) / limit * 1000

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the time in milliseconds until the number of tokens is no longer negative."""
        missing = -self._refilled(limit, now_ms)
        return _rounded_ms(missing / limit * 1000) if missing > 0 else 0

    def is_idle(self, now_ms: int) -> bool:
        """Whether the bucket is full again, provided that the limit has not been lowered."""
        return not now_ms < self._full_ms  # including a time of NaN

    def _refilled(self, limit: float, now_ms: int) -> float:
        burst = self._burst(limit)
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + limit * (now_ms - self._filled_ms) / 1000)

    def _burst(self, limit: float) -> float:
        return self._window.samples * self._window.sample_ms / 1000 * limit


R = TypeVar("R", Rate, TokenBucket)


class Rates(Generic[R]):
    """Rates by key. When there are too many, idle rates are removed. An idle rate is equal to a new
    one, except for a bucket whose limit has been lowered."""

    def __init__(self, new: Callable[[], R]) -> None:
        self._new: Callable[[], R] = new
        self._rates: dict[Hashable, R] = {}
        self._rates_max = RATES_MIN

    def __len__(self) -> int:
        return len(self._rates)

    def get(self, key: Hashable, now_ms: int) -> R:
        rate = self._rates.get(key)
        if rate is None:
            if len(self) >= self._rates_max:
                self._rates = {k: v for k, v in self._rates.items() if not v.is_idle(now_ms)}
                self._rates_max = max(2 * len(self), RATES_MIN)
            rate = self._rates[key] = self._new()
        return rate


def _rounded_ms(throttle_ms: float) -> int:
    # The time is infinite if the limit is tiny.
    return math.floor(min(throttle_ms, INT_MAX) + 0.5)
