"""Who owned which partition when. Partitions that always went together share a row: a range of a
thousand is as easy to read as one of ten.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from ..answers.names import MemberNames
from ..answers.rows import Owned
from ..answers.words import clock, counted
from .markup import cut, h
from .member_panel import BAR, CHARACTER, ROW, colour_of, label, numbers
from .scale import Scale

__all__ = ["OWNER_ROWS_MAX", "OwnerRow", "owner_panel", "owner_rows"]

OWNER_ROWS_MAX = 40  # two screens


class Span(NamedTuple):
    """A time with one owner, of whichever member ids in turn."""

    name: str
    begin: datetime
    end: datetime | None


class OwnerRow(NamedTuple):
    topic: str
    partitions: list[int]
    spans: tuple[Span, ...]


def owner_rows(scale: Scale, owned: Sequence[Owned], names: MemberNames) -> list[OwnerRow]:
    """In the order of topics and partitions; `owned` is."""
    together: dict[tuple[str, tuple[Span, ...]], list[int]] = {}
    for (topic, partition), times in groupby(owned, lambda each: (each.topic, each.partition)):
        spans: list[Span] = []
        for each in times:
            if not scale.shows(each.from_ts, each.to_ts):
                continue
            name = names.of(each.member_id, each.client_id)
            if spans and spans[-1].name == name and spans[-1].end == each.from_ts:
                spans[-1] = spans[-1]._replace(end=each.to_ts)
            else:
                spans.append(Span(name, each.from_ts, each.to_ts))
        if spans:
            together.setdefault((topic, tuple(spans)), []).append(partition)
    rows = [OwnerRow(topic, some, spans) for (topic, spans), some in together.items()]
    return sorted(rows, key=lambda row: (row.topic, row.partitions[0]))


def owner_panel(scale: Scale, rows: Sequence[OwnerRow], members: Sequence[str], y: float) -> str:
    """`members`: in the order that gives them their colours."""
    drawn = []
    for number, row in enumerate(rows):
        top = y + number * ROW
        title = f"{row.topic} {numbers(row.partitions)}"
        drawn.append(label(title, top))
        for span in row.spans:
            x = scale.x(span.begin)
            width = max(scale.x(span.end) - x - 1, 1.2)
            until = "now" if span.end is None else clock(span.end)
            says = f"{title}: {span.name}\n{clock(span.begin)} to {until}"
            if len(row.partitions) > 1:
                says += f"\n{counted(len(row.partitions), 'partition')} that went together"
            fits = int((width - 8) / CHARACTER)
            said = cut(span.name, fits) if fits > 3 else ""
            drawn.append(
                f'<g><title>{h(says)}</title><rect class="bar {colour_of(span.name, members)}" '
                f'x="{x}" y="{top + 4}" width="{width:.1f}" height="{BAR}" rx="3"/>'
                f'<text class=owned x="{x + 5}" y="{top + 16}">{h(said)}</text></g>'
            )
    return "".join(drawn)
