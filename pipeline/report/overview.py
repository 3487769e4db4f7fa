"""All groups in a table, the worst first, and all storms."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from ..answers.rows import GroupStatus, Storm
from ..answers.words import NOT_KNOWN, cause_text, clock, count, span, when
from .markup import SEVERITIES, Html, h, name, pill, table
from .section import Shown
from .sparkline import sparkline

__all__ = ["Rebalances", "groups_table", "storms_table", "tally"]

_NUMBERS = ("members", "lag", "time lag", "rebalances 1 h")

Rebalances: TypeAlias = Mapping[str, tuple[datetime | None, str]]
"""By group the last one: when, and its cause."""


def tally(severities: Iterable[int]) -> Html:
    """How many groups are how bad."""
    found = Counter(severities)
    words = {3: "in error", 2: "with a warning", 1: "to be known", 0: "well"}
    return Html(
        "<ul class=tally>"
        + "".join(
            f'<li class="{SEVERITIES[severity]}{"" if found[severity] else " zero"}">'
            f"<b>{found[severity]:,}</b> {word}</li>"
            for severity, word in words.items()
        )
        + "</ul>"
    )


def groups_table(groups: Sequence[Shown], rebalances: Rebalances, *, has_sections: bool) -> Html:
    names = ["severity", "group", "what", "members", "lag", "time lag"]
    names += ["lag over time"] * has_sections + ["rebalances 1 h", "last rebalance"]
    rows = []
    for group in groups:
        diagnosis, status = group.diagnosis, group.status
        link = Html(f"<a href=#{group.anchor}>{name(group.name)}</a>")
        row: list[object] = [
            pill(diagnosis.severity if diagnosis else 0),
            link if has_sections else name(group.name),
            diagnosis.verdict.replace("_", " ").lower() if diagnosis else NOT_KNOWN,
            NOT_KNOWN if status is None else count(status.members),
            NOT_KNOWN if status is None else count(status.total_lag),
            NOT_KNOWN if status is None else span(status.max_lag_ms),
        ]
        row += [sparkline(group.points)] * has_sections
        row.append(NOT_KNOWN if status is None else count(status.rebalances_1h))
        at, cause = rebalances.get(group.name, (None, ""))
        row.append(
            Html(f"{h(_moment(at, status))} <small>{h(cause_text(cause))}</small>")
            if cause
            else "-"
        )
        rows.append(row)
    return table("groups", names, rows, numbers=_NUMBERS)


def _moment(at: datetime | None, status: GroupStatus | None) -> str:
    """The time of the day, where that says enough."""
    is_old = at is not None and status is not None and status.as_of - at > timedelta(hours=24)
    return when(at) if is_old else clock(at)


def storms_table(storms: Sequence[Storm], anchors: Mapping[str, str]) -> Html:
    """`anchors`: of the groups that have a section."""
    rows = [
        (
            Html(f"<a href=#{anchors[storm.group]}>{name(storm.group)}</a>")
            if storm.group in anchors
            else name(storm.group),
            when(storm.from_ts),
            span(round((storm.to_ts - storm.from_ts).total_seconds() * 1000)),
            count(storm.rebalances),
            count(storm.distinct_members),
            span(storm.pause_ms_total),
            cause_text(storm.dominant_cause),
        )
        for storm in storms
    ]
    names = ("group", "from (UTC)", "lasted", "rebalances", "members", "stood still", "mostly")
    return table("storms", names, rows, numbers=("lasted", "rebalances", "members", "stood still"))
