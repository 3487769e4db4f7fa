"""Encoding and decoding of records: round trips, values of every version, and malformed bytes.

The encoders and decoders that are generated from the schemas are compared with Kafka's in
test_record_schemas.py. Here they are the oracle for the faster code of typical commits.
"""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kohort.offsets import record_codec
from kohort.offsets.record_codec import (
    decode_commit_value,
    decode_record,
    encode_commit_value,
    encode_record,
    encode_records,
    offset_commit,
)
from kohort.offsets.record_schemas import RECORD_SPECS, encode_value
from kohort.offsets.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadata,
    ConsumerGroupRecord,
    ConsumerMemberMetadata,
    ConsumerRecordType,
    CurrentAssignment,
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetAndMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    OwnedPartitions,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentMetadata,
    TopicPartitions,
    TransactionRecord,
    UndecodableRecord,
    UnencodableRecord,
    UnknownRecord,
)
from kohort.offsets.transaction_codec import decode_transaction, encode_transaction

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(max_size=120)
topics = st.sampled_from(["t", "orders", "orders-1", "grüppe", ""]) | texts
topic_ids = st.none() | st.binary(min_size=16, max_size=16).filter(any)
values = st.builds(
    encode_commit_value, int64s, int32s, texts, int64s, st.none() | int64s, topic_ids
)
members = st.builds(
    MemberMetadata, texts, st.none() | texts, texts, texts, int32s, int32s, st.binary(), st.binary()
)
groups = st.builds(
    GroupMetadata,
    texts,
    int32s,
    st.none() | texts,
    st.none() | texts,
    int64s,
    st.lists(members, max_size=3).map(tuple),
)
consumers = st.builds(
    ConsumerMemberMetadata,
    st.none() | texts,
    st.none() | texts,
    texts,
    texts,
    st.lists(topics, max_size=3).map(tuple),
    st.none() | texts,
    int32s,
    st.none() | texts,
    st.none()
    | st.builds(
        ClassicMemberMetadata,
        int32s,
        st.lists(st.builds(ClassicProtocol, texts, st.binary()), max_size=2).map(tuple),
    ),
)
topic_ids = st.uuids().filter(lambda topic_id: topic_id.int)
partitions = st.lists(int32s, max_size=3).map(tuple)
owned = st.lists(
    st.builds(OwnedPartitions, topic_ids, partitions, st.none() | partitions), max_size=2
).map(tuple)
consumer_values = {
    ConsumerRecordType.GROUP_METADATA: st.builds(ConsumerGroupMetadata, int32s, int64s),
    ConsumerRecordType.MEMBER_METADATA: consumers,
    ConsumerRecordType.TARGET_ASSIGNMENT_METADATA: st.builds(
        TargetAssignmentMetadata, int32s, int64s
    ),
    ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER: st.builds(
        TargetAssignment,
        st.lists(st.builds(TopicPartitions, topic_ids, partitions), max_size=3).map(tuple),
    ),
    ConsumerRecordType.CURRENT_MEMBER_ASSIGNMENT: st.builds(
        CurrentAssignment, int32s, int32s, st.integers(-128, 127), owned, owned
    ),
    ConsumerRecordType.REGULAR_EXPRESSION: st.builds(
        ResolvedRegularExpression, st.lists(topics, max_size=3).map(tuple), int64s, int64s
    ),
}


@st.composite
def consumer_records(draw: st.DrawFn) -> ConsumerGroupRecord:
    type_ = draw(st.sampled_from(list(consumer_values)))
    has_name = len(RECORD_SPECS[type_].key.fields) > 1
    name = draw(texts) if has_name else ""
    return ConsumerGroupRecord(type_, draw(texts), name, draw(st.none() | consumer_values[type_]))


DECODED = {0, 1, 2, *ConsumerRecordType}
other_keys = st.builds(
    lambda record_type, rest: record_type.to_bytes(2, "big", signed=True) + rest,
    st.integers(-(1 << 15), (1 << 15) - 1).filter(lambda record_type: record_type not in DECODED),
    st.binary(max_size=60),
)
records: st.SearchStrategy[OffsetsRecord] = st.one_of(
    st.builds(OffsetCommitRecord, texts, topics, int32s, values, st.just(())),
    st.builds(OffsetTombstone, texts, topics, int32s),
    st.builds(GroupMetadataRecord, texts, groups),
    st.builds(GroupTombstone, texts),
    consumer_records(),
    st.builds(decode_record, other_keys, st.none() | st.binary(max_size=60)),
)

