"""The tables of the lake: their columns, what a row is, and how they grow.

`append`: a batch adds rows in its own `batch_id=` folder, which only compaction changes later.
`current`: a batch rewrites the table, and only the newest folder counts.

Times are timestamps in UTC; durations are `_ms`, int64. Null means unknown: a lag without a sample
of the log end is null, never 0.
"""

from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

import pyarrow as pa

from .columns import (
    BINARY,
    BOOL,
    COMMIT,
    DETAIL,
    DOUBLE,
    ENVELOPE,
    GROUP,
    INT,
    LONG,
    MEMBERS,
    OF_GROUP,
    OF_PARTITION,
    OTHER,
    OWNER,
    POSITION,
    SHORT,
    STRING,
    STRINGS,
    TIME,
    columns,
)
from .diagnosis import rows


class Table(NamedTuple):
    """`grain`: what a row is; `schema`: without `batch_id`, which is in the folder's name."""

    grain: str
    growth: Literal["append", "current"]
    schema: pa.Schema


def append(grain: str, *fields: list[pa.Field]) -> Table:
    return Table(grain, "append", pa.schema([field for part in fields for field in part]))


def current(grain: str, *fields: list[pa.Field]) -> Table:
    return Table(grain, "current", pa.schema([field for part in fields for field in part]))


_ARROW_TYPES: Final = {
    str: STRING,
    bool: BOOL,
    int: INT,
    float: DOUBLE,
    tuple[str, ...]: STRINGS,
    rows.Long: LONG,
    rows.Time: TIME,
}


def _columns_of(row: type) -> list[pa.Field]:
    """The columns that a row class of diagnosis/rows.py declares."""
    hints: dict[str, Any] = get_type_hints(row, include_extras=True)
    return [_column(name, hint) for name, hint in hints.items()]


def _column(name: str, hint: Any) -> pa.Field:
    alternatives = get_args(hint) if get_origin(hint) not in (tuple, Annotated) else ()
    is_nullable = NoneType in alternatives
    type_ = next(each for each in alternatives if each is not NoneType) if is_nullable else hint
    return pa.field(name, _ARROW_TYPES[type_], is_nullable)


TABLES: Final[dict[str, Table]] = {
    # --- bronze: records as they were read
    "bronze_commit": append("an OffsetCommit record", ENVELOPE, POSITION, COMMIT),
    "bronze_group": append(
        "a GroupMetadata record",
        ENVELOPE,
        POSITION,
        [COMMIT[0], *GROUP],
        columns(value_version=SHORT, tombstone_=BOOL),
    ),
    "bronze_other": append(
        "a record of another type, or a control record", ENVELOPE, POSITION, OTHER
    ),
    "bronze_log_end": append(
        "a sample of a partition's log start and end offset",
        columns(
            cluster_=STRING,
            topic_=STRING,
            partition_=INT,
            log_start=LONG,
            log_end_=LONG,
            sampled_at_=TIME,
        ),
    ),
    "bronze_event": append(
        "a line of the coordinator's event log",
        columns(
            cluster_=STRING,
            ts_=TIME,
            seq_=LONG,
            node_=INT,
            type_=STRING,
            group_=STRING,
            member_id=STRING,
            instance_id=STRING,
            client_id=STRING,
            client_host=STRING,
            client_software=STRING,
            generation=INT,
            state_from=STRING,
            state_to=STRING,
            error_code=SHORT,
            reason=STRING,
            duration_ms=LONG,
            detail=DETAIL,
        ),
    ),
    # --- silver: each record compared with the previous one
    "silver_commit": append(
        "a commit or its tombstone; a transactional commit once its transaction is committed",
        OF_PARTITION,
        columns(
            offsets_partition_=INT,
            log_offset_=LONG,
            commit_ts_=TIME,
            offset=LONG,
            leader_epoch=INT,
            prev_offset=LONG,
            prev_commit_ts=TIME,
            delta=LONG,
            gap_ms=LONG,
            kind_=STRING,  # ADVANCE, REPEAT, REWIND, FIRST, TOMBSTONE
            generation=INT,  # in force at this position of the log
            generation_log_offset=LONG,
        ),
        OWNER,
        columns(lag=LONG, lag_ms=LONG, group_empty_=BOOL, history_complete_=BOOL),
    ),
    "silver_generation": append(
        "a GroupMetadata record",
        OF_GROUP,
        columns(
            offsets_partition_=INT,
            log_offset_=LONG,
            # GENERATION, EMPTY, FIRST_SEEN, STATIC_REPLACED, TOMBSTONE; CONVERTED (to KIP-848)
            record_kind_=STRING,
            generation=INT,
            prev_generation=INT,
            prev_log_offset=LONG,
            joined_at=TIME,
            synced_at=TIME,
            members_=INT,
            static_members_=INT,
            protocol_type=STRING,
            protocol=STRING,
            leader=STRING,
            topics=STRINGS,
            joined=STRINGS,
            left=STRINGS,
            replaced=STRINGS,
            kept=STRINGS,
            lost_generations=INT,  # null: records in between were compacted away
            member_list=MEMBERS,
            history_complete_=BOOL,
            last_gap=LONG,  # the last record, up to this one, that follows a gap
        ),
    ),
    "silver_ownership": current(
        "an interval in which a partition had one owner",
        OF_PARTITION,
        columns(
            member_id_=STRING,
            instance_id=STRING,
            client_id_=STRING,
            client_host_=STRING,
            from_log_offset_=LONG,
            to_log_offset=LONG,
            from_ts_=TIME,
            to_ts=TIME,
        ),
    ),
    "silver_activity": append(
        "a batch's commits of a partition under one generation; readers sum the rows",
        OF_PARTITION,
        columns(
            generation=INT,
            generation_log_offset=LONG,
            commits_=LONG,
            repeats_=LONG,
            first_commit_ts_=TIME,
            last_commit_ts_=TIME,
            last_advance_ts=TIME,
            first_offset=LONG,
            last_offset=LONG,
            last_log_offset_=LONG,
            median_gap_ms=LONG,
            history_complete_=BOOL,
        ),
    ),
    # --- gold: results
    "gold_partition_minute": append(
        "a batch's commits of a partition in one minute; readers sum the rows",
        OF_PARTITION,
        columns(
            minute_=TIME,
            commits_=LONG,
            advanced_=LONG,
            repeats_=LONG,
            rewinds_=LONG,
            consumed_=LONG,  # the sum of all advances
            last_offset=LONG,
            last_commit_ts_=TIME,
            max_gap_ms=LONG,
            end_lag=LONG,
            max_lag=LONG,
            lag_ms=LONG,
            owner_client_id=STRING,
        ),
    ),
    "gold_partition_status": current("a partition of a group", _columns_of(rows.PartitionStatus)),
    "gold_group_status": current("a group", _columns_of(rows.GroupStatus)),
    "gold_rebalance": current(
        "a rebalance, or another change of a group", _columns_of(rows.Rebalance)
    ),
    "gold_rebalance_storm": current("a rebalance storm", _columns_of(rows.Storm)),
    "gold_member_exit": current("a member that left a group", _columns_of(rows.MemberExit)),
    "gold_skew": current(
        "the balance of a generation's assignment, for all topics (null) and for each",
        _columns_of(rows.Skew),
    ),
    "gold_offset_jump": append(
        "an offset that went back, or far ahead",
        OF_PARTITION,
        columns(
            log_offset_=LONG,
            ts_=TIME,
            from_offset=LONG,
            to_offset=LONG,
            jump=LONG,
            # SEEK_BACK, DUPLICATE_AFTER_REBALANCE, ADMIN_RESET, SKIP_AHEAD, TO_EARLIEST, TO_LATEST
            kind_=STRING,
            by=STRING,
        ),
    ),
    "gold_group_lifecycle": current("a group", _columns_of(rows.GroupLifecycle)),
    "gold_diagnosis": current("a group and its diagnosis", _columns_of(rows.Diagnosis)),
}
"""The tables for users."""

