"""Rows that queries return. These are the fields of `--format json` and `csv`, in their order.

Times are datetimes in UTC, durations end in `_ms`. None: unknown, or not applicable; an unknown lag
is None, never 0. docs/pipeline.md explains the fields.
"""

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

SEVERITIES: Final = {0: "healthy", 1: "info", 2: "warning", 3: "error"}


class GroupStatus(NamedTuple):
    """The current status of a group (gold_group_status)."""

    group: str
    status: str
    status_burrow: str
    state_inferred: str
    members: int
    partitions: int
    unassigned: int | None
    total_lag: int | None
    max_lag: int | None
    max_lag_topic: str | None
    max_lag_partition: int | None
    max_lag_ms: int | None
    rebalances_1h: int | None
    pause_share_1h: float | None
    protocol: str | None
    as_of: datetime


class PartitionLag(NamedTuple):
    """The current status of a partition of a group (gold_partition_status)."""

    group: str
    topic: str
    partition: int
    status: str
    status_burrow: str
    status_reason: str
    lag: int | None
    lag_ms: int | None
    trend: str | None
    catch_up_ms: int | None
    consume_rate: float | None
    produce_rate: float | None
    committed: int | None
    log_start: int | None
    log_end: int | None
    last_commit_ts: datetime | None
    owner_member_id: str | None
    owner_instance_id: str | None
    client_id: str | None
    client_host: str | None
    as_of: datetime


class Diagnosis(NamedTuple):
    """The diagnosis of a group (gold_diagnosis)."""

    group: str
    severity: int
    verdict: str
    text: str
    evidence: list[str]
    advice: list[str]
    as_of: datetime


class MemberExit(NamedTuple):
    """A member that left (gold_member_exit)."""

    group: str
    generation: int
    left_at: datetime | None
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    cause: str
    confidence: str
    evidence: str
    silence_ms: int | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    came_back_after_ms: int | None
    heartbeat_ms_est: int | None
    log_offset: int


class TimelineEntry(NamedTuple):
    """A rebalance or another change of a group (gold_rebalance, silver_generation)."""

    group: str
    generation: int | None
    at: datetime | None
    started_at_est: datetime | None
    joined_at: datetime | None
    synced_at: datetime | None
    record_kind: str
    is_rebalance: bool
    cause: str
    confidence: str
    evidence: str
    member_id: str | None
    client_id: str | None
    members_before: int
    members_after: int
    joined: list[str]
    left: list[str]
    replaced: list[str]
    moved: int | None
    kept: int | None
    pause_ms: int | None
    sync_ms: int | None
    join_ms: int | None
    wait_ms: int | None
    waited_for: str | None
    lost_generations: int | None
    rejected_commits: int | None
    protocol: str | None
    log_offset: int
    member_list: list[dict[str, Any]]
    exits: list[MemberExit]


class Storm(NamedTuple):
    """A rebalance storm (gold_rebalance_storm)."""

    group: str
    from_ts: datetime
    to_ts: datetime
    rebalances: int
    distinct_members: int
    pause_ms_total: int | None
    dominant_cause: str

    @property
    def duration_ms(self) -> int:
        return (self.to_ts - self.from_ts) // timedelta(milliseconds=1)


class OffsetJump(NamedTuple):
    """An offset that went back or far ahead (gold_offset_jump)."""

    group: str
    topic: str
    partition: int
    ts: datetime
    from_offset: int | None
    to_offset: int | None
    jump: int | None
    kind: str
    by: str | None


class Ownership(NamedTuple):
    """An interval in which a partition had one owner (silver_ownership)."""

    topic: str
    partition: int
    member_id: str
    client_id: str
    from_ts: datetime
    to_ts: datetime | None
