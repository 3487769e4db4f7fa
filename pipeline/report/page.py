"""The page: one self-contained file, limited to what a reader can take in.

Groups are sorted by severity, then by time lag; the first ones get a section of their own with the
diagnosis, the figure, and tables that show the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from ..formatting import (
    UNKNOWN,
    MemberNames,
    cause_text,
    count_of,
    date_time,
    duration,
    number,
    time_of_day,
)
from ..lag_series import LagPoint
from ..queries import Queries
from ..query_rows import (
    SEVERITIES,
    Diagnosis,
    GroupStatus,
    MemberExit,
    OffsetJump,
    PartitionLag,
    Storm,
    TimelineEntry,
)
from .assets import SCRIPT, STYLE
from .figure import GroupData, figure
from .markup import Html, details, h, more, name, pill, table
from .panels import TimeScale, sparkline

# A section takes up to 150 kB and a second to create; a page with forty opens at once.
SECTIONS_MAX: Final = 40
# One line each for the other groups: some 100 kB.
LINES_MAX: Final = 500
STORMS_MAX: Final = 50
# Rows of a group's tables; `kohort lag` and `kohort timeline` have all of them.
PARTITIONS_MAX, REBALANCES_MAX, EXITS_MAX, JUMPS_MAX = 25, 50, 30, 20
# The longest and the shortest time span of charts.
SPAN_MAX: Final = timedelta(hours=24)
SPAN_MIN: Final = timedelta(seconds=30)
LAG_POINTS: Final = 120  # one every eight pixels


class GroupOverview(NamedTuple):
    """`status` None: the group is gone, or has no commits."""

    anchor: str
    name: str
    diagnosis: Diagnosis | None
    status: GroupStatus | None
    points: Sequence[LagPoint]

    @property
    def severity(self) -> int:
        return self.diagnosis.severity if self.diagnosis else 0


Rebalances: TypeAlias = Mapping[str, tuple[datetime | None, str]]
"""Group -> (time, cause) of its last rebalance."""


def page(queries: Queries) -> Iterator[str]:
    """The file in pieces: sections are created one after the other."""
    groups = _sorted_groups(queries)
    scale = _scale(queries)
    first = [
        group._replace(points=queries.lag_series(group.name, *scale, LAG_POINTS))
        for group in groups[:SECTIONS_MAX]
    ]
    rebalances = queries.last_rebalances()
    anchors = {group.name: group.anchor for group in first}
    yield _head(queries, groups, scale)
    yield "<main><section aria-labelledby=groups><h2 id=groups>Groups</h2>"
    yield _groups_table(first, rebalances, has_sections=True)
    yield _other_groups(groups[SECTIONS_MAX:], rebalances)
    yield "</section>"
    storms = sorted(queries.storms(), key=lambda storm: storm.to_ts, reverse=True)
    if storms:
        yield "<section aria-labelledby=storms><h2 id=storms>Rebalance storms</h2>"
        yield _storms_table(storms[:STORMS_MAX], anchors)
        yield more(len(storms) - STORMS_MAX, "{} earlier storms: kohort storms.")
        yield "</section>"
    of_first = queries.preloaded(anchors)
    for group in first:
        yield _section(of_first, group, scale)
    yield f"</main><div id=tip role=tooltip hidden></div><script>{SCRIPT}</script></body></html>\n"


def _sorted_groups(queries: Queries) -> list[GroupOverview]:
    """The worst first."""
    statuses = {status.group: status for status in queries.groups()}
    diagnoses = {diagnosis.group: diagnosis for diagnosis in queries.diagnoses()}

    def order(name: str) -> tuple[int, int, str]:
        severity = diagnoses[name].severity if name in diagnoses else 0
        time_lag = statuses[name].max_lag_ms if name in statuses else None
        return -severity, -(time_lag or 0), name

    names = sorted(statuses.keys() | diagnoses.keys(), key=order)
    return [
        GroupOverview(f"g{place}", name, diagnoses.get(name), statuses.get(name), ())
        for place, name in enumerate(names)
    ]


def _scale(queries: Queries) -> TimeScale:
    assert queries.as_of is not None  # a lake with groups has read records
    begin = max(queries.began() or queries.as_of, queries.as_of - SPAN_MAX)
    return TimeScale(min(begin, queries.as_of - SPAN_MIN), queries.as_of)


# --- overview


def _head(queries: Queries, groups: Sequence[GroupOverview], scale: TimeScale) -> str:
    errors = sum(group.severity == 3 for group in groups)
    title = f"Consumer groups: {count_of(len(groups), 'group')}, {count_of(errors, 'error')}"
    samples = "" if queries.has_samples() else NO_SAMPLES
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>"
        f"<body id=top><header><h1>Consumer groups</h1><p>as of <b>{date_time(scale.end)} UTC</b>, "
        f"cluster {h(queries.cluster)}; charts start at {date_time(scale.begin)}</p>"
        f"{_tally(group.severity for group in groups)}{samples}</header>"
    )


NO_SAMPLES: Final = (
    "<p class=warn>Lag is unknown: the lake has no samples of log ends. <code>kohort pipeline run"
    "</code> takes them from a broker, or from the segments of a data folder.</p>"
)


def _tally(severities: Iterable[int]) -> str:
    """The number of groups by severity."""
    found = Counter(severities)
    items = (
        f'<li class="{text}{"" if found[severity] else " zero"}"><b>{found[severity]:,}</b> '
        f"{text}</li>"
        for severity, text in sorted(SEVERITIES.items(), reverse=True)
    )
    return f"<ul class=tally>{''.join(items)}</ul>"


def _groups_table(
    groups: Sequence[GroupOverview], rebalances: Rebalances, *, has_sections: bool
) -> Html:
    names = ["severity", "group", "diagnosis", "members", "lag", "time lag"]
    names += ["lag over time"] * has_sections + ["rebalances 1 h", "last rebalance"]
    rows = []
    for group in groups:
        diagnosis, status = group.diagnosis, group.status
        link = Html(f"<a href=#{group.anchor}>{name(group.name)}</a>")
        row: list[object] = [
            pill(group.severity),
            link if has_sections else name(group.name),
            diagnosis.verdict.replace("_", " ").lower() if diagnosis else UNKNOWN,
            UNKNOWN if status is None else number(status.members),
            UNKNOWN if status is None else number(status.total_lag),
            UNKNOWN if status is None else duration(status.max_lag_ms),
        ]
        row += [sparkline(group.points)] * has_sections
        row.append(UNKNOWN if status is None else number(status.rebalances_1h))
        at, cause = rebalances.get(group.name, (None, ""))
        # The time of day is enough within the last day.
        is_old = at is not None and status is not None and status.as_of - at > SPAN_MAX
        time = date_time(at) if is_old else time_of_day(at)
        last = Html(f"{time} <small>{h(cause_text(cause))}</small>")
        row.append(last if cause else UNKNOWN)
        rows.append(row)
    right = ("members", "lag", "time lag", "rebalances 1 h")
    return table("groups", names, rows, numbers=right)


def _other_groups(groups: Sequence[GroupOverview], rebalances: Rebalances) -> str:
    if not groups:
        return ""
    title = f"{count_of(len(groups), 'more group')}, details with: kohort why GROUP"
    rows = _groups_table(groups[:LINES_MAX], rebalances, has_sections=False)
    note = more(len(groups) - LINES_MAX, "{} more groups are not listed: kohort lag.")
    return details(title, rows + note)


def _storms_table(storms: Sequence[Storm], anchors: Mapping[str, str]) -> Html:
    """`anchors`: of the groups that have a section."""
    rows = [
        (
            Html(f"<a href=#{anchors[storm.group]}>{name(storm.group)}</a>")
            if storm.group in anchors
            else name(storm.group),
            date_time(storm.from_ts),
            duration(storm.duration_ms),
            number(storm.rebalances),
            number(storm.distinct_members),
            duration(storm.pause_ms_total),
            cause_text(storm.dominant_cause),
        )
        for storm in storms
    ]
    right = ("duration", "rebalances", "members", "paused")
    return table("storms", ("group", "from (UTC)", *right, "main cause"), rows, numbers=right)


# --- one group


def _section(queries: Queries, group: GroupOverview, scale: TimeScale) -> Html:
    entries = queries.timeline(group.name)
    names = MemberNames(entry.member_list for entry in entries)
    data = GroupData(
        group.name,
        group.points,
        entries,
        queries.ownership(group.name),
        queries.storms(group.name),
    )
    return Html(
        f'<section id={group.anchor} aria-labelledby="{group.anchor}-h">'
        f'<h2 id="{group.anchor}-h">{h(group.name)} {pill(group.severity)}</h2>'
        f"{_diagnosis(group.diagnosis)}{_facts(group.status)}{figure(scale, data, names)}"
        f"{_exits(queries.exits(group.name), names)}{_partitions(queries.lag(group.name))}"
        f"{_rebalances(entries)}{_jumps(queries.jumps(group.name))}"
        "<p class=more><a href=#top>Back to the list of groups</a></p></section>\n"
    )


def _diagnosis(diagnosis: Diagnosis | None) -> str:
    if diagnosis is None:
        return ""
    lists = [
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{h(item)}</li>' for item in items)}</ul></div>"
        for title, items in (("Evidence", diagnosis.evidence), ("What to do", diagnosis.advice))
        if items
    ]
    both = f"<div class=both>{''.join(lists)}</div>" if lists else ""
    return f"<p class=verdict>{h(diagnosis.text)}</p>{both}"


def _facts(status: GroupStatus | None) -> str:
    if status is None:
        return ""
    share = status.pause_share_1h
    facts = {
        "state": status.state_inferred,
        "members": number(status.members),
        "partitions": number(status.partitions),
        "unassigned": number(status.unassigned),
        "assignor": status.protocol or UNKNOWN,
        "lag": number(status.total_lag),
        "time lag": duration(status.max_lag_ms),
        "rebalances, last hour": number(status.rebalances_1h),
        "paused, last hour": UNKNOWN if share is None else f"{share:.1%}",
    }
    items = (f"<div><dt>{h(name)}</dt><dd>{h(fact)}</dd></div>" for name, fact in facts.items())
    return f"<dl class=facts>{''.join(items)}</dl>"


def _exits(exits: Sequence[MemberExit], names: MemberNames) -> str:
    if not exits:
        return ""
    newest = exits[::-1][:EXITS_MAX]
    rows = [
        (
            date_time(row.left_at),
            name(names.of(row.member_id, row.client_id)),
            name(row.client_host.lstrip("/")),
            cause_text(row.cause),
            row.confidence,
            duration(row.silence_ms),
            duration(row.came_back_after_ms),
            row.evidence,
        )
        for row in newest
    ]
    columns = ("time (UTC)", "member", "host", "cause", "confidence", "silent", "back after")
    content = table(
        "members that left",
        (*columns, "evidence"),
        rows,
        numbers=("silent", "back after"),
        wide=("evidence",),
    )
    note = more(len(exits) - len(newest), "{} earlier ones are not shown.")
    return details(count_of(len(exits), "member exit"), content + note, is_open=True)


def _partitions(lag: Sequence[PartitionLag]) -> str:
    if not lag:
        return ""
    worst = sorted(lag, key=lambda row: (row.status == "OK", -(row.lag or 0)))[:PARTITIONS_MAX]
    rows = [
        (
            name(f"{row.topic}-{row.partition}"),
            row.status,
            number(row.lag),
            duration(row.lag_ms),
            (row.trend or UNKNOWN).lower(),
            name(row.owner_instance_id or row.client_id),
            date_time(row.last_commit_ts),
            row.status_reason,
        )
        for row in worst
    ]
    names = ("partition", "status", "lag", "time lag", "trend", "owner", "last commit", "reason")
    content = table("partitions", names, rows, numbers=("lag", "time lag"), wide=("reason",))
    note = more(len(lag) - len(worst), "{} more with less lag: kohort lag GROUP.")
    return details(count_of(len(lag), "partition"), content + note)


def _rebalances(entries: Sequence[TimelineEntry]) -> str:
    if not entries:
        return ""
    newest = entries[::-1][:REBALANCES_MAX]
    rows = [
        (
            date_time(entry.at),
            UNKNOWN if entry.generation is None else entry.generation,
            f"{entry.members_before} → {entry.members_after}",
            cause_text(entry.cause),
            entry.confidence,
            duration(entry.pause_ms),
            UNKNOWN if entry.moved is None else f"{entry.moved} / {entry.kept or 0}",
            entry.evidence,
        )
        for entry in newest
    ]
    names = ("time (UTC)", "generation", "members", "cause", "confidence", "paused", "moved / kept")
    content = table(
        "changes of the group",
        (*names, "evidence"),
        rows,
        numbers=("generation", "paused", "moved / kept"),
        wide=("evidence",),
    )
    note = more(len(entries) - len(newest), "{} earlier ones: kohort timeline GROUP.")
    return details(f"{count_of(len(entries), 'change')} of the group", content + note)


def _jumps(jumps: Sequence[OffsetJump]) -> str:
    if not jumps:
        return ""
    newest = jumps[::-1][:JUMPS_MAX]
    rows = [
        (
            date_time(jump.ts),
            name(f"{jump.topic}-{jump.partition}"),
            number(jump.from_offset),
            number(jump.to_offset),
            number(jump.jump),
            jump.kind.replace("_", " ").lower(),
            name(jump.by),
        )
        for jump in newest
    ]
    names = ("time (UTC)", "partition", "from", "to", "jump", "kind", "by")
    content = table("offset jumps", names, rows, numbers=("from", "to", "jump"))
    note = more(len(jumps) - len(newest), "{} earlier ones are not shown.")
    return details(count_of(len(jumps), "offset jump"), content + note)
