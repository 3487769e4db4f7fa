"""Every table of the lake: its columns, what one row is, and how it grows.

`append`: a batch adds rows under its own `batch_id=` folder, and they are never touched again but
by compaction. `current`: a batch writes the whole table anew, and only the newest one counts.

Times are timestamps in UTC; spans are `_ms`, longs. A column that may be null is null where nothing
is known: a lag without a sample of the log's end is null, never 0.
"""

from typing import Final

from .columns import (
    BOOL,
    CAUSE,
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
    PLACE,
    SHORT,
    STRING,
    STRINGS,
    TIME,
    Table,
    append,
    columns,
    current,
)

__all__ = ["TABLES", "Table"]

TABLES: Final[dict[str, Table]] = {
    # --- bronze: what was read, as it was
    "bronze_commit": append("a record of a commit", ENVELOPE, PLACE, COMMIT),
    "bronze_group": append(
        "a record of a group's metadata",
        ENVELOPE,
        PLACE,
        [COMMIT[0], *GROUP],
        columns(value_version=SHORT, tombstone_=BOOL),
    ),
    "bronze_other": append("a record of another kind, a control record", ENVELOPE, PLACE, OTHER),
    "bronze_log_end": append(
        "a sample of a partition's log",
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
    # --- silver: each record beside what came before it
    "silver_commit": append(
        "a commit, its tombstone; of a transaction once it is committed",
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
            generation=INT,  # in force at its place in the log
            generation_log_offset=LONG,
        ),
        OWNER,
        columns(lag=LONG, lag_ms=LONG, group_empty_=BOOL, history_complete_=BOOL),
    ),
    "silver_generation": append(
        "a record of a group's metadata",
        OF_GROUP,
        columns(
            offsets_partition_=INT,
            log_offset_=LONG,
            # GENERATION, EMPTY, FIRST_SEEN, STATIC_REPLACED, TOMBSTONE; CONVERTED: one to KIP-848
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
            lost_generations=INT,  # null: the log between the two was compacted
            member_list=MEMBERS,
            history_complete_=BOOL,
            last_gap=LONG,  # the last record up to this one that offsets are missing before
        ),
    ),
    "silver_ownership": current(
        "a partition's time with one owner",
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
        "a batch's commits of a partition under one generation; readers add rows up",
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
    # --- gold: answers
    "gold_partition_minute": append(
        "a batch's commits of a partition in one minute; readers add rows up",
        OF_PARTITION,
        columns(
            minute_=TIME,
            commits_=LONG,
            advanced_=LONG,
            repeats_=LONG,
            rewinds_=LONG,
            consumed_=LONG,  # the sum of what offsets grew by
            last_offset=LONG,
            last_commit_ts_=TIME,
            max_gap_ms=LONG,
            end_lag=LONG,
            max_lag=LONG,
            lag_ms=LONG,
            owner_client_id=STRING,
        ),
    ),
    "gold_partition_status": current(
        "a partition of a group",
        OF_PARTITION,
        columns(
            status_=STRING,  # Burrow's, and REBALANCING, NO_OWNER, DATA_LOST, UNKNOWN
            status_burrow_=STRING,  # OK, WARN, STOP, STALL, REWIND; UNKNOWN without samples
            status_reason_=STRING,
            committed=LONG,
            log_start=LONG,
            log_end=LONG,
            lag=LONG,
            lag_ms=LONG,
            trend=STRING,  # GROWING, SHRINKING, FLAT
            consume_rate=DOUBLE,  # per second
            produce_rate=DOUBLE,
            catch_up_ms=LONG,  # null: never, or not known
            last_commit_ts=TIME,
            window_start=TIME,
            window_end=TIME,
            complete_=DOUBLE,
        ),
        OWNER,
        columns(as_of_=TIME),
    ),
    "gold_group_status": current(
        "a group",
        OF_GROUP,
        columns(
            state_inferred_=STRING,
            status_=STRING,
            status_burrow_=STRING,
            total_lag=LONG,
            max_lag=LONG,
            max_lag_topic=STRING,
            max_lag_partition=INT,
            max_lag_ms=LONG,
            members_=INT,
            partitions_=INT,
            unassigned=INT,  # null, as the next: of the consumer protocol, and not known
            rebalances_1h=INT,
            pause_share_1h=DOUBLE,
            protocol=STRING,
            as_of_=TIME,
        ),
    ),
    "gold_rebalance": current(
        "a rebalance, or another change of a group that its log tells of",
        OF_GROUP,
        columns(
            log_offset_=LONG,
            generation=INT,
            started_at_est=TIME,
            joined_at=TIME,
            synced_at=TIME,
        ),
        CAUSE,
        columns(
            is_rebalance_=BOOL,  # False: a static replacement, a first sight, a tombstone
            member_id=STRING,  # whom the cause is about, the first of them
            client_id=STRING,
            members_before_=INT,
            members_after_=INT,
            moved=INT,
            kept=INT,
            revoked_then_returned=INT,
            stickiness=DOUBLE,
            pause_ms=LONG,
            sync_ms=LONG,
            join_ms=LONG,  # of the event log alone
            wait_ms=LONG,  # how long the others waited for the last one to join
            waited_for=STRING,  # that one's member id
            lost_generations=INT,
            rejected_commits=INT,  # of the event log alone
        ),
    ),
    "gold_rebalance_storm": current(
        "a storm of rebalances",
        OF_GROUP,
        columns(
            from_ts_=TIME,
            to_ts_=TIME,
            rebalances_=INT,
            distinct_members_=INT,
            pause_ms_total=LONG,
            dominant_cause_=STRING,
        ),
    ),
    "gold_member_exit": current(
        "a member's end",
        OF_GROUP,
        columns(
            log_offset_=LONG,  # of the first record that it is not in
            generation_=INT,  # the last one that it was in
            left_at=TIME,
            member_id_=STRING,
            instance_id=STRING,
            client_id_=STRING,
            client_host_=STRING,
        ),
        CAUSE,
        columns(
            silence_ms=LONG,
            session_timeout_ms_=INT,
            rebalance_timeout_ms_=INT,
            came_back_after_ms=LONG,
            heartbeat_ms_est=LONG,  # of the event log alone: by how members hear of rounds
        ),
    ),
    "gold_skew": current(
        "a generation's shares, of all topics (topic null) and of each",
        OF_GROUP,
        columns(
            generation_=INT,
            log_offset_=LONG,
            topic=STRING,
            max_parts_=INT,
            min_parts_=INT,
            ideal_=INT,
            imbalance_=DOUBLE,
            cv_=DOUBLE,
            idle_members_=INT,
            lag_skew=DOUBLE,
        ),
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
    "gold_group_lifecycle": current(
        "a group",
        OF_GROUP,
        columns(
            first_seen_=TIME,
            last_commit=TIME,
            emptied_at=TIME,
            deleted_at=TIME,
            # EXPIRED, DELETED, DELETED_OR_EXPIRED, OFFSETS_DELETED, TOPIC_DELETED; null: it lives
            end_kind=STRING,
            expires_at_est=TIME,
        ),
    ),
    "gold_diagnosis": current(
        "what is to be said of a group",
        OF_GROUP,
        columns(
            severity_=INT,  # 0 nothing wrong, 1 to be known, 2 warning, 3 error
            verdict_=STRING,
            text_=STRING,
            evidence_=STRINGS,
            advice_=STRINGS,
            as_of_=TIME,
        ),
    ),
}
