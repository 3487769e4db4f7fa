"""Records as rows of columns.SOURCE, one by one: the reference for vectorized.py, which leaves rare
and irregular records to this module.

A record that cannot be decoded becomes a row of kind `other` with the reason in `flaw`.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from ...log.batch import read_header
from ...log.errors import InvalidRecord
from ...log.records import Record, records
from ...offsets.record_codec import decode_commit_value, decode_record
from ...offsets.record_schemas import decode_as_dicts
from ...offsets.records import (
    NO_TIMEOUT_MS,
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetTombstone,
    UndecodableRecord,
)
from ...protocol.consumer_protocol import ASSIGNMENT, SUBSCRIPTION, decode_as_dict
from ...protocol.errors import DecodeError
from ...protocol.primitives import INT16

Row = dict[str, Any]

# The last millisecond of the year 9999, the limit of Python's datetime and of Spark's SQL.
TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
# Subscriptions and assignments repeat from generation to generation.
BLOBS_CACHED: Final = 4096
TOPIC_ID_SINCE: Final = 4  # version of OffsetCommitValue
CONSUMER: Final = "consumer"  # the protocol type whose blobs Kafka defines


def micros(timestamp_ms: int) -> int | None:
    """Convert to microseconds. Return None for times below 0 or above TIMESTAMP_MS_MAX."""
    return timestamp_ms * 1000 if 0 <= timestamp_ms <= TIMESTAMP_MS_MAX else None


def rows_of(batch: bytes, offsets_partition: int, next_offset: int) -> Iterator[Row]:
    """Yield the rows of a valid batch; `next_offset`: the offset after the last record before it. A
    batch whose records contradict its header is one row, at its base offset."""
    header = read_header(batch)
    position = {
        "offsets_partition": offsets_partition,
        "leader_epoch_batch": header.leader_epoch,
        "producer_id": header.producer_id,
        "txn": header.is_transactional,
    }
    try:
        found = list(records(batch))
    except InvalidRecord as error:
        found = [Record(header.base_offset, header.max_timestamp, None, None)]
        contents = [
            {**_other(found[0], flaw=str(error)), "tombstone": False, "control": header.is_control}
        ]
    else:
        contents = [content_of(record, control=header.is_control) for record in found]
    for record, content in zip(found, contents, strict=True):
        yield {
            **position,
            "log_offset": record.offset,
            "append_ts": micros(record.timestamp),
            "missing_before": max(0, record.offset - next_offset),
            **content,
        }
        next_offset = record.offset + 1


def content_of(record: Record, *, control: bool) -> Row:
    """Return the columns that do not depend on the position in the log."""
    if control:
        return _control(record)
    try:
        columns = _decoded(record)
    except UndecodableRecord as error:
        columns = _other(record, flaw=str(error))
    return {"tombstone": record.value is None, "control": False, **columns}


def _decoded(record: Record) -> Row:
    """Decode a record. Raises UndecodableRecord."""
    version = None if record.value is None else int.from_bytes(record.value[:2], "big")
    match decode_record(record.key, record.value):
        case OffsetCommitRecord(group, topic, partition, value):
            committed = decode_commit_value(value)
            expire_ms = committed.expire_timestamp_ms
            return {
                **_commit(group, topic, partition),
                "offset": committed.offset,
                "leader_epoch": None if committed.leader_epoch == -1 else committed.leader_epoch,
                "metadata": committed.metadata,
                "commit_ts": micros(committed.commit_timestamp_ms),
                "expire_ts": None if expire_ms is None else micros(expire_ms),
                "topic_id": _topic_id(record, version),
                "value_version": version,
            }
        case OffsetTombstone(group, topic, partition):
            return _commit(group, topic, partition)
        case GroupMetadataRecord(group, stored):
            return {**_group(group, stored), "value_version": version}
        case GroupTombstone(group):
            return {"kind": "group", "group": group}
    return _other(record)


def _topic_id(record: Record, version: int | None) -> str | None:
    if version is None or version < TOPIC_ID_SINCE:
        return None
    found = decode_as_dicts(record.key, record.value)
    return None if found is None or found.value is None else found.value.get("topicId")


def _commit(group: str, topic: str, partition: int) -> Row:
    return {"kind": "commit", "group": group, "topic": topic, "partition": partition}


def _group(group: str, stored: GroupMetadata) -> Row:
    return {
        "kind": "group",
        "group": group,
        "generation": stored.generation,
        "protocol_type": stored.protocol_type,
        "protocol": stored.protocol_name,
        "leader": stored.leader,
        "state_ts": micros(stored.state_timestamp_ms),
        "members": [_member(each, stored.protocol_type) for each in stored.members],
    }


def _member(member: MemberMetadata, protocol_type: str) -> Row:
    is_consumer = protocol_type == CONSUMER
    subscription = _subscription(member.subscription) if is_consumer else None
    no_timeout = member.rebalance_timeout_ms == NO_TIMEOUT_MS
    generation = None if subscription is None else subscription.get("generationId")
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        # A value of version 0 has no rebalance timeout. A broker that loads such a value also uses
        # the session timeout.
        "rebalance_timeout_ms": (
            member.session_timeout_ms if no_timeout else member.rebalance_timeout_ms
        ),
        "session_timeout_ms": member.session_timeout_ms,
        "topics": None if subscription is None else subscription["topics"],
        "owned": None if subscription is None else _partitions(subscription.get("ownedPartitions")),
        "sub_generation": None if generation == -1 else generation,
        "rack": None if subscription is None else subscription.get("rackId"),
        "assigned": _assigned(member.assignment) if is_consumer else None,
        "raw_subscription": member.subscription if subscription is None else None,
    }


@lru_cache(BLOBS_CACHED)
def _subscription(blob: bytes) -> dict[str, Any] | None:
    try:
        return decode_as_dict(SUBSCRIPTION, blob)
    except DecodeError:
        return None


@lru_cache(BLOBS_CACHED)
def _assigned(blob: bytes) -> list[Row] | None:
    if not blob:
        return []  # not in the leader's SyncGroup
    try:
        return _partitions(decode_as_dict(ASSIGNMENT, blob)["assignedPartitions"])
    except DecodeError:
        return None


def _partitions(owned: list[dict[str, Any]] | None) -> list[Row] | None:
    if owned is None:
        return None
    return [
        {"topic": each["topic"], "partition": partition}
        for each in owned
        for partition in each["partitions"]
    ]


def _control(record: Record) -> Row:
    """Decode the key of a control record: a version and a type, 0 abort or 1 commit."""
    key = record.key or b""
    flaw = None if len(key) >= 4 else "the key of a control record has no type"
    kind = None if flaw else INT16.unpack_from(key, 2)[0]
    return {**_other(record, flaw=flaw), "key_version": kind, "tombstone": False, "control": True}


def _other(record: Record, *, flaw: str | None = None) -> Row:
    key = record.key
    return {
        "kind": "other",
        "key": key,
        "value": record.value,
        "key_version": None if key is None or len(key) < 2 else INT16.unpack_from(key)[0],
        "flaw": flaw,
    }
