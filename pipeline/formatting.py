"""Times (milliseconds since the epoch), durations, numbers and names as text."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from ..offsets.causes import Cause

UNKNOWN: Final = "-"

_UUID: Final = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
SEVERITIES: Final = {0: "healthy", 1: "info", 2: "warning", 3: "error"}

# Maximum number of texts that are listed before "and 3 more".
_TEXTS_MAX: Final = 4
# The first part of a UUID, enough to distinguish members with the same client id.
_ID_CHARACTERS: Final = 8


# --- times


def duration(ms: float | None) -> str:
    """Return `850 ms`, `12.3 s`, `5 min 12 s`, `2 h 5 min`, `7 d 3 h`."""
    if ms is None:
        return UNKNOWN
    if abs(ms) < 1000:
        return f"{ms:.0f} ms"
    if abs(ms) < 59_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for unit, size, smaller_unit, smaller in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    return f"{seconds} s"  # negative


def date_time(ms: int | None) -> str:
    return UNKNOWN if ms is None else f"{_utc(ms):%Y-%m-%d %H:%M:%S}"


def utc(ms: int) -> str:
    return f"{date_time(ms)} UTC"


def date(ms: int) -> str:
    return f"{_utc(ms):%Y-%m-%d}"


def time_of_day(ms: int | None) -> str:
    return UNKNOWN if ms is None else f"{_utc(ms):%H:%M:%S}"


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


# --- numbers


def number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def rounded(value: float) -> str:
    """Return at most three digits: `940`, `12k`, `1.2M`."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def count_of(value: int, noun: str) -> str:
    """Return `1 member`, `1,200 members`."""
    return f"{value:,} {noun}{'s' * (value != 1)}"


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# --- names


def join_texts(texts: Iterable[str]) -> str:
    """Return `a, b and c`, or `a, b, c, d and 3 more`."""
    found = list(texts)
    if len(found) > _TEXTS_MAX:
        return f"{', '.join(found[:_TEXTS_MAX])} and {len(found) - _TEXTS_MAX} more"
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))


def partition_names(partitions: Iterable[tuple[str, int]]) -> str:
    return join_texts(f"{topic}-{partition}" for topic, partition in sorted(partitions))


def cause_text(cause: str) -> str:
    """Return the text of a cause; a cause written by a newer version is shown by name."""
    return Cause[cause].value if cause in Cause.__members__ else cause.replace("_", " ").lower()


def without_uuids(text: str) -> str:
    """Remove from member ids the UUID that the coordinator appends to the client id."""
    return _UUID.sub("", text)


class MemberNames:
    """Display names of members: the instance id or the client id, since member ids change with
    every restart. If members of one generation share a name, the first part of their UUID is added.
    `generations` are the member lists of a group's generations."""

    def __init__(self, generations: Iterable[Iterable[dict[str, Any]]]) -> None:
        self._names: dict[str, str] = {}
        self._clients: dict[str, str] = {}
        self._shared: set[str] = set()
        for members in generations:
            counts: Counter[str] = Counter()
            for member in members:
                name = member["instance_id"] or member["client_id"] or member["member_id"]
                self._names[member["member_id"]] = name
                self._clients[member["member_id"]] = member["client_id"]
                counts[name] += 1
            self._shared |= {name for name, count in counts.items() if count > 1}

    def of(self, member_id: str, client_id: str | None = None) -> str:
        """Return the name of a member: `client_id` if no known generation has the member."""
        name = self._names.get(member_id, client_id or member_id)
        if name not in self._shared or member_id not in self._clients:
            return name
        tail = member_id.removeprefix(f"{self._clients[member_id]}-")
        return f"{name}-{tail[:_ID_CHARACTERS]}"
