"""Rows of the gold tables, produced by the rules and returned by queries.

These classes declare the gold tables: field names are columns, and Arrow types are derived from
annotations (tables.py). Times are milliseconds since the epoch here, and timestamps in the lake.
None means unknown or not applicable; an unknown lag is None, never 0.
"""

from typing import Annotated, Any, Final, NamedTuple

Long = Annotated[int, "long"]
"""An int64 column; plain `int` is int32."""
Time = Annotated[int, "time"]
"""A timestamp column."""


class Rebalance(NamedTuple):
    """A row of gold_rebalance: one per GroupMetadata record or epoch."""

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
    """A member that left: it is in a record but not in the next one (gold_member_exit)."""

    cluster: str
    group: str
    generation: int  # the member's last generation
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
    rejoined_after_ms: Long | None
    heartbeat_ms_est: Long | None  # only from the event log
    log_offset: Long  # log offset of the first record without the member


class Storm(NamedTuple):
    """A rebalance storm (gold_rebalance_storm)."""

    cluster: str
    group: str
    from_ts: Time
    to_ts: Time
    rebalances: int
    distinct_members: int
    pause_ms_total: Long | None
    dominant_cause: str

    @property
    def duration_ms(self) -> int:
        return self.to_ts - self.from_ts


class Skew(NamedTuple):
    """A row of gold_skew: one per topic of a generation, and one for all topics (`topic` None)."""

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
    """The creation and end of a group (gold_group_lifecycle)."""

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
    """The current status of a partition of a group (gold_partition_status)."""

    cluster: str
    group: str
    topic: str
    partition: int
    status: str  # Burrow's, and REBALANCING, NO_OWNER, DATA_LOST, UNKNOWN
    status_burrow: str  # OK, WARN, STOP, STALL, REWIND; UNKNOWN without samples
    status_reason: str
    lag: Long | None
    lag_ms: Long | None
    trend: str | None  # GROWING, SHRINKING, FLAT
    catch_up_ms: Long | None  # None: never, or unknown
    consume_rate: float | None  # records per second
    produce_rate: float | None
    committed: Long | None
    log_start: Long | None
    log_end: Long | None
    last_commit_ts: Time | None
    owner_member_id: str | None
    owner_instance_id: str | None
    client_id: str | None
    client_host: str | None
    as_of: Time
    window_start: Time | None
    window_end: Time | None
    complete: float


class GroupStatus(NamedTuple):
    """The current status of a group (gold_group_status)."""

    cluster: str
    group: str
    status: str
    status_burrow: str
    state_inferred: str
    members: int
    partitions: int
    unassigned: int | None  # None: unknown, because a topic of the group is known only by its id
    total_lag: Long | None
    max_lag: Long | None
    max_lag_topic: str | None
    max_lag_partition: int | None
    max_lag_ms: Long | None
    rebalances_1h: int | None
    pause_share_1h: float | None
    protocol: str | None
    as_of: Time


class Diagnosis(NamedTuple):
    """The diagnosis of a group (gold_diagnosis)."""

    cluster: str
    group: str
    severity: int  # 0 healthy, 1 info, 2 warning, 3 error
    verdict: str
    text: str
    evidence: tuple[str, ...]
    advice: tuple[str, ...]
    as_of: Time


# --- rows that only queries return


class TimelineEntry(NamedTuple):
    """A rebalance or another change to a group (gold_rebalance, silver_generation)."""

    group: str
    generation: int | None
    at: Time | None
    started_at_est: Time | None
    joined_at: Time | None
    synced_at: Time | None
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


class OffsetJump(NamedTuple):
    """An offset that went back or far ahead (gold_offset_jump)."""

    group: str
    topic: str
    partition: int
    ts: Time
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
    from_ts: Time
    to_ts: Time | None


# Columns of the lake that `--format json` and `csv` omit.
_LAKE_ONLY: Final = frozenset({"cluster", "window_start", "window_end", "complete"})

TIMES: Final = frozenset(
    name
    for row in (Rebalance, MemberExit, Storm, PartitionStatus, Diagnosis, TimelineEntry)
    for name, type_ in row.__annotations__.items()
    if type_ in (Time, Time | None)
)
"""Names of the fields that are times."""


def fields(row: type[Any]) -> list[str]:
    """Return the fields of a row in `--format json` and `csv`, in order."""
    return [name for name in row._fields if name not in _LAKE_ONLY]
