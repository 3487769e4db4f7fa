"""The panels of a group's figure: lag, members, owners of partitions; and sparklines."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from ..diagnosis.rows import Ownership, TimelineEntry
from ..formatting import MemberNames, cause_text, count_of, duration, number, rounded, time_of_day
from ..lag_series import LagPoint
from .markup import Html, cut, h

# --- the time scale, in units of the SVG (pixels if the page is wide enough)

WIDTH: Final = 1100
LEFT: Final = 176  # room for names
RIGHT: Final = 26  # half of the last tick's label
TICKS_MAX: Final = 10

_DAY_S: Final = 86_400
_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
)


class TimeScale(NamedTuple):
    """One scale for all panels, so that they can be compared vertically."""

    begin: int
    end: int

    def x(self, time: int | None) -> float:
        """Return the position of a time, clamped to the edges; None is the end."""
        part = ((self.end if time is None else time) - self.begin) / (self.end - self.begin)
        return round(LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)

    def overlaps(self, begin: int | None, end: int | None) -> bool:
        return (begin or self.begin) <= self.end and (end or self.end) >= self.begin

    def ticks(self) -> Iterator[tuple[float, str]]:
        seconds = (self.end - self.begin) / 1000
        step = next((step for step in _STEPS_S if seconds / step <= TICKS_MAX), 0)
        if not step:
            step = _DAY_S * max(-(-int(seconds) // (_DAY_S * TICKS_MAX)), 1)
        at = -(-self.begin // (1000 * step)) * step
        shape = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY_S else "%b %d"
        while at * 1000 <= self.end:
            yield self.x(at * 1000), f"{datetime.fromtimestamp(at, UTC):{shape}}"
            at += step


# --- lag

LAG_HEIGHT: Final = 140
_LAG_TOP: Final = 8


def lag_panel(scale: TimeScale, points: Sequence[LagPoint], y: float) -> str:
    """Draw the group's lag over time, from `y` down, LAG_HEIGHT high."""
    known = [point.lag for point in points if point.lag is not None]
    bottom = y + LAG_HEIGHT
    if not known:
        where = f'x="{LEFT + 12}" y="{y + LAG_HEIGHT / 2}"'
        return f"<text class=faint {where}>unknown: no samples of the log ends</text>"
    top = _axis_maximum(max(known))

    def y_of(lag: float) -> float:
        return round(bottom - lag / top * (LAG_HEIGHT - _LAG_TOP), 1)

    drawn = [
        f'<line class=rule x1="{LEFT}" x2="{WIDTH}" y1="{y_of(lag)}" y2="{y_of(lag)}"/>'
        f'<text class=tick x="{LEFT - 8}" y="{y_of(lag) + 4}" text-anchor=end>{rounded(lag)}</text>'
        for lag in (0, top / 2, top)
    ]
    for is_known, group in groupby(points, lambda point: point.lag is not None):
        if is_known:
            run = list(group)
            line = "L".join(f"{scale.x(point.at_ms)} {y_of(point.lag or 0)}" for point in run)
            first, last = scale.x(run[0].at_ms), scale.x(run[-1].at_ms)
            drawn.append(f'<path class=area d="M{first} {bottom}L{line}L{last} {bottom}z"/>')
            drawn.append(f'<path class=line d="M{line}"/>')
    for before, point in pairwise(points):  # hover areas
        x, end = scale.x(before.at_ms), scale.x(point.at_ms)
        lag = "unknown" if point.lag is None else number(point.lag)
        drawn.append(
            f'<rect class=touch x="{x}" y="{y}" width="{end - x:.1f}" height="{LAG_HEIGHT}">'
            f"<title>{h(f'{time_of_day(point.at_ms)}  lag {lag}')}</title></rect>"
        )
    return "".join(drawn)


def _axis_maximum(value: float) -> float:
    """Return the smallest number, at least `value`, that is 1, 2, 4 or 6 times a power of ten. Half
    of such a number, the middle tick, is also a round number."""
    size = 1.0
    while size * 10 <= value:
        size *= 10
    return next(size * each for each in (1, 2, 4, 6, 10) if size * each >= value or each == 10)


SPARK_WIDTH, SPARK_HEIGHT = 120, 26


