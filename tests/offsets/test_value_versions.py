"""Values of every version, encoded by kio: an oracle for kohort's schemas.

The tables below repeat OffsetCommitValue.json and GroupMetadataValue.json (Kafka's
group-coordinator); kio encodes dataclasses that are made from them.
"""

import io
import uuid
from collections.abc import Sequence
from dataclasses import field, make_dataclass
from functools import cache
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64
from kohort.offsets.record_codec import (
    decode_commit_value,
    decode_record,
    encode_commit_value,
    encode_group_value,
)
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    UndecodableRecord,
)


class Field(NamedTuple):
    """A field and the versions that have it."""

    name: str
    type: Any
    kafka_type: str | None  # None: an array of entities
    versions: Sequence[int]
    tag: int | None = None


ALL = range(5)

OFFSET_COMMIT_VALUE = (
    Field("offset", i64, "int64", ALL),
    Field("leader_epoch", i32, "int32", (3, 4)),
    Field("metadata", str, "string", ALL),
    Field("commit_timestamp", i64, "int64", ALL),
    Field("expire_timestamp", i64, "int64", (1,)),
    Field("topic_id", uuid.UUID | None, "uuid", (4,), tag=0),
)

MEMBER_METADATA = (
    Field("member_id", str, "string", ALL),
    Field("group_instance_id", str | None, "string", (3, 4)),
    Field("client_id", str, "string", ALL),
    Field("client_host", str, "string", ALL),
    Field("rebalance_timeout", i32, "int32", (1, 2, 3, 4)),
    Field("session_timeout", i32, "int32", ALL),
    Field("subscription", bytes, "bytes", ALL),
    Field("assignment", bytes, "bytes", ALL),
)

GROUP_METADATA_VALUE = (
    Field("protocol_type", str, "string", ALL),
    Field("generation", i32, "int32", ALL),
    Field("protocol", str | None, "string", ALL),
    Field("leader", str | None, "string", ALL),
    Field("current_state_timestamp", i64, "int64", (2, 3, 4)),
)


@cache
def commit_entity(version: int) -> Any:
    return entity("OffsetCommitValue", version, OFFSET_COMMIT_VALUE, EntityType.data)


@cache
def member_entity(version: int) -> Any:
    return entity("MemberMetadata", version, MEMBER_METADATA, EntityType.nested)


@cache
def group_entity(version: int) -> Any:
    members = Field("members", tuple[member_entity(version), ...], None, ALL)
    return entity("GroupMetadataValue", version, (*GROUP_METADATA_VALUE, members), EntityType.data)


def entity(name: str, version: int, fields: Sequence[Field], entity_type: EntityType) -> Any:
    rows: list[Any] = []
    for row in fields:
        if version not in row.versions:
            continue
        metadata: dict[str, Any] = {}
        if row.kafka_type is not None:
            metadata["kafka_type"] = row.kafka_type
        if row.tag is None:
            rows.append((row.name, row.type, field(metadata=metadata)))
        else:
            metadata["tag"] = row.tag
            rows.append((row.name, row.type, field(metadata=metadata, default=None)))
    return make_dataclass(
        name,
        rows,
        namespace={
            "__type__": entity_type,
            "__version__": i16(version),
            "__flexible__": version >= 4,
        },
        frozen=True,
        slots=True,
        kw_only=True,
    )


def encoded(message: Any) -> bytes:
    """Return the version and the message, encoded by kio."""
    buffer = io.BytesIO(message.__version__.to_bytes(2, "big"))
    buffer.seek(2)
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode_group(value: bytes) -> GroupMetadata:
    record = decode_record(b"\x00\x02\x00\x01g", value)
    assert isinstance(record, GroupMetadataRecord)
    return record.value


int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(max_size=200)
versions = st.sampled_from(ALL)


