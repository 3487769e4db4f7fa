"""Column declarations: Arrow types by name, columns that several tables share, and the schema of
the data source. Times are timestamps in UTC, except in `points`, where they are integers. Durations
end in `_ms` and are int64, except the timeouts of members, which are int32.
"""

import re
from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")
STRING, INT, LONG = pa.string(), pa.int32(), pa.int64()

TYPES: Final[dict[str, pa.DataType]] = {
    "string": STRING,
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "short": pa.int16(),
    "int": INT,
    "long": LONG,
    "double": pa.float64(),
    "time": TIME,
    "strings": pa.list_(STRING),
    "text_map": pa.map_(STRING, STRING),
}


def columns(declaration: str) -> list[pa.Field]:
    """Parse a declaration, `name type, name type!`: `!` marks a column that is never null, and `--`
    begins a comment."""
    pairs = (each.split() for each in re.sub("--.*", "", declaration).split(",") if each.strip())
    return [pa.field(name, TYPES[type_.rstrip("!")], type_[-1] != "!") for name, type_ in pairs]


# Partitions assigned to a member, or owned by the member when it joined.
TYPES["partitions"] = pa.list_(pa.struct(columns("topic string!, partition int!")))
TYPES["members"] = pa.list_(
    pa.struct(
        columns("""
            member_id string!, instance_id string, client_id string!, client_host string!,
            rebalance_timeout_ms int!, session_timeout_ms int!,
            topics strings,  -- null: the subscription cannot be decoded (Connect, custom protocols)
            -- null: version 0 of the subscription has none. For a member of the consumer
            -- protocol (KIP-848): its assigned partitions, and those not revoked yet.
            owned partitions,
            sub_generation int, rack string,
            regex string,  -- subscribedTopicRegex; `topics` contains the matches
            assigned partitions,  -- null: the assignment cannot be decoded
            raw_subscription binary
        """)
    )
)
# Commits of a partition (state_window).
TYPES["points"] = pa.list_(
    pa.struct(
        columns("log_offset long, second long, at_ms long, offset long, lag long, last_ms long")
    )
)

POSITION: Final = columns("""
    offsets_partition int!, log_offset long!, append_ts time, leader_epoch_batch int!,
    producer_id long!,  -- -1: none
    txn bool!,
    -- The number of offsets missing right before the record, removed by compaction; counts and
    -- times across such a gap are unknown.
    missing_before long!
""")
COMMIT: Final = columns("""
    group string, topic string, partition int, offset long,
    leader_epoch int,  -- null: not set by the client (-1 in the log)
    metadata string, commit_ts time, expire_ts time,
    topic_id string,  -- as Kafka prints it; null: not in the record (before Kafka 4.1)
    value_version short, tombstone bool!
""")
GROUP: Final = columns("""
    generation int, protocol_type string, protocol string, leader string, state_ts time,
    members members
""")
OTHER: Final = columns("""
    key binary, value binary,
    key_version short,  -- the record type; of a control record: 0 abort, 1 commit
    control bool!,
    flaw string  -- why the record or its batch could not be decoded
""")

SOURCE: Final = pa.schema([*columns("kind string!"), *POSITION, *COMMIT, *GROUP, *OTHER])
"""The rows of the data source `kohort`, one per record; `kind` is commit, group or other."""

ENVELOPE: Final = "cluster string!, source string!"
OF_GROUP: Final = "cluster string!, group string!"
OF_PARTITION: Final = f"{OF_GROUP}, topic string!, partition int!"
OWNER: Final = """
    owner_member_id string, owner_instance_id string, client_id string, client_host string
"""
