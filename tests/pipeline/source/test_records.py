"""Records of all kinds as rows."""

from typing import Any

import pyarrow as pa
import pytest
from kohort.log.batch import APPEND_TIME, CONTROL, TRANSACTIONAL
from kohort.pipeline.source.decoding import decode
from offset_logs import NOW_MS, a_group, batch, chunk_of, offset_key, offset_value, record, text

Row = dict[str, Any]


def rows_of(*batches: bytes, next_offset: int = 0) -> list[Row]:
    return pa.Table.from_batches(decode([chunk_of(b"".join(batches))], 7, next_offset)).to_pylist()


def row_of(key: bytes | None, value: bytes | None, **options: Any) -> Row:
    (row,) = rows_of(batch([record(key, value, 0)], **options))
    return row


def known_values(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def ms(row: Row, name: str) -> float:
    found: float = row[name].timestamp() * 1000
    return found


KEY = offset_key("orders", "clicks", 3)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "Büro", "x" * 200])
def test_a_commit_of_any_version_has_offset_metadata_and_time(version: int, metadata: str) -> None:
    row = row_of(KEY, offset_value(version, 41, metadata, NOW_MS))
    assert (row["kind"], row["group"], row["topic"], row["partition"]) == (
        "commit",
        "orders",
        "clicks",
        3,
    )
    assert (row["offset"], row["metadata"], row["value_version"]) == (41, metadata, version)
    assert ms(row, "commit_ts") == NOW_MS
    assert row["leader_epoch"] == (0 if version >= 3 else None)
    assert (row["expire_ts"] is None) == (version != 1)
    assert not row["tombstone"]
    assert row["flaw"] is row["key"] is row["members"] is None


def test_missing_and_out_of_range_values_are_null() -> None:
    row = row_of(KEY, offset_value(3, 40, "", -1))
    assert row["leader_epoch"] is row["commit_ts"] is None
    beyond_the_year_9999 = offset_value(3, 40, "", 253_402_300_800_000)
    assert row_of(KEY, beyond_the_year_9999)["commit_ts"] is None


def test_a_tombstone_of_an_offset_has_its_key() -> None:
    row = row_of(KEY, None)
    assert known_values(row).keys() - {"append_ts"} == {
        *("kind", "offsets_partition", "log_offset", "leader_epoch_batch", "producer_id", "txn"),
        *("missing_before", "group", "topic", "partition", "tombstone", "control"),
    }
    assert row["tombstone"]


@pytest.mark.parametrize("version", range(4))
def test_a_member_has_the_fields_of_its_subscription_version(version: int) -> None:
    row = row_of(b"\0\2" + text("orders"), a_group("consumer", version, "i-1", b""))
    assert (row["kind"], row["generation"], row["leader"]) == ("group", 4, "m-1")
    assert ms(row, "state_ts") == NOW_MS
    (member,) = row["members"]
    owned = [{"topic": "clicks", "partition": number} for number in (0, 2)]
    assert (member["topics"], member["assigned"]) == (["clicks"], owned)
    assert member["owned"] == (owned if version >= 1 else None)
    assert member["sub_generation"] == (4 if version >= 2 else None)
    assert member["rack"] == ("rack" if version >= 3 else None)
    assert (member["instance_id"], member["raw_subscription"]) == ("i-1", None)


@pytest.mark.parametrize(
    ("protocol_type", "blob"), [("connect", b""), ("consumer", b"\0\1junk"), ("", b"\0")]
)
def test_the_subscription_of_another_protocol_is_kept_as_bytes(
    protocol_type: str, blob: bytes
) -> None:
    row = row_of(b"\0\2" + text("connect"), a_group(protocol_type, 1, None, blob))
    (member,) = row["members"]
    assert member["topics"] is member["owned"] is member["assigned"] is None
    assert member["raw_subscription"]
    assert row["flaw"] is None


