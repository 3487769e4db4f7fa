"""The tables of the lake: their columns, the meaning of a row, and how they grow.

`append`: a batch adds rows in its own `batch_id=` folder, which only compaction replaces later.
`current`: a batch rewrites the table, and only the newest folder is live.

Columns are declared as in columns.py. Null means unknown: a lag without a sample of the log end is
null, never 0.
"""

from types import NoneType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

import pyarrow as pa

from .columns import (
    COMMIT,
    ENVELOPE,
    GROUP,
    OF_GROUP,
    OF_PARTITION,
    OTHER,
    OWNER,
    POSITION,
    TYPES,
    columns,
)
from .diagnosis import rows


class Table(NamedTuple):
    """`grain`: the meaning of a row; `schema`: without `batch_id`, which is in the folder's
    name."""

    grain: str
    growth: Literal["append", "current"]
    schema: pa.Schema


# A declaration, fields, or a row class of diagnosis/rows.py.
Columns = str | list[pa.Field] | type


def append(grain: str, *parts: Columns) -> Table:
    return Table(grain, "append", _schema(parts))


def current(grain: str, *parts: Columns) -> Table:
    return Table(grain, "current", _schema(parts))


def _schema(parts: tuple[Columns, ...]) -> pa.Schema:
    fields: list[pa.Field] = []
    for part in parts:
        if isinstance(part, type):
            hints: dict[str, Any] = get_type_hints(part, include_extras=True)
            fields += [_column(name, hint) for name, hint in hints.items()]
        else:
            fields += columns(part) if isinstance(part, str) else part
    return pa.schema(fields)


