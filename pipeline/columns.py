"""Arrow types and groups of columns that several tables share, and the schema of the data source.

Times are timestamps in UTC; durations are `_ms`, int64.
"""

from typing import Final

import pyarrow as pa

TIME: Final = pa.timestamp("us", tz="UTC")
STRING, BINARY, BOOL = pa.string(), pa.binary(), pa.bool_()
SHORT, INT, LONG, DOUBLE = pa.int16(), pa.int32(), pa.int64(), pa.float64()
STRINGS: Final = pa.list_(STRING)


def columns(**types: pa.DataType) -> list[pa.Field]:
    """Fields by name; a trailing underscore marks a column that is never null."""
    return [
        pa.field(name.rstrip("_"), type_, not name.endswith("_")) for name, type_ in types.items()
    ]


ASSIGNED: Final = pa.struct(columns(topic_=STRING, partition_=INT))
"""A partition that a member was assigned, or owned when it joined."""

MEMBER: Final = pa.struct(
    columns(
        member_id_=STRING,
        instance_id=STRING,
        client_id_=STRING,
        client_host_=STRING,
        rebalance_timeout_ms_=INT,
        session_timeout_ms_=INT,
        topics=STRINGS,  # null: the subscription cannot be decoded (Connect, custom protocols)
        owned=pa.list_(ASSIGNED),  # null: not in this version of the subscription (v0)
        sub_generation=INT,
        rack=STRING,
        assigned=pa.list_(ASSIGNED),  # null: the assignment cannot be decoded
        raw_subscription=BINARY,
    )
)

MEMBERS: Final = pa.list_(MEMBER)
DETAIL: Final = pa.map_(STRING, STRING)

# A record's position in the log. `missing_before`: the number of offsets missing right before it,
# removed by compaction; counts and times across such a gap are unknown.
POSITION: Final = columns(
    offsets_partition_=INT,
    log_offset_=LONG,
    append_ts=TIME,
    leader_epoch_batch_=INT,
    producer_id_=LONG,  # -1: none
    txn_=BOOL,
    missing_before_=LONG,
)
COMMIT: Final = columns(
    group=STRING,
    topic=STRING,
    partition=INT,
    offset=LONG,
    leader_epoch=INT,  # null: not given by the client (-1 in the log)
    metadata=STRING,
    commit_ts=TIME,
    expire_ts=TIME,
    value_version=SHORT,
    tombstone_=BOOL,
)
GROUP: Final = columns(
    generation=INT,
    protocol_type=STRING,
    protocol=STRING,
    leader=STRING,
    state_ts=TIME,
    members=MEMBERS,
)
OTHER: Final = columns(
    key=BINARY,
    value=BINARY,
    key_version=SHORT,  # the record type; of a control record: 0 abort, 1 commit
    control_=BOOL,
    flaw=STRING,  # why a record of a known type could not be decoded
)

SOURCE: Final = pa.schema([*columns(kind_=STRING), *POSITION, *COMMIT, *GROUP, *OTHER])
"""The rows of the data source `kohort`: one per record; `kind` is commit, group or other."""

ENVELOPE: Final = columns(cluster_=STRING, source_=STRING)
OF_PARTITION: Final = columns(cluster_=STRING, group_=STRING, topic_=STRING, partition_=INT)
OF_GROUP: Final = columns(cluster_=STRING, group_=STRING)
OWNER: Final = columns(
    owner_member_id=STRING, owner_instance_id=STRING, client_id=STRING, client_host=STRING
)
