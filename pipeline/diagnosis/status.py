"""What a partition, and a group, is in: Burrow's word, and ours, which knows owners and log starts.

Ours, the first that holds: UNKNOWN (no sample of the log), DATA_LOST (what was to be read next is
gone), OK (nothing to read), NO_OWNER, REBALANCING (the whole group stands still), then Burrow's.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from . import burrow
from .consumers import ConsumerGroup
from .lag import consume_rate, log_end_at, produce_rate, since, time_lag_ms, trend
from .rows import GroupStatus, PartitionStatus, Rebalance
from .story import Commit, Generation, LogEnd, Window
from .words import listed, span

__all__ = ["WORST_FIRST", "group_status", "partition_statuses"]

WORST_FIRST: Final = (
    "DATA_LOST",
    "STOP",
    "STALL",
    "REWIND",
    "NO_OWNER",
    "REBALANCING",
    "WARN",
    "UNKNOWN",
    "OK",
)

REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})

STANDSTILL_MS: Final = 10_000
"""No group is taken to stand still before: three of Kafka's heartbeat intervals."""

HOUR_MS: Final = 3_600_000

CONSUMER: Final = "consumer"
"""Kafka's name of KIP-848's protocol (`group.protocol`, GroupType); its groups have no assignor."""


def partition_statuses(
    cluster: str,
    group: str,
    windows: Iterable[Window],
    generation: Generation | None,
    as_of_ms: int,
    state: str | None = None,
    consumer: ConsumerGroup | None = None,
) -> list[PartitionStatus]:
    """Of all partitions of a group. `generation`: the newest record of its metadata; `state`: as
    the event log says, if there is one; `consumer`: it is of that protocol, and has no generation.
    """
    all_ = list(windows)
    if state is None:
        state = state_of(generation, all_, as_of_ms)
    # A group that never had members is one of consumers without membership.
    has_members = generation is not None and bool(generation.generation)
    if consumer is not None:
        has_members = not consumer.members  # else there may be owners, and nobody knows who
    return [
        _partition(cluster, group, window, has_members, as_of_ms, state in REBALANCING)
        for window in all_
    ]


def state_of(generation: Generation | None, windows: Sequence[Window], as_of_ms: int) -> str:
    """Kafka's name of the group's state. The log says no more than Empty, Stable and Dead; a
    rebalance is inferred where several members with something to read stopped all at once."""
    if generation is None:
        return "Empty"  # offsets alone: a consumer without membership
    if generation.tombstone:
        return "Dead"
    if not generation.members:
        return "Empty"
    waiting = [window for window in windows if window.owner is not None and (_lag(window) or 0) > 0]
    if len({window.owner.member_id for window in waiting if window.owner is not None}) < 2:
        return "Stable"
    if all(_stands_still(window, as_of_ms) for window in waiting):
        return "PreparingRebalance"
    return "Stable"


def group_status(
    cluster: str,
    group: str,
    generation: Generation | None,
    partitions: Sequence[PartitionStatus],
    rebalances: Iterable[Rebalance],
    as_of_ms: int,
    state: str,
    consumer: ConsumerGroup | None = None,
) -> GroupStatus:
    """Of a group, of its partitions' statuses. `rebalances` of the last hour at least."""
    members = len(generation.members) if generation is not None else 0
    protocol = None if generation is None else generation.protocol
    if consumer is not None:
        members, protocol = consumer.members, CONSUMER
    owners_known = consumer is None or not consumer.members
    lags = [partition for partition in partitions if partition.lag is not None]
    worst = max(lags, key=lambda partition: partition.lag or 0, default=None)
    lately = [
        row
        for row in rebalances
        if row.is_rebalance and row.joined_at is not None and row.joined_at > as_of_ms - HOUR_MS
    ]
    statuses = {partition.status for partition in partitions}
    return GroupStatus(
        cluster=cluster,
        group=group,
        state_inferred=state,
        status=next((status for status in WORST_FIRST if status in statuses), "OK"),
        status_burrow=burrow.group_status([p.status_burrow for p in partitions]),
        total_lag=sum(partition.lag or 0 for partition in lags) if lags else None,
        max_lag=None if worst is None else worst.lag,
        max_lag_topic=None if worst is None else worst.topic,
        max_lag_partition=None if worst is None else worst.partition,
        max_lag_ms=max((p.lag_ms for p in lags if p.lag_ms is not None), default=None),
        members=members,
        partitions=len(partitions),
        unassigned=sum(p.owner_member_id is None for p in partitions) if owners_known else None,
        rebalances_1h=len(lately) if consumer is None else None,
        pause_share_1h=_share(lately) if consumer is None else None,
        protocol=protocol,
        as_of=as_of_ms,
    )


def _share(lately: Sequence[Rebalance]) -> float | None:
    """How much of the last hour its rebalances stood still."""
    pauses = [row.pause_ms for row in lately if row.pause_ms is not None]
    return None if lately and not pauses else min(sum(pauses) / HOUR_MS, 1.0)


# --- one partition


