"""One group: its verdict, its figure, and the tables that say the same."""

from collections.abc import Sequence
from typing import NamedTuple

from ..answers.answers import Answers
from ..answers.names import MemberNames
from ..answers.rows import Change, Diagnosis, Exit, GroupStatus, Jump, Lag
from ..answers.series import Point
from ..answers.words import NOT_KNOWN, cause_text, count, counted, span, when
from .figure import Happened, figure
from .markup import Html, h, more, name, pill, table
from .scale import Scale

__all__ = ["Shown", "section"]

# Rows of a group's tables; `kohort lag` and `kohort timeline` have them all.
PARTITIONS_MAX, REBALANCES_MAX, EXITS_MAX, JUMPS_MAX = 25, 50, 30, 20


class Shown(NamedTuple):
    """A group that has a section. `status` None: gone, or without a commit."""

    anchor: str
    name: str
    diagnosis: Diagnosis | None
    status: GroupStatus | None
    points: Sequence[Point]


def section(answers: Answers, group: Shown, scale: Scale) -> Html:
    changes = answers.changes(group.name)
    names = MemberNames(change.member_list for change in changes)
    happened = Happened(
        group.name,
        group.points,
        changes,
        answers.owned(group.name),
        answers.storms(group.name),
    )
    severity = group.diagnosis.severity if group.diagnosis else 0
    return Html(
        f'<section id={group.anchor} aria-labelledby="{group.anchor}-h">'
        f'<h2 id="{group.anchor}-h">{h(group.name)} {pill(severity)}</h2>'
        f"{_verdict(group.diagnosis)}{_facts(group.status)}{figure(scale, happened, names)}"
        f"{_exits(answers.exits(group.name), names)}{_partitions(answers.lag(group.name))}"
        f"{_rebalances(changes)}{_jumps(answers.jumps(group.name))}"
        "<p class=more><a href=#top>to the list of groups</a></p></section>\n"
    )


def _verdict(diagnosis: Diagnosis | None) -> str:
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
        "members": count(status.members),
        "partitions": count(status.partitions),
        "without an owner": count(status.unassigned),
        "assignor": status.protocol or NOT_KNOWN,
        "lag": count(status.total_lag),
        "time lag": span(status.max_lag_ms),
        "rebalances, last hour": count(status.rebalances_1h),
        "stood still, last hour": NOT_KNOWN if share is None else f"{share:.1%}",
    }
    said = "".join(
        f"<div><dt>{h(name)}</dt><dd>{h(fact)}</dd></div>" for name, fact in facts.items()
    )
    return f"<dl class=facts>{said}</dl>"


def _exits(exits: Sequence[Exit], names: MemberNames) -> str:
    newest = list(reversed(exits))[:EXITS_MAX]
    rows = [
        (
            when(gone.left_at),
            name(names.of(gone.member_id, gone.client_id)),
            name(gone.client_host.lstrip("/")),
            cause_text(gone.cause),
            gone.confidence,
            span(gone.silence_ms),
            span(gone.came_back_after_ms),
            gone.evidence,
        )
        for gone in newest
    ]
    columns = ("when (UTC)", "member", "host", "why", "sure", "silent", "back after", "evidence")
    made = table(
        "exits of members", columns, rows, numbers=("silent", "back after"), wide=("evidence",)
    )
    left_out = more(len(exits) - len(newest), "{} earlier ones are not shown.")
    return _folded(f"{counted(len(exits), 'exit')} of members", made + left_out, bool(exits), True)


def _partitions(lag: Sequence[Lag]) -> str:
    worst = sorted(lag, key=lambda each: (each.status == "OK", -(each.lag or 0)))[:PARTITIONS_MAX]
    rows = [
        (
            name(f"{each.topic}-{each.partition}"),
            each.status,
            count(each.lag),
            span(each.lag_ms),
            (each.trend or NOT_KNOWN).lower(),
            name(each.owner_instance_id or each.client_id),
            when(each.last_commit_ts),
            each.status_reason,
        )
        for each in worst
    ]
    names = ("partition", "status", "lag", "time lag", "trend", "owner", "last commit", "why")
    made = table("partitions", names, rows, numbers=("lag", "time lag"), wide=("why",))
    left_out = more(len(lag) - len(worst), "{} more, with less lag: kohort lag GROUP.")
    return _folded(counted(len(lag), "partition"), made + left_out, bool(lag), False)


def _rebalances(changes: Sequence[Change]) -> str:
    newest = list(reversed(changes))[:REBALANCES_MAX]
    rows = [
        (
            when(change.at),
            NOT_KNOWN if change.generation is None else change.generation,
            f"{change.members_before} → {change.members_after}",
            cause_text(change.cause),
            change.confidence,
            span(change.pause_ms),
            NOT_KNOWN if change.moved is None else f"{change.moved} / {change.kept or 0}",
            change.evidence,
        )
        for change in newest
    ]
    names = ("when (UTC)", "generation", "members", "why", "sure", "stood still", "moved / kept")
    numbers = ("generation", "stood still", "moved / kept")
    made = table(
        "changes of the group", (*names, "evidence"), rows, numbers=numbers, wide=("evidence",)
    )
    left_out = more(len(changes) - len(newest), "{} earlier ones: kohort timeline GROUP.")
    title = f"{counted(len(changes), 'change')} of the group"
    return _folded(title, made + left_out, bool(changes), False)


def _jumps(jumps: Sequence[Jump]) -> str:
    newest = list(reversed(jumps))[:JUMPS_MAX]
    rows = [
        (
            when(jump.ts),
            name(f"{jump.topic}-{jump.partition}"),
            count(jump.from_offset),
            count(jump.to_offset),
            count(jump.jump),
            jump.kind.replace("_", " ").lower(),
            name(jump.by),
        )
        for jump in newest
    ]
    names = ("when (UTC)", "partition", "from", "to", "jump", "what it was", "by")
    made = table("jumps of offsets", names, rows, numbers=("from", "to", "jump"))
    left_out = more(len(jumps) - len(newest), "{} earlier ones are not shown.")
    title = f"{counted(len(jumps), 'jump')} of offsets"
    return _folded(title, made + left_out, bool(jumps), False)


def _folded(title: str, content: str, is_there: bool, is_open: bool) -> str:
    if not is_there:
        return ""
    return f"<details{' open' * is_open}><summary><h3>{h(title)}</h3></summary>{content}</details>"
