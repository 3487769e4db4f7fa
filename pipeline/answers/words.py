"""Times, spans, numbers and names as text for people."""

from datetime import UTC, datetime

from ...offsets.causes import Cause
from ..diagnosis import words

__all__ = [
    "NOT_KNOWN",
    "cause_text",
    "clock",
    "count",
    "counted",
    "day",
    "printable",
    "span",
    "when",
]

NOT_KNOWN = "-"


def span(milliseconds: int | None) -> str:
    """`40 ms`, `3.1 s`, `1 min 35 s`, `2 h 5 min`, `6 d 2 h`: two units, or three digits."""
    if milliseconds is None:
        return NOT_KNOWN
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 9_950:
        return f"{milliseconds / 1000:.1f} s"
    seconds = round(milliseconds / 1000)
    if seconds < 60:
        return f"{seconds} s"
    return words.span(seconds * 1000)


def when(time: datetime | None) -> str:
    return NOT_KNOWN if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def day(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d}"


def clock(time: datetime | None) -> str:
    return NOT_KNOWN if time is None else f"{time.astimezone(UTC):%H:%M:%S}"


def count(number: int | None) -> str:
    return NOT_KNOWN if number is None else f"{number:,}"


def compact(number: float) -> str:
    """Three digits at most: `940`, `12k`, `1.2M`."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def counted(number: int, noun: str) -> str:
    """`1 member`, `1,200 members`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def cause_text(cause: str) -> str:
    """The words of a cause; a name that a newer pipeline wrote is shown as one."""
    return Cause[cause].value if cause in Cause.__members__ else cause.replace("_", " ").lower()


def printable(text: str) -> str:
    """Names are whatever clients say: what would steer a terminal is shown, not sent."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
