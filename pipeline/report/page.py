"""The page: one self-contained file, limited to an amount that a reader can absorb.

Groups are sorted by severity, then by time lag. Each of the first groups gets a section with the
diagnosis, the figure, and tables with the same content.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from ..diagnosis.rows import (
    Diagnosis,
    GroupStatus,
    MemberExit,
    OffsetJump,
    PartitionStatus,
    Storm,
    TimelineEntry,
)
from ..formatting import (
    SEVERITIES,
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
from .figure import figure
from .markup import Html, Row, details, h, more, name, pill, table
from .panels import TimeScale, sparkline

# A section takes up to 150 kB and a second to create; a page with forty sections opens instantly.
SECTIONS_MAX: Final = 40
# The other groups take one line each, about 100 kB in total.
LINES_MAX: Final = 500
STORMS_MAX: Final = 50
# Rows of a group's tables; `kohort lag` and `kohort timeline` show all partitions and changes.
PARTITIONS_MAX, REBALANCES_MAX, EXITS_MAX, JUMPS_MAX = 25, 50, 30, 20
# The longest and the shortest time span of charts.
SPAN_MAX_MS: Final = 24 * 3_600_000
SPAN_MIN_MS: Final = 1_000
LAG_POINTS: Final = 120  # one for every eight pixels


class GroupOverview(NamedTuple):
    anchor: str
    name: str
    diagnosis: Diagnosis
    status: GroupStatus
    points: Sequence[LagPoint]


Rebalances: TypeAlias = Mapping[str, tuple[int | None, str]]
"""Group -> (time, cause) of its last rebalance."""


def page(queries: Queries) -> Iterator[str]:
    """Yield the file in pieces. Sections are created one at a time."""
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
    script = f"<script>{_asset('page.js')}</script>"
    yield f"</main><div id=tip role=tooltip hidden></div>{script}</body></html>\n"


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _sorted_groups(queries: Queries) -> list[GroupOverview]:
    """Return all groups, the worst first. A batch writes both rows of a group."""
    statuses = {status.group: status for status in queries.groups()}
    pairs = []
    for diagnosis in queries.diagnoses():
        if diagnosis.group not in statuses:
            raise queries.missing("gold_group_status", diagnosis.group)
        pairs.append((diagnosis, statuses[diagnosis.group]))
    pairs.sort(key=lambda pair: (-pair[0].severity, -(pair[1].max_lag_ms or 0), pair[1].group))
    return [
        GroupOverview(f"g{place}", status.group, diagnosis, status, ())
        for place, (diagnosis, status) in enumerate(pairs)
    ]


def _scale(queries: Queries) -> TimeScale:
    assert queries.as_of is not None  # if the lake contains groups, records have been read
    begin = max(queries.began() or queries.as_of, queries.as_of - SPAN_MAX_MS)
    return TimeScale(min(begin, queries.as_of - SPAN_MIN_MS), queries.as_of)


# --- overview


def _head(queries: Queries, groups: Sequence[GroupOverview], scale: TimeScale) -> str:
    errors = sum(group.diagnosis.severity == 3 for group in groups)
    title = f"Consumer groups: {count_of(len(groups), 'group')}, {count_of(errors, 'error')}"
    samples = "" if queries.has_samples() else NO_SAMPLES
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_asset('page.css')}</style></head>"
        f"<body id=top><header><h1>Consumer groups</h1><p>as of <b>{date_time(scale.end)} UTC</b>, "
        f"cluster {h(queries.cluster)}; charts start at {date_time(scale.begin)}</p>"
        f"{_tally(group.diagnosis.severity for group in groups)}{samples}</header>"
    )


NO_SAMPLES: Final = (
    "<p class=warn>Lag is unknown: the lake has no samples of log ends. <code>kohort pipeline run"
    "</code> takes them from a broker, or from the segments of a data folder.</p>"
)


def _tally(severities: Iterable[int]) -> str:
    """Return the number of groups by severity."""
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
    def last_rebalance(group: GroupOverview) -> str:
        at, cause = rebalances.get(group.name, (None, ""))
        # Within the last day, the time of day is enough.
        is_old = at is not None and group.status.as_of - at > SPAN_MAX_MS
        time = date_time(at) if is_old else time_of_day(at)
        return Html(f"{time} <small>{h(cause_text(cause))}</small>") if cause else UNKNOWN

    columns: dict[str, Callable[[GroupOverview], object]] = {
        "severity": lambda group: pill(group.diagnosis.severity),
        "group": lambda group: _group_link(group.name, group.anchor if has_sections else None),
        "diagnosis": lambda group: group.diagnosis.verdict.replace("_", " ").lower(),
        "members": lambda group: number(group.status.members),
        "lag": lambda group: number(group.status.total_lag),
        "time lag": lambda group: duration(group.status.max_lag_ms),
        "lag over time": lambda group: sparkline(group.points),
        "rebalances 1 h": lambda group: number(group.status.rebalances_1h),
        "last rebalance": last_rebalance,
    }
    if not has_sections:
        del columns["lag over time"]
    numbers = ("members", "lag", "time lag", "rebalances 1 h")
    return table("groups", columns, groups, numbers=numbers)


def _group_link(group: str, anchor: str | None) -> Html:
    return name(group) if anchor is None else Html(f"<a href=#{anchor}>{name(group)}</a>")


def _other_groups(groups: Sequence[GroupOverview], rebalances: Rebalances) -> str:
    if not groups:
        return ""
    title = f"{count_of(len(groups), 'more group')}, details with: kohort why GROUP"
    rows = _groups_table(groups[:LINES_MAX], rebalances, has_sections=False)
    note = more(len(groups) - LINES_MAX, "{} more groups are not listed.")
    return details(title, rows + note)


def _storms_table(storms: Sequence[Storm], anchors: Mapping[str, str]) -> Html:
    """`anchors`: the anchors of the groups that have a section."""
    columns: dict[str, Callable[[Storm], object]] = {
        "group": lambda storm: _group_link(storm.group, anchors.get(storm.group)),
        "from (UTC)": lambda storm: date_time(storm.from_ts),
        "duration": lambda storm: duration(storm.duration_ms),
        "rebalances": lambda storm: number(storm.rebalances),
        "members": lambda storm: number(storm.distinct_members),
        "paused": lambda storm: duration(storm.pause_ms_total),
        "main cause": lambda storm: cause_text(storm.dominant_cause),
    }
    numbers = ("duration", "rebalances", "members", "paused")
    return table("storms", columns, storms, numbers=numbers)


# --- one group


def _section(queries: Queries, group: GroupOverview, scale: TimeScale) -> Html:
    entries = queries.timeline(group.name)
    names = MemberNames(entry.member_list for entry in entries)
    owners, storms = queries.ownership(group.name), queries.storms(group.name)
    drawn = figure(group.name, scale, names, group.points, entries, owners, storms)
    return Html(
        f'<section id={group.anchor} aria-labelledby="{group.anchor}-h">'
        f'<h2 id="{group.anchor}-h">{h(group.name)} {pill(group.diagnosis.severity)}</h2>'
        f"{_diagnosis(group.diagnosis)}{_facts(group.status)}{drawn}"
        f"{_exits(queries.exits(group.name), names)}{_partitions(queries.lag(group.name))}"
        f"{_rebalances(entries)}{_jumps(queries.jumps(group.name))}"
        "<p class=more><a href=#top>Back to the list of groups</a></p></section>\n"
    )


def _diagnosis(diagnosis: Diagnosis) -> str:
    lists = [
        f"<div><h3>{title}</h3><ul>{''.join(f'<li>{h(item)}</li>' for item in items)}</ul></div>"
        for title, items in (("Evidence", diagnosis.evidence), ("What to do", diagnosis.advice))
        if items
    ]
    both = f"<div class=both>{''.join(lists)}</div>" if lists else ""
    return f"<p class=verdict>{h(diagnosis.text)}</p>{both}"


def _facts(status: GroupStatus) -> str:
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


def _list(
    noun: str,
    rows: Sequence[Row],
    columns: Mapping[str, Callable[[Row], object]],
    most: int,
    note: str,
    numbers: Container[str],
) -> str:
    """Return a collapsible table of the first `most` rows; `note`: shown if there are more."""
    if not rows:
        return ""
    content = table(f"{noun}s", columns, rows[:most], numbers=numbers)
    content = Html(content + more(len(rows) - most, note))
    return details(count_of(len(rows), noun), content, is_open=noun == "member exit")


def _exits(exits: Sequence[MemberExit], names: MemberNames) -> str:
    columns: dict[str, Callable[[MemberExit], object]] = {
        "time (UTC)": lambda row: date_time(row.left_at),
        "member": lambda row: name(names.of(row.member_id, row.client_id)),
        "host": lambda row: name(row.client_host.lstrip("/")),
        "cause": lambda row: cause_text(row.cause),
        "confidence": lambda row: row.confidence,
        "silent": lambda row: duration(row.silence_ms),
        "back after": lambda row: duration(row.rejoined_after_ms),
        "evidence": lambda row: row.evidence,
    }
    note, numbers = "{} earlier ones are not shown.", ("silent", "back after")
    return _list("member exit", exits[::-1], columns, EXITS_MAX, note, numbers)


def _partitions(lag: Sequence[PartitionStatus]) -> str:
    worst = sorted(lag, key=lambda row: (row.status == "OK", -(row.lag or 0)))
    columns: dict[str, Callable[[PartitionStatus], object]] = {
        "partition": lambda row: name(f"{row.topic}-{row.partition}"),
        "status": lambda row: row.status,
        "lag": lambda row: number(row.lag),
        "time lag": lambda row: duration(row.lag_ms),
        "trend": lambda row: (row.trend or UNKNOWN).lower(),
        "owner": lambda row: name(row.owner_instance_id or row.client_id),
        "last commit": lambda row: date_time(row.last_commit_ts),
        "reason": lambda row: row.status_reason,
    }
    note = "{} more: kohort lag GROUP."
    return _list("partition", worst, columns, PARTITIONS_MAX, note, ("lag", "time lag"))


def _rebalances(entries: Sequence[TimelineEntry]) -> str:
    columns: dict[str, Callable[[TimelineEntry], object]] = {
        "time (UTC)": lambda row: date_time(row.at),
        "generation": lambda row: UNKNOWN if row.generation is None else row.generation,
        "members": lambda row: f"{row.members_before} → {row.members_after}",
        "cause": lambda row: cause_text(row.cause),
        "confidence": lambda row: row.confidence,
        "paused": lambda row: duration(row.pause_ms),
        "moved / kept": lambda row: (
            UNKNOWN if row.moved is None else f"{row.moved} / {row.kept or 0}"
        ),
        "evidence": lambda row: row.evidence,
    }
    note = "{} earlier ones: kohort timeline GROUP."
    numbers = ("generation", "paused", "moved / kept")
    return _list("group change", entries[::-1], columns, REBALANCES_MAX, note, numbers)


def _jumps(jumps: Sequence[OffsetJump]) -> str:
    columns: dict[str, Callable[[OffsetJump], object]] = {
        "time (UTC)": lambda row: date_time(row.ts),
        "partition": lambda row: name(f"{row.topic}-{row.partition}"),
        "from": lambda row: number(row.from_offset),
        "to": lambda row: number(row.to_offset),
        "jump": lambda row: number(row.jump),
        "kind": lambda row: row.kind.replace("_", " ").lower(),
        "by": lambda row: name(row.by),
    }
    note = "{} earlier ones are not shown."
    return _list("offset jump", jumps[::-1], columns, JUMPS_MAX, note, ("from", "to", "jump"))