def _partition(
    cluster: str,
    group: str,
    window: Window,
    has_members: bool,
    now_ms: int,
    rebalancing: bool,
) -> PartitionStatus:
    commits, samples = burrow.merged(window.commits)[-burrow.INTERVALS :], window.log_ends
    # Older samples tell how far back in time it is, not what was lately.
    ends = [sample.log_end for sample in samples[-burrow.INTERVALS :]]
    committed = commits[-1].offset if commits else None
    lag = _lag(window)
    of_burrow = burrow.partition_status(commits, ends, now_ms) if samples else "UNKNOWN"
    status, reason = _status(window, has_members, now_ms, rebalancing, of_burrow)
    lately = since(commits[0].commit_ms, samples) if commits else samples
    consumed, produced = consume_rate(commits), produce_rate(lately)
    owner = window.owner
    return PartitionStatus(
        cluster=cluster,
        group=group,
        topic=window.topic,
        partition=window.partition,
        status=status,
        status_burrow=of_burrow,
        status_reason=reason,
        committed=committed,
        log_start=_log_start(window),
        log_end=ends[-1] if ends else None,
        lag=lag,
        lag_ms=None if committed is None else time_lag_ms(committed, samples, now_ms),
        trend=trend(_lags(commits, window.log_ends)),
        consume_rate=consumed,
        produce_rate=produced,
        catch_up_ms=_catch_up_ms(lag, consumed, produced),
        last_commit_ts=window.commits[-1].commit_ms if window.commits else None,
        window_start=commits[0].commit_ms if commits else None,
        window_end=commits[-1].commit_ms if commits else None,
        complete=burrow.completeness(commits),
        owner_member_id=None if owner is None else owner.member_id,
        owner_instance_id=None if owner is None else owner.instance_id,
        client_id=None if owner is None else owner.client_id,
        client_host=None if owner is None else owner.client_host,
        as_of=now_ms,
    )


def _status(
    window: Window,
    has_members: bool,
    now_ms: int,
    rebalancing: bool,
    of_burrow: str,
) -> tuple[str, str]:
    """Our word, and why."""
    lag = _lag(window)
    if lag is None:
        what = "commit" if window.log_ends else "sample of the log's end"
        return "UNKNOWN", f"no {what} is known"
    start, committed = _log_start(window), window.commits[-1].offset
    if start is not None and committed < start:
        return "DATA_LOST", f"{start - committed} records were deleted before they were read"
    if lag == 0:
        return "OK", "everything is read"
    silent = now_ms - window.commits[-1].commit_ms
    if has_members and window.owner is None:
        return "NO_OWNER", f"{lag} records wait, and no member is assigned the partition"
    if rebalancing:
        return "REBALANCING", f"nobody in the group has committed for {span(silent)}"
    return of_burrow, {
        "STOP": f"{lag} records wait, and the last commit was {span(silent)} ago",
        "STALL": f"{lag} records wait, and commits repeat offset {committed}",
        "REWIND": f"commits went back to an earlier offset, {lag} records wait again",
        "WARN": f"commits go ahead, and the lag of {lag} does not shrink",
    }.get(of_burrow, f"{lag} records wait, the last commit was {span(silent)} ago")


def _lag(window: Window) -> int | None:
    if not window.commits or not window.log_ends:
        return None
    return max(window.log_ends[-1].log_end - window.commits[-1].offset, 0)


def _lags(commits: list[Commit], samples: Sequence[LogEnd]) -> list[tuple[int, int]]:
    """Lags by time: of each commit against where the log ended then, as the samples around it say,
    and since the last one by each sample."""
    ends = [(commit, log_end_at(commit.commit_ms, samples)) for commit in commits]
    lags = [
        (commit.commit_ms, max(end - commit.offset, 0)) for commit, end in ends if end is not None
    ]
    last = commits[-1] if commits else None
    return lags + [
        (end.sampled_ms, max(end.log_end - last.offset, 0))
        for end in samples
        if last is not None and end.sampled_ms > last.commit_ms
    ]


def _log_start(window: Window) -> int | None:
    """The newest sample that says it: those of the past do not."""
    starts = (end.log_start for end in reversed(window.log_ends) if end.log_start is not None)
    return next(starts, None)


def _stands_still(window: Window, now_ms: int) -> bool:
    commits = burrow.merged(window.commits)
    if len(commits) < 2:
        return False
    gaps = sorted(b.commit_ms - a.commit_ms for a, b in pairwise(commits))
    usual = gaps[len(gaps) // 2]
    return now_ms - commits[-1].commit_ms > max(3 * usual, STANDSTILL_MS)


def _catch_up_ms(lag: int | None, consumed: float | None, produced: float | None) -> int | None:
    if lag is None or consumed is None or produced is None or consumed <= produced:
        return None
    return round(1000 * lag / (consumed - produced))


def told(partitions: Iterable[PartitionStatus]) -> str:
    """orders-1 (lag 1200, STOP), orders-2 …; the worst first."""
    worst = sorted(partitions, key=lambda p: (WORST_FIRST.index(p.status), -(p.lag or 0)))
    return listed(f"{p.topic}-{p.partition} (lag {p.lag}, {p.status})" for p in worst)
