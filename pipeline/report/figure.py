"""One picture of a group: lag, members and owners over the same time, rebalances through all three.

Shapes carry their words in `<title>`; the tables below it say the same.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from ..answers.names import MemberNames
from ..answers.rows import Change, Owned, Storm
from ..answers.series import Point
from ..answers.words import cause_text, clock, counted, span, when
from .lag_panel import HEIGHT as LAG_HEIGHT
from .lag_panel import lag_panel
from .markup import Html, h, more
from .member_panel import MEMBERS_MAX, ROW, member_panel, shown
from .owner_panel import OWNER_ROWS_MAX, owner_panel, owner_rows
from .scale import LEFT, WIDTH, Scale

__all__ = ["CHANGES_MAX", "figure"]

# Narrower than two units each they cannot be told apart.
CHANGES_MAX = 400
HEAD = 22  # of a panel
LINES, LINE = 3, 13  # of causes, above all
CHARACTER = 5.8


Draw: TypeAlias = Callable[[float], str]
"""Draws a panel from this height down."""


class Happened(NamedTuple):
    """All that is drawn of a group."""

    group: str
    points: Sequence[Point]
    changes: Sequence[Change]
    owned: Sequence[Owned]
    storms: Sequence[Storm]


def figure(scale: Scale, happened: Happened, names: MemberNames) -> Html:
    timed = [change for change in happened.changes if change.at is not None]
    visible = [change for change in timed if scale.shows(change.at, None)]
    inside = [change for change in visible if change.at and change.at >= scale.begin]
    changes = [each for each in timed if each not in inside[:-CHANGES_MAX]]
    members = shown(scale, changes, names)
    rows = owner_rows(scale, happened.owned, names)
    drawn_rows, drawn_members = rows[:OWNER_ROWS_MAX], members[-MEMBERS_MAX:]

    top = LINES * LINE + 4
    body, y = [], top + 0.0
    parts: list[tuple[str, Draw, int]] = [
        ("Lag, records", partial(lag_panel, scale, happened.points), LAG_HEIGHT),
        (
            "Members",
            partial(member_panel, scale, changes, names, drawn_members),
            len(drawn_members) * ROW,
        ),
        (
            "Owners of partitions",
            partial(owner_panel, scale, drawn_rows, drawn_members),
            len(drawn_rows) * ROW,
        ),
    ]
    for title, draw, height in parts:
        if height:
            body.append(f'<text class=head x="0" y="{y + 15}">{title}</text>')
            body.append(draw(y + HEAD))
            y += HEAD + height + 10
    behind = [*_storms(scale, happened.storms, top, y), *_rebalances(scale, inside, top, y)]
    text = f"Lag, members and owners of {happened.group}, {when(scale.begin)} to {when(scale.end)}"
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {y + 22:.0f}" role=img aria-label="{h(text)} UTC">'
        f"{''.join(behind)}{''.join(body)}{''.join(_axis(scale, y))}</svg>"
    )
    left_out = [
        more(len(timed) - len(changes), "{} earlier generations are not drawn."),
        more(len(members) - len(drawn_members), "{} members that came earlier are not drawn."),
        more(
            sum(len(row.partitions) for row in rows[OWNER_ROWS_MAX:]),
            "The owners of {} more partitions are not drawn.",
        ),
    ]
    return Html(f"<figure class=scroll tabindex=0>{svg}{LEGEND}</figure>{''.join(left_out)}")


LEGEND = """<figcaption>
<span><svg viewBox="0 0 14 14" aria-hidden=true><line class=turn x1=7 x2=7 y2=14 /></svg>
rebalance</span>
<span><svg viewBox="0 0 14 14" aria-hidden=true><rect class=round width=14 height=14 /></svg>
the group stood still</span>
<span><svg viewBox="0 0 14 14" aria-hidden=true><rect class=storm width=14 height=14 /></svg>
storm</span>
<span><svg viewBox="0 0 14 14" aria-hidden=true><path class=exit d="M3 3l8 8m-8 0l8 -8"/></svg>
member out</span>
</figcaption>"""


def _rebalances(scale: Scale, changes: Sequence[Change], top: float, end: float) -> Iterator[str]:
    """A line where each came to its end, a band for how long the group stood still, and its cause
    where there is room."""
    taken = [-1.0] * LINES
    for change in changes:
        x = scale.x(change.at)
        begin = min(scale.x(change.started_at_est) if change.pause_ms else x, x)
        says = f"{clock(change.at)}  {cause_text(change.cause)}"
        if change.is_rebalance:
            says += f"\n{counted(change.members_before, 'member')} → {change.members_after}"
        if change.pause_ms:
            says += f", stood still {span(change.pause_ms)}"
        title = f"<title>{h(says)}\n{h(change.evidence)}</title>"
        yield (
            f'<g>{title}<rect class=touch x="{x - 4}" y="{top}" width="8" '
            f'height="{end - top:.0f}"/><rect class=round x="{begin}" y="{top}" '
            f'width="{max(x - begin, 1):.1f}" height="{end - top:.0f}"/>'
            f'<line class=turn x1="{x}" x2="{x}" y1="{top - 3}" y2="{end:.0f}"/></g>'
        )
        cause = cause_text(change.cause)
        at = min(x, WIDTH - len(cause) * CHARACTER)
        free = next((line for line, until in enumerate(taken) if until < at), None)
        if free is not None:
            taken[free] = at + len(cause) * CHARACTER + 8
            y = (LINES - free) * LINE - 3
            yield f'<text class=cause x="{at:.1f}" y="{y}">{h(cause)}{title}</text>'


def _storms(scale: Scale, storms: Sequence[Storm], top: float, end: float) -> Iterator[str]:
    for storm in storms:
        if not scale.shows(storm.from_ts, storm.to_ts):
            continue
        x, until = scale.x(storm.from_ts), scale.x(storm.to_ts)
        says = f"storm: {counted(storm.rebalances, 'rebalance')}, mostly "
        says += f"{cause_text(storm.dominant_cause)}\n{clock(storm.from_ts)} to "
        says += clock(storm.to_ts)
        yield (
            f'<rect class=storm x="{x}" y="{top}" width="{max(until - x, 2):.1f}" '
            f'height="{end - top:.0f}"><title>{h(says)}</title></rect>'
        )


def _axis(scale: Scale, y: float) -> Iterator[str]:
    yield f'<line class=axis x1="{LEFT}" x2="{WIDTH}" y1="{y:.0f}" y2="{y:.0f}"/>'
    for x, text in scale.ticks():
        yield (
            f'<line class=axis x1="{x}" x2="{x}" y1="{y:.0f}" y2="{y + 4:.0f}"/>'
            f'<text class=tick x="{x}" y="{y + 17:.0f}" text-anchor=middle>{text}</text>'
        )
