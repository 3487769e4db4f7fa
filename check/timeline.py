"""The timeline of a run as SVG: a row per client and a bar per operation. The operations of
counter-examples are marked and numbered.

After a run with anomalies, the timeline shows the period of the counter-examples with a margin;
otherwise it shows the end of the run. It covers at most SECONDS_MAX.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from .analysis import Finding
from .history import (
    SUCCESSOR,
    Assigned,
    Commit,
    EndTransaction,
    Event,
    Heartbeat,
    InitProducer,
    Joined,
    Left,
    Operation,
    OutOfRange,
    Poll,
    ReadCommitted,
    ReadEnd,
    Send,
    TopicMissing,
)
from .recorder import History

WIDTH: Final = 1600
LABEL_WIDTH: Final = 150
ROW_HEIGHT: Final = 16
BAR_HEIGHT: Final = 10
BAR_WIDTH_MIN: Final = 1.5
TOP: Final = 96
EXAMPLE_LINE: Final = 15
TICKS_MAX: Final = 10

SECONDS_MAX: Final = 20.0
"""A drawing of a longer period would be too dense to read."""
MARGIN_SECONDS_MIN: Final = 0.02
MARGIN_SECONDS_MAX: Final = 1.0
"""The margins before and after the counter-examples are as long as the period of the
counter-examples, within these limits, so that operations a few milliseconds apart do not share a
pixel."""
EXAMPLES_MAX: Final = 6
BARS_MAX: Final = 20_000
"""A file with this many bars is 5 MB in size."""

COLORS: Final = {
    Send: ("send", "#4c78a8"),
    Poll: ("poll", "#9ecae9"),
    TopicMissing: ("metadata", "#79706e"),
    OutOfRange: ("rejected poll", "#756bb1"),
    ReadEnd: ("ListOffsets", "#bab0ac"),
    EndTransaction: ("end of a transaction", "#b279a2"),
    InitProducer: ("InitProducerId", "#d6a5c9"),
    Commit: ("commit", "#54a24b"),
    ReadCommitted: ("read of committed offsets", "#b5dfae"),
    Joined: ("JoinGroup", "#eeca3b"),
    Assigned: ("assignment", "#f2a93b"),
    Heartbeat: ("heartbeat", "#dddddd"),
    Left: ("leave", "#9d755d"),
}
ROW_NAMES: Final = (
    "rows: reader: consumers without a group; classic, consumer: members of the classic protocol "
    "and of the consumer protocol (KIP-848); final: reads after the run"
)
ANOMALY: Final = "#d62728"
DISTURBANCE: Final = "#f58518"
DISTURBANCE_OPACITY: Final = 0.2
UNKNOWN_OPACITY: Final = 0.45


def draw(history: History, findings: Sequence[Finding], title: str) -> str:
    """Return the timeline of a run as SVG."""
    return _Drawing(history, findings, title).svg()


class _Drawing:
    def __init__(self, history: History, findings: Sequence[Finding], title: str) -> None:
        self._title = title
        self._examples = [(each.check.name, each.anomalies[0]) for each in findings[:EXAMPLES_MAX]]
        marked = {each for _, anomaly in self._examples for each in anomaly.operations}
        in_order = sorted(marked, key=lambda each: each.began)
        self._marked = {each: number for number, each in enumerate(in_order, 1)}
        """The number of an operation in the drawing."""
        self._crashes = {
            each.client: each.began_s
            for each in history
            if isinstance(each, Event) and not each.nemesis
        }
        self._end_s = max((each.began_s for each in history), default=0.0)
        self._begin, self._end = self._window()
        shown = [
            each
            for each in history
            if each.began_s <= self._end and self._ended_s(each) >= self._begin
        ]
        # If there are too many operations, heartbeats and polls are omitted first.
        shown.sort(key=lambda each: (each not in self._marked, isinstance(each, Poll | Heartbeat)))
        self._omitted = max(0, len(shown) - BARS_MAX)
        self._shown = sorted(shown[:BARS_MAX], key=lambda each: each.began)
        clients = sorted({_worker(each.client) for each in self._shown} - {"nemesis"})
        self._rows = {name: number for number, name in enumerate(clients)}

    def _window(self) -> tuple[float, float]:
        """Return the beginning and the end, in seconds, of the period to draw: the period of the
        counter-examples with a margin, or the end of the run."""
        if not self._marked:
            return max(0.0, self._end_s - SECONDS_MAX), max(self._end_s, 0.001)
        begin = min(each.began_s for each in self._marked)
        end = max(self._ended_s(each) for each in self._marked)
        margin = min(max(end - begin, MARGIN_SECONDS_MIN), MARGIN_SECONDS_MAX)
        begin = max(0.0, begin - margin)
        return begin, min(end + margin, begin + SECONDS_MAX)

    def _ended_s(self, operation: Operation) -> float:
        """Return when an operation ended, or when its client crashed or was stopped."""
        if operation.ended_s is None:
            client = operation.client.removesuffix(SUCCESSOR)
            return self._crashes.get(client, self._end_s)
        return operation.ended_s

    def svg(self) -> str:
        bottom = TOP + len(self._rows) * ROW_HEIGHT
        lines = sum(len(anomaly.operations) + 2 for _, anomaly in self._examples)
        height = bottom + 40 + EXAMPLE_LINE * lines
        body = [*self._legend(), *self._axis(bottom), *self._labels()]
        # Bands are behind the bars, because in front they would change the bars' colors.
        body += [self._band(each, bottom) for each in self._shown if _is_disturbance(each)]
        bars = [each for each in self._shown if not _is_disturbance(each)]
        body += [self._bar(each) for each in sorted(bars, key=self._marked.__contains__)]
        body += self._explanations(bottom + 40)
        style = "text{font:11px sans-serif;fill:#222}.t{font-size:14px;font-weight:bold}"
        style += f".a{{fill:{ANOMALY};font-weight:bold}}.g{{stroke:#e5e5e5}}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}"><style>{style}</style>'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(body)}</svg>\n'
        )

    def _x(self, seconds: float) -> float:
        share = (seconds - self._begin) / (self._end - self._begin)
        return LABEL_WIDTH + min(max(share, 0.0), 1.0) * (WIDTH - LABEL_WIDTH - 10)

    def _legend(self) -> Iterator[str]:
        omitted = f" ({self._omitted} operations are not drawn)" if self._omitted else ""
        yield f'<text x="8" y="18" class="t">{escape(self._title + omitted)}</text>'
        others = (
            ("rejected", "none", ' stroke="#555"'),
            ("outcome unknown: paler", COLORS[Send][1], f' opacity="{UNKNOWN_OPACITY}"'),
            ("disturbance", DISTURBANCE, f' opacity="{DISTURBANCE_OPACITY}"'),
            ("counter-example", ANOMALY, ""),
        )
        for y, keys in ((28, [(*each, "") for each in COLORS.values()]), (44, others)):
            x = 8.0
            for name, color, style in keys:
                yield f'<rect x="{x:.0f}" y="{y}" width="10" height="10" fill="{color}"{style}/>'
                yield f'<text x="{x + 14:.0f}" y="{y + 9}">{name}</text>'
                x += 30 + 6.2 * len(name)
        yield f'<text x="{x:.0f}" y="53">× crash of a client</text>'
        yield f'<text x="8" y="69">{ROW_NAMES}</text>'

    def _axis(self, bottom: int) -> Iterator[str]:
        step = _tick_seconds(self._end - self._begin)
        for tick in range(math.ceil(self._begin / step), math.floor(self._end / step) + 1):
            x = self._x(tick * step)
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}" class="g"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">'
            yield f"{tick * step:.10g} s</text>"

    def _labels(self) -> Iterator[str]:
        for name, number in self._rows.items():
            y = TOP + number * ROW_HEIGHT + BAR_HEIGHT
            yield f'<text x="{LABEL_WIDTH - 8}" y="{y}" text-anchor="end">{escape(name)}</text>'

    def _span(self, operation: Operation) -> tuple[float, float]:
        """Return the left end and the width of the bar or band of an operation."""
        x, end = self._x(operation.began_s), self._x(self._ended_s(operation))
        return x, max(end - x, BAR_WIDTH_MIN)

    def _band(self, disturbance: Operation, bottom: int) -> str:
        assert isinstance(disturbance, Event)
        x, width = self._span(disturbance)
        return (
            f'<rect x="{x:.1f}" y="{TOP - 6}" width="{width:.1f}" height="{bottom - TOP + 6}" '
            f'fill="{DISTURBANCE}" opacity="{DISTURBANCE_OPACITY}">{_title(disturbance)}</rect>'
            f'<text x="{x:.1f}" y="{TOP - 9}">{disturbance.nemesis}</text>'
        )

    def _bar(self, operation: Operation) -> str:
        x, width = self._span(operation)
        y = TOP + self._rows[_worker(operation.client)] * ROW_HEIGHT
        if isinstance(operation, Event):
            return f'<text x="{x - 3:.1f}" y="{y + BAR_HEIGHT}">×{_title(operation)}</text>'
        color = COLORS[type(operation)][1]
        fill = {"ok": color, "fail": "none", "info": color}[operation.outcome]
        opacity = f' opacity="{UNKNOWN_OPACITY}"' if operation.outcome == "info" else ""
        stroke = f' stroke="{color}"' if operation.outcome == "fail" else ""
        label = ""
        if (number := self._marked.get(operation)) is not None:
            stroke, width = f' stroke="{ANOMALY}" stroke-width="3"', max(width, 4)
            label = f'<text x="{x - 4:.1f}" y="{y + 9}" text-anchor="end" class="a">{number}</text>'
        return (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" fill="{fill}"'
            f"{stroke}{opacity}>{_title(operation)}</rect>{label}"
        )

    def _explanations(self, y: int) -> Iterator[str]:
        for name, anomaly in self._examples:
            yield f'<text x="8" y="{y}" class="a">{escape(f"{name}: {anomaly.what}")}</text>'
            for each in sorted(anomaly.operations, key=lambda each: each.began):
                y += EXAMPLE_LINE
                yield f'<text x="24" y="{y}" class="a">{self._marked[each]}</text>'
                yield f'<text x="44" y="{y}">{escape(str(each).strip())}</text>'
            y += EXAMPLE_LINE * 2


def _is_disturbance(operation: Operation) -> bool:
    return isinstance(operation, Event) and bool(operation.nemesis)


def _title(operation: Operation) -> str:
    """Return the tooltip of an operation."""
    return f"<title>{escape(str(operation))}</title>"


def _worker(client: str) -> str:
    """Return the row of a client. Instances that replace each other share a row."""
    return client.partition(".")[0]


def _tick_seconds(duration: float) -> float:
    """Return the smallest of …, 0.1, 0.2, 0.5, 1, 2, … that yields at most TICKS_MAX intervals."""
    power: float = 10 ** math.floor(math.log10(duration / TICKS_MAX))
    return next(
        (each * power for each in (1, 2, 5) if each * power * TICKS_MAX >= duration), 10 * power
    )
