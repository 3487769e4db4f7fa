"""The figure of a group: lag, members and owners on one time axis, with rebalances drawn across all
three.

Explanations of chart elements are in `<title>`; the tables below the figure contain the same
information.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from ..diagnosis.rows import Ownership, Storm, TimelineEntry
from ..formatting import MemberNames, cause_text, count_of, date_time, duration, time_of_day
from ..lag_series import LagPoint
from .markup import Html, h, more
from .panels import (
    CHARACTER,
    LAG_HEIGHT,
    LEFT,
    MEMBERS_MAX,
    OWNER_ROWS_MAX,
    ROW_HEIGHT,
    WIDTH,
    TimeScale,
    lag_panel,
    member_panel,
    owner_panel,
    owner_rows,
    shown_members,
)

# With more, rebalances would be less than two units apart.
ENTRIES_MAX: Final = 400
PANEL_HEAD: Final = 22
LINES, LINE_HEIGHT = 3, 13  # lines of text with causes, above the panels


def figure(
    group: str,
    scale: TimeScale,
    names: MemberNames,
    points: Sequence[LagPoint],
    timeline: Sequence[TimelineEntry],
    ownership: Sequence[Ownership],
    storms: Sequence[Storm],
) -> Html:
    timed = [entry for entry in timeline if entry.at is not None]
    inside = [entry for entry in timed if scale.overlaps(entry.at, entry.at)]
    omitted = set(map(id, inside[:-ENTRIES_MAX]))
    entries = [entry for entry in timed if id(entry) not in omitted]
    members = shown_members(scale, entries, names)
    rows = owner_rows(scale, ownership, names)
    drawn_rows, drawn_members = rows[:OWNER_ROWS_MAX], members[-MEMBERS_MAX:]
    panels: list[tuple[str, Callable[[float], str], int]] = [
        ("Lag, records", partial(lag_panel, scale, points), LAG_HEIGHT),
        (
            "Members",
            partial(member_panel, scale, entries, names, drawn_members),
            len(drawn_members) * ROW_HEIGHT,
        ),
        (
            "Partition owners",
            partial(owner_panel, scale, drawn_rows, drawn_members),
            len(drawn_rows) * ROW_HEIGHT,
        ),
    ]
    top = LINES * LINE_HEIGHT + 4
    body, y = [], top + 0.0
    for title, draw, height in panels:
        if height:
            body.append(f'<text class=head x="0" y="{y + 15}">{title}</text>')
            body.append(draw(y + PANEL_HEAD))
            y += PANEL_HEAD + height + 10
    behind = [*_storms(scale, storms, top, y), *_rebalances(scale, inside[-ENTRIES_MAX:], top, y)]
    text = f"Lag, members and owners of {group}, "
    text += f"{date_time(scale.begin)} to {date_time(scale.end)} UTC"
    svg = (
        f'<svg viewBox="0 0 {WIDTH} {y + 22:.0f}" role=img aria-label="{h(text)}">'
        f"{''.join(behind)}{''.join(body)}{''.join(_axis(scale, y))}</svg>"
    )
    not_drawn = sum(len(row.partitions) for row in rows[OWNER_ROWS_MAX:])
    notes = [
        more(len(timed) - len(entries), "{} earlier generations are not drawn."),
        more(len(members) - len(drawn_members), "{} earlier members are not drawn."),
        more(not_drawn, "The owners of {} more partitions are not drawn."),
    ]
    return Html(f"<figure class=scroll tabindex=0>{svg}{LEGEND}</figure>{''.join(notes)}")


LEGEND: Final = """<figcaption>
<span><svg viewBox="0 0 14 14" aria-hidden=true><line class=rebalance x1=7 x2=7 y2=14 /></svg>
rebalance</span>
<span><svg viewBox="0 0 14 14" aria-hidden=true><rect class=rebalancing width=14 height=14 /></svg>
group paused</span>
<span><svg viewBox="0 0 14 14" aria-hidden=true><rect class=storm width=14 height=14 /></svg>
storm</span>
<span><svg viewBox="0 0 14 14" aria-hidden=true><path class=exit d="M3 3l8 8m-8 0l8 -8"/></svg>
member left</span>
</figcaption>"""


def _rebalances(
    scale: TimeScale, entries: Sequence[TimelineEntry], top: float, end: float
) -> Iterator[str]:
    """Draw a line at the end of each rebalance, a band for the pause, and the cause where it
    fits."""
    taken = [-1.0] * LINES
    for entry in entries:
        x, cause = scale.x(entry.at), cause_text(entry.cause)
        begin = min(scale.x(entry.started_at_est) if entry.pause_ms else x, x)
        text = f"{time_of_day(entry.at)}  {cause}"
        if entry.is_rebalance:
            text += f"\n{count_of(entry.members_before, 'member')} → {entry.members_after}"
        if entry.pause_ms:
            text += f", paused {duration(entry.pause_ms)}"
        title = f"<title>{h(text)}\n{h(entry.evidence)}</title>"
        yield (
            f'<g>{title}<rect class=touch x="{x - 4}" y="{top}" width="8" '
            f'height="{end - top:.0f}"/><rect class=rebalancing x="{begin}" y="{top}" '
            f'width="{max(x - begin, 1):.1f}" height="{end - top:.0f}"/>'
            f'<line class=rebalance x1="{x}" x2="{x}" y1="{top - 3}" y2="{end:.0f}"/></g>'
        )
        width = len(cause) * CHARACTER
        left = min(x, WIDTH - width)
        free = next((line for line, until in enumerate(taken) if until < left), None)
        if free is not None:
            taken[free] = left + width + 8
            y = (LINES - free) * LINE_HEIGHT - 3
            # Text at the right edge is right-aligned, because its width depends on the font.
            place = f'x="{x}"' if left == x else f'x="{WIDTH}" text-anchor=end'
            yield f'<text class=cause {place} y="{y}">{h(cause)}{title}</text>'


def _storms(scale: TimeScale, storms: Sequence[Storm], top: float, end: float) -> Iterator[str]:
    for storm in storms:
        if not scale.overlaps(storm.from_ts, storm.to_ts):
            continue
        x, until = scale.x(storm.from_ts), scale.x(storm.to_ts)
        title = f"storm: {count_of(storm.rebalances, 'rebalance')}, main cause: "
        title += f"{cause_text(storm.dominant_cause)}\n{time_of_day(storm.from_ts)} to "
        title += time_of_day(storm.to_ts)
        yield (
            f'<rect class=storm x="{x}" y="{top}" width="{max(until - x, 2):.1f}" '
            f'height="{end - top:.0f}"><title>{h(title)}</title></rect>'
        )


def _axis(scale: TimeScale, y: float) -> Iterator[str]:
    yield f'<line class=axis x1="{LEFT}" x2="{WIDTH}" y1="{y:.0f}" y2="{y:.0f}"/>'
    for x, text in scale.ticks():
        yield (
            f'<line class=axis x1="{x}" x2="{x}" y1="{y:.0f}" y2="{y + 4:.0f}"/>'
            f'<text class=tick x="{x}" y="{y + 17:.0f}" text-anchor=middle>{text}</text>'
        )