_TYPE_NAMES: Final[dict[Any, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "double",
    tuple[str, ...]: "strings",
    rows.Long: "long",
    rows.Time: "time",
}


def _column(name: str, hint: Any) -> pa.Field:
    alternatives = get_args(hint) if get_origin(hint) not in (tuple, Annotated) else ()
    is_nullable = NoneType in alternatives
    type_ = next(each for each in alternatives if each is not NoneType) if is_nullable else hint
    return pa.field(name, TYPES[_TYPE_NAMES[type_]], is_nullable)


TABLES: Final[dict[str, Table]] = {
    # --- bronze: records as they were read
    "bronze_commit": append("an OffsetCommit record", ENVELOPE, POSITION, COMMIT),
    "bronze_group": append(
        "a GroupMetadata record",
        ENVELOPE,
        POSITION,
        "group string",
        GROUP,
        "value_version short, tombstone bool!",
    ),
    "bronze_other": append(
        "a record of another type, or a control record", ENVELOPE, POSITION, OTHER
    ),
    "bronze_log_end": append(
        "a sample of a partition's log start and end offset",
        """
        cluster string!, topic string!, partition int!, log_start long, log_end long!,
        sampled_at time!
        """,
    ),
    "bronze_event": append(
        "a line of the coordinator's event log",
        """
        cluster string!, ts time!, seq long!, node int!, type string!, group string!,
        member_id string, instance_id string, client_id string, client_host string,
        client_software string, generation int, state_from string, state_to string,
        error_code short, reason string, duration_ms long, detail text_map
        """,
    ),
    # --- silver: each record compared with the previous one
    "silver_commit": append(
        "a commit or its tombstone; a transactional commit once its transaction is committed",
        OF_PARTITION,
        """
        offsets_partition int!, log_offset long!, commit_ts time!, offset long, leader_epoch int,
        prev_offset long, prev_commit_ts time, delta long, gap_ms long,
        kind string!,  -- ADVANCE, REPEAT, REWIND, FIRST, TOMBSTONE
        generation int,  -- in force at this position of the log
        generation_log_offset long
        """,
        OWNER,
        "lag long, lag_ms long, group_empty bool!, history_complete bool!",
    ),
    "silver_generation": append(
        "a GroupMetadata record; for a consumer group, a change of epoch, members or assignment",
        OF_GROUP,
        """
        offsets_partition int!, log_offset long!,
        -- GENERATION, EMPTY, FIRST_SEEN, STATIC_REPLACED, TOMBSTONE
        record_kind string!,
        generation int, prev_generation int, prev_log_offset long, joined_at time, synced_at time,
        members int!, static_members int!, protocol_type string, protocol string, leader string,
        topics strings, joined strings, left strings, replaced strings, kept strings,
        metadata_hash long,  -- of the subscribed topics; consumer groups only
        lost_generations int,  -- null: unknown, because of a gap in the log, or a tombstone
        member_list members, history_complete bool!,
        last_gap long  -- the last record, up to this one, that follows a gap
        """,
    ),
    "silver_ownership": current(
        "an interval in which a partition had one owner",
        OF_PARTITION,
        """
        member_id string!, instance_id string, client_id string!, client_host string!,
        from_log_offset long!, to_log_offset long, from_ts time!, to_ts time
        """,
    ),
    "silver_activity": append(
        "a batch's commits of a partition in one generation; readers sum the rows",
        OF_PARTITION,
        """
        generation int, generation_log_offset long, commits long!, repeats long!,
        first_commit_ts time!, last_commit_ts time!, last_advance_ts time, first_offset long,
        last_offset long, last_log_offset long!, median_gap_ms long, history_complete bool!
        """,
    ),
    # --- gold: results
    "gold_partition_minute": append(
        "a batch's commits of a partition in one minute; readers sum the rows",
        OF_PARTITION,
        """
        minute time!, commits long!, advanced long!, repeats long!, rewinds long!,
        -- The sum of all advances, also those across log gaps and resets (gold_offset_jump).
        consumed long!,
        last_offset long, last_commit_ts time!, max_gap_ms long, end_lag long, max_lag long,
        lag_ms long, owner_client_id string
        """,
    ),
    "gold_partition_status": current("a partition of a group", rows.PartitionStatus),
    "gold_group_status": current("a group", rows.GroupStatus),
    "gold_rebalance": current("a rebalance, or another change to a group", rows.Rebalance),
    "gold_rebalance_storm": current("a rebalance storm", rows.Storm),
    "gold_member_exit": current("a member that left a group", rows.MemberExit),
    "gold_skew": current(
        "the balance of a generation's assignment, for all topics (null) and for each", rows.Skew
    ),
    "gold_offset_jump": append(
        "an offset that went back, or far ahead",
        OF_PARTITION,
        """
        log_offset long!, ts time!, from_offset long, to_offset long, jump long,
        -- SEEK_BACK, DUPLICATE_AFTER_REBALANCE, ADMIN_RESET, SKIP_AHEAD, TO_EARLIEST, TO_LATEST
        kind string!,
        by string
        """,
    ),
    "gold_group_lifecycle": current("a group", rows.GroupLifecycle),
    "gold_diagnosis": current("a group and its diagnosis", rows.Diagnosis),
}
"""The tables for users."""

STATE_TABLES: Final[dict[str, Table]] = {
    # --- commits
    "state_place": current(
        "a partition of the offsets topic",
        # last_gap: the last record that follows a gap; -1: none
        "cluster string!, offsets_partition int!, last_gap long!",
    ),
    "state_commit": current(
        "a partition's last commit, unless that is a tombstone",
        OF_PARTITION,
        "offsets_partition int!, log_offset long!, commit_ts time!, offset long!",
    ),
    "state_open_txn": current(
        "a commit whose transaction has not ended",
        OF_PARTITION,
        """
        offsets_partition int!, log_offset long!, producer_id long!, commit_ts time, offset long,
        leader_epoch int, last_gap long!, generation int, generation_log_offset long,
        group_empty bool!
        """,
        OWNER,
    ),
    "state_delta": current(
        "commits of a group and topic with a pace in [2^(magnitude-1), 2^magnitude) records/s",
        "cluster string!, offsets_partition int!, group string!, topic string!",
        "magnitude int!, deltas long!",
    ),
    "state_log_end": current(
        "a sample of a partition's log from the last week; older samples are sparser",
        list(TABLES["bronze_log_end"].schema),
    ),
    # --- groups
    "state_generation": current(
        "one of a group's newest records: from the hour before the newest, or among the last three",
        list(TABLES["silver_generation"].schema),
    ),
    "state_topic_id": current(
        "a topic id and its topic", "cluster string!, topic_id string!, topic string!"
    ),
    "state_consumer": current(
        "the newest record of a key of a consumer group (KIP-848), not decoded",
        OF_GROUP,
        "key binary!, log_offset long!, value binary!",
    ),
    "state_activity": current(
        "commits of a partition in a generation of state_generation, or without a generation",
        list(TABLES["silver_activity"].schema),
    ),
    "state_removal": current(
        "a tombstone of a commit, from the last hour",
        OF_PARTITION,
        "log_offset long!, removed_at time!",
    ),
    "state_window": current(
        "the last ten commits of a partition; all commits within one second count as one",
        OF_PARTITION,
        "offsets_partition int!, points points!",
    ),
}
"""State tables, which pass state from one batch to the next. They are committed with the batch, so
that state and results are always consistent. They may change in any version."""
