"""The event log as Arrow batches, while it is written, rotated, truncated and deleted."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from kohort.broker.event_log import encode_line
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.offsets.causes import Cause
from kohort.pipeline.source import events
from kohort.pipeline.source.events import event_ends, read_events
from kohort.pipeline.tables import TABLES
from support.running_broker import BrokerThread

NOW_MS = 1_700_000_000_123
FIRST = f"{0:020}.jsonl"
SECOND = f"{4:020}.jsonl"


def line(seq: int, **fields: object) -> bytes:
    return encode_line(
        "c-1", seq, NOW_MS + seq, 1, GroupEvent(EventType.GROUP_CREATED, "orders", **fields)
    )


def write(data: Path, name: str, *lines: bytes) -> Path:
    path = data / "events" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return path


def read(data: Path, start: dict[str, int] | None = None) -> tuple[pa.Table, dict[str, int]]:
    end = event_ends(data)
    batches = list(read_events(data, start or {}, end))
    return pa.Table.from_batches(batches, TABLES["bronze_event"].schema), end


def seqs(table: pa.Table) -> list[int]:
    return table["seq"].to_pylist()


def test_a_line_becomes_a_row_with_all_its_fields(tmp_path: Path) -> None:
    event = line(
        7,
        member_id="m-1",
        generation=3,
        reason="größer",
        duration_ms=12,
        cause=Cause.SLOW_POLL,
        detail={"triggered_by": "m-1"},
    )
    write(tmp_path, FIRST, event)
    table, _ = read(tmp_path)
    (row,) = table.to_pylist()
    assert row == {
        **dict.fromkeys(table.column_names),
        "cluster": "c-1",
        "ts": datetime.fromtimestamp((NOW_MS + 7) / 1000, UTC),
        "seq": 7,
        "node": 1,
        "type": "group_created",
        "group": "orders",
        "member_id": "m-1",
        "generation": 3,
        "reason": "größer",
        "duration_ms": 12,
        "detail": [("triggered_by", "m-1"), ("cause", "SLOW_POLL")],
    }
    (renamed,) = read_events(tmp_path, {}, event_ends(tmp_path), "mine")
    assert renamed["cluster"].to_pylist() == ["mine"]


def test_each_line_is_read_once_across_files(tmp_path: Path) -> None:
    write(tmp_path, FIRST, *map(line, range(4)))
    first, position = read(tmp_path)
    write(tmp_path, FIRST, line(4))
    write(tmp_path, f"{5:020}.jsonl", line(5), line(6))
    second, position = read(tmp_path, position)
    assert (seqs(first), seqs(second)) == ([0, 1, 2, 3], [4, 5, 6])
    assert seqs(read(tmp_path, position)[0]) == []


def test_an_incomplete_last_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    whole = line(1)
    for cut in range(1, len(whole)):
        path = write(tmp_path, FIRST, line(0), whole[:cut])
        table, position = read(tmp_path)
        assert (seqs(table), position) == ([0], {FIRST: len(line(0))})
        path.unlink()
    write(tmp_path, FIRST, line(0), whole)
    assert seqs(read(tmp_path, position)[0]) == [1]


def test_positions_of_deleted_files_are_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, FIRST, *map(line, range(4)))
    write(tmp_path, SECOND, line(4))
    _, position = read(tmp_path)
    path.unlink()
    write(tmp_path, SECOND, line(5))
    table, position = read(tmp_path, position)
    assert (seqs(table), list(position)) == ([5], [SECOND])
    # Deleted between planning and reading.
    planned = event_ends(tmp_path)
    (tmp_path / "events" / SECOND).unlink()
    with caplog.at_level(logging.WARNING):
        assert list(read_events(tmp_path, {}, planned)) == []
    assert "was deleted before its events were read" in caplog.text


def test_a_file_truncated_by_a_crash_is_read_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, FIRST, *map(line, range(4)))
    _, position = read(tmp_path)
    path.write_bytes(line(0))
    table, shorter = read(tmp_path, position)
    assert (seqs(table), shorter) == ([], {FIRST: len(line(0))})
    assert "was truncated" in caplog.text
    assert seqs(table) == []
    write(tmp_path, FIRST, line(1))
    assert seqs(read(tmp_path, shorter)[0]) == [1]
    # It grew beyond the old end before the next read, which continues at the next whole line.
    path.write_bytes(b"".join(line(seq, reason="another length") for seq in range(5)))
    assert seqs(read(tmp_path, position)[0]) == [4]


@pytest.mark.parametrize(
    "malformed",
    [
        b"no JSON",
        b"",
        b"17",
        b"{},{}",
        b'{"cluster":"c-1"}',
        line(2).replace(b'"seq":2', b'"seq":"two"'),
        line(2).replace(b'"seq":2', b'"seq":99999999999999999999'),
        line(2).replace(b'"node":1', b'"node":3000000000'),
        line(2).replace(b'"ts":"2', b'"ts":"x'),
        line(2).replace(b'"group":"orders"', b'"group":null'),
        line(2).replace(b'"detail":{}', b'"detail":{"a":1}'),
        line(2).replace(b'"detail":{}', b'"detail":[]'),
        line(2).replace(b'"orders"', rb'"\ud800"'),
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_malformed_line_is_skipped_with_a_warning(
    tmp_path: Path, malformed: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, FIRST, line(0), line(1), malformed.strip() + b"\n", line(3), line(4))
    assert seqs(read(tmp_path)[0]) == [0, 1, 3, 4]
    begin = repr(malformed.strip()[:10])[:-1]
    assert f"Malformed lines in the event log: 1; the first: {begin}" in caplog.text


def test_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    newer = json.dumps({**json.loads(line(0)), "weather": {"mild": True}}).encode()
    write(tmp_path, FIRST, newer + b"\n")
    assert seqs(read(tmp_path)[0]) == [0]


def test_lines_longer_than_a_chunk_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, FIRST, *map(line, range(30)), line(30)[:-1])
    whole, ends = read(tmp_path)
    for chunk in (1, 7, 400, 1000):
        monkeypatch.setattr(events, "CHUNK_BYTES", chunk)
        assert event_ends(tmp_path) == ends
        assert read(tmp_path)[0].equals(whole)


def test_a_folder_without_events_has_none(tmp_path: Path) -> None:
    assert event_ends(tmp_path) == {}
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "notes.txt").write_text("not an event\n")
    assert event_ends(tmp_path) == {}


@pytest.mark.clients
def test_the_event_of_a_commit_to_a_broker_is_read(tmp_path: Path) -> None:
    with BrokerThread({"kohort.events": "all"}, data_dir=tmp_path, durability="os") as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
        broker.call(lambda each: each.node.topics.create("orders", 1, {}))
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
    table, _ = read(tmp_path)
    accepted = [row for row in table.to_pylist() if row["type"] == "commit_accepted"]
    assert [(row["group"], row["detail"]) for row in accepted] == [("billing", [("orders-0", "7")])]
