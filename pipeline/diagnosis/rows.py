"""What the rules answer: rows whose fields are the columns of the gold tables (pipeline/tables.py).

Times are milliseconds since 1970 here, and timestamps in the lake: whoever writes them converts.
"""

from typing import NamedTuple

__all__ = [
    "Diagnosis",
    "GroupLifecycle",
    "GroupStatus",
    "MemberExit",
    "PartitionStatus",
    "Rebalance",
    "Skew",
    "Storm",
]


class Rebalance(NamedTuple):
    """gold_rebalance: one for each record of the group's metadata."""

    cluster: str
    group: str
    log_offset: int
    generation: int | None
    started_at_est: int | None
    joined_at: int | None
    synced_at: int | None
    cause: str  # a name of offsets.causes.Cause
    confidence: str  # exact, high, medium, low
    evidence: str
    is_rebalance: bool
    member_id: str | None
    client_id: str | None
    members_before: int
    members_after: int
    moved: int | None
    kept: int | None
    revoked_then_returned: int | None
    stickiness: float | None
    pause_ms: int | None
    sync_ms: int | None
    join_ms: int | None
    wait_ms: int | None
    waited_for: str | None
    lost_generations: int | None
    rejected_commits: int | None


class MemberExit(NamedTuple):
    """gold_member_exit: one for each member that is in a record and not in the next."""

    cluster: str
    group: str
    log_offset: int
    generation: int
    left_at: int | None
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


class Storm(NamedTuple):
    """gold_rebalance_storm."""

    cluster: str
    group: str
    from_ts: int
    to_ts: int
    rebalances: int
    distinct_members: int
    pause_ms_total: int | None
    dominant_cause: str


class Skew(NamedTuple):
    """gold_skew: of a generation's topics together (`topic` None) and of each."""

    cluster: str
    group: str
    generation: int
    log_offset: int
    topic: str | None
    max_parts: int
    min_parts: int
    ideal: int
    imbalance: float
    cv: float
    idle_members: int
    lag_skew: float | None


class GroupLifecycle(NamedTuple):
    """gold_group_lifecycle."""

    cluster: str
    group: str
    first_seen: int
    last_commit: int | None
    emptied_at: int | None
    deleted_at: int | None
    end_kind: str | None
    expires_at_est: int | None


class PartitionStatus(NamedTuple):
    """gold_partition_status."""

    cluster: str
    group: str
    topic: str
    partition: int
    status: str
    status_burrow: str
    status_reason: str
    committed: int | None
    log_start: int | None
    log_end: int | None
    lag: int | None
    lag_ms: int | None
    trend: str | None
    consume_rate: float | None
    produce_rate: float | None
    catch_up_ms: int | None
    last_commit_ts: int | None
    window_start: int | None
    window_end: int | None
    complete: float
    owner_member_id: str | None
    owner_instance_id: str | None
    client_id: str | None
    client_host: str | None
    as_of: int


class GroupStatus(NamedTuple):
    """gold_group_status."""

    cluster: str
    group: str
    state_inferred: str
    status: str
    status_burrow: str
    total_lag: int | None
    max_lag: int | None
    max_lag_topic: str | None
    max_lag_partition: int | None
    max_lag_ms: int | None
    members: int
    partitions: int
    unassigned: int | None
    rebalances_1h: int | None
    pause_share_1h: float | None
    protocol: str | None
    as_of: int


class Diagnosis(NamedTuple):
    """gold_diagnosis."""

    cluster: str
    group: str
    severity: int
    verdict: str
    text: str
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    as_of: int
