"""The pieces that tables are made of, and the row that the data source yields.

Times are timestamps in UTC; spans are `_ms`, longs.
"""

from typing import Final, Literal, NamedTuple

import pyarrow as pa

__all__ = [
    "ASSIGNED",
    "CAUSE",
    "COMMIT",
    "ENVELOPE",
    "GROUP",
    "MEMBER",
    "OF_GROUP",
    "OF_PARTITION",
    "OTHER",
    "OWNER",
    "PLACE",
    "SOURCE",
    "Table",
    "append",
    "columns",
    "current",
]

TIME: Final = pa.timestamp("us", tz="UTC")
STRING, BINARY, BOOL = pa.string(), pa.binary(), pa.bool_()
SHORT, INT, LONG, DOUBLE = pa.int16(), pa.int32(), pa.int64(), pa.float64()
STRINGS: Final = pa.list_(STRING)


def columns(**types: pa.DataType) -> list[pa.Field]:
    """A column whose name is given with an underscore at its end is never null."""
    return [
        pa.field(name.rstrip("_"), type_, not name.endswith("_")) for name, type_ in types.items()
    ]


ASSIGNED: Final = pa.struct(columns(topic_=STRING, partition_=INT))
"""A partition that a member was given, or says it has."""

MEMBER: Final = pa.struct(
    columns(
        member_id_=STRING,
        instance_id=STRING,
        client_id_=STRING,
        client_host_=STRING,
        rebalance_timeout_ms_=INT,
        session_timeout_ms_=INT,
        topics=STRINGS,  # null: a subscription that cannot be read (Connect, custom protocols)
        owned=pa.list_(ASSIGNED),  # null: of a version that does not say (v0)
        sub_generation=INT,
        rack=STRING,
        assigned=pa.list_(ASSIGNED),  # null: an assignment that cannot be read
        raw_subscription=BINARY,
    )
)

MEMBERS: Final = pa.list_(MEMBER)
DETAIL: Final = pa.map_(STRING, STRING)

# Where a record stands in the log. `missing_before`: how many offsets right before it are not in
# the log any more, which is compaction's work; what is counted or timed across it is not known.
PLACE: Final = columns(
    offsets_partition_=INT,
    log_offset_=LONG,
    append_ts=TIME,
    leader_epoch_batch_=INT,
    producer_id_=LONG,  # -1: of no producer
    txn_=BOOL,
    missing_before_=LONG,
)
COMMIT: Final = columns(
    group=STRING,
    topic=STRING,
    partition=INT,
    offset=LONG,
    leader_epoch=INT,  # null: the client gave none (-1 in the log)
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
    flaw=STRING,  # why a record of a known type could not be read
)

SOURCE: Final = pa.schema([*columns(kind_=STRING), *PLACE, *COMMIT, *GROUP, *OTHER])
"""What the data source `kohort` yields: a row per record; `kind` commit, group or other."""

ENVELOPE: Final = columns(cluster_=STRING, source_=STRING)
OF_PARTITION: Final = columns(cluster_=STRING, group_=STRING, topic_=STRING, partition_=INT)
OF_GROUP: Final = columns(cluster_=STRING, group_=STRING)
OWNER: Final = columns(
    owner_member_id=STRING, owner_instance_id=STRING, client_id=STRING, client_host=STRING
)
CAUSE: Final = columns(
    cause_=STRING,  # a name of offsets.causes.Cause
    confidence_=STRING,  # exact (of the event log), high, medium, low
    evidence_=STRING,  # a sentence with the figures that it rests on
)


class Table(NamedTuple):
    """`grain`: what one row is; `schema` is without `batch_id`, which its folder says."""

    grain: str
    growth: Literal["append", "current"]
    schema: pa.Schema


def append(grain: str, *fields: list[pa.Field]) -> Table:
    return Table(grain, "append", pa.schema([field for part in fields for field in part]))


def current(grain: str, *fields: list[pa.Field]) -> Table:
    return Table(grain, "current", pa.schema([field for part in fields for field in part]))
