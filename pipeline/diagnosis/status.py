"""Status of partitions and groups: Burrow's status, and kohort's own, which also considers owners
and log start offsets.

kohort's status is the first that applies: UNKNOWN (no commit, or no sample of the log end),
DATA_LOST (the next records were deleted), OK (no lag), NO_OWNER, REBALANCING (the whole group is
paused, or the partition has no owner during a reassignment), then Burrow's status.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

from ..formatting import duration, join_texts
from . import burrow
from .consumer_group import ConsumerGroup
from .facts import HOUR_MS
from .group_history import CONSUMER_PROTOCOL, Commit, Generation, LogEnd, PartitionWindow
from .lag import log_end_at, rate, since, time_lag_ms, trend
from .rows import GroupStatus, PartitionStatus, Rebalance
from .storms import count_rebalances

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
"""States in which a classic group is paused."""

REASSIGNING: Final = frozenset({"Assigning", "Reconciling"})
"""States of a consumer group in which members revoke partitions that others receive afterwards."""

PAUSED_MS: Final = 10_000
"""The shortest silence that is considered a pause, longer than three heartbeat intervals (9 s)."""


@dataclass(frozen=True)
class CurrentGroup:
    """A group at `as_of_ms`, whose newest record is `generation`. `consumer`: None for a classic
    group. `state`: the state of `consumer`, or the result of `state_of`."""

    cluster: str
    group: str
    as_of_ms: int
    generation: Generation | None
    state: str
    consumer: ConsumerGroup | None = None

    @cached_property
    def knows_owners(self) -> bool:
        """Whether every owner is known. A consumer group's topic may be known only by its id, and
        older lakes do not contain the members of consumer groups."""
        if self.consumer is None or not self.consumer.members:
            return True
        return self.generation is not None and not self.generation.unresolved_topics

    @property
    def needs_owners(self) -> bool:
        """Whether a partition without an owner is a problem. A group that never had members belongs
        to consumers without group membership."""
        if self.consumer is not None:
            return self.knows_owners
        return self.generation is not None and bool(self.generation.generation)


def state_of(
    generation: Generation | None, windows: Sequence[PartitionWindow], as_of_ms: int
) -> str:
    """Return Kafka's name for the group's state. The log shows only Empty, Stable and Dead. A
    rebalance is inferred if at least two members have records to read and all of these members have
    stopped committing."""
    if generation is None:
        return "Empty"  # offsets without group membership
    if generation.tombstone:
        return "Dead"
    if not generation.members:
        return "Empty"
    behind = [(w, w.owner.member_id) for w in windows if w.owner is not None and (_lag(w) or 0) > 0]
    if len({owner for _, owner in behind}) < 2:
        return "Stable"
    is_paused = all(_is_paused(window, as_of_ms) for window, _ in behind)
    return "PreparingRebalance" if is_paused else "Stable"


def group_status(
    now: CurrentGroup, partitions: Sequence[PartitionStatus], rebalances: Sequence[Rebalance]
) -> GroupStatus:
    """Return the status of a group. `rebalances` contains at least the rebalances of the last
    hour."""
    members = len(now.generation.members) if now.generation is not None else 0
    protocol = None if now.generation is None else now.generation.protocol
    if now.consumer is not None:
        members, protocol = now.consumer.members, CONSUMER_PROTOCOL
    hour_ago_ms = now.as_of_ms - HOUR_MS
    lags = [partition for partition in partitions if partition.lag is not None]
    worst = max(lags, key=lambda partition: partition.lag or 0, default=None)
    recent = [
        row
        for row in rebalances
        if row.is_rebalance and row.joined_at is not None and row.joined_at > hour_ago_ms
    ]
    statuses = {partition.status for partition in partitions}
    return GroupStatus(
        cluster=now.cluster,
        group=now.group,
        state_inferred=now.state,
        status=next((status for status in WORST_FIRST if status in statuses), "OK"),
        status_burrow=burrow.group_status([p.status_burrow for p in partitions]),
        total_lag=sum(partition.lag or 0 for partition in lags) if lags else None,
        max_lag=None if worst is None else worst.lag,
        max_lag_topic=None if worst is None else worst.topic,
        max_lag_partition=None if worst is None else worst.partition,
        max_lag_ms=max((p.lag_ms for p in lags if p.lag_ms is not None), default=None),
        members=members,
        partitions=len(partitions),
        unassigned=sum(p.owner_member_id is None for p in partitions) if now.knows_owners else None,
        rebalances_1h=count_rebalances(rebalances, hour_ago_ms),
        pause_share_1h=_pause_share(recent),
        protocol=protocol,
        as_of=now.as_of_ms,
    )


def _pause_share(recent: Sequence[Rebalance]) -> float | None:
    """Return the fraction of the last hour during which rebalances paused the group."""
    pauses = [row.pause_ms for row in recent if row.pause_ms is not None]
    return None if recent and not pauses else min(sum(pauses) / HOUR_MS, 1.0)


# --- one partition


def partition_status(now: CurrentGroup, window: PartitionWindow) -> PartitionStatus:
    """Return the status of a partition for which the group has committed offsets."""
    now_ms = now.as_of_ms
    commits, samples = burrow.merged(window.commits)[-burrow.INTERVALS :], window.log_ends
    # Burrow's rules use only the last samples; lags and rates also use older ones.
    ends = [sample.log_end for sample in samples[-burrow.INTERVALS :]]
    committed = commits[-1].offset if commits else None
    lag = _lag(window)
    status_burrow = burrow.partition_status(commits, ends, now_ms) if samples else "UNKNOWN"
    status, reason = _status(now, window, status_burrow)
    consumed = rate([(commit.commit_ms, commit.offset) for commit in commits])
    recent = since(commits[0].commit_ms, samples) if commits else samples
    produced = rate([(sample.sampled_ms, sample.log_end) for sample in recent])
    owner = window.owner
    return PartitionStatus(
        cluster=now.cluster,
        group=now.group,
        topic=window.topic,
        partition=window.partition,
        status=status,
        status_burrow=status_burrow,
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
        complete=len(commits) / burrow.INTERVALS,
        owner_member_id=None if owner is None else owner.member_id,
        owner_instance_id=None if owner is None else owner.instance_id,
        client_id=None if owner is None else owner.client_id,
        client_host=None if owner is None else owner.client_host,
        as_of=now_ms,
    )


def _status(now: CurrentGroup, window: PartitionWindow, status_burrow: str) -> tuple[str, str]:
    """Return (kohort's status, its reason)."""
    lag = _lag(window)
    if lag is None:
        missing = "commit" if window.log_ends else "sample of the log end"
        return "UNKNOWN", f"no {missing}"
    start, committed = _log_start(window), window.commits[-1].offset
    if start is not None and committed < start:
        return "DATA_LOST", f"{start - committed} records were deleted before they were read"
    if lag == 0:
        return "OK", "no lag"
    silent = duration(now.as_of_ms - window.commits[-1].commit_ms)
    if now.needs_owners and window.owner is None:
        if now.state in REASSIGNING:
            return "REBALANCING", f"lag {lag}; the group is reassigning its partitions"
        return "NO_OWNER", f"lag {lag}; the partition is not assigned to a member"
    if now.state in REBALANCING:
        return "REBALANCING", f"no member of the group has committed for {silent}"
    return status_burrow, {
        "STOP": f"lag {lag}; the last commit was {silent} ago",
        "STALL": f"lag {lag}; commits repeat offset {committed}",
        "REWIND": f"lag {lag}; commits went back to an earlier offset",
        "WARN": f"lag {lag}; offsets advance but the lag does not shrink",
    }.get(status_burrow, f"lag {lag}; the last commit was {silent} ago")


def _lag(window: PartitionWindow) -> int | None:
    if not window.commits or not window.log_ends:
        return None
    return max(window.log_ends[-1].log_end - window.commits[-1].offset, 0)


def _lags(commits: list[Commit], samples: Sequence[LogEnd]) -> list[tuple[int, int]]:
    """Return (time, lag) pairs: one for each commit, relative to the interpolated log end, then one
    for each sample after the last commit."""
    ends = [(commit, log_end_at(commit.commit_ms, samples)) for commit in commits]
    lags = [(c.commit_ms, max(end - c.offset, 0)) for c, end in ends if end is not None]
    last = commits[-1] if commits else None
    return lags + [
        (end.sampled_ms, max(end.log_end - last.offset, 0))
        for end in samples
        if last is not None and end.sampled_ms > last.commit_ms
    ]


def _log_start(window: PartitionWindow) -> int | None:
    """Return the log start offset from the newest sample that contains one; samples of past times
    do not."""
    starts = (end.log_start for end in reversed(window.log_ends) if end.log_start is not None)
    return next(starts, None)


def _is_paused(window: PartitionWindow, now_ms: int) -> bool:
    commits = burrow.merged(window.commits)
    if len(commits) < 2:
        return False
    gaps = sorted(b.commit_ms - a.commit_ms for a, b in pairwise(commits))
    usual = gaps[len(gaps) // 2]
    return now_ms - commits[-1].commit_ms > max(3 * usual, PAUSED_MS)


def _catch_up_ms(lag: int | None, consumed: float | None, produced: float | None) -> int | None:
    if lag is None or consumed is None or produced is None or consumed <= produced:
        return None
    return round(1000 * lag / (consumed - produced))


def describe_worst(partitions: Iterable[PartitionStatus]) -> str:
    """Return `orders-1 (lag 1200, STOP), orders-2 …`, the worst first."""
    worst = sorted(partitions, key=lambda p: (WORST_FIRST.index(p.status), -(p.lag or 0)))
    return join_texts(f"{p.topic}-{p.partition} (lag {p.lag}, {p.status})" for p in worst)
