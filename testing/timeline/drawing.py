"""Draws a history: a figure for each group, and one for the transactions.

A figure is an SVG over wall-clock time with a row for each member of the group, or for each
transactional id. Explanations are in `<title>` elements, which browsers show as tooltips.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ...coordinator.outcome import EventType
from ...coordinator.transactions.states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from ...topics.names import OFFSETS_TOPIC
from ..generations import MemberAssignment
from ..history import ClockChange, History, TransactionChange
from .timeline import (
    format_clock_change,
    format_duration,
    format_event,
    format_request,
    format_transaction,
    join_partitions,
    member_names,
    shorten_ids,
)

# Sizes in the units of the drawing, which is scaled to the width of the page.
WIDTH = 1000
LABEL_WIDTH = 150
ROW_HEIGHT = 30
BAR_HEIGHT = 14
BAR_WIDTH_MIN = 3  # wide enough to be pointed at
MARK_HEIGHT = 10  # marks have their own strip below the bar, so that its label stays readable
CAUSE_LINES = 3
CHANGE_LINES = 2
LINE_HEIGHT = 11
CHARACTER_WIDTH = 5.8
COLORS = 6
LABEL_LENGTH_MAX = 24

# Limits. Omitted items of a figure (the oldest) are counted below it; omitted groups are not.
ROWS_MAX = 40  # two screens
GENERATIONS_MAX = 300  # more would be too narrow to distinguish
MARKS_MAX = 2000  # a page of a hundred tests stays below 50 MB
MARK_LINES_MAX = 8
GROUPS_MAX = 20
TRANSACTIONS_MAX = 1000

_SHOWN_EVENTS = (
    EventType.GROUP_LOADED,
    EventType.GROUP_UNLOADED,
    EventType.GROUP_DELETED,
    EventType.MEMBER_FENCED,
    EventType.OFFSETS_DELETED,
)

# The style sheet classes of a transaction's final states, and the decided states.
_OUTCOMES = {COMPLETE_COMMIT.text: "committed", COMPLETE_ABORT.text: "aborted"}
_DECISIONS = {PREPARE_COMMIT.text, PREPARE_ABORT.text}
_BY_CLIENT = "ended"


def draw(history: History, since_s: float = 0) -> str:
    """Return HTML with a figure for each group with events since `since_s`, and one for the
    transactions; "" if there is nothing to show."""
    active = {each.event.group_id for each in history.events if each.wall_s >= since_s}
    groups = sorted(active)[:GROUPS_MAX]
    figures: list[_Figure] = [
        _GroupFigure(history, each, since_s, is_first=each == groups[0]) for each in groups
    ]
    times = [each.wall_s for each in history.transaction_changes()]
    times += [each.wall_s for each in history.requests if each.faults and each.transactional_id]
    if max(times, default=-1.0) >= since_s:
        figures.append(_TransactionFigure(history, since_s))
    if not figures and any(each.wall_s >= since_s for each in history.clock_changes):
        figures = [_GroupFigure(history, "", since_s, is_first=True)]
    # All figures have the same time axis.
    begin = min((each.begin for each in figures), default=0.0)
    end = max((each.end for each in figures), default=1.0)
    for each in figures:
        each.begin, each.end = begin, end
    return "\n".join(each.html() for each in figures)


@dataclass(frozen=True, slots=True)
class _Mark:
    row: str
    wall_s: float
    kind: str
    """The class in the style sheet."""
    text: str


class _Figure:
    """A drawing with rows. Row keys are ids; "" is the row for marks without an id."""

    def __init__(self, history: History, caption: str, others: str) -> None:
        """`others` explains the row ""."""
        self._history = history
        self._caption = caption
        self._others = others
        self._rows: dict[str, str] = {}  # key -> label
        self._member_names = member_names(history.requests)
        self._body: list[str] = []
        self._omitted = 0
        self.begin = 0.0
        self.end = 1.0

    def html(self) -> str:
        self._draw()
        self._draw_marks()
        self._draw_test_actions()
        self._draw_axis()
        height = self._bottom + (CHANGE_LINES + 2) * LINE_HEIGHT + 4
        omitted = f"{self._omitted} earlier generations, rows, transactions or marks are not drawn."
        more = f"<p class=more>{omitted}</p>"
        return (
            f"<figure><figcaption>{escape(self._caption)}</figcaption>"
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(self._body)}</svg>'
            f"{more if self._omitted else ''}</figure>"
        )

    def _draw(self) -> None:
        """Draw the rows and their bars, before the marks."""
        raise NotImplementedError

    def _all_marks(self) -> Iterator[_Mark]:
        raise NotImplementedError

    def _set_times(self, shown: Sequence[float], since_s: float) -> None:
        """Set the time axis. It begins with the first item shown, because earlier requests and
        clock changes would leave most of the axis empty."""
        history = self._history
        times = [each.wall_s for each in history.events]
        times += [each.wall_s for each in history.requests]
        times += [each.wall_s for each in history.clock_changes]
        self.begin = max(min(shown or times, default=0.0), since_s)
        self.end = max(times, default=1.0)
        self.end += max((self.end - self.begin) * 0.03, 0.01)

    # --- positions

    def _x(self, wall_s: float) -> float:
        part = max(wall_s - self.begin, 0) / (self.end - self.begin)
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

    # --- shapes

    def _draw_rows(self, labels: Mapping[str, str]) -> None:
        """Draw the labels of the last rows. `labels` maps keys to labels."""
        self._omitted += max(len(labels) - ROWS_MAX, 0)
        self._rows = dict(list(labels.items())[-ROWS_MAX:])
        if any(mark.row not in self._rows for mark in self._marks()):
            self._rows[""] = "others"
        for key, label in self._rows.items():
            self._draw_label(key, label)

    def _draw_label(self, key: str, label: str) -> None:
        y = self._y(key) + BAR_HEIGHT
        text = (
            label
            if len(label) <= LABEL_LENGTH_MAX
            else f"{label[:9]}…{label[10 - LABEL_LENGTH_MAX :]}"
        )
        if key and list(self._rows.values()).count(label) > 1:
            # The client has several member ids.
            text = f"{text[:12]} {shorten_ids(key).rpartition('-')[2][:8]}"
        title = f"<title>{escape(key or self._others)}</title>"
        self._body.append(f'<text class=name x="0" y="{y}">{escape(text)}{title}</text>')
        rule = self._y(key) + ROW_HEIGHT - 1
        line = f'x1="{LABEL_WIDTH}" x2="{WIDTH}" y1="{rule}" y2="{rule}"'
        self._body.append(f"<line class=rule {line}/>")

    def _draw_bar(
        self, key: str, begin: float, end: float, *, kind: str, label: str, title: str
    ) -> None:
        """Draw a bar. `kind` is its class in the style sheet."""
        x = self._x(begin)
        width = max(self._x(end) - x, BAR_WIDTH_MIN)
        fits = int((width - 4) / CHARACTER_WIDTH)
        text = label if len(label) <= fits else f"{label[: fits - 1]}…" if fits > 3 else ""
        y = self._y(key) + 3
        self._body.append(
            f'<g><title>{escape(title)}</title><rect class="bar {kind}" x="{x}" y="{y}" '
            f'width="{width:.1f}" height="{BAR_HEIGHT}" rx="2"/>'
            f'<text class=owned x="{x + 3}" y="{y + 10}">{escape(text)}</text></g>'
        )

    def _draw_marks(self) -> None:
        """Draw marks. Marks of the same kind at the same place are merged."""
        found: dict[tuple[str, float, str], list[str]] = {}
        for mark in self._marks():
            row = mark.row if mark.row in self._rows else ""
            key = row, round(self._x(mark.wall_s)), mark.kind
            found.setdefault(key, []).append(f"{mark.wall_s:.3f} s: {mark.text}")
        marks = sorted(found.items(), key=lambda item: item[0][1])[-MARKS_MAX:]  # by position
        self._omitted += len(found) - len(marks)
        for (row, x, kind), lines in marks:
            self._body.append(_mark(kind, x, self._y(row) + 4 + BAR_HEIGHT, lines))

    def _marks(self) -> Iterator[_Mark]:
        return (each for each in self._all_marks() if each.wall_s >= self.begin)

    def _draw_test_actions(self) -> None:
        """Draw the test's changes to the clock and the broker as lines through all rows."""
        history = self._history
        actions = [
            (each.wall_s, _label(each), format_clock_change(each, self._member_names))
            for each in history.clock_changes
        ]
        actions += [(each.wall_s, each.what, each.what) for each in history.lifecycle_events]
        ends = [-1.0] * CHANGE_LINES
        for wall_s, label, text in sorted(each for each in actions if each[0] >= self.begin):
            x = self._x(wall_s)
            self._body.append(
                f'<line class=clock x1="{x}" x2="{x}" y1="{self._top - 2}" y2="{self._bottom}"/>'
                f'<line class=hit x1="{x}" x2="{x}" y1="{self._top - 2}" y2="{self._bottom}">'
                f"<title>{escape(f'{wall_s:.3f} s: {text}')}</title></line>"
            )
            self._draw_text("clock", x + 2, self._bottom, label, ends)

    def _draw_text(
        self, kind: str, x: float, top: float, text: str, ends: list[float], title: str = ""
    ) -> None:
        """Draw text in the first line below `top` that has space for it, if there is one. `ends`
        contains the position at which each line's text ends."""
        length = len(text) * CHARACTER_WIDTH
        left = min(x, WIDTH - length)
        free = next((line for line, end in enumerate(ends) if end < left), None)
        if free is not None:
            ends[free] = left + length + 6
            at = f'x="{left:.1f}" y="{top + (free + 1) * LINE_HEIGHT - 2}"'
            self._body.append(f"<text class={kind} {at}>{escape(text)}{title}</text>")

    def _draw_axis(self) -> None:
        step = _axis_step(self.end - self.begin)
        at = -(-self.begin // step) * step
        y = self._bottom + CHANGE_LINES * LINE_HEIGHT
        while at < self.end:
            x, label = self._x(at), f"{at:g} s"
            middle = min(x, WIDTH - len(label) * CHARACTER_WIDTH / 2)
            self._body.append(
                f'<line class=tick x1="{x}" x2="{x}" y1="{y}" y2="{y + 4}"/>'
                f'<text class=tick x="{middle:.1f}" y="{y + LINE_HEIGHT + 4}">{label}</text>'
            )
            at = round(at + step, 6)


class _GroupFigure(_Figure):
    """A group: its members, their partitions and commits, and the rebalances."""

    def __init__(self, history: History, group: str, since_s: float, *, is_first: bool) -> None:
        super().__init__(
            history, group or "no group", "clients that are not (or no longer) members"
        )
        self._group = group
        self._is_first = is_first
        self._names: dict[str, str] = {}
        all_generations = history.generations(group)
        self._all_members = {member for each in all_generations for member in each.partitions}
        generations = [
            each
            for each in all_generations
            if each.until_wall_s is None or each.until_wall_s >= since_s
        ]
        self._generations = generations[-GENERATIONS_MAX:]
        self._omitted += len(generations) - len(self._generations)
        self.begin = since_s
        shown = [each.wall_s for each in history.events if each.event.group_id == group]
        shown += [each.wall_s for each in self._marks()]
        if len(generations) > GENERATIONS_MAX:
            since_s = max(since_s, self._generations[0].wall_s)
        self._set_times(shown, since_s)

    def _draw(self) -> None:
        self._label_rows()
        self._draw_rebalances()
        for assignment in self._history.assignments(self._group):
            if assignment.until_wall_s is None or assignment.until_wall_s >= self.begin:
                self._draw_assignment(assignment)

    def _label_rows(self) -> None:
        for recorded in self._history.events:
            event = recorded.event
            if event.group_id == self._group and event.type is EventType.MEMBER_JOINED:
                self._names[event.member_id or ""] = event.instance_id or event.client_id or ""
        members = {member for each in self._generations for member in each.partitions}
        # Members that were in no generation get a row too, because they may be why the test failed.
        in_omitted = self._all_members - members
        shown = [member for member in self._names if member not in in_omitted]
        shown += [member for member in members if member not in self._names]
        self._draw_rows({each: self._names.get(each) or shorten_ids(each) for each in shown})

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
                begun = begun or (wall_s, cause)  # the first may never have completed
            elif begun:
                self._draw_rebalance(*begun, wall_s, ends)
                begun = None
        if begun:
            self._draw_rebalance(*begun, self.end, ends)

    def _draw_rebalance(self, begin: float, cause: str, end: float, ends: list[float]) -> None:
        """Draw a rebalance, and its cause above the rows (`ends`: see `_draw_text`)."""
        if end < self.begin:
            return
        x, width = self._x(begin), max(self._x(end) - self._x(begin), 1.5)
        text = f"rebalance: {cause}, {(end - begin) * 1000:.0f} ms, began at {begin:.3f} s"
        self._body.append(
            f'<rect class=rebalance x="{x}" y="{self._top - 2}" width="{width:.1f}" '
            f'height="{self._bottom - self._top + 2}"><title>{escape(text)}</title></rect>'
        )
        self._draw_text("cause", x, 0, cause, ends, f"<title>{escape(text)}</title>")

    def _draw_assignment(self, assignment: MemberAssignment) -> None:
        member = assignment.member_id
        if member not in self._rows or member == "":
            return
        end = assignment.until_wall_s or self.end
        owned = join_partitions(assignment.partitions)
        if assignment.revoking:
            owned += f", has to revoke {join_partitions(assignment.revoking)}"
        title = (
            f"{shorten_ids(member)} in generation {assignment.epoch}: {owned}\n"
            f"{assignment.wall_s:.3f} s to {end:.3f} s"
        )
        is_empty = not assignment.partitions and not assignment.revoking
        kind = f"g{assignment.epoch % COLORS}{' none' * is_empty}"
        self._draw_bar(member, assignment.wall_s, end, kind=kind, label=owned, title=title)

    def _all_marks(self) -> Iterator[_Mark]:
        history, group = self._history, self._group
        for commit in history.commits(group):
            before = "" if commit.before is None else f"{commit.before} → "
            text = f"commits {commit.topic}-{commit.partition} at {before}{commit.offset}"
            text += f" in transaction {commit.transactional_id}" if commit.transactional_id else ""
            yield _Mark(commit.member_id or "", commit.wall_s, "commit", text)
        for rejected in history.rejected_commits(group):
            if not rejected.is_by_fault:  # otherwise the fault has a mark
                partition = f"{rejected.topic}-{rejected.partition}"
                text = f"commit of {partition} at {rejected.offset} rejected: {rejected.error}"
                yield _Mark(rejected.member_id or "", rejected.wall_s, "rejected", text)
        for request in history.requests:
            is_of_none = not request.groups and request.transactional_id is None
            is_shown = group in request.groups or (is_of_none and self._is_first)
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


class _TransactionFigure(_Figure):
    """The transactions, with a row for each transactional id."""

    def __init__(self, history: History, since_s: float) -> None:
        super().__init__(history, "transactions", "other producers")
        self.begin = since_s
        changes = history.transaction_changes()
        self._transactions, self._between = _split(changes)
        shown = [mark.wall_s for mark in self._marks()]
        shown += [each.wall_s for each in changes if each.wall_s >= since_s]
        self._set_times(shown, since_s)

    def _draw(self) -> None:
        shown = [
            each
            for each in self._transactions
            if each[-1].after not in _OUTCOMES or each[-1].wall_s >= self.begin
        ]
        names = dict.fromkeys(each[0].transactional_id for each in shown)
        names |= dict.fromkeys(mark.row for mark in self._marks() if mark.row)
        self._omitted += max(len(shown) - TRANSACTIONS_MAX, 0)
        self._draw_rows({name: name for name in names})
        for each in shown[-TRANSACTIONS_MAX:]:
            self._draw_transaction(each)

    def _draw_transaction(self, changes: Sequence[TransactionChange]) -> None:
        first, last = changes[0], changes[-1]
        if first.transactional_id not in self._rows:
            return
        partitions = next((each.partitions for each in reversed(changes) if each.partitions), ())
        decided = next((each for each in changes if each.after in _DECISIONS), None)
        cause = _BY_CLIENT if decided is None else decided.cause
        outcome = _OUTCOMES.get(last.after, "open")
        why = "" if cause == _BY_CLIENT else f" ({cause})"
        by_topic = sorted(partitions, key=lambda each: each[0] == OFFSETS_TOPIC)
        label = f"{outcome}{why}: {join_partitions(by_topic)}"
        lines = [f"{each.wall_s:.3f} s: {format_transaction(each).strip('= ')}" for each in changes]
        omitted = len(lines) - MARK_LINES_MAX
        if omitted > 0:
            lines[MARK_LINES_MAX // 2 : -MARK_LINES_MAX // 2] = [f"… {omitted} more"]
        self._draw_bar(
            first.transactional_id,
            first.wall_s,
            last.wall_s if last.after in _OUTCOMES else self.end,
            kind=outcome,
            label=label,
            title="\n".join([label, *lines]),
        )
        if decided is not None:
            self._draw_decision(first.transactional_id, decided)

    def _draw_decision(self, transactional_id: str, decided: TransactionChange) -> None:
        """Draw a line at the decision. The rest of the bar is the time until the markers were
        written."""
        x, y = self._x(decided.wall_s), self._y(transactional_id) + 3
        self._body.append(f'<path class=decided d="M{x} {y}v{BAR_HEIGHT}"/>')

    def _all_marks(self) -> Iterator[_Mark]:
        for change in self._between:
            text = format_transaction(change).strip("= ")
            yield _Mark(change.transactional_id, change.wall_s, "event", text)
        for request in self._history.requests:
            if request.faults and request.transactional_id is not None:
                text = format_request(request)
                yield _Mark(request.transactional_id, request.wall_s, "fault", text)


def _split(
    changes: Iterable[TransactionChange],
) -> tuple[list[list[TransactionChange]], list[TransactionChange]]:
    """Return the changes of each transaction, and the changes between transactions, such as the
    initialization of a producer."""
    transactions: list[list[TransactionChange]] = []
    between: list[TransactionChange] = []
    current: dict[str, list[TransactionChange]] = {}
    for change in changes:
        name = change.transactional_id
        if change.after == ONGOING.text and change.before != ONGOING.text:
            current[name] = [change]
            transactions.append(current[name])
        elif name in current:
            current[name].append(change)
            if change.after in _OUTCOMES:
                del current[name]
        else:
            between.append(change)
    return transactions, between


def _mark(kind: str, x: float, y: float, lines: list[str]) -> str:
    omitted = len(lines) - MARK_LINES_MAX
    more = [f"… and {omitted} more"] if omitted > 0 else []
    title = f"<title>{escape(shorten_ids(chr(10).join([*lines[:MARK_LINES_MAX], *more])))}</title>"
    if kind == "commit":
        shape = f"M{x} {y + 1}v{MARK_HEIGHT - 2}"
    elif kind == "fault":
        shape = f"M{x} {y}l5 5l-5 5l-5 -5z"
    elif kind == "event":
        shape = f"M{x} {y}v{MARK_HEIGHT}"
    else:  # a cross
        shape = f"M{x - 4} {y + 1}l8 8m-8 0l8 -8"
    # An invisible wider line makes the mark easier to point at.
    hit = f'<path class=hit d="M{x} {y}v{MARK_HEIGHT}"/>'
    return f'<g>{title}{hit}<path class="{kind}" d="{shape}"/></g>'


def _label(change: ClockChange) -> str:
    label = f"+{format_duration(change.by_ms)}" if change.by_ms else change.kind
    return f"{label}, {len(change.expired)} expired" if change.expired else label


def _axis_step(seconds: float) -> float:
    """Return the distance between ticks: 1, 2 or 5 times a power of ten, for at most ten ticks."""
    step = 1e-3
    while True:
        for factor in (1, 2, 5):
            if seconds / (step * factor) <= 10:
                return step * factor
        step *= 10