VALUE = encode_commit_value(1, 2, "m", 3)


@given(records)
def test_record_round_trip(record: OffsetsRecord) -> None:
    decoded = decode_record(*encode_record(record))
    assert decoded == record
    assert type(decoded) is type(record)


@given(texts, st.lists(st.tuples(topics, int32s), min_size=1), st.lists(int64s, min_size=1))
def test_pipelined_commits_are_encoded_like_single_ones(
    group_id: str, partitions: list[tuple[str, int]], offsets: list[int]
) -> None:
    *earlier, last = (encode_commit_value(offset, 7, "m", 3) for offset in offsets)
    pipelined = [offset_commit(group_id, *each, offsets, 7, "m", 3) for each in partitions]
    expected = [OffsetCommitRecord(group_id, *each, last, tuple(earlier)) for each in partitions]
    assert pipelined == expected
    assert encode_records(pipelined) == [
        encode_record(OffsetCommitRecord(group_id, *each, value))
        for value in (*earlier, last)
        for each in partitions
    ]


@pytest.mark.parametrize("record_type", [*range(9, 16), *range(17, 25)])
def test_records_of_other_groups_are_kept_as_they_are(record_type: int) -> None:
    key = record_type.to_bytes(2, "big") + b"\x00\x01g\x00\x01m"
    for value in (b"\x00\x00\x01\x02\x00", None):
        record = decode_record(key, value)
        assert isinstance(record, OtherGroupRecord)
        assert record[1:] == ("g", record_type, key, value)
        assert encode_record(record) == (key, value)
    assert decode_record(key[:2], b"")[1:] == ("", record_type, key[:2], b"")


@pytest.mark.parametrize("record_type", [-1, 25, 99])
def test_records_of_unknown_types_are_kept_as_they_are(record_type: int) -> None:
    key = record_type.to_bytes(2, "big", signed=True) + b"any"
    for value in (b"other", None):
        assert decode_record(key, value) == UnknownRecord(record_type, key, value)
        assert encode_record(UnknownRecord(record_type, key, value)) == (key, value)
    assert decode_record(key[:2], b"") == UnknownRecord(record_type, key[:2], b"")


# --- values of every version

COMMIT, GROUP = RECORD_SPECS[1].value, RECORD_SPECS[2].value
versions = st.integers(0, 4)


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
@example(4, 42, 7, "", 1_700_000_000_000, 0, UUID(int=1), b"")
@example(4, 42, 7, "", 1_700_000_000_000, 0, UUID(int=1), b"x")
def test_commits_of_every_version_are_decoded(
    version: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    timestamp_ms: int,
    expire_ms: int,
    topic_id: UUID | None,
    trailing: bytes,
) -> None:
    """Trailing bytes are ignored."""
    fields: Any = (offset, leader_epoch, metadata, timestamp_ms, expire_ms, topic_id)
    value = encode_value(COMMIT, version, OffsetAndMetadata(*fields))
    assert decode_commit_value(value + trailing) == (
        offset,
        leader_epoch if version >= 3 else -1,
        metadata,
        timestamp_ms,
        expire_ms if version == 1 and expire_ms != -1 else None,
        topic_id.bytes if version == 4 and topic_id is not None else None,
    )


@given(
    int64s,
    int32s,
    st.none() | texts | st.text("ü", min_size=62, max_size=65),
    int64s,
    st.none() | int64s,
    st.none() | st.uuids(),
)
def test_commits_are_encoded_in_the_version_that_has_their_fields(
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    timestamp_ms: int,
    expire_ms: int | None,
    topic_id: UUID | None,
) -> None:
    fields: Any = (offset, leader_epoch, metadata or "", timestamp_ms, expire_ms, topic_id)
    expected = encode_value(COMMIT, 4 if expire_ms is None else 1, OffsetAndMetadata(*fields))
    id_bytes = None if topic_id is None else topic_id.bytes
    written = (offset, leader_epoch, metadata, timestamp_ms, expire_ms, id_bytes)
    assert encode_commit_value(*written) == expected


@given(versions, groups)
def test_groups_of_every_version_are_decoded(version: int, group: GroupMetadata) -> None:
    def as_known(member: MemberMetadata) -> MemberMetadata:
        if version < 1:
            member = member._replace(rebalance_timeout_ms=-1)
        return member if version >= 3 else member._replace(group_instance_id=None)

    known = group._replace(
        state_timestamp_ms=group.state_timestamp_ms if version >= 2 else -1,
        members=tuple(map(as_known, group.members)),
    )
    value = encode_value(GROUP, version, known)
    assert decode_record(GROUP_KEY, value) == GroupMetadataRecord("g", known)


