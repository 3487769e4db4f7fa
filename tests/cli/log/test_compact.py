"""`kohort log compact`: the whole log, in a folder that no broker uses."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest
from kohort.cli.log.compact import stored_configs, table
from kohort.cli.main import main
from kohort.log.checkpoint import PartitionCheckpoints
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.topics.registry_log import BrokerConfigRecord, TopicRecord, encode
from support.log import NewRecord, build, newest, put
from support.running_broker import BrokerThread

from .conftest import corrupt, write_log


def write_three_keys(folder: Path, count: int = 300) -> Log:
    """A log with many segments and three keys."""
    folder.parent.mkdir(exist_ok=True)
    log = Log.open(folder, DiskFiles(), LogConfig(segment_bytes=1000))
    for number in range(count):
        put(log, [(f"key {number % 3}", str(number))])
    log.close()
    return log


def write_registry(data: Path, name: str, **overrides: str) -> None:
    configs = {key.replace("_", "."): value for key, value in overrides.items()}
    record = NewRecord(*encode(TopicRecord(name, uuid.UUID(int=7), 1, configs)), 0)
    write_log(data / "__kohort_topics-0", [lambda at: build([record], base_offset=at)])


def test_one_record_of_each_key_is_left_and_the_table_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    folder = data / "__consumer_offsets-3"
    before = newest(write_three_keys(folder))
    bytes_before = sum(path.stat().st_size for path in folder.glob("*.log"))
    segments_before = len(list(folder.glob("*.log")))
    assert main(["log", "compact", str(folder)]) == 0
    log = Log.open(folder, DiskFiles())
    assert newest(log) == before
    assert (log.start_offset, log.end_offset) == (0, 300)
    out, err = capsys.readouterr()
    assert err == ""
    assert [re.split("  +", line) for line in out.splitlines()] == [
        ["partition", "records", "after", "bytes", "after", "segments", "after"],
        [
            "__consumer_offsets-3",
            "300",
            "3",
            f"{bytes_before:,}",
            f"{log.size:,}",
            f"{segments_before:,}",
            "1",
        ],
    ]
    assert (data / "cleaner-offset-checkpoint").read_text() == "0\n1\n__consumer_offsets 3 300\n"


def test_only_topics_with_cleanup_policy_compact_are_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_registry(data, "orders", cleanup_policy="compact")
    for name in ("__consumer_offsets-0", "orders-0", "others-0"):
        write_three_keys(data / name, 30)
    assert main(["log", "compact", str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["__consumer_offsets-0", "30", "3"],
        ["orders-0", "30", "3"],
        ["all", "60", "6"],
    ]
    assert len(list(Log.open(data / "others-0", DiskFiles()).batches())) == 30


def test_a_topic_without_cleanup_policy_compact_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_three_keys(tmp_path / "data" / "others-0", 30)
    assert main(["log", "compact", str(tmp_path / "data" / "others-0")]) == 2
    assert "has no topic with cleanup.policy=compact" in capsys.readouterr().err
    assert len(list(Log.open(tmp_path / "data" / "others-0", DiskFiles()).batches())) == 30


def test_a_folder_that_a_broker_uses_is_rejected_with_the_alternative(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    with BrokerThread({}, data_dir=data, durability="os"):
        write_three_keys(data / "__consumer_offsets-3", 30)
        assert main(["log", "compact", str(data)]) == 2
    error = capsys.readouterr().err
    assert re.search(r"data is in use by process \d+ \(kohort\)\. Stop it first, or make it", error)
    assert "min.cleanable.dirty.ratio" in error
    assert "--data-dir" not in error


def test_a_corrupt_log_is_not_changed_and_the_others_are_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    for number in range(2):
        write_three_keys(data / f"__consumer_offsets-{number}", 30)
    segment = sorted((data / "__consumer_offsets-0").glob("*.log"))[1]
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    names = sorted(path.name for path in (data / "__consumer_offsets-0").iterdir())
    assert main(["log", "compact", str(data)]) == 1
    out, err = capsys.readouterr()
    assert "__consumer_offsets-0 was not compacted: it is corrupt at offset" in err
    assert segment.read_bytes() == content
    assert sorted(path.name for path in (data / "__consumer_offsets-0").iterdir()) == names
    assert out.splitlines()[1].split()[:3] == ["__consumer_offsets-1", "30", "3"]


def test_a_corrupt_segment_with_valid_batches_behind_is_not_changed(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / f"{0:020d}.log"
    corrupt(segment, segment.stat().st_size // 2)
    corrupted = segment.read_bytes()
    assert main(["log", "compact", str(offsets_log.parent)]) == 1
    assert "__consumer_offsets-7 was not compacted: it is corrupt at offset 5" in (
        capsys.readouterr().err
    )
    assert {path.name: path.read_bytes() for path in offsets_log.iterdir()} == {
        segment.name: corrupted
    }


def test_a_torn_tail_is_truncated_and_the_rest_is_compacted(offsets_log: Path) -> None:
    segment = offsets_log / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    assert main(["log", "compact", str(offsets_log.parent)]) == 0
    assert [header.base_offset for header, _ in Log.open(offsets_log, DiskFiles()).batches()] == [8]


def test_a_compacted_log_can_be_compacted_again(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for before in ("10", "1", "1"):
        assert main(["log", "compact", str(offsets_log.parent)]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert out.splitlines()[1].split()[:3] == ["__consumer_offsets-7", before, "1"]


def test_nothing_is_compacted_if_the_registry_is_corrupt_in_the_middle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_registry(data, "orders", cleanup_policy="compact")
    write_registry(data, "others")
    write_registry(data, "orders", cleanup_policy="delete")
    for name in ("__consumer_offsets-0", "orders-0"):
        write_three_keys(data / name, 30)
    segment = data / "__kohort_topics-0" / f"{0:020d}.log"
    corrupt(segment, segment.stat().st_size // 2)
    assert main(["log", "compact", str(data)]) == 2
    assert "the topic registry is corrupt" in capsys.readouterr().err
    for name in ("__consumer_offsets-0", "orders-0"):
        assert len(list(Log.open(data / name, DiskFiles()).batches())) == 30


def test_a_log_whose_records_were_all_deleted_is_left_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    write_three_keys(data / "__consumer_offsets-0")
    before = newest(write_three_keys(data / "__consumer_offsets-1"))
    PartitionCheckpoints(data, DiskFiles()).start_offsets.set("__consumer_offsets-0", 300)
    assert main(["log", "compact", str(data)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1] == ["__consumer_offsets-0", *"000000"]
    assert newest(Log.open(data / "__consumer_offsets-1", DiskFiles())) == before


def test_dynamic_values_of_broker_keys_apply(tmp_path: Path) -> None:
    record = NewRecord(*encode(BrokerConfigRecord("", {"producer.id.expiration.ms": "5000"})), 0)
    write_log(tmp_path / "__kohort_topics-0", [lambda at: build([record], base_offset=at)])
    configs, _ = stored_configs(tmp_path, DiskFiles())
    assert configs.broker_number("producer.id.expiration.ms") == 5000


def test_a_single_segment_cannot_be_compacted(
    offsets_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "compact", str(offsets_log / f"{0:020d}.log")]) == 2
    assert "pass the folder of the whole log" in capsys.readouterr().err


def test_numbers_in_the_table_are_right_aligned() -> None:
    assert table({"a-0": (1000, 10, 1_000_000, 9, 12, 1)}) == (
        "partition  records  after      bytes  after  segments  after\n"
        "a-0          1,000     10  1,000,000      9        12      1\n"
    )
