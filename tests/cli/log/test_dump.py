"""`kohort log dump`: all records of a log, also between corrupt bytes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kohort.cli.main import main
from kohort.log.segment import segment_name
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
)
from support.log import NewRecord, build

from .conftest import NOW_MS, batch_of, commit, in_transaction, new_records, write_log

FIRST = segment_name(0)
KAFKA_RECORDS = Path(__file__).parents[2] / "offsets" / "kafka_records.jsonl"


def dumped(capsys: pytest.CaptureFixture[str], *args: str | Path) -> list[dict[str, Any]]:
    """Return the records of `kohort log dump --format json`, which must print no messages."""
    assert main(["log", "dump", "--format", "json", *map(str, args)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def test_a_record_has_all_fields(offsets_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *_ = dumped(capsys, offsets_log / FIRST)
    assert first == {
        "partition": "__consumer_offsets-7",
        "file": FIRST,
        "position": 0,
        "offset": 0,
        "timestamp": NOW_MS,
        "timestamp_type": "CreateTime",
        "kind": "OffsetCommit",
        "key": {"group": "g", "topic": "orders", "partition": 0},
        "version": 4,
        "value": {"offset": 0, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW_MS},
        "headers": [],
        "leader_epoch": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "transactional": False,
        "control": False,
        "codec": "none",
        "error": None,
    }


def test_segment_partition_and_data_folder_print_the_same(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_segment = dumped(capsys, offsets_log / FIRST)
    assert [each["offset"] for each in of_segment] == list(range(10))
    assert dumped(capsys, offsets_log) == of_segment
    write_log(offsets_log.parent / "orders-0", [lambda at: build([NewRecord(None, b"x", 1)])])
    assert dumped(capsys, offsets_log.parent) == of_segment


def test_relative_paths_are_resolved(
    offsets_log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dumped(capsys, offsets_log)
    inside = offsets_log.parent / "elsewhere"
    inside.mkdir()
    for here, path in ((offsets_log, "."), (inside, f"../{offsets_log.name}"), (inside, "..")):
        monkeypatch.chdir(here)
        assert dumped(capsys, path) == expected


def test_partitions_are_sorted_by_number_and_segments_by_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (10, 2):
        write_log(
            tmp_path / f"__consumer_offsets-{number}",
            [lambda at: batch_of(at, commit("g", at), commit("h", at))] * 20,
            segment_bytes=500,
        )
    found = [(each["partition"], each["offset"]) for each in dumped(capsys, tmp_path)]
    assert found == [
        (f"__consumer_offsets-{number}", offset) for number in (2, 10) for offset in range(40)
    ]


def test_group_selects_a_groups_records_and_the_ends_of_its_transactions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(at: int, producer_id: int, kind: bytes) -> bytes:
        marker = NewRecord(b"\0\0" + kind, b"\0\0\0\0\0\x09", NOW_MS)
        return in_transaction([marker], at, producer_id, control=True)

    write_log(
        tmp_path / "__consumer_offsets-0",
        [
            lambda at: batch_of(at, commit("g", 1), commit("h", 1), GroupTombstone("g")),
            lambda at: in_transaction(new_records(commit("g", 5)), at, 7),
            lambda at: in_transaction(new_records(commit("h", 5)), at, 8),
            lambda at: end(at, 8, b"\0\0"),
            lambda at: end(at, 7, b"\0\1"),
            lambda at: in_transaction(new_records(commit("h", 6)), at, 7),
            lambda at: end(at, 7, b"\0\1"),
            lambda at: in_transaction(new_records(commit("g", 6)), at, 7),
        ],
    )
    write_log(tmp_path / "__consumer_offsets-1", [lambda at: end(at, 7, b"\0\1")])
    selected = dumped(capsys, tmp_path, "--group", "g")
    assert [(each["offset"], each["kind"]) for each in selected] == [
        (0, "OffsetCommit"),
        (2, "GroupMetadata"),
        (3, "OffsetCommit"),
        (6, "COMMIT"),
        (9, "OffsetCommit"),
    ]
    assert selected[3]["value"] == {"coordinatorEpoch": 9}
    assert [each["transactional"] for each in selected] == [False, False, True, True, True]


def test_subscriptions_and_assignments_of_members_are_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscription = bytes.fromhex("0001 00000001 000174 ffffffff 00000000")
    assignment = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000001 ffffffff")
    member = MemberMetadata("m", None, "c", "/h", 1, 2, subscription, assignment)
    undecodable = member._replace(member_id="undecodable", assignment=b"\x00")
    stored = GroupMetadataRecord(
        "g", GroupMetadata("consumer", 3, "range", "m", NOW_MS, (member, undecodable))
    )
    write_log(tmp_path / "__consumer_offsets-0", [lambda at: batch_of(at, stored)])
    (record,) = dumped(capsys, tmp_path)
    first, second = record["value"]["members"]
    assert first["subscription"] == {"topics": ["t"], "userData": None, "ownedPartitions": []}
    assert first["assignment"] == {
        "assignedPartitions": [{"topic": "t", "partitions": [0, 1]}],
        "userData": None,
    }
    assert (second["subscription"], second["assignment"]) == (first["subscription"], "AA==")


def test_ordinary_records_are_text_if_they_are_utf_8(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [
        NewRecord(b"key", "wörd\n\x1b[2J".encode(), NOW_MS, (("h", b"\xff"), ("n", None))),
        NewRecord(None, b"\xff\x00", NOW_MS),
        NewRecord(b"key", None, NOW_MS),
    ]
    folder = tmp_path / "orders-0"
    write_log(folder, [lambda at: build(some, base_offset=at, codec=4)])
    first, second, third = dumped(capsys, folder)
    assert (first["key"], first["value"]) == ("key", "wörd\n\x1b[2J")
    assert first["headers"] == [["h", {"hex": "ff"}], ["n", None]]
    assert (second["key"], second["value"]) == (None, {"hex": "ff00"})
    assert third["value"] is None
    assert {each["codec"] for each in (first, second, third)} == {"zstd"}
    assert main(["log", "dump", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.removeprefix("orders-0 ") for line in lines] == [
        (
            '0 2023-11-14T22:13:20.000Z Record "key" = "wörd\\n\\u001b[2J" '
            'headers={"h":{"hex":"ff"},"n":null}'
        ),
        "1 2023-11-14T22:13:20.000Z Record null = hex=ff00",
        '2 2023-11-14T22:13:20.000Z Record "key" = deleted',
    ]


def test_a_torn_tail_is_reported_and_is_not_a_failure(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / FIRST
    segment.write_bytes(segment.read_bytes()[:-5])
    assert main(["log", "dump", str(offsets_log)]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 9
    assert re.search(r"104 corrupt bytes at byte 981 .*: a torn tail, or being written now", err)


def test_a_torn_first_batch_of_a_segment_is_not_a_failure(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = offsets_log / FIRST
    (offsets_log / segment_name(10)).write_bytes(first.read_bytes()[:50])
    assert main(["log", "dump", str(offsets_log)]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 10
    assert "50 corrupt bytes at byte 0" in err


def test_preallocated_zeros_are_not_reported(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (offsets_log / FIRST).open("ab") as file:
        file.write(bytes(3_000_000))
    assert len(dumped(capsys, offsets_log)) == 10


def test_records_behind_corrupt_bytes_are_printed(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / FIRST
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    assert main(["log", "dump", "--format", "json", str(offsets_log)]) == 1
    out, err = capsys.readouterr()
    offsets = [json.loads(line)["offset"] for line in out.splitlines()]
    (missing,) = set(range(10)) - set(offsets)
    assert f"skipped to offset {missing + 1}" in err


def test_an_undecodable_record_is_printed_in_hex_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = build([NewRecord(b"\x00\x01\x00", b"", NOW_MS)])
    write_log(tmp_path / "__consumer_offsets-0", [lambda at: bad])
    assert main(["log", "dump", "--format", "json", str(tmp_path)]) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["key"]) == ("Undecodable", {"hex": "000100"})
    assert "OffsetCommitKey" in record["error"]


def test_a_path_that_is_not_a_log_is_a_user_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], offsets_log: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("hello")
    (offsets_log / "00000000000000000000.index").write_bytes(bytes(8))
    write_log(tmp_path / "plain" / "orders-0", [lambda at: build([NewRecord(None, b"x", 1)])])
    invalid = {
        tmp_path / "missing": "does not exist.",
        tmp_path / "empty": "is empty.",
        tmp_path / "notes.txt": "is not a segment",
        tmp_path / "other": "is not a log: it contains neither segments nor partition folders",
        offsets_log
        / "00000000000000000000.index": "is the offset index of a segment: pass the .log",
        tmp_path / "plain": "has no __consumer_offsets",
        Path("/dev/null"): "is neither a file nor a folder",
    }
    for path, message in invalid.items():
        assert main(["log", "dump", str(path)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"{path} {message}" in err
    assert main(["log", "dump", str(tmp_path / "plain" / "orders-0"), "--group", "g"]) == 2
    assert "--group needs a log of __consumer_offsets" in capsys.readouterr().err


@pytest.mark.java
def test_kafkas_dump_tool_prints_the_same_for_every_kind(
    tmp_path: Path, kafka_tool: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in KAFKA_RECORDS.read_text().splitlines()]
    pairs = [(bytes.fromhex(line["key_bytes"]), line["value_bytes"]) for line in lines]
    some = [NewRecord(key, bytes.fromhex(value), NOW_MS) for key, value in pairs]
    some += [NewRecord(key, None, NOW_MS) for key, _ in pairs]
    folder = tmp_path / "__consumer_offsets-0"
    write_log(folder, [lambda at, each=each: build([each], base_offset=at) for each in some])
    tool = "org.apache.kafka.tools.DumpLogSegments"
    printed = kafka_tool(tool, "--offsets-decoder", "--files", folder / FIRST)
    found = re.findall(r"offset: (\d+) CreateTime.* key: (\{.*\}) payload: (.*)", printed)
    theirs = [
        (
            int(offset),
            json.loads(key)["data"],
            None if payload == "<DELETE>" else json.loads(payload),
        )
        for offset, key, payload in found
    ]
    ours = [
        (
            record["offset"],
            record["key"],
            record["value"] and {"version": str(record["version"]), "data": record["value"]},
        )
        for record in dumped(capsys, folder)
    ]
    assert len(theirs) == len(some)
    assert ours == theirs