@given(
    versions,
    int64s,
    int32s,
    st.just("") | texts,
    int64s,
    st.just(-1) | int64s,
    st.none() | st.uuids(),
    st.binary(max_size=3),
)
@example(3, 42, 7, "", 1_700_000_000_000, 0, None, b"")
@example(4, 42, 7, "", 1_700_000_000_000, 0, None, b"")
@example(4, 42, 7, "", 1_700_000_000_000, 0, uuid.UUID(int=1), b"")
@example(4, 42, 7, "", 1_700_000_000_000, 0, uuid.UUID(int=1), b"x")
def test_commits_of_every_version_are_decoded(
    version: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: uuid.UUID | None,
    trailing: bytes,
) -> None:
    """Typical values are decoded on a fast path. Trailing bytes are ignored."""
    fields: dict[str, Any] = {
        "offset": offset,
        "leader_epoch": leader_epoch,
        "metadata": metadata,
        "commit_timestamp": commit_timestamp_ms,
        "expire_timestamp": expire_timestamp_ms,
        "topic_id": topic_id,
    }
    entity_type = commit_entity(version)
    known = {name: fields[name] for name in entity_type.__dataclass_fields__}
    committed = decode_commit_value(encoded(entity_type(**known)) + trailing)
    expires = version == 1 and expire_timestamp_ms != -1
    assert committed == (
        offset,
        leader_epoch if version >= 3 else -1,
        metadata,
        commit_timestamp_ms,
        expire_timestamp_ms if expires else None,
        topic_id.bytes if version >= 4 and topic_id is not None else None,
    )


members = st.builds(
    MemberMetadata,
    member_id=texts,
    group_instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=int32s,
    session_timeout_ms=int32s,
    subscription=st.binary(max_size=300),
    assignment=st.binary(max_size=300),
)
groups = st.builds(
    GroupMetadata,
    protocol_type=texts,
    generation=int32s,
    protocol_name=st.none() | texts,
    leader=st.none() | texts,
    state_timestamp_ms=int64s,
    members=st.lists(members, max_size=4).map(tuple),
)


def as_entity(group: GroupMetadata, version: int) -> Any:
    def member_as_entity(member: MemberMetadata) -> Any:
        since_v1 = {"rebalance_timeout": member.rebalance_timeout_ms} if version >= 1 else {}
        since_v3 = {"group_instance_id": member.group_instance_id} if version >= 3 else {}
        return member_entity(version)(
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout=member.session_timeout_ms,
            subscription=member.subscription,
            assignment=member.assignment,
            **since_v1,
            **since_v3,
        )

    since_v2 = {"current_state_timestamp": group.state_timestamp_ms} if version >= 2 else {}
    return group_entity(version)(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        members=tuple(map(member_as_entity, group.members)),
        **since_v2,
    )


@given(versions, groups)
def test_groups_of_every_version_are_decoded(version: int, group: GroupMetadata) -> None:
    def as_known(member: MemberMetadata) -> MemberMetadata:
        if version < 1:
            member = member._replace(rebalance_timeout_ms=-1)
        return member if version >= 3 else member._replace(group_instance_id=None)

    assert decode_group(encoded(as_entity(group, version))) == group._replace(
        state_timestamp_ms=group.state_timestamp_ms if version >= 2 else -1,
        members=tuple(map(as_known, group.members)),
    )


@given(groups)
def test_group_is_encoded_in_version_3_as_by_kio(group: GroupMetadata) -> None:
    assert encode_group_value(group) == encoded(as_entity(group, 3))


@given(
    int64s,
    int32s,
    st.none() | texts | st.text("ü", min_size=62, max_size=65),
    int64s,
    st.none() | int64s,
    st.none() | st.uuids(),
)
def test_encoded_commit_is_decoded_by_kio(
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    timestamp_ms: int,
    expire_ms: int | None,
    topic_id: uuid.UUID | None,
) -> None:
    id_bytes = None if topic_id is None else topic_id.bytes
    value = encode_commit_value(offset, leader_epoch, metadata, timestamp_ms, expire_ms, id_bytes)
    version = 4 if expire_ms is None else 1
    assert value[:2] == version.to_bytes(2, "big")
    message, size = entity_reader(commit_entity(version))(value, 2)
    assert size == len(value) - 2
    assert (message.offset, message.metadata) == (offset, metadata or "")
    assert message.commit_timestamp == timestamp_ms
    if expire_ms is None:
        assert (message.leader_epoch, message.topic_id) == (leader_epoch, topic_id)
    else:
        assert message.expire_timestamp == expire_ms


def test_tagged_fields_of_newer_brokers_are_ignored() -> None:
    value = encoded(
        commit_entity(4)(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9, topic_id=None)
    )
    assert value.endswith(b"\x00")
    # One tag with number 300 and three bytes.
    assert decode_commit_value(value[:-1] + b"\x01\xac\x02\x03abc") == decode_commit_value(value)
    with pytest.raises(UndecodableRecord, match="OffsetCommitValue v4 ends early"):
        decode_commit_value(value[:-1] + b"\x01\xac\x02\x04abc")