def test_transactional_and_control_records_are_marked() -> None:
    commit = batch(
        [record(KEY, offset_value(3, 1, "", NOW_MS), 0)], attributes=TRANSACTIONAL, producer_id=9
    )
    ends = [
        batch(
            [record(b"\0\0\0" + bytes([kind]), bytes(6), 0)],
            base_offset=1 + kind,
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=9,
        )
        for kind in (0, 1)
    ]
    rows = rows_of(commit, *ends)
    assert [row["txn"] for row in rows] == [True] * 3
    assert [row["producer_id"] for row in rows] == [9] * 3
    assert [(row["kind"], row["control"], row["key_version"]) for row in rows] == [
        ("commit", False, None),
        ("other", True, 0),
        ("other", True, 1),
    ]


def test_a_record_of_an_unknown_type_is_kept_as_bytes() -> None:
    key, value = b"\0\x0a" + text("share"), b"\0\0what"
    row = row_of(key, value)
    assert (row["kind"], row["key_version"], row["key"], row["value"]) == ("other", 10, key, value)
    assert row["flaw"] is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, b"v", "without a key"),
        (KEY[:-1], b"\0\3", "unexpected end"),
        (KEY, b"\0\x09", "version 9"),
        (KEY, b"\0\3\0", "ends early"),
        (offset_key("orders", "clicks", 3).replace(b"clicks", b"click\xff"), None, "UTF-8"),
        (KEY, offset_value(3, 1, "abcd", NOW_MS).replace(b"abcd", b"ab\xc3("), "UTF-8"),
        (b"\0\2\0\1g", b"\0\3", "ends early"),
    ],
)
def test_an_undecodable_record_is_a_row_with_the_flaw(
    key: bytes | None, value: bytes, message: str
) -> None:
    good = record(KEY, offset_value(4, 5, "", NOW_MS), 1)
    rows = rows_of(batch([record(key, value, 0), good]))
    assert message in rows[0]["flaw"]
    assert (rows[0]["kind"], rows[0]["key"], rows[0]["value"]) == ("other", key, value)
    assert (rows[1]["kind"], rows[1]["offset"], rows[1]["missing_before"]) == ("commit", 5, 0)


def test_an_undecodable_batch_is_one_row_and_the_next_row_counts_the_missing() -> None:
    good = record(KEY, offset_value(4, 5, "", NOW_MS), 0)
    wrong_count = batch([good, good], base_offset=10, count=1_000_000)
    rows = rows_of(wrong_count, batch([good], base_offset=12), next_offset=10)
    assert "offset 10" in rows[0]["flaw"]
    assert [(row["log_offset"], row["missing_before"]) for row in rows] == [(10, 0), (12, 1)]


def test_missing_before_counts_the_records_that_compaction_removed() -> None:
    value = offset_value(4, 5, "", NOW_MS)
    made = [record(KEY, value, delta) for delta in (1, 2, 5)]
    rows = rows_of(
        batch(made, base_offset=20, last_delta=7),
        batch([], base_offset=28, last_delta=1),
        batch([record(KEY, value, 0)], base_offset=30),
        next_offset=17,
    )
    assert [(row["log_offset"], row["missing_before"]) for row in rows] == [
        (21, 4),
        (22, 0),
        (25, 2),
        (30, 4),
    ]


def test_with_log_append_time_all_records_of_a_batch_have_one_time() -> None:
    made = [record(KEY, None, delta, ms=delta) for delta in (0, 1)]
    stamped = rows_of(batch(made, attributes=APPEND_TIME))
    assert {ms(row, "append_ts") for row in stamped} == {NOW_MS + 9}
    assert [ms(row, "append_ts") for row in rows_of(batch(made))] == [NOW_MS, NOW_MS + 1]


def test_long_batches_among_short_ones_are_decoded_completely() -> None:
    counts = [1, 3] * 100 + [2_000] + [2] * 100 + [0, 700]
    batches, offset = [], 0
    for count in counts:
        made = [
            record(offset_key("g", "t", delta), offset_value(3, offset + delta, "", NOW_MS), delta)
            for delta in range(count)
        ]
        batches.append(batch(made, base_offset=offset, last_delta=max(count - 1, 0)))
        offset += max(count, 1)
    rows = rows_of(*batches)
    assert [row["offset"] for row in rows] == [row["log_offset"] for row in rows]
    assert len(rows) == sum(counts)
    assert sum(row["missing_before"] for row in rows) == 1
