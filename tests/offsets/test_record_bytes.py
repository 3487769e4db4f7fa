"""The bytes of keys and values, as Kafka's schemas define them."""

import pytest
from kohort.offsets.record_codec import (
    decode_commit_value,
    decode_record,
    encode_commit_value,
    encode_record,
)
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    GroupType,
    MemberMetadata,
    OffsetAndMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    UndecodableRecord,
    UnknownRecord,
)

NOW_MS = 1_700_000_000_000
OFFSET_KEY = bytes.fromhex("0001 000167 000174 00000003")
GROUP_KEY = bytes.fromhex("0002 000167")
VALUE_V3 = bytes.fromhex("0003 000000000000002a 00000007 00016d 0000018bcfe56800")
VALUE_V4 = bytes.fromhex(
    "0004 000000000000002a 00000007 026d 0000018bcfe56800 010010 000102030405060708090a0b0c0d0e0f"
)
TOPIC_ID = bytes(range(16))
VALUE_V1 = bytes.fromhex("0001 000000000000002a 00016d 0000018bcfe56800 0000018bcfee8fc0")
SUBSCRIPTION = bytes.fromhex("0001 00000001 000174 ffffffff 00000000")
ASSIGNMENT = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000001 ffffffff")
NEW_GROUP = bytes.fromhex("0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000")
STABLE_GROUP = bytes.fromhex(
    "0003 0008636f6e73756d6572 00000001 000572616e6765 00026d31 0000018bcfe56800 00000001"
    "00026d31 ffff 000163 000a2f3132372e302e302e31 000493e0 0000afc8"
    "00000011 0001000000010001 74ffffffff00000000"
    "00000019 000100000001000174000000020000000000000001ffffffff"
)

GOLDEN: list[tuple[OffsetsRecord, bytes, bytes | None]] = [
    (OffsetCommitRecord("g", "t", 3, VALUE_V3), OFFSET_KEY, VALUE_V3),
    (OffsetCommitRecord("g", "t", 3, VALUE_V4), OFFSET_KEY, VALUE_V4),
    (OffsetCommitRecord("g", "t", 3, VALUE_V1), OFFSET_KEY, VALUE_V1),
    (OffsetTombstone("g", "t", 3), OFFSET_KEY, None),
    (
        GroupMetadataRecord("g", GroupMetadata("", 0, None, None, NOW_MS, ())),
        GROUP_KEY,
        NEW_GROUP,
    ),
    (
        GroupMetadataRecord(
            "g",
            GroupMetadata(
                protocol_type="consumer",
                generation=1,
                protocol_name="range",
                leader="m1",
                state_timestamp_ms=NOW_MS,
                members=(
                    MemberMetadata(
                        member_id="m1",
                        group_instance_id=None,
                        client_id="c",
                        client_host="/127.0.0.1",
                        rebalance_timeout_ms=300_000,
                        session_timeout_ms=45_000,
                        subscription=SUBSCRIPTION,
                        assignment=ASSIGNMENT,
                    ),
                ),
            ),
        ),
        GROUP_KEY,
        STABLE_GROUP,
    ),
    (GroupTombstone("g"), GROUP_KEY, None),
    (
        OtherGroupRecord(GroupType.SHARE, "g", 11, b"\x00\x0b\x00\x01g", b"\x00\x00"),
        b"\x00\x0b\x00\x01g",
        b"\x00\x00",
    ),
    (UnknownRecord(99, b"\x00\x63?", None), b"\x00\x63?", None),
]


@pytest.mark.parametrize(("record", "key", "value"), GOLDEN)
def test_records_are_encoded_and_decoded_as_in_kafka(
    record: OffsetsRecord, key: bytes, value: bytes | None
) -> None:
    assert encode_record(record) == (key, value)
    decoded = decode_record(key, value)
    assert decoded == record
    assert type(decoded) is type(record)


def test_commit_is_encoded_in_version_4_with_the_topic_id() -> None:
    assert encode_commit_value(42, 7, "m", NOW_MS, topic_id=TOPIC_ID) == VALUE_V4
    assert decode_commit_value(VALUE_V4) == OffsetAndMetadata(42, 7, "m", NOW_MS, None, TOPIC_ID)


@pytest.mark.parametrize(
    ("value", "committed"),
    [
        ("0002 000000000000002a 000461626364 0000018bcfe56800", (42, -1, "abcd")),
        ("0003 000000000000002a 00000007 00016d 0000018bcfe56800", (42, 7, "m")),
        ("0004 000000000000002a 00000007 01 0000018bcfe56800 00", (42, 7, "")),
    ],
)
def test_values_of_the_same_length_are_decoded_by_their_version(
    value: str, committed: tuple[int, int, str]
) -> None:
    assert decode_commit_value(bytes.fromhex(value)) == OffsetAndMetadata(*committed, NOW_MS)


def test_value_with_only_the_length_of_a_usual_one_is_an_error() -> None:
    # The metadata would be one byte long, so that a byte of the timestamp is missing.
    cut = bytes.fromhex("0003 000000000000002a 00000007 0001 0000018bcfe56800")
    with pytest.raises(UndecodableRecord, match="OffsetCommitValue v3: commitTimestamp ends early"):
        decode_record(OFFSET_KEY, cut)


def test_key_of_record_type_0_is_decoded_as_type_1() -> None:
    legacy_key = b"\x00\x00" + OFFSET_KEY[2:]
    assert decode_record(legacy_key, VALUE_V3) == OffsetCommitRecord("g", "t", 3, VALUE_V3)
    assert decode_record(legacy_key, None) == OffsetTombstone("g", "t", 3)
