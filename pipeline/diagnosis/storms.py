"""Rebalance storms (gold_rebalance_storm): three or more rebalances within five minutes.

Storms less than five minutes apart are one storm, but after a day a new one begins, so that a batch
needs only the rebalances of one day to extend a storm. All counts of rebalances include generations
that never reached an assignment, but not the second phase of a cooperative rebalance.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from .rows import MemberExit, Rebalance, Storm, TimelineEntry

WITHIN_MS: Final = 5 * 60_000
REBALANCES_MIN: Final = 3
_LASTS_MAX_MS: Final = 24 * 3_600_000


def storms(
    rebalances: Sequence[Rebalance], exits: Sequence[MemberExit] = (), since_ms: int = 0
) -> list[Storm]:
    """Return the storms of one group that begin at `since_ms` or later, sorted by time. Earlier
    rebalances may belong to earlier storms."""
    timed = sorted(
        ((time_of(row), row) for row in rebalances if _is_counted(row)),
        key=lambda item: (item[0], item[1].log_offset),
    )
    found: list[list[Rebalance]] = []
    first = count = ended_ms = 0
    end = sum(time_ms < since_ms for time_ms, _ in timed)
    for last, (time_ms, row) in enumerate(timed):
        count += _weight(row)
        while time_ms - timed[first][0] > WITHIN_MS:
            count -= _weight(timed[first][1])
            first += 1
        if count < REBALANCES_MIN or last < end:
            continue
        if (
            not found
            or timed[first][0] - ended_ms >= WITHIN_MS
            or time_ms - time_of(found[-1][0]) >= _LASTS_MAX_MS
        ):
            found.append([])
        # Rows before `end` do not belong to this storm.
        found[-1] += [row for _, row in timed[max(first, end) : last + 1]]
        end, ended_ms = last + 1, time_ms
    return [_storm(rows, exits) for rows in found]


def count_rebalances(rebalances: Iterable[Rebalance | TimelineEntry], since_ms: int = 0) -> int:
    """Return the number of rebalances after this time."""
    return sum(_weight(row) for row in rebalances if _is_counted(row) and time_of(row) > since_ms)


def _is_counted(row: Rebalance | TimelineEntry) -> bool:
    return row.is_rebalance and row.cause != "COOPERATIVE_FOLLOWUP" and bool(time_of(row))


def _storm(rows: list[Rebalance], exits: Sequence[MemberExit]) -> Storm:
    offsets = {row.log_offset for row in rows}
    left = [row for row in exits if row.log_offset in offsets]
    clients = {row.instance_id or f"{row.client_id} {row.client_host}" for row in left}
    clients |= {row.client_id for row in rows if row.client_id} - {row.client_id for row in left}
    pauses = [row.pause_ms for row in rows if row.pause_ms is not None]
    # The rejoin of a member, and the exit of all members, are counted under the cause of the exit.
    of_emptied = {row.log_offset: row.cause for row in reversed(left)}
    causes = Counter(
        cause_of_rejoin(row)
        or (of_emptied.get(row.log_offset) if row.cause == "GROUP_EMPTIED" else None)
        or row.cause
        for row in rows
    )
    return Storm(
        cluster=rows[0].cluster,
        group=rows[0].group,
        from_ts=time_of(rows[0]),
        to_ts=max(time_of(rows[-1]), rows[-1].synced_at or 0),
        rebalances=sum(_weight(row) for row in rows),
        distinct_members=len(clients),
        pause_ms_total=sum(pauses) if pauses else None,
        # If causes are equally frequent, the cause of an exit takes precedence over a join.
        dominant_cause=max(causes, key=lambda cause: (causes[cause], cause != "MEMBER_JOINED")),
    )


def cause_of_rejoin(row: Rebalance) -> str | None:
    """Return the cause of the exit after which a member rejoined; None: no member rejoined."""
    if row.cause != "MEMBER_JOINED":
        return None
    # The last match counts, because client ids, which precede it, may contain any text.
    found: list[str] = re.findall(r" after it left \(REJOIN_AFTER_(\w+)\)", row.evidence)
    return found[-1] if found else None


def time_of(row: Rebalance | TimelineEntry) -> int:
    """Return the time at which a rebalance is counted; 0: unknown."""
    return row.joined_at if row.joined_at is not None else row.synced_at or 0


def _weight(row: Rebalance | TimelineEntry) -> int:
    return 1 + (row.lost_generations or 0)
