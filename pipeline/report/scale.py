"""Where a time is drawn: one scale for all parts of a figure, so that it can be read downwards."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

__all__ = ["LEFT", "WIDTH", "Scale"]

# In units of the picture; a page that is wide enough shows one as a pixel.
WIDTH: Final = 1100
LEFT: Final = 176  # of names
RIGHT: Final = 26  # half of the last time
TICKS_MAX: Final = 10

_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * each for each in (1, 2, 5, 10, 15, 30)),
    *(3600 * each for each in (1, 2, 3, 6, 12)),
)
_DAY_S: Final = 86_400


class Scale(NamedTuple):
    begin: datetime
    end: datetime

    def x(self, time: datetime | None) -> float:
        """What lies outside is drawn at the edge; None is now."""
        part = ((time or self.end) - self.begin) / (self.end - self.begin)
        return round(LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def shows(self, begin: datetime | None, end: datetime | None) -> bool:
        """Whether anything of a span lies inside."""
        return (begin or self.begin) <= self.end and (end or self.end) >= self.begin

    def ticks(self) -> Iterator[tuple[float, str]]:
        seconds = (self.end - self.begin).total_seconds()
        step = next((step for step in _STEPS_S if seconds / step <= TICKS_MAX), 0)
        if not step:
            step = _DAY_S * max(-(-int(seconds) // (_DAY_S * TICKS_MAX)), 1)
        at = -(-int(self.begin.timestamp()) // step) * step
        shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY_S else "%b %d"
        while (time := datetime.fromtimestamp(at, UTC)) <= self.end:
            yield self.x(time), f"{time:{shape}}"
            at += step

    def widened(self) -> "Scale":
        """No less than a second: a scale of one moment has no places."""
        return self._replace(end=max(self.end, self.begin + timedelta(seconds=1)))