STATE_TABLES: Final[dict[str, Table]] = {
    # --- commits
    "state_place": current(
        "a partition of the offsets topic",
        columns(
            cluster_=STRING,
            offsets_partition_=INT,
            last_gap_=LONG,  # the last record that follows a gap; -1: none
        ),
    ),
    "state_commit": current(
        "a partition's last commit, unless that is a tombstone",
        OF_PARTITION,
        columns(offsets_partition_=INT, log_offset_=LONG, commit_ts_=TIME, offset_=LONG),
    ),
    "state_open_txn": current(
        "a commit whose transaction has not ended",
        OF_PARTITION,
        columns(
            offsets_partition_=INT,
            log_offset_=LONG,
            producer_id_=LONG,
            commit_ts=TIME,
            offset=LONG,
            leader_epoch=INT,
            last_gap_=LONG,
            generation=INT,
            generation_log_offset=LONG,
            group_empty_=BOOL,
        ),
        OWNER,
    ),
    "state_delta": current(
        "how many deltas per second of a group and topic are in [2^(magnitude-1), 2^magnitude)",
        columns(cluster_=STRING, offsets_partition_=INT, group_=STRING, topic_=STRING),
        columns(magnitude_=INT, deltas_=LONG),
    ),
    "state_log_end": current(
        "a sample of a partition's log, of the last week, fewer the older they are",
        list(TABLES["bronze_log_end"].schema),
    ),
    # --- groups
    "state_generation": current(
        "one of a group's newest records: the last hour's, and always the last one",
        list(TABLES["silver_generation"].schema),
    ),
    "state_consumer": current(
        "the newest record of a key of a consumer group (KIP-848), not decoded",
        columns(cluster_=STRING, group_=STRING, key_=BINARY, log_offset_=LONG, value_=BINARY),
    ),
    "state_activity": current(
        "commits of a partition under a generation in state_generation, or under none",
        list(TABLES["silver_activity"].schema),
    ),
    "state_removal": current(
        "a tombstone of a commit, of the last hour",
        OF_PARTITION,
        columns(log_offset_=LONG, removed_at_=TIME),
    ),
    "state_window": current(
        "the last ten commits of a partition; those of one second count as one",
        OF_PARTITION,
        columns(
            offsets_partition_=INT,
            points_=pa.list_(
                pa.struct(
                    columns(
                        log_offset=LONG,
                        second=LONG,
                        at_ms=LONG,
                        offset=LONG,
                        lag=LONG,
                        last_ms=LONG,
                    )
                )
            ),
        ),
    ),
}
"""What one batch hands to the next. They are committed with the batch, so that state and results
always belong together, and may change in any version."""
