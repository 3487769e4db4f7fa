"""`--kafka-timeline FILE.html`: the histories of all tests of a run, drawn on one page.

Each group is an SVG with one row per member over wall-clock time. Explanations are in `<title>`
elements, which browsers show as tooltips. There are no scripts and no external resources. Each test
process draws its own histories; the reporting process writes the page.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import pytest

from ..coordinator.outcome import EventType
from .generations import MemberAssignment
from .history import ClockChange, History
from .timeline import (
    format_clock_change,
    format_duration,
    format_event,
    format_request,
    join_partitions,
    member_names,
    shorten_ids,
)

# --- the page

# Maximum number of tests on the page; failed tests come first. A browser handles about 50 MB well.
TESTS_MAX = 500
MESSAGE_LENGTH_MAX = 2000

REPORT_ATTRIBUTE: Final = "kafka_timeline"
"""Property of a test report: the drawn histories, as a string so that xdist transfers it."""


@dataclass(frozen=True, slots=True)
class Section:
    """One test."""

    name: str
    outcome: str
    seconds: float
    message: str
    drawing: str


class TimelinePage:
    """A pytest plugin for the reporting process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: list[Section] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        drawing = getattr(report, REPORT_ATTRIBUTE, None)
        if drawing is None:
            return
        message = "" if report.passed else report.longreprtext
        crash = getattr(report.longrepr, "reprcrash", None)
        self._sections.append(
            Section(
                report.nodeid,
                report.outcome,
                report.duration,
                str(crash.message if crash is not None else message)[:MESSAGE_LENGTH_MAX],
                drawing,
            )
        )

    def pytest_sessionfinish(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(page(self._sections), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        count = len(self._sections)
        terminalreporter.write_line(f"timeline of {count} test{'s' * (count != 1)}: {self._path}")


def page(sections: list[Section]) -> str:
    """Return the HTML file. Failed tests come first and are open."""
    ordered = sorted(sections, key=lambda each: each.outcome != "failed")
    failed = sum(each.outcome == "failed" for each in sections)
    tests = f"{len(sections)} test{'s' * (len(sections) != 1)}"
    omitted = len(ordered) - TESTS_MAX
    more = f"<p>{omitted} more tests that passed or were skipped.</p>" if omitted > 0 else ""
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>Kafka timeline: {tests}, {failed} failed</title>"
        f"<style>{STYLE}</style></head><body>"
        f"<h1>Kafka timeline</h1><p>{tests} with a broker, {failed} failed. "
        "Times are seconds of wall time since the broker of the test was created.</p>"
        f"{LEGEND}{''.join(map(_section, ordered[:TESTS_MAX]))}{more}</body></html>\n"
    )


def _section(section: Section) -> str:
    message = f"<pre>{escape(section.message)}</pre>" if section.message else ""
    drawing = (
        section.drawing or "<p class=more>No member has joined and no offset was committed.</p>"
    )
    return (
        f"<details class={section.outcome}{' open' * (section.outcome == 'failed')}><summary>"
        f"<b>{escape(section.outcome)}</b> {escape(section.name)} "
        f"<small>{section.seconds:.2f} s</small></summary>{message}{drawing}</details>"
    )


LEGEND: Final = """<p class=legend>
<svg viewBox="0 0 30 14"><rect class="bar g1" y="1" width="14" height="12" rx="2"/>
<rect class="bar g2" x="15" y="1" width="14" height="12" rx="2"/></svg> a member and its partitions,
one colour for each generation
<svg viewBox="0 0 14 14"><rect class=rebalance width="14" height="14"/></svg> rebalance
<svg viewBox="0 0 8 14"><path class=commit d="M4 3v9"/></svg> commit
<svg viewBox="0 0 14 14"><path class=rejected d="M3 3l8 8m-8 0l8 -8"/></svg> rejected commit
<svg viewBox="0 0 14 14"><path class=exit d="M3 3l8 8m-8 0l8 -8"/></svg> member left or was removed
<svg viewBox="0 0 14 14"><path class=fault d="M7 1l5 6l-5 6l-5 -6z"/></svg> fault
<svg viewBox="0 0 8 14"><line class=clock x1="4" x2="4" y2="14"/></svg> clock or broker changed
</p>"""

STYLE: Final = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d2733; --faint: #6b7785;
  --rule: #e3e8ee; --rebalance: #f1b84255; --red: #c62828; --violet: #7b2fbf; --bar-ink: #102030;
  --g0: #a9d3f5; --g1: #b5e3b0; --g2: #f7cf9b; --g3: #dcc3f2; --g4: #9fe0dc; --g5: #f5bccb; }
@media (prefers-color-scheme: dark) { :root { --ground: #14191f; --ink: #e4e9ef;
  --faint: #93a0ae; --rule: #2a323c; --rebalance: #f1b84240; --red: #ff7b72; --violet: #d2a8ff;
  --bar-ink: #f2f6fa; --g0: #245a86; --g1: #2c6a35; --g2: #83571a; --g3: #61418a; --g4: #1c6b67;
  --g5: #85384f; } }
body { background: var(--ground); color: var(--ink); margin: 1.5rem auto; max-width: 1400px;
  padding: 0 1rem; font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; }
details { border-top: 1px solid var(--rule); padding: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { font-weight: 600; color: var(--faint); }
.failed > summary b { color: var(--red); }
small, .more, .legend { color: var(--faint); font-size: .85rem; }
pre { background: color-mix(in srgb, var(--red) 8%, transparent); border-left: 3px solid var(--red);
  padding: .4rem .8rem; overflow-x: auto; font-size: .8rem; white-space: pre-wrap; }
figure { margin: .6rem 0 1rem; overflow-x: auto; }
figcaption { font-weight: 600; }
figure svg { width: 100%; min-width: 1000px; display: block; }
.legend { line-height: 2; }
.legend svg { height: 14px; vertical-align: -2px; margin-left: .8rem; }
text { font: 9.5px ui-monospace, monospace; fill: var(--ink); }
text.cause, text.tick { fill: var(--faint); }
text.tick { text-anchor: middle; }
text.owned { fill: var(--bar-ink); }
text.clock { fill: var(--violet); }
.rule { stroke: var(--rule); }
.tick { stroke: var(--faint); }
text.tick { stroke: none; }
.rebalance { fill: var(--rebalance); }
.bar.none { opacity: .35; }
.g0 { fill: var(--g0); } .g1 { fill: var(--g1); } .g2 { fill: var(--g2); }
.g3 { fill: var(--g3); } .g4 { fill: var(--g4); } .g5 { fill: var(--g5); }
path { fill: none; stroke-width: 1.6; }
.commit, .event { stroke: var(--ink); stroke-width: 1.2; }
.rejected { stroke: var(--red); stroke-width: 2; }
.exit { stroke: var(--ink); stroke-width: 2; }
.fault { fill: var(--red); }
.clock { stroke: var(--violet); stroke-dasharray: 3 2; }
text.clock { stroke: none; }
.hit { stroke: transparent; stroke-width: 8; }
"""

# --- the drawing of a history

# In units of the picture, which is scaled to the width of the page.
WIDTH = 1000
LABEL_WIDTH = 150
ROW_HEIGHT = 30
BAR_HEIGHT = 14
MARK_HEIGHT = 10  # marks have their own strip below the bar, so that its label stays readable
CAUSE_LINES = 3
CHANGE_LINES = 2
LINE_HEIGHT = 11
CHARACTER_WIDTH = 5.8
COLOURS = 6
LABEL_LENGTH_MAX = 24

# Per group; older ones are omitted and counted below the picture.
MEMBERS_MAX = 40  # rows: two screens
GENERATIONS_MAX = 300  # narrower ones are indistinguishable
MARKS_MAX = 2000  # a page of a hundred tests stays below 50 MB
MARK_LINES_MAX = 8
GROUPS_MAX = 20

_SHOWN_EVENTS = (
    EventType.GROUP_LOADED,
    EventType.GROUP_UNLOADED,
    EventType.GROUP_DELETED,
    EventType.MEMBER_FENCED,
    EventType.OFFSETS_DELETED,
)


def draw(history: History, since_s: float = 0) -> str:
    """Return HTML: a figure for each group with events since then; "" if there is nothing to
    show."""
    active = {each.event.group_id for each in history.events if each.wall_s >= since_s}
    groups = sorted(active)[:GROUPS_MAX]
    pictures = [_Picture(history, each, since_s, is_first=each == groups[0]) for each in groups]
    if not groups and any(each.wall_s >= since_s for each in history.clock_changes):
        pictures = [_Picture(history, "", since_s, is_first=True)]
    return "\n".join(each.html() for each in pictures)


@dataclass(frozen=True, slots=True)
class _Mark:
    row: str
    wall_s: float
    kind: str
    """Class in the style sheet."""
    text: str


class _Picture:
    """Rows are keys: a member id, or "" for everything that belongs to no member."""

    def __init__(self, history: History, group: str, since_s: float, *, is_first: bool) -> None:
        self._history = history
        self._group = group
        self._is_first = is_first
        self._rows: dict[str, str] = {}  # key -> label
        self._names: dict[str, str] = {}
        self._member_names = member_names(history.requests)
        self._body: list[str] = []
        self._omitted = 0
        all_generations = history.generations(group)
        self._all_members = {member for each in all_generations for member in each.partitions}
        generations = [
            each
            for each in all_generations
            if each.until_wall_s is None or each.until_wall_s >= since_s
        ]
        self._generations = generations[-GENERATIONS_MAX:]
        self._omitted += len(generations) - len(self._generations)
        self._begin = since_s
        shown = [each.wall_s for each in history.events if each.event.group_id == group]
        shown += [each.wall_s for each in self._marks()]
        times = [each.wall_s for each in history.events]
        times += [each.wall_s for each in history.requests]
        times += [each.wall_s for each in history.clock_changes]
        # Otherwise requests and clock changes before the group's first event would leave the axis
        # mostly empty.
        self._begin = max(min(shown or times, default=0.0), since_s)
        if len(generations) > GENERATIONS_MAX:
            self._begin = max(self._begin, self._generations[0].wall_s)
        self._end = max(times, default=1.0)
        self._end += max((self._end - self._begin) * 0.03, 0.01)

    def html(self) -> str:
        self._label_rows()
        self._draw_rebalances()
        for assignment in self._history.assignments(self._group):
            if assignment.until_wall_s is None or assignment.until_wall_s >= self._begin:
                self._draw_bar(assignment)
        self._draw_marks()
        self._draw_test_actions()
        self._draw_axis()
        height = self._bottom + (CHANGE_LINES + 2) * LINE_HEIGHT + 4
        omitted = f"{self._omitted} earlier generations, members or marks are not drawn."
        more = f"<p class=more>{omitted}</p>"
        return (
            f"<figure><figcaption>{_h(self._group) or 'no group'}</figcaption>"
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(self._body)}</svg>'
            f"{more if self._omitted else ''}</figure>"
        )

    # --- positions

    def _x(self, wall_s: float) -> float:
        part = max(wall_s - self._begin, 0) / (self._end - self._begin)
        return round(LABEL_WIDTH + part * (WIDTH - LABEL_WIDTH - 4), 1)

    @property
    def _top(self) -> int:
        return CAUSE_LINES * LINE_HEIGHT + 4

    def _y(self, row: str) -> int:
        keys = list(self._rows)
        return self._top + keys.index(row if row in self._rows else "") * ROW_HEIGHT

    @property
    def _bottom(self) -> int:
        return self._top + len(self._rows) * ROW_HEIGHT

    def _label_rows(self) -> None:
        for recorded in self._history.events:
            event = recorded.event
            if event.group_id == self._group and event.type is EventType.MEMBER_JOINED:
                self._names[event.member_id or ""] = event.instance_id or event.client_id or ""
        members = {member for each in self._generations for member in each.partitions}
        # Members that were in no generation get a row too: the test may have failed because of
        # them.
        in_omitted = self._all_members - members
        shown = [member for member in self._names if member not in in_omitted]
        shown += [member for member in members if member not in self._names]
        self._omitted += max(len(shown) - MEMBERS_MAX, 0)
        for member in shown[-MEMBERS_MAX:]:
            self._rows[member] = self._names.get(member) or shorten_ids(member)
        if any(mark.row not in self._rows for mark in self._marks()):
            self._rows[""] = "others"
        for member, label in self._rows.items():
            self._draw_label(member, label)

    def _draw_label(self, member: str, label: str) -> None:
        y = self._y(member) + BAR_HEIGHT
        text = (
            label
            if len(label) <= LABEL_LENGTH_MAX
            else f"{label[:9]}…{label[10 - LABEL_LENGTH_MAX :]}"
        )
        if member and list(self._rows.values()).count(label) > 1:
            # The same client with a different member id.
            text = f"{text[:12]} {shorten_ids(member).rpartition('-')[2][:8]}"
        title = f"<title>{_h(member or 'clients that are not (or no longer) members')}</title>"
        self._body.append(f'<text class=name x="0" y="{y}">{_h(text)}{title}</text>')
        rule = self._y(member) + ROW_HEIGHT - 1
        line = f'x1="{LABEL_WIDTH}" x2="{WIDTH}" y1="{rule}" y2="{rule}"'
        self._body.append(f"<line class=rule {line}/>")

    # --- shapes

    def _draw_rebalances(self) -> None:
        ends = [-1.0] * CAUSE_LINES
        steps: list[tuple[float, str | None]] = []  # time, and the cause if a rebalance begins
        for recorded in self._history.events:
            event = recorded.event
            if event.group_id != self._group:
                continue
            if event.type is EventType.REBALANCE_STARTED:
                steps.append((recorded.wall_s, str(event.cause or "")))
            elif event.type is EventType.GROUP_EMPTIED:
                steps.append((recorded.wall_s, None))
        steps += [
            (each.synced_wall_s, None)
            for each in self._history.generations(self._group)
            if each.synced_wall_s is not None
        ]
        begun: tuple[float, str] | None = None
        for wall_s, cause in sorted(steps, key=lambda step: step[0]):
            if cause is not None:
                begun = wall_s, cause
            elif begun:
                self._draw_rebalance(*begun, wall_s, ends)
                begun = None
        if begun:
            self._draw_rebalance(*begun, self._end, ends)

    def _draw_rebalance(self, begin: float, cause: str, end: float, ends: list[float]) -> None:
        """`ends`: where the text of each line ends."""
        if end < self._begin:
            return
        x, width = self._x(begin), max(self._x(end) - self._x(begin), 1.5)
        text = f"rebalance: {cause}, {(end - begin) * 1000:.0f} ms, began at {begin:.3f} s"
        self._body.append(
            f'<rect class=rebalance x="{x}" y="{self._top - 2}" width="{width:.1f}" '
            f'height="{self._bottom - self._top + 2}"><title>{_h(text)}</title></rect>'
        )
        length = len(cause) * CHARACTER_WIDTH
        left = min(x, WIDTH - length)
        free = [line for line, line_end in enumerate(ends) if line_end < left]
        if free:
            ends[free[0]] = left + length + 6
            y = (free[0] + 1) * LINE_HEIGHT - 2
            title = f"<title>{_h(text)}</title>"
            self._body.append(f'<text class=cause x="{left:.1f}" y="{y}">{_h(cause)}{title}</text>')

    def _draw_bar(self, assignment: MemberAssignment) -> None:
        member = assignment.member_id
        if member not in self._rows or member == "":
            return
        end = assignment.until_wall_s or self._end
        x = self._x(assignment.wall_s)
        width = max(self._x(end) - x, 1)
        owned = join_partitions(assignment.partitions)
        if assignment.revoking:
            owned += f", has to revoke {join_partitions(assignment.revoking)}"
        text = (
            f"{shorten_ids(member)} in generation {assignment.epoch}: {owned}\n"
            f"{assignment.wall_s:.3f} s to {end:.3f} s"
        )
        fits = int((width - 4) / CHARACTER_WIDTH)
        label = owned if len(owned) <= fits else f"{owned[: fits - 1]}…" if fits > 3 else ""
        y = self._y(member) + 3
        is_empty = not assignment.partitions and not assignment.revoking
        self._body.append(
            f'<g><title>{_h(text)}</title><rect class="bar g{assignment.epoch % COLOURS}'
            f'{" none" * is_empty}" x="{x}" y="{y}" width="{width:.1f}" '
            f'height="{BAR_HEIGHT}" rx="2"/><text class=owned x="{x + 3}" y="{y + 10}">'
            f"{_h(label)}</text></g>"
        )

    def _draw_marks(self) -> None:
        """Draw marks; marks of one kind at the same place are merged."""
        found: dict[tuple[str, float, str], list[str]] = {}
        for mark in self._marks():
            row = mark.row if mark.row in self._rows else ""
            key = row, round(self._x(mark.wall_s)), mark.kind
            found.setdefault(key, []).append(f"{mark.wall_s:.3f} s: {mark.text}")
        marks = list(found.items())[-MARKS_MAX:]
        self._omitted += len(found) - len(marks)
        for (row, x, kind), lines in marks:
            self._body.append(_mark(kind, x, self._y(row) + 4 + BAR_HEIGHT, lines))

    def _marks(self) -> Iterator[_Mark]:
        return (each for each in self._all_marks() if each.wall_s >= self._begin)

    def _all_marks(self) -> Iterator[_Mark]:
        history, group = self._history, self._group
        for commit in history.commits(group):
            before = "" if commit.before is None else f"{commit.before} → "
            text = f"commits {commit.topic}-{commit.partition} at {before}{commit.offset}"
            yield _Mark(commit.member_id or "", commit.wall_s, "commit", text)
        for rejected in history.rejected_commits(group):
            if not rejected.is_by_fault:  # otherwise it has the mark of the fault
                partition = f"{rejected.topic}-{rejected.partition}"
                text = f"commit of {partition} at {rejected.offset} rejected: {rejected.error}"
                yield _Mark(rejected.member_id or "", rejected.wall_s, "rejected", text)
        for request in history.requests:
            is_shown = group in request.groups or (not request.groups and self._is_first)
            if request.faults and is_shown:
                text = format_request(request)
                yield _Mark(request.member_id or "", request.wall_s, "fault", text)
        for gone in history.exits(group):
            text = f"{gone.cause}{f' ({gone.reason})' if gone.reason else ''}"
            yield _Mark(gone.member_id or "", gone.wall_s, "exit", text)
        for recorded in history.events:
            if recorded.event.group_id == group and recorded.event.type in _SHOWN_EVENTS:
                text = format_event(recorded, self._member_names).strip("= ")
                yield _Mark("", recorded.wall_s, "event", text)

    def _draw_test_actions(self) -> None:
        """Draw changes of the clock and the broker by the test, as lines through all rows."""
        history = self._history
        actions = [
            (each.wall_s, _label(each), format_clock_change(each, self._member_names))
            for each in history.clock_changes
        ]
        actions += [(each.wall_s, each.what, each.what) for each in history.lifecycle_events]
        ends = [-1.0] * CHANGE_LINES
        for wall_s, label, text in sorted(each for each in actions if each[0] >= self._begin):
            x = self._x(wall_s)
            self._body.append(
                f'<line class=clock x1="{x}" x2="{x}" y1="{self._top - 2}" y2="{self._bottom}"/>'
                f'<line class=hit x1="{x}" x2="{x}" y1="{self._top - 2}" y2="{self._bottom}">'
                f"<title>{_h(f'{wall_s:.3f} s: {text}')}</title></line>"
            )
            left = min(x + 2, WIDTH - len(label) * CHARACTER_WIDTH)
            free = [line for line, line_end in enumerate(ends) if line_end < left]
            if free:
                ends[free[0]] = left + len(label) * CHARACTER_WIDTH + 6
                y = self._bottom + (free[0] + 1) * LINE_HEIGHT - 2  # below the rows and their bars
                self._body.append(f'<text class=clock x="{left:.1f}" y="{y}">{_h(label)}</text>')

    def _draw_axis(self) -> None:
        step = _axis_step(self._end - self._begin)
        at = -(-self._begin // step) * step
        y = self._bottom + CHANGE_LINES * LINE_HEIGHT
        while at < self._end:
            x, label = self._x(at), f"{at:g} s"
            middle = min(x, WIDTH - len(label) * CHARACTER_WIDTH / 2)
            self._body.append(
                f'<line class=tick x1="{x}" x2="{x}" y1="{y}" y2="{y + 4}"/>'
                f'<text class=tick x="{middle:.1f}" y="{y + LINE_HEIGHT + 4}">{label}</text>'
            )
            at = round(at + step, 6)


def _mark(kind: str, x: float, y: float, lines: list[str]) -> str:
    omitted = len(lines) - MARK_LINES_MAX
    more = [f"… and {omitted} more"] if omitted > 0 else []
    title = f"<title>{_h(shorten_ids(chr(10).join([*lines[:MARK_LINES_MAX], *more])))}</title>"
    if kind == "commit":
        shape = f"M{x} {y + 1}v{MARK_HEIGHT - 2}"
    elif kind == "fault":
        shape = f"M{x} {y}l5 5l-5 5l-5 -5z"
    elif kind == "event":
        shape = f"M{x} {y}v{MARK_HEIGHT}"
    else:  # a cross
        shape = f"M{x - 4} {y + 1}l8 8m-8 0l8 -8"
    # An invisible wider line, because a thin one is hard to point at.
    hit = f'<path class=hit d="M{x} {y}v{MARK_HEIGHT}"/>'
    return f'<g>{title}{hit}<path class="{kind}" d="{shape}"/></g>'


def _label(change: ClockChange) -> str:
    label = f"+{format_duration(change.by_ms)}" if change.by_ms else change.kind
    return f"{label}, {len(change.expired)} expired" if change.expired else label


def _axis_step(seconds: float) -> float:
    """1, 2 or 5 times a power of ten, for at most ten ticks."""
    step = 1e-3
    while True:
        for factor in (1, 2, 5):
            if seconds / (step * factor) <= 10:
                return step * factor
        step *= 10


def _h(text: str) -> str:
    return escape(text, quote=True)
