"""A history as a picture: for each group an SVG with a bar for each member over wall time.

Shapes carry their words in `<title>`, which browsers show when the mouse rests on them; colours are
classes of page.py. No script, nothing from elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

from ..coordinator.outcome import EventType
from .happened import ClockMove, Generation
from .history import History
from .report import duration, of_event, of_move, of_request, places, short

# In units of the picture, which is drawn as wide as the page.
WIDTH = 1000
LABELS = 150
ROW = 24
BAR = 14
LABEL_LINES = 3
LINE = 11
CHARACTER = 5.8  # a letter of the labels
COLOURS = 6
LABEL_MAX = 24

# Of one group; what is more is older, and is counted below the picture.
MEMBERS_MAX = 40  # rows: two screens
GENERATIONS_MAX = 300  # narrower than two units each they cannot be told apart
MARKS_MAX = 2000  # a page of a hundred tests stays below 50 MB
GROUPS_MAX = 20


def draw(history: History, since_s: float = 0) -> str:
    """HTML: a figure for each group that something has happened to since; "" where there is nothing
    to see."""
    seen = {each.event.group_id for each in history.events if each.wall_s >= since_s}
    groups = sorted(seen)[:GROUPS_MAX]
    pictures = [_Picture(history, each, since_s, is_first=each == groups[0]) for each in groups]
    if not groups and any(each.wall_s >= since_s for each in history.clock_moves):
        pictures = [_Picture(history, "", since_s, is_first=True)]
    return "\n".join(each.html() for each in pictures)


@dataclass
class _Mark:
    """Something that happened at one moment; those that fall together are one, with all words."""

    kind: str
    words: list[str] = field(default_factory=list)


class _Picture:
    def __init__(self, history: History, group: str, since_s: float, *, is_first: bool) -> None:
        self._history = history
        self._group = group
        self._is_first = is_first
        self._rows: dict[str, str] = {}  # key -> label; the key is a member id, or "" for others
        self._names: dict[str, str] = {}
        self._body: list[str] = []
        self._left_out = 0
        all_generations = history.generations(group)
        self._once_members = {who for each in all_generations for who in each.partitions}
        generations = [
            each
            for each in all_generations
            if each.until_wall_s is None or each.until_wall_s >= since_s
        ]
        self._generations = generations[-GENERATIONS_MAX:]
        self._left_out += len(generations) - len(self._generations)
        times = [each.wall_s for each in history.events]
        times += [each.wall_s for each in history.requests]
        times += [each.wall_s for each in history.clock_moves]
        self._begin, self._end = max(min(times, default=0.0), since_s), max(times, default=1.0)
        self._end += max((self._end - self._begin) * 0.03, 0.01)

    def html(self) -> str:
        self._name_rows()
        self._rounds()
        for generation in self._generations:
            self._bars(generation)
        self._marks()
        self._turns()
        self._axis()
        height = self._bottom + 2 * LINE + 4
        more = f"<p class=more>{self._left_out} earlier ones are not drawn.</p>"
        return (
            f"<figure><figcaption>{_h(self._group) or 'no group'}</figcaption>"
            f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(self._body)}</svg>'
            f"{more if self._left_out else ''}</figure>"
        )

    # --- where things are

    def _x(self, wall_s: float) -> float:
        part = max(wall_s - self._begin, 0) / (self._end - self._begin)
        return round(LABELS + part * (WIDTH - LABELS - 4), 1)

    @property
    def _top(self) -> int:
        return LABEL_LINES * LINE + 4

    def _y(self, row: str) -> int:
        """The row of a member, or of those that have none."""
        keys = list(self._rows)
        return self._top + keys.index(row if row in self._rows else "") * ROW

    @property
    def _bottom(self) -> int:
        return self._top + len(self._rows) * ROW

    def _name_rows(self) -> None:
        for heard in self._history.events:
            event = heard.event
            if event.group_id == self._group and event.type is EventType.MEMBER_JOINED:
                self._names[event.member_id or ""] = event.instance_id or event.client_id or ""
        members = {who for each in self._generations for who in each.partitions}
        # Who is in none may be what a test has failed for.
        in_others = self._once_members - members
        came = [who for who in self._names if who not in in_others]
        came += [who for who in members if who not in self._names]
        self._left_out += max(len(came) - MEMBERS_MAX, 0)
        for who in came[-MEMBERS_MAX:]:
            self._rows[who] = self._names.get(who) or short(who)
        if any(row not in self._rows for row, *_ in self._happened()):
            self._rows[""] = "others"
        for who, label in self._rows.items():
            y = self._y(who) + BAR + 1
            cut = label if len(label) <= LABEL_MAX else f"{label[: LABEL_MAX - 1]}…"
            if who and list(self._rows.values()).count(label) > 1:
                # The same client, come back as another member.
                cut = f"{cut[:12]} {short(who).rpartition('-')[2][:8]}"
            title = f"<title>{_h(who or 'who is no member, or no member any more')}</title>"
            self._body.append(f'<text class=name x="0" y="{y}">{_h(cut)}{title}</text>')
            line = f'x1="{LABELS}" x2="{WIDTH}" y1="{y + 5}" y2="{y + 5}"'
            self._body.append(f"<line class=rule {line}/>")

    # --- what is drawn

    def _rounds(self) -> None:
        ends = [-1.0] * LABEL_LINES
        opened: tuple[float, str] | None = None
        for heard in self._history.events:
            event = heard.event
            if event.group_id != self._group:
                continue
            if event.type is EventType.REBALANCE_STARTED:
                opened = heard.wall_s, str(event.cause or "")
            elif opened and event.type in (EventType.SYNC_COMPLETED, EventType.GROUP_EMPTIED):
                self._round(*opened, heard.wall_s, ends)
                opened = None
        if opened:
            self._round(*opened, self._end, ends)

    def _round(self, began: float, cause: str, ended: float, ends: list[float]) -> None:
        if ended < self._begin:
            return
        x, width = self._x(began), max(self._x(ended) - self._x(began), 1.5)
        words = f"rebalance: {cause}, {(ended - began) * 1000:.0f} ms, from {began:.3f} s on"
        self._body.append(
            f'<rect class=round x="{x}" y="{self._top - 2}" width="{width:.1f}" '
            f'height="{self._bottom - self._top + 2}"><title>{_h(words)}</title></rect>'
        )
        long = len(cause) * CHARACTER
        at = min(x, WIDTH - long)
        free = [line for line, end in enumerate(ends) if end < at]
        if free:
            ends[free[0]] = at + long + 6
            y = (free[0] + 1) * LINE - 2
            title = f"<title>{_h(words)}</title>"
            self._body.append(f'<text class=cause x="{at:.1f}" y="{y}">{_h(cause)}{title}</text>')

    def _bars(self, generation: Generation) -> None:
        if generation.synced_wall_s is None:
            return
        ended = generation.until_wall_s or self._end
        for who, partitions in generation.partitions.items():
            if who not in self._rows or who == "":
                continue
            x, end = self._x(generation.synced_wall_s), self._x(ended)
            width = max(end - x, 1)
            owned = places(partitions)
            words = (
                f"{short(who)} in generation {generation.number}: {owned}\n"
                f"from {generation.synced_wall_s:.3f} s to {ended:.3f} s"
            )
            fits = int((width - 4) / CHARACTER)
            said = owned if len(owned) <= fits else f"{owned[: fits - 1]}…" if fits > 3 else ""
            y = self._y(who) + 3
            self._body.append(
                f'<g><title>{_h(words)}</title><rect class="bar g{generation.number % COLOURS}'
                f'{"" if partitions else " none"}" x="{x}" y="{y}" width="{width:.1f}" '
                f'height="{BAR}" rx="2"/><text class=owned x="{x + 3}" y="{y + 10}">{_h(said)}'
                "</text></g>"
            )

    def _marks(self) -> None:
        """Those of one kind in one row that fall on the same place are one."""
        found: dict[tuple[str, float, str], _Mark] = {}
        for row, wall_s, kind, words in self._happened():
            key = row if row in self._rows else "", round(self._x(wall_s)), kind
            found.setdefault(key, _Mark(kind)).words.append(f"{wall_s:.3f} s: {words}")
        marks = list(found.items())[-MARKS_MAX:]
        self._left_out += len(found) - len(marks)
        for (row, x, kind), mark in marks:
            self._body.append(_mark(kind, x, self._y(row) + 3, mark.words))

    def _happened(self) -> Iterator[tuple[str, float, str, str]]:
        """Row, when, kind of mark, words."""
        return (each for each in self._marked() if each[1] >= self._begin)

    def _marked(self) -> Iterator[tuple[str, float, str, str]]:
        for commit in self._history.commits(self._group):
            before = "" if commit.before is None else f"{commit.before} → "
            words = f"commits {commit.topic}-{commit.partition} at {before}{commit.offset}"
            yield commit.member_id or "", commit.wall_s, "commit", words
        for refused in self._history.refused_commits(self._group):
            if refused.is_of_fault:
                continue  # it has the mark of the fault
            place = f"{refused.topic}-{refused.partition} at {refused.offset}"
            words = f"commit of {place} refused: {refused.error}"
            yield refused.member_id or "", refused.wall_s, "refused", words
        for asked in self._history.requests:
            is_here = self._group in asked.groups or (not asked.groups and self._is_first)
            if asked.faults and is_here:
                yield asked.member_id or "", asked.wall_s, "fault", of_request(asked)
        for gone in self._history.exits(self._group):
            words = f"out: {gone.cause}{f' ({gone.reason})' if gone.reason else ''}"
            yield gone.member_id or "", gone.wall_s, "exit", words
        for heard in self._history.events:
            if heard.event.group_id == self._group and heard.event.type in _TOLD:
                yield "", heard.wall_s, "event", of_event(heard).strip("= ")

    def _turns(self) -> None:
        """What the test did to the clock and to the broker: lines through all rows."""
        turns = [(each.wall_s, _said(each), of_move(each)) for each in self._history.clock_moves]
        turns += [(each.wall_s, each.what, each.what) for each in self._history.marks]
        end = -1.0
        for wall_s, said, what in sorted(each for each in turns if each[0] >= self._begin):
            x = self._x(wall_s)
            words = f"{wall_s:.3f} s: {what.strip(' ~')}"
            self._body.append(
                f'<line class=clock x1="{x}" x2="{x}" y1="{self._top - 2}" y2="{self._bottom}">'
                f"<title>{_h(words)}</title></line>"
            )
            if x > end:
                at = min(x + 2, WIDTH - len(said) * CHARACTER)
                y = self._bottom - 3
                self._body.append(f'<text class=clock x="{at:.1f}" y="{y}">{_h(said)}</text>')
                end = at + len(said) * CHARACTER

    def _axis(self) -> None:
        step = _step(self._end - self._begin)
        at = -(-self._begin // step) * step
        y = self._bottom
        while at < self._end:
            x = self._x(at)
            self._body.append(
                f'<line class=tick x1="{x}" x2="{x}" y1="{y}" y2="{y + 4}"/>'
                f'<text class=tick x="{x}" y="{y + LINE + 4}">{at:g} s</text>'
            )
            at = round(at + step, 6)


_TOLD = (
    EventType.GROUP_LOADED,
    EventType.GROUP_UNLOADED,
    EventType.GROUP_DELETED,
    EventType.MEMBER_FENCED,
    EventType.OFFSETS_DELETED,
)

# So many words of marks that fall together are shown.
_WORDS_MAX = 8


def _mark(kind: str, x: float, y: float, words: list[str]) -> str:
    more = [f"… and {len(words) - _WORDS_MAX} more"] if len(words) > _WORDS_MAX else []
    title = f"<title>{_h(short(chr(10).join([*words[:_WORDS_MAX], *more])))}</title>"
    middle = y + BAR / 2
    if kind == "commit":
        shape = f"M{x} {y + BAR - 5}v8"
    elif kind == "fault":
        shape = f"M{x} {middle - 6}l5 6l-5 6l-5 -6z"
    elif kind == "event":
        shape = f"M{x} {y}v{BAR}"
    else:  # a cross
        shape = f"M{x - 4} {middle - 4}l8 8m-8 0l8 -8"
    # A line is hard to meet with a mouse: a wider one that is not seen goes with it.
    hit = f'<path class=hit d="M{x} {y}v{BAR}"/>'
    return f'<g>{title}{hit}<path class="{kind}" d="{shape}"/></g>'


def _said(move: ClockMove) -> str:
    return f"+{duration(move.by_ms)}" if move.by_ms else move.what


def _step(seconds: float) -> float:
    """Of the axis: 1, 2 or 5 of a power of ten, so that there are at most ten."""
    step = 1e-3
    while True:
        for factor in (1, 2, 5):
            if seconds / (step * factor) <= 10:
                return step * factor
        step *= 10


def _h(text: str) -> str:
    return escape(text, quote=True)