def sparkline(points: Sequence[LagPoint]) -> Html:
    """Draw the lag as a line without a scale, for a table cell."""
    known = [point.lag for point in points if point.lag is not None]
    if len(known) < 2:
        return Html("<span class=faint>unknown</span>")
    top = max(max(known), 1)
    step = (SPARK_WIDTH - 4) / (len(points) - 1)
    path, pen = [], "M"
    for place, point in enumerate(points):
        if point.lag is None:
            pen = "M"
            continue
        y = SPARK_HEIGHT - 3 - point.lag / top * (SPARK_HEIGHT - 6)
        path.append(f"{pen}{2 + place * step:.1f} {y:.1f}")
        pen = "L"
    text = h(f"lag from {rounded(known[0])} to {rounded(known[-1])}, at most {rounded(max(known))}")
    return Html(
        f'<svg class=spark viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" role=img '
        f'aria-label="{text}"><title>{text}</title><path d="{"".join(path)}"/></svg>'
    )


# --- rows of members and partitions

ROW_HEIGHT: Final = 24
BAR: Final = 16
COLORS: Final = 8
CHARACTER: Final = 6.3  # width of a letter
LABEL_MAX: Final = 26
MEMBERS_MAX: Final = 40  # two screens
OWNER_ROWS_MAX: Final = 40


def _row_label(text: str, top: float) -> str:
    """Draw the name of a row, and the line below it."""
    return (
        f'<line class=rule x1="0" x2="{WIDTH}" y1="{top + ROW_HEIGHT}" y2="{top + ROW_HEIGHT}"/>'
        f'<text class=name x="{LEFT - 10}" y="{top + 16}" text-anchor=end>'
        f"{h(cut(text, LABEL_MAX))}<title>{h(text)}</title></text>"
    )


def _bar(css_class: str, x: float, top: float, width: float, text: str, title: str) -> str:
    return (
        f'<g><title>{h(title)}</title><rect class="bar {css_class}" x="{x}" y="{top + 4}" '
        f'width="{width:.1f}" height="{BAR}" rx="3"/>'
        f'<text class=inside x="{x + 5}" y="{top + 16}">{h(text)}</text></g>'
    )


def _color(name: str, members: Sequence[str]) -> str:
    """Return the CSS class of a member, the same in all panels."""
    return f"m{members.index(name) % COLORS}" if name in members else "mx"


def _ranges(numbers: Sequence[int]) -> str:
    """Return `0–2, 5`."""
    ranges: list[list[int]] = []
    for each in sorted(numbers):
        if ranges and each == ranges[-1][1] + 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in ranges)


def partition_ranges(partitions: Sequence[Mapping[str, Any]]) -> str:
    """Return `orders 0–2, 5; pages 1`."""
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each["topic"], []).append(each["partition"])
    return "; ".join(f"{topic} {_ranges(found)}" for topic, found in sorted(topics.items()))


def shown_members(
    scale: TimeScale, entries: Sequence[TimelineEntry], names: MemberNames
) -> list[str]:
    """Return the names of the members that are in the group at any time within the scale, in the
    order in which they joined."""
    seen: dict[str, None] = {}
    for entry, after in pairwise([*entries, None]):
        if entry is not None and scale.overlaps(entry.at, after.at if after else None):
            seen.update((names.of(member["member_id"]), None) for member in entry.member_list)
    return list(seen)


def member_panel(
    scale: TimeScale,
    entries: Sequence[TimelineEntry],
    names: MemberNames,
    members: Sequence[str],
    y: float,
) -> str:
    """Draw a bar for each member and generation, and a cross where a member left. A member that
    returns keeps its row. `members`: the rows."""
    tops = {name: y + place * ROW_HEIGHT for place, name in enumerate(members)}
    drawn = [_row_label(name, top) for name, top in tops.items()]
    for entry, after in pairwise([*entries, None]):
        assert entry is not None
        until = after.at if after else None
        if scale.overlaps(entry.at, until):
            drawn += _generation(scale, entry, until, names, tops)
        if scale.overlaps(entry.at, entry.at):
            drawn += _exits(scale, entry, names, tops)
    return "".join(drawn)