def test_tagged_fields_of_newer_brokers_are_ignored() -> None:
    value = encode_commit_value(5, 1, "m", 9)
    # One tag with number 300 and three bytes.
    assert decode_commit_value(value[:-1] + b"\x01\xac\x02\x03abc") == decode_commit_value(value)
    with pytest.raises(UndecodableRecord, match="OffsetCommitValue v4 ends early"):
        decode_commit_value(value[:-1] + b"\x01\xac\x02\x04abc")


# --- malformed bytes


@given(st.binary(max_size=80), st.none() | st.binary(max_size=80))
@example(b"\x00\x01\xff\xfc\x00\x00\x00\x01", None)
@example(b"\x00\x01\xff\xff\x00\x00\x00\x01\x00\x00\x00\x01", None)
@example(b"\x00\x02\x00\x01g", b"\x00\x04" + b"\xff" * 60)
@example(b"\x00\x02\x00\x01g", b"\x00\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + b"\x7f" * 12)
def test_any_bytes_are_decoded_or_rejected(key: bytes, value: bytes | None) -> None:
    try:
        record = decode_record(key, value)
    except UndecodableRecord:
        return
    if isinstance(record, OffsetCommitRecord):
        decode_commit_value(record.value)


@given(
    st.sampled_from([0, 1, 2]),
    st.binary(max_size=40),
    st.integers(-1, 5),
    st.none() | st.binary(max_size=80),
)
def test_any_bytes_of_known_types_are_decoded_or_rejected(
    record_type: int, key: bytes, version: int, value: bytes | None
) -> None:
    head = version.to_bytes(2, "big", signed=True)
    for whole_key in (
        record_type.to_bytes(2, "big") + key,
        record_type.to_bytes(2, "big") + b"\x00\x01g",
    ):
        try:
            decode_record(whole_key, None if value is None else head + value)
        except UndecodableRecord:
            continue


@given(
    records.filter(lambda record: not isinstance(record, OtherGroupRecord | UnknownRecord)),
    st.data(),
)
def test_key_of_another_length_is_an_error(record: OffsetsRecord, data: st.DataObject) -> None:
    key, value = encode_record(record)
    end = data.draw(st.integers(0, len(key) - 1))
    with pytest.raises(UndecodableRecord):
        decode_record(key[:end], value)
    with pytest.raises(UndecodableRecord):
        decode_record(key + b"\x00", value)


@given(values, st.data())
def test_commit_cut_anywhere_is_an_error(value: bytes, data: st.DataObject) -> None:
    key, _ = encode_record(OffsetTombstone("g", "t", 0))
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(UndecodableRecord):
        decode_record(key, cut)


OFFSET_KEY = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01"
GROUP_KEY = b"\x00\x02\x00\x01g"
# Version 0; the protocol type is "", the generation is 0, and protocol and leader are null.
GROUP_V0 = b"\x00\x00" + bytes(6) + b"\xff" * 4


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, None, "record without a key"),
        (b"", None, "no bytes"),
        (b"\x00\x01", VALUE, "truncated key: 0001"),
        (b"\x00\x02", None, "truncated key: 0002"),
        (b"\x00\x02\x00\x01\xff", None, "GroupMetadataKey 00020001ff: a string is not UTF-8"),
        (b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x01", None, "OffsetCommitKey .* not UTF-8"),
        (OFFSET_KEY, b"\x00", "OffsetCommitValue: truncated version: 1 of 2 bytes"),
        (OFFSET_KEY, b"\x00\x05" + VALUE[2:], "version 5 is not one of 0 to 4"),
        (OFFSET_KEY, b"\xff\xff" + VALUE[2:], "version -1"),
        (GROUP_KEY, b"\x00\x03\xff\xff" + bytes(30), "GroupMetadataValue v3: protocolType is null"),
        (GROUP_KEY, b"\x00\x03\xff\xfe" + bytes(30), "protocolType is null"),
        (GROUP_KEY, b"\x00\x03\x00\x01\xff" + bytes(30), "protocolType is not UTF-8"),
        (GROUP_KEY, b"\x00\x04" + b"\xff" * 30, "a varint is longer than 5 bytes"),
        (GROUP_KEY, b"\x00\x04\x81\x80\x02" + bytes(30), "protocolType has 32768 bytes"),
        (GROUP_KEY, GROUP_V0 + b"\xff" * 4, "members is null"),
        (GROUP_KEY, GROUP_V0 + b"\x7f" * 4 + bytes(60), "members claims 2139062143 items"),
        (
            GROUP_KEY,
            GROUP_V0 + b"\x00\x00\x00\x01" + bytes(10) + b"\xff" * 8,
            "members.subscription is null",
        ),
    ],
)
def test_undecodable_record_is_described(
    key: bytes | None, value: bytes | None, message: str
) -> None:
    with pytest.raises(UndecodableRecord, match=message):
        decode_record(key, value)


