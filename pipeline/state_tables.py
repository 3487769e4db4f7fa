"""What one batch hands to the next: tables of the lake that nobody but the layers reads.

Each is written whole by every batch that changes it, and commits with the batch, so that state and
answers are always of one moment.
"""

from typing import Final

import pyarrow as pa

from .columns import (
    BINARY,
    BOOL,
    INT,
    LONG,
    OF_PARTITION,
    OWNER,
    STRING,
    TIME,
    Table,
    columns,
    current,
)
from .tables import TABLES

__all__ = ["STATE"]

STATE: Final[dict[str, Table]] = {
    # --- of commits
    "state_place": current(
        "a partition of the offsets topic",
        columns(
            cluster_=STRING,
            offsets_partition_=INT,
            last_gap_=LONG,  # the last record that offsets are missing before; -1: none
        ),
    ),
    "state_commit": current(
        "a partition's last commit; none where that is a tombstone",
        OF_PARTITION,
        columns(
            offsets_partition_=INT,
            log_offset_=LONG,
            commit_ts_=TIME,
            offset_=LONG,
        ),
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
        "how many deltas a second of a group and topic are of one magnitude: below 2 ** magnitude",
        columns(cluster_=STRING, offsets_partition_=INT, group_=STRING, topic_=STRING),
        columns(magnitude_=INT, deltas_=LONG),
    ),
    "state_log_end": current(
        "a sample of a partition's log, of its last week, ever fewer the older they are",
        list(TABLES["bronze_log_end"].schema),
    ),
    # --- of groups
    "state_generation": current(
        "one of a group's newest records: its last hour, and the one before the next batch",
        list(TABLES["silver_generation"].schema),
    ),
    "state_consumer": current(
        "a key's newest record, of a group of the consumer protocol (KIP-848), as it is in the log",
        columns(cluster_=STRING, group_=STRING, key_=BINARY, log_offset_=LONG, value_=BINARY),
    ),
    "state_activity": current(
        "commits of a partition under a generation that state_generation has, or under none",
        list(TABLES["silver_activity"].schema),
    ),
    "state_removal": current(
        "a tombstone of a commit, of the last hour",
        OF_PARTITION,
        columns(log_offset_=LONG, removed_at_=TIME),
    ),
    "state_window": current(
        "the last ten commits of a partition, those of one second as one",
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
