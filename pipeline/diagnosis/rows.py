"""Rows of the gold tables that the rules produce. These classes declare those tables: field names
are columns, and the Arrow types follow from the annotations (tables.py).

Times are milliseconds since the epoch here, timestamps in the lake. None means unknown.
"""

from typing import Annotated, NamedTuple

Long = Annotated[int, "long"]
"""An int64 column; plain `int` is int32."""
Time = Annotated[int, "time"]
"""A timestamp column."""


class Rebalance(NamedTuple):
    """gold_rebalance: one for each GroupMetadata record."""

    cluster: str
    group: str
    log_offset: Long
    generation: int | None
    started_at_est: Time | None
    joined_at: Time | None  # the end of the join phase
    synced_at: Time | None
    cause: str  # a name of offsets.causes.Cause
    confidence: str  # exact (from the event log), high, medium, low
    evidence: str
    is_rebalance: bool  # False: creation, deletion, static replacement
    member_id: str | None  # the member that caused it, or the first of several
    client_id: str | None
    members_before: int
    members_after: int
    moved: int | None
    kept: int | None
    revoked_then_returned: int | None
    stickiness: float | None
    pause_ms: Long | None
    sync_ms: Long | None
    join_ms: Long | None  # only from the event log
    wait_ms: Long | None  # how long the others waited for `waited_for` to join
    waited_for: str | None  # a member id
    lost_generations: int | None
    rejected_commits: int | None  # only from the event log


class MemberExit(NamedTuple):
    """gold_member_exit: one for each member that is in a record and not in the next."""

    cluster: str
    group: str
    log_offset: Long  # of the first record without the member
    generation: int  # the member's last
    left_at: Time | None
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    cause: str
    confidence: str
    evidence: str
    silence_ms: Long | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    came_back_after_ms: Long | None
    heartbeat_ms_est: Long | None  # only from the event log


class Storm(NamedTuple):
    """gold_rebalance_storm."""

    cluster: str
    group: str
    from_ts: Time
    to_ts: Time
    rebalances: int
    distinct_members: int
    pause_ms_total: Long | None
    dominant_cause: str


class Skew(NamedTuple):
    """gold_skew: one for each topic of a generation, and one for all of them (`topic` None)."""

    cluster: str
    group: str
    generation: int
    log_offset: Long
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
    first_seen: Time
    last_commit: Time | None
    emptied_at: Time | None
    deleted_at: Time | None
    # EXPIRED, DELETED, DELETED_OR_EXPIRED, OFFSETS_DELETED, TOPIC_DELETED; None: it exists
    end_kind: str | None
    expires_at_est: Time | None


class PartitionStatus(NamedTuple):
    """gold_partition_status."""

    cluster: str
    group: str
    topic: str
    partition: int
    status: str  # Burrow's, and REBALANCING, NO_OWNER, DATA_LOST, UNKNOWN
    status_burrow: str  # OK, WARN, STOP, STALL, REWIND; UNKNOWN without samples
    status_reason: str
    committed: Long | None
    log_start: Long | None
    log_end: Long | None
    lag: Long | None
    lag_ms: Long | None
    trend: str | None  # GROWING, SHRINKING, FLAT
    consume_rate: float | None  # records per second
    produce_rate: float | None
    catch_up_ms: Long | None  # None: never, or unknown
    last_commit_ts: Time | None
    window_start: Time | None
    window_end: Time | None
    complete: float
    owner_member_id: str | None
    owner_instance_id: str | None
    client_id: str | None
    client_host: str | None
    as_of: Time


class GroupStatus(NamedTuple):
    """gold_group_status."""

    cluster: str
    group: str
    state_inferred: str
    status: str
    status_burrow: str
    total_lag: Long | None
    max_lag: Long | None
    max_lag_topic: str | None
    max_lag_partition: int | None
    max_lag_ms: Long | None
    members: int
    partitions: int
    unassigned: int | None  # None, as the next two: unknown for consumer groups with members
    rebalances_1h: int | None
    pause_share_1h: float | None
    protocol: str | None
    as_of: Time


class Diagnosis(NamedTuple):
    """gold_diagnosis."""

    cluster: str
    group: str
    severity: int  # 0 healthy, 1 info, 2 warning, 3 error
    verdict: str
    text: str
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    as_of: Time
