"""`kohort log dump`: what is in a log, record by record, whatever else lies in its files."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kohort.cli.main import main
from kohort.log.batch import NewRecord, build
from kohort.log.segment import segment_name
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
)

from .conftest import NOW_MS, batch_of, commit, in_transaction, new_records, write_log

FIRST = segment_name(0)
WRITTEN = Path(__file__).parents[2] / "offsets" / "kafka_records.jsonl"


def dumped(capsys: pytest.CaptureFixture[str], *args: str | Path) -> list[dict[str, Any]]:
    """The records of `kohort log dump --format json`, which ends with 0 and says nothing."""
    assert main(["log", "dump", "--format", "json", *map(str, args)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def test_a_record_says_all_of_itself(offsets_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        "version": 3,
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


def test_segment_partition_and_data_folder_say_the_same(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_segment = dumped(capsys, offsets_log / FIRST)
    assert [each["offset"] for each in of_segment] == list(range(10))
    assert dumped(capsys, offsets_log) == of_segment
    write_log(offsets_log.parent / "orders-0", [lambda at: build([NewRecord(None, b"x", 1)])])
    assert dumped(capsys, offsets_log.parent) == of_segment


def test_a_folder_without_a_name_of_its_own_is_known_by_where_it_is(
    offsets_log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = dumped(capsys, offsets_log)
    inside = offsets_log.parent / "elsewhere"
    inside.mkdir()
    for here, path in ((offsets_log, "."), (inside, f"../{offsets_log.name}"), (inside, "..")):
        monkeypatch.chdir(here)
        assert dumped(capsys, path) == expected


def test_partitions_come_by_number_and_their_segments_by_offset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (10, 2):
        write_log(
            tmp_path / f"__consumer_offsets-{number}",
            [lambda at: batch_of(at, commit("g", at), commit("h", at))] * 20,
            segment_bytes=500,
        )
    places = [(each["partition"], each["offset"]) for each in dumped(capsys, tmp_path)]
    assert places == [
        (f"__consumer_offsets-{number}", offset) for number in (2, 10) for offset in range(40)
    ]


def test_only_one_groups_records_are_shown_and_how_its_transactions_end(
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
        ],
    )
    shown = dumped(capsys, tmp_path / "__consumer_offsets-0", "--group", "g")
    assert [(each["offset"], each["kind"]) for each in shown] == [
        (0, "OffsetCommit"),
        (2, "GroupMetadata"),
        (3, "OffsetCommit"),
        (6, "COMMIT"),
    ]
    assert shown[3]["value"] == {"coordinatorEpoch": 9}
    assert [each["transactional"] for each in shown] == [False, False, True, True]


def test_a_groups_members_are_told_with_what_they_want_and_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subscription = bytes.fromhex("0001 00000001 000174 ffffffff 00000000")
    assignment = bytes.fromhex("0001 00000001 000174 00000002 00000000 00000001 ffffffff")
    member = MemberMetadata("m", None, "c", "/h", 1, 2, subscription, assignment)
    odd = member._replace(member_id="odd", assignment=b"\x00")
    stored = GroupMetadataRecord(
        "g", GroupMetadata("consumer", 3, "range", "m", NOW_MS, (member, odd))
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


def test_ordinary_records_are_text_where_they_are_text(
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


def test_a_torn_tail_is_told_and_no_failure(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / FIRST
    segment.write_bytes(segment.read_bytes()[:-5])
    assert main(["log", "dump", str(offsets_log)]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 9
    assert re.search(r"104 bytes from byte 981 on are no sound batch .*: torn by a crash", err)


def test_room_allocated_ahead_is_not_worth_a_word(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (offsets_log / FIRST).open("ab") as file:
        file.write(bytes(3_000_000))
    assert len(dumped(capsys, offsets_log)) == 10


def test_what_lies_behind_bad_bytes_is_shown(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / FIRST
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    assert main(["log", "dump", "--format", "json", str(offsets_log)]) == 1
    out, err = capsys.readouterr()
    offsets = [json.loads(line)["offset"] for line in out.splitlines()]
    (gone,) = set(range(10)) - set(offsets)
    assert f"passed over to offset {gone + 1}" in err


def test_a_record_that_cannot_be_decoded_is_shown_in_hex_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = build([NewRecord(b"\x00\x01\x00", b"", NOW_MS)])
    write_log(tmp_path / "__consumer_offsets-0", [lambda at: bad])
    assert main(["log", "dump", "--format", "json", str(tmp_path)]) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["kind"], record["key"]) == ("Undecodable", {"hex": "000100"})
    assert "OffsetCommitKey" in record["error"]


def test_what_is_no_log_gets_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], offsets_log: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("hello")
    (offsets_log / "00000000000000000000.index").write_bytes(bytes(8))
    poem = tmp_path / segment_name(0)
    poem.write_text("a text that is named like a segment\n" * 100)
    write_log(tmp_path / "plain" / "orders-0", [lambda at: build([NewRecord(None, b"x", 1)])])
    wrong = {
        tmp_path / "missing": "is not there: no such file or folder",
        tmp_path / "empty": "is empty: no log is there",
        tmp_path / "notes.txt": "is no segment of a log",
        tmp_path / "other": "is no log: neither segments nor folders of partitions",
        offsets_log / "00000000000000000000.index": "is the index of a segment: give the .log",
        poem: "is no log: there is no record batch in it",
        tmp_path / "plain": "has no __consumer_offsets",
        Path("/dev/null"): "is neither a file nor a folder",
    }
    for path, says in wrong.items():
        assert main(["log", "dump", str(path)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 2 if path == poem else 1)
        assert f"{path} {says}" in err
    assert main(["log", "dump", str(tmp_path / "plain" / "orders-0"), "--group", "g"]) == 2
    assert "--group is for __consumer_offsets" in capsys.readouterr().err


@pytest.mark.java
def test_kafkas_own_dump_says_the_same_of_every_kind(
    tmp_path: Path, kafka_tool: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in WRITTEN.read_text().splitlines()]
    pairs = [(bytes.fromhex(line["key_bytes"]), line["value_bytes"]) for line in lines]
    some = [NewRecord(key, bytes.fromhex(value), NOW_MS) for key, value in pairs]
    some += [NewRecord(key, None, NOW_MS) for key, _ in pairs]
    folder = tmp_path / "__consumer_offsets-0"
    write_log(folder, [lambda at, each=each: build([each], base_offset=at) for each in some])
    tool = "org.apache.kafka.tools.DumpLogSegments"
    said = kafka_tool(tool, "--offsets-decoder", "--files", folder / FIRST)
    told = re.findall(r"offset: (\d+) CreateTime.* key: (\{.*\}) payload: (.*)", said)
    theirs = [
        (
            int(offset),
            json.loads(key)["data"],
            None if payload == "<DELETE>" else json.loads(payload),
        )
        for offset, key, payload in told
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