LONG = "x" * 32_768
LONE_SURROGATE = "\ud800"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (OffsetCommitRecord(LONG, "t", 0, VALUE), "group id cannot be encoded: .* 32768 bytes"),
        (OffsetTombstone("g", LONG, 0), "topic cannot be encoded: .* 32768 bytes"),
        (OffsetTombstone(LONE_SURROGATE, "t", 0), "group id .* surrogates not allowed"),
        (OffsetTombstone("g", LONE_SURROGATE, 0), "topic .* surrogates not allowed"),
        (OffsetTombstone("g", "t", 1 << 31), "partition 2147483648 is out of range"),
        (GroupTombstone(LONG), "group id cannot be encoded: .* 32768 bytes"),
        (
            GroupMetadataRecord("g", GroupMetadata("", 1 << 31, None, None, 0, ())),
            "GroupMetadataValue v3 cannot be encoded: generation is 2147483648, not of the type",
        ),
        (
            GroupMetadataRecord("g", GroupMetadata("", 0, LONG, None, 0, ())),
            "protocol_name has 32768 bytes",
        ),
    ],
)
def test_unencodable_record_is_described(record: OffsetsRecord, message: str) -> None:
    with pytest.raises(UnencodableRecord, match=message):
        encode_record(record)


def test_strings_of_the_maximum_length_are_encoded() -> None:
    record = OffsetTombstone("x" * 32_767, "ü" * 16_383, 0)
    assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (1 << 63, 0, "", 0),
            "OffsetCommitValue v4 cannot be encoded: offset is 92233720368547",
        ),
        ((1 << 63, 0, "", 0, None, bytes(range(16))), "offset is 92233720368547"),
        (
            (0, 0, "\ud800", 0, None, bytes(range(16))),
            "metadata contains a character that UTF-8 cannot",
        ),
        ((0, 1 << 31, "m", 0), "leader_epoch is 2147483648"),
        ((0, 0, "", 0, 1 << 63), "OffsetCommitValue v1 .* expire_timestamp_ms is"),
        ((0, 0, LONG, 0), "metadata has 32768 bytes"),
    ],
)
def test_unencodable_commit_is_described(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UnencodableRecord, match=message):
        encode_commit_value(*arguments)


def test_unencodable_pipelined_offset_is_an_error() -> None:
    with pytest.raises(UnencodableRecord, match="pipelined offset is out of range"):
        offset_commit("g", "t", 0, (1 << 63, 1), 0, "", 0)


def test_encoding_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        encode_record("orders")  # type: ignore[arg-type]


def test_cache_of_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, "_TOPICS_MAX", 8)
    for cache in ("_encoded_topics", "_decoded_topics"):  # without the topics of other tests
        monkeypatch.setattr(record_codec, cache, {})
    for number in range(100):
        record = OffsetTombstone("g", f"topic-{number}", number)
        assert decode_record(*encode_record(record)) == record
        assert len(record_codec._encoded_topics) <= 8
        assert len(record_codec._decoded_topics) <= 8


def test_cache_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, "_KEYS_MAX", 8)
    record_codec._keys.clear()  # the keys of other tests
    for number in range(100):
        record = OffsetCommitRecord("g", "t", number, encode_commit_value(7, -1, "", 0))
        assert decode_record(*encode_records([record])[0]) == record
        assert len(record_codec._keys) <= 8


def test_a_key_of_the_transaction_log_that_cannot_be_decoded_is_an_error() -> None:
    for key in (None, b"\0", b"\0\0\0\x05id"):
        with pytest.raises(UndecodableRecord):
            decode_transaction(key, None)
    assert decode_transaction(b"\0\x01", None) is None  # the version is unknown


def test_a_transactional_id_that_is_not_unicode_cannot_be_encoded() -> None:
    with pytest.raises(UnencodableRecord, match="transactional id cannot be encoded"):
        encode_transaction(TransactionRecord("\ud800", None))
