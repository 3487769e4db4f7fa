"""Whatever is encoded comes back equal; whatever bytes come in are understood or refused."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kohort.offsets.commit_value import decode_commit_value, encode_commit_value, offset_commit
from kohort.offsets.errors import RecordError, UndecodableRecord, UnencodableRecord
from kohort.offsets.record_codec import decode_record, encode_record, encode_records
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    UnknownRecord,
)

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(max_size=120)
topics = st.sampled_from(["t", "orders", "orders-1", "grüppe", ""]) | texts
values = st.builds(encode_commit_value, int64s, int32s, texts, int64s, st.none() | int64s)
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
other_keys = st.builds(
    lambda kind, rest: kind.to_bytes(2, "big", signed=True) + rest,
    st.integers(-(1 << 15), (1 << 15) - 1).filter(lambda kind: kind not in (0, 1, 2)),
    st.binary(max_size=60),
)
records: st.SearchStrategy[OffsetsRecord] = st.one_of(
    st.builds(OffsetCommitRecord, texts, topics, int32s, values, st.just(())),
    st.builds(OffsetTombstone, texts, topics, int32s),
    st.builds(GroupMetadataRecord, texts, groups),
    st.builds(GroupTombstone, texts),
    st.builds(decode_record, other_keys, st.none() | st.binary(max_size=60)),
)

VALUE = encode_commit_value(1, 2, "m", 3)


@given(records)
def test_a_record_that_is_encoded_and_decoded_is_the_same(record: OffsetsRecord) -> None:
    decoded = decode_record(*encode_record(record))
    assert decoded == record
    assert type(decoded) is type(record)


@given(int64s, int32s, texts, int64s)
def test_a_commit_comes_back_as_it_was_made(
    offset: int, leader_epoch: int, metadata: str, timestamp_ms: int
) -> None:
    value = encode_commit_value(offset, leader_epoch, metadata, timestamp_ms)
    assert decode_commit_value(value) == (offset, leader_epoch, metadata, timestamp_ms, None)


@given(texts, st.lists(st.tuples(topics, int32s), min_size=1), st.lists(int64s, min_size=1))
def test_commits_of_one_breath_are_written_like_one_after_the_other(
    group_id: str, places: list[tuple[str, int]], offsets: list[int]
) -> None:
    *earlier, last = (encode_commit_value(offset, 7, "m", 3) for offset in offsets)
    together = [offset_commit(group_id, *place, offsets, 7, "m", 3) for place in places]
    expected = [OffsetCommitRecord(group_id, *place, last, tuple(earlier)) for place in places]
    assert together == expected
    assert encode_records(together) == [
        encode_record(OffsetCommitRecord(group_id, *place, value))
        for value in (*earlier, last)
        for place in places
    ]


@pytest.mark.parametrize("kind", range(3, 25))
def test_records_of_other_kinds_survive_byte_for_byte(kind: int) -> None:
    key = kind.to_bytes(2, "big") + b"\x00\x01g\x00\x01m"
    for value in (b"\x00\x00\x01\x02\x00", None):
        record = decode_record(key, value)
        assert isinstance(record, OtherGroupRecord)
        assert record[1:] == ("g", kind, key, value)
        assert encode_record(record) == (key, value)
    assert decode_record(key[:2], b"")[1:] == ("", kind, key[:2], b"")


@pytest.mark.parametrize("kind", [-1, 25, 99])
def test_records_of_unknown_types_are_kept_as_they_are(kind: int) -> None:
    key = kind.to_bytes(2, "big", signed=True) + b"any"
    for value in (b"other", None):
        assert decode_record(key, value) == UnknownRecord(kind, key, value)
        assert encode_record(UnknownRecord(kind, key, value)) == (key, value)
    assert decode_record(key[:2], b"") == UnknownRecord(kind, key[:2], b"")


@given(st.binary(max_size=80), st.none() | st.binary(max_size=80))
@example(b"\x00\x01\xff\xfc\x00\x00\x00\x01", None)
@example(b"\x00\x01\xff\xff\x00\x00\x00\x01\x00\x00\x00\x01", None)
@example(b"\x00\x02\x00\x01g", b"\x00\x04" + b"\xff" * 60)
@example(b"\x00\x02\x00\x01g", b"\x00\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + b"\x7f" * 12)
def test_any_bytes_are_understood_or_refused_as_undecodable(
    key: bytes, value: bytes | None
) -> None:
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
def test_any_bytes_of_kinds_we_know_are_understood_or_refused(
    kind: int, key: bytes, version: int, value: bytes | None
) -> None:
    head = version.to_bytes(2, "big", signed=True)
    for whole_key in (kind.to_bytes(2, "big") + key, kind.to_bytes(2, "big") + b"\x00\x01g"):
        try:
            decode_record(whole_key, None if value is None else head + value)
        except UndecodableRecord:
            continue


@given(
    records.filter(lambda record: not isinstance(record, OtherGroupRecord | UnknownRecord)),
    st.data(),
)
def test_a_key_cut_anywhere_is_refused(record: OffsetsRecord, data: st.DataObject) -> None:
    key, value = encode_record(record)
    end = data.draw(st.integers(0, len(key) - 1))
    with pytest.raises(UndecodableRecord):
        decode_record(key[:end], value)
    with pytest.raises(UndecodableRecord):
        decode_record(key + b"\x00", value)


@given(groups, st.data())
def test_a_group_cut_anywhere_is_refused(group: GroupMetadata, data: st.DataObject) -> None:
    key, value = encode_record(GroupMetadataRecord("g", group))
    assert value is not None
    with pytest.raises(UndecodableRecord):
        decode_record(key, value[: data.draw(st.integers(0, len(value) - 1))])


@given(values, st.data())
def test_a_commit_cut_anywhere_is_refused(value: bytes, data: st.DataObject) -> None:
    key, _ = encode_record(OffsetTombstone("g", "t", 0))
    cut = value[: data.draw(st.integers(0, len(value) - 1))]
    with pytest.raises(UndecodableRecord):
        decode_record(key, cut)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        (None, None, "a record without a key"),
        (b"", None, "no bytes"),
        (b"\x00\x01", VALUE, "cut short"),
        (b"\x00\x02", None, "cut short"),
        (b"\x00\x02\x00\x01\xff", None, "not UTF-8"),
        (b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x01", None, "not UTF-8"),
        (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01", b"\x00", "no version"),
        (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01", b"\x00\x05" + VALUE[2:], "version 5"),
        (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x01", b"\xff\xff" + VALUE[2:], "version -1"),
        (b"\x00\x02\x00\x01g", b"\x00\x03\xff\xff" + bytes(30), "null where a string must be"),
        (b"\x00\x02\x00\x01g", b"\x00\x03\xff\xfe" + bytes(30), "a length of -2"),
        (b"\x00\x02\x00\x01g", b"\x00\x03\x00\x01\xff" + bytes(30), "not UTF-8"),
        (b"\x00\x02\x00\x01g", b"\x00\x04" + b"\xff" * 30, "a varint is longer than 5 bytes"),
        (b"\x00\x02\x00\x01g", b"\x00\x04\x81\x80\x02" + bytes(30), "a string of 32768 bytes"),
        (
            b"\x00\x02\x00\x01g",
            b"\x00\x00" + bytes(6) + b"\xff" * 8,
            "an array of -1 elements",
        ),
        (
            b"\x00\x02\x00\x01g",
            b"\x00\x00" + bytes(6) + b"\xff" * 4 + b"\x00\x00\x00\x01" + bytes(10) + b"\xff" * 4,
            "null where bytes must be",
        ),
    ],
)
def test_what_is_refused_is_named(key: bytes | None, value: bytes | None, says: str) -> None:
    with pytest.raises(UndecodableRecord, match=says):
        decode_record(key, value)


LONG = "x" * 32_768
LONE_SURROGATE = "\ud800"


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (OffsetCommitRecord(LONG, "t", 0, VALUE), "a group id has 32768 bytes"),
        (OffsetTombstone("g", LONG, 0), "a topic has 32768 bytes"),
        (OffsetTombstone(LONE_SURROGATE, "t", 0), "a group id cannot be written as UTF-8"),
        (OffsetTombstone("g", LONE_SURROGATE, 0), "a topic cannot be written as UTF-8"),
        (OffsetTombstone("g", "t", 1 << 31), "partition 2147483648 is out of range"),
        (GroupTombstone(LONG), "a group id has 32768 bytes"),
        (GroupMetadataRecord("g", GroupMetadata("", 1 << 31, None, None, 0, ())), "out of range"),
        (
            GroupMetadataRecord("g", GroupMetadata("", 0, LONG, None, 0, ())),
            "the protocol of a group",
        ),
    ],
)
def test_a_record_that_its_layout_cannot_hold_is_refused(record: OffsetsRecord, says: str) -> None:
    with pytest.raises(UnencodableRecord, match=says):
        encode_record(record)


def test_a_string_of_the_longest_length_fits() -> None:
    record = OffsetTombstone("x" * 32_767, "ü" * 16_383, 0)
    assert decode_record(*encode_record(record)) == record


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1 << 63, 0, "", 0), "out of range"),
        ((0, 1 << 31, "m", 0), "out of range"),
        ((0, 0, "", 0, 1 << 63), "out of range"),
        ((0, 0, LONG, 0), "the metadata of a commit has 32768 bytes"),
    ],
)
def test_a_commit_that_its_layout_cannot_hold_is_refused(
    arguments: tuple[int, int, str, int], says: str
) -> None:
    with pytest.raises(RecordError, match=says):
        encode_commit_value(*arguments)


def test_encoding_something_else_is_our_own_mistake() -> None:
    with pytest.raises(TypeError):
        encode_record("orders")  # type: ignore[arg-type]


def test_topics_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from kohort.offsets import record_codec as module

    monkeypatch.setattr(module, "_TOPICS_MAX", 8)
    for known in ("_bytes_of_topic", "_topic_of_bytes"):  # whatever other tests have read
        monkeypatch.setattr(module, known, {})
    for number in range(100):
        record = OffsetTombstone("g", f"topic-{number}", number)
        assert decode_record(*encode_record(record)) == record
        assert len(module._bytes_of_topic) <= 8
        assert len(module._topic_of_bytes) <= 8
