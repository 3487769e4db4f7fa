"""`kohort log stats`: the sizes of logs, and how much compaction would remove."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from kohort.cli.log.stats import dirty_ratio
from kohort.cli.main import main
from kohort.log.segment import segment_name
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord, OffsetTombstone
from support.log import NewRecord, build

from .conftest import NOW_MS, batch_of, commit, corrupt, in_transaction, new_records, write_log


def stats(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, Any]:
    assert main(["log", "stats", str(path), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    content: dict[str, Any] = json.loads(out)
    return content


def test_live_and_dead_records_are_distinguished_by_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "__consumer_offsets-3"
    stored = GroupMetadataRecord("g", GroupMetadata("consumer", 1, None, None, NOW_MS, ()))
    marker = NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", NOW_MS + 7)
    batches = write_log(
        folder,
        [
            lambda at: batch_of(at, commit("g", 1)),
            lambda at: batch_of(at, commit("g", 2), commit("h", 3)),
            lambda at: batch_of(at, commit("g", 3), commit("g", 1, 1)),
            lambda at: batch_of(at, OffsetTombstone("h", "orders", 0), stored),
            lambda at: in_transaction(new_records(commit("i", 5)), at, 7),
            lambda at: in_transaction([marker], at, 7, control=True),
        ],
    )
    content = stats(capsys, tmp_path)
    (row,) = content["partitions"]
    live, dead = row.pop("live_bytes"), row.pop("dead_bytes")
    assert row == {
        "partition": "__consumer_offsets-3",
        "segments": 1,
        "bytes": sum(map(len, batches)),
        "records": 9,
        "live_records": 4,
        "dead_records": 3,
        "tombstones": 1,
        "groups": 2,
        "offsets": 3,
        "oldest_timestamp": NOW_MS,
        "newest_timestamp": NOW_MS + 7,
        "dirty_ratio": 0.0,
    }
    assert len(batches[0]) + len(batches[1]) == pytest.approx(dead, rel=0.01)
    assert live < row["bytes"] - dead - len(batches[5])
    assert content["total"] == {
        **row,
        "partition": "total",
        "live_bytes": live,
        "dead_bytes": dead,
    } | {"dirty_ratio": None}


def test_ordinary_topics_have_no_groups_and_keyless_records_are_live(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [NewRecord(None, b"a", 5), NewRecord(b"k", b"b", 6), NewRecord(b"k", b"c" * 200, 7)]
    (batch,) = write_log(tmp_path / "orders-0", [lambda at: build(some, codec=1)])
    write_log(tmp_path / "orders-10", [lambda at: build(some)])
    write_log(tmp_path / "orders-2", [lambda at: build(some)])
    content = stats(capsys, tmp_path)
    names = [row["partition"] for row in content["partitions"]]
    assert names == ["orders-0", "orders-2", "orders-10"]
    row = content["partitions"][0]
    assert (row["live_records"], row["dead_records"]) == (2, 1)
    assert (row["groups"], row["offsets"]) == (None, None)
    # Both figures are rounded.
    assert row["live_bytes"] + row["dead_bytes"] == pytest.approx(len(batch), abs=1)
    assert content["total"]["records"] == 9


def test_the_dirty_ratio_counts_closed_segments_since_the_last_compaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    batches = write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 9, segment_bytes=220)
    assert len(list(folder.glob("*.log"))) == 5
    assert stats(capsys, folder)["partitions"][0]["dirty_ratio"] == 1.0
    (tmp_path / "cleaner-offset-checkpoint").write_text(
        "0\n2\n__consumer_offsets 10 8\n__consumer_offsets 0 6\n"
    )
    assert stats(capsys, folder)["partitions"][0]["dirty_ratio"] == 0.25
    assert len(batches[0]) * 2 < 220
    assert dirty_ratio({0: 100, 5: 300, 9: 50}, 7) == 0.75
    assert dirty_ratio({0: 100}, 0) == 0.0


def test_table_and_csv_have_the_same_values_as_json(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = stats(capsys, offsets_log)["partitions"][0]
    assert main(["log", "stats", str(offsets_log), "--format", "csv"]) == 0
    first, total = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert first == {name: str(value) for name, value in row.items()}
    assert total["partition"] == "total"
    assert main(["log", "stats", str(offsets_log)]) == 0
    head, line, _ = capsys.readouterr().out.splitlines()
    assert head.split() == [name.upper().replace("_", "-") for name in row]
    assert line.split()[:5] == ["__consumer_offsets-7", "1", "1,090", "10", "1"]
    assert "2023-11-14T22:13:20.009Z" in line


def test_corrupt_bytes_are_reported_and_not_counted(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corrupt(offsets_log / segment_name(0), 300)
    assert main(["log", "stats", str(offsets_log), "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("__consumer_offsets-7,1,981,9,1,")
    assert "109 corrupt bytes are not counted; see `kohort log verify`" in err