def _generation(
    scale: TimeScale,
    entry: TimelineEntry,
    until: int | None,
    names: MemberNames,
    tops: Mapping[str, float],
) -> Iterator[str]:
    x, end = scale.x(entry.at), scale.x(until)
    width = max(end - x - 1, 1.2)  # the gap separates generations
    for member in entry.member_list:
        name, assigned = names.of(member["member_id"]), member["assigned"]
        if name not in tops:
            continue
        owned = partition_ranges(assigned) if assigned else "no partitions"
        if assigned is None:
            owned = "an assignment that cannot be decoded"
        title = f"{name} in generation {entry.generation}: {owned}\n{time_of_day(entry.at)} to "
        title += time_of_day(until) if until else "now"
        if member["member_id"] != name:
            title += f"\n{member['member_id']}"
        texts = [owned, count_of(len(assigned), "partition")] if assigned else []
        text = next((text for text in texts if len(text) * CHARACTER < width - 8), "")
        css_class = _color(name, list(tops)) + ("" if assigned else " none")
        yield _bar(css_class, x, tops[name], width, text, title)


def _exits(
    scale: TimeScale, entry: TimelineEntry, names: MemberNames, tops: Mapping[str, float]
) -> Iterator[str]:
    for exit_ in entry.exits:
        name = names.of(exit_.member_id)
        if name not in tops:
            continue
        x, middle = scale.x(entry.at), tops[name] + 4 + BAR / 2
        title = f"{name} left at {time_of_day(entry.at)}: {cause_text(exit_.cause)}"
        title += "" if exit_.silence_ms is None else f", silent for {duration(exit_.silence_ms)}"
        yield (
            f'<g><title>{h(title)}\n{h(exit_.evidence)}</title><circle class=touch cx="{x}" '
            f'cy="{middle}" r="9"/><path class=exit d="M{x - 4} {middle - 4}l8 8m-8 0l8 -8"/></g>'
        )


class OwnerSpan(NamedTuple):
    """A span of time with one owner, under any number of member ids."""

    name: str
    begin: int
    end: int | None


class OwnerRow(NamedTuple):
    """Partitions that always had the same owner, which share a row."""

    topic: str
    partitions: list[int]
    spans: tuple[OwnerSpan, ...]


def owner_rows(
    scale: TimeScale, ownership: Sequence[Ownership], names: MemberNames
) -> list[OwnerRow]:
    """Return rows ordered by topic and partition. `ownership` has the same order."""
    together: dict[tuple[str, tuple[OwnerSpan, ...]], list[int]] = {}
    for (topic, partition), rows in groupby(ownership, lambda row: (row.topic, row.partition)):
        spans: list[OwnerSpan] = []
        for row in rows:
            if not scale.overlaps(row.from_ts, row.to_ts):
                continue
            name = names.of(row.member_id, row.client_id)
            if spans and spans[-1].name == name and spans[-1].end == row.from_ts:
                spans[-1] = spans[-1]._replace(end=row.to_ts)
            else:
                spans.append(OwnerSpan(name, row.from_ts, row.to_ts))
        if spans:
            together.setdefault((topic, tuple(spans)), []).append(partition)
    found = [OwnerRow(topic, partitions, spans) for (topic, spans), partitions in together.items()]
    return sorted(found, key=lambda row: (row.topic, row.partitions[0]))


def owner_panel(
    scale: TimeScale, rows: Sequence[OwnerRow], members: Sequence[str], y: float
) -> str:
    """Draw the owners. `members`: in the order that determines their colors."""
    drawn = []
    for place, row in enumerate(rows):
        top = y + place * ROW_HEIGHT
        label = f"{row.topic} {_ranges(row.partitions)}"
        drawn.append(_row_label(label, top))
        for span in row.spans:
            x = scale.x(span.begin)
            width = max(scale.x(span.end) - x - 1, 1.2)
            until = "now" if span.end is None else time_of_day(span.end)
            title = f"{label}: {span.name}\n{time_of_day(span.begin)} to {until}"
            if len(row.partitions) > 1:
                title += f"\n{count_of(len(row.partitions), 'partition')} with the same owners"
            fits = int((width - 8) / CHARACTER)
            text = cut(span.name, fits) if fits > 3 else ""
            drawn.append(_bar(_color(span.name, members), x, top, width, text, title))
    return "".join(drawn)
