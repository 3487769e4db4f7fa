"""The files of the event log, on disks that fail."""

import errno
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.event_log import LINES_PER_STEP, CoordinatorEvent, EventLog, EventPublisher
from kohort.coordinator.classic.states import State
from kohort.coordinator.outcome import INFO, EventType, GroupEvent, LogLine
from kohort.coordinator.transactions.commands import TransactionEvent
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import FaultyFile, FaultyFiles

DATA = Path("/data")
EVENTS = DATA / "events"


class LogOnFakeLoop:
    """An event log with a fake event loop. `run_loop` runs one iteration."""

    def __init__(
        self, files: FaultyFiles, file_bytes_max: int = 100_000, files_max: int = 0
    ) -> None:
        self.files = files
        files.make_folder(DATA)
        self.callbacks: list[Callable[[], None]] = []
        self.event_log = EventLog(
            DATA,
            files,
            cluster_id="cluster",
            now_ms=lambda: 1_700_000_000_123,
            call_soon=self.callbacks.append,
            file_bytes_max=file_bytes_max,
            files_max=files_max,
        )
        self.publish = self.event_log.listener(7)

    def run_loop(self) -> None:
        callbacks, self.callbacks[:] = list(self.callbacks), []
        for callback in callbacks:
            callback()

    def write(self, *groups: str) -> None:
        for group in groups:
            self.publish(GroupEvent(EventType.GROUP_CREATED, group))
        self.run_loop()


def names(files: FaultyFiles) -> list[str]:
    return files.list(EVENTS)


def lines(files: FaultyFiles) -> list[dict[str, Any]]:
    data = b"".join(files.read_bytes(EVENTS / name) for name in names(files))
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def events_in(files: FaultyFiles) -> list[tuple[int, str]]:
    return [(line["seq"], line["group"]) for line in lines(files)]


def test_an_event_becomes_a_line_with_every_column() -> None:
    log = LogOnFakeLoop(FaultyFiles())
    log.publish(
        GroupEvent(
            EventType.MEMBER_EXPIRED,
            "Bücher",
            "m",
            "i",
            "c",
            "/h",
            "lib/1.0",
            3,
            State.STABLE,
            State.PREPARING_REBALANCE,
            ErrorCode.unknown_member_id,
            'she said "no"\n',
            12,
            Cause.SESSION_TIMEOUT,
            {"session_timeout_ms": "10000"},
        )
    )
    log.run_loop()
    assert lines(log.files) == [
        {
            "cluster": "cluster",
            "ts": "2023-11-14T22:13:20.123+00:00",
            "seq": 0,
            "node": 7,
            "type": "member_expired",
            "group": "Bücher",
            "member_id": "m",
            "instance_id": "i",
            "client_id": "c",
            "client_host": "/h",
            "client_software": "lib/1.0",
            "generation": 3,
            "state_from": "Stable",
            "state_to": "PreparingRebalance",
            "error_code": 25,
            "reason": 'she said "no"\n',
            "duration_ms": 12,
            "detail": {"session_timeout_ms": "10000", "cause": "SESSION_TIMEOUT"},
        }
    ]


def test_the_events_of_an_iteration_of_the_loop_are_written_together() -> None:
    log = LogOnFakeLoop(FaultyFiles())
    for group in "abc":
        log.publish(GroupEvent(EventType.GROUP_CREATED, group))
    assert not log.files.exists(EVENTS)
    assert len(log.callbacks) == 1
    log.run_loop()
    assert events_in(log.files) == [(0, "a"), (1, "b"), (2, "c")]
    assert [operation for operation, _ in log.files.operations].count("append") == 1
    assert "sync" not in [operation for operation, _ in log.files.operations]


def test_buffered_events_are_written_when_the_log_is_closed() -> None:
    log = LogOnFakeLoop(FaultyFiles())
    log.publish(GroupEvent(EventType.GROUP_CREATED, "a"))
    log.event_log.close()
    assert events_in(log.files) == [(0, "a")]


def test_all_nodes_share_one_sequence_of_numbers() -> None:
    log = LogOnFakeLoop(FaultyFiles())
    log.write("a")
    log.event_log.listener(8)(GroupEvent(EventType.GROUP_CREATED, "b"))
    log.run_loop()
    assert [(line["seq"], line["node"]) for line in lines(log.files)] == [(0, 7), (1, 8)]


def test_a_full_file_is_followed_by_one_named_after_its_first_line() -> None:
    log = LogOnFakeLoop(FaultyFiles(), file_bytes_max=700)
    for group in "abcde":
        log.write(group)
    assert names(log.files) == [f"{seq:020}.jsonl" for seq in (0, 2, 4)]
    assert events_in(log.files) == list(enumerate("abcde"))
    assert all(len(log.files.read_bytes(EVENTS / name)) <= 700 for name in names(log.files))


def test_a_restart_continues_the_newest_file_with_the_next_number() -> None:
    files = FaultyFiles()
    LogOnFakeLoop(files, file_bytes_max=700).write("a")
    first = LogOnFakeLoop(files, file_bytes_max=700)
    first.write("b")
    first.write("c")
    first.event_log.close()
    LogOnFakeLoop(files).write("d", "e")
    assert events_in(files) == list(enumerate("abcde"))
    assert names(files) == [f"{seq:020}.jsonl" for seq in (0, 2)]


def test_only_the_oldest_event_files_beyond_the_limit_are_removed() -> None:
    files = FaultyFiles()
    log = LogOnFakeLoop(files, file_bytes_max=700, files_max=2)
    files.make_folder(EVENTS)
    files.replace(EVENTS / "notes.txt", b"mine")
    for group in "abcdefg":
        log.write(group)
    kept = [f"{seq:020}.jsonl" for seq in (4, 6)]
    assert sorted(names(files)) == [*kept, "notes.txt"]
    log.event_log.close()
    # A smaller limit applies at the next start, even if no new file is created.
    LogOnFakeLoop(files, files_max=1).write("h")
    assert sorted(names(files)) == [kept[1], "notes.txt"]
    assert files.read_bytes(EVENTS / kept[1]).count(b"\n") == 2


def test_an_old_file_that_cannot_be_removed_loses_no_line(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    log = LogOnFakeLoop(files, file_bytes_max=700, files_max=1)
    log.write("a", "b")
    files.fail("remove")
    log.write("c")
    assert events_in(files) == list(enumerate("abc"))
    assert "Failed to remove old files of the event log" in caplog.text


@pytest.mark.parametrize("kept", range(1, 40))
def test_an_incomplete_last_line_is_removed_before_the_next_write(kept: int) -> None:
    files = FaultyFiles()
    LogOnFakeLoop(files).write("a", "b")
    content = files.contents[EVENTS / f"{0:020}.jsonl"]
    end = content.index(b"\n") + 1
    del content[end + kept :]
    LogOnFakeLoop(files).write("c")
    assert events_in(files) == [(0, "a"), (1, "c")]


@pytest.mark.parametrize("rest", [b"\0" * 5_000, b"\0\n", b"junk", b'{"seq":90}\n', b"\xff" * 9])
def test_garbage_at_the_end_of_a_file_repeats_no_number(rest: bytes) -> None:
    files = FaultyFiles()
    LogOnFakeLoop(files).write("a", "b")
    files.contents[EVENTS / f"{0:020}.jsonl"] += rest
    LogOnFakeLoop(files).write("c")
    last = json.loads(files.read_bytes(EVENTS / names(files)[-1]).splitlines()[-1])
    assert (last["seq"], last["group"]) == (2, "c")


def test_a_file_without_a_line_is_kept_and_its_numbers_are_skipped() -> None:
    files = FaultyFiles()
    LogOnFakeLoop(files).write("a")
    files.contents[EVENTS / f"{0:020}.jsonl"][:] = b"\0" * 3_000_000
    LogOnFakeLoop(files).write("b")
    assert names(files) == [f"{seq:020}.jsonl" for seq in (0, 3_000_000)]
    assert json.loads(files.read_bytes(EVENTS / names(files)[1]))["group"] == "b"


@pytest.mark.parametrize("operation", ["append", "create", "make_folder"])
def test_a_failing_disk_is_logged_once_and_loses_only_its_lines(
    operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = LogOnFakeLoop(FaultyFiles())
    log.files.fail(operation, error=errno.ENOSPC, times=3)
    for group in "abcde":
        log.write(group)
    assert events_in(log.files) == [(3, "d"), (4, "e")]
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "No space left on device" in warnings[0]
    assert warnings[1] == "Resumed writing the event log; 3 events were lost"


@pytest.mark.parametrize("written", [1, 100, 250])
def test_the_partial_line_of_a_failed_write_is_removed(written: int) -> None:
    log = LogOnFakeLoop(FaultyFiles())
    log.write("a")
    log.files.fail("append", error=errno.ENOSPC, written=written)
    log.write("b" * 300)
    log.write("c")
    assert events_in(log.files) == [(0, "a"), (2, "c")]


def test_the_log_can_be_closed_on_a_full_disk() -> None:
    log = LogOnFakeLoop(FaultyFiles())
    log.write("a")
    log.files.fail("append", error=errno.ENOSPC, times=100)
    log.publish(GroupEvent(EventType.GROUP_CREATED, "b"))
    log.event_log.close()
    assert events_in(log.files) == [(0, "a")]


def test_the_log_can_be_closed_though_its_file_reports_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A network file system may report a delayed write error."""
    log = LogOnFakeLoop(FaultyFiles())
    log.write("a")

    def close(_file: FaultyFile) -> None:
        raise OSError(errno.EIO, "delayed")

    monkeypatch.setattr(FaultyFile, "close", close)
    log.event_log.close()
    assert "Failed to close a file of the event log: " in caplog.text


def test_a_change_of_a_transaction_is_a_line_without_a_group() -> None:
    log = LogOnFakeLoop(FaultyFiles())
    partitions = {("orders", 1), ("orders", 0)}
    log.publish(
        TransactionEvent("billing-1", 7, 3, "Ongoing", "PrepareAbort", "timed out", partitions)
    )
    log.run_loop()
    (line,) = lines(log.files)
    assert {name: value for name, value in line.items() if value not in (None, "")} == {
        "cluster": "cluster",
        "ts": "2023-11-14T22:13:20.123+00:00",
        "seq": 0,
        "node": 7,
        "type": "transaction_changed",
        "state_from": "Ongoing",
        "state_to": "PrepareAbort",
        "reason": "timed out",
        "detail": {
            "transactional_id": "billing-1",
            "producer_id": "7",
            "producer_epoch": "3",
            "partitions": "orders-0,orders-1",
        },
    }


def test_log_lines_of_a_whole_partition_are_written_in_steps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[CoordinatorEvent] = []
    publisher = EventPublisher("", [heard.append])
    count = LINES_PER_STEP + 1
    events = [LogLine(INFO, "group %d", (number,)) for number in range(count)]
    with caplog.at_level(logging.INFO, "kohort.groups"):
        task = publisher.publish_in_steps([*events, GroupEvent(EventType.GROUP_LOADED, "last")])
        next(task)
        assert (len(heard), len(caplog.messages)) == (1, LINES_PER_STEP)
        assert list(task) == []
    assert caplog.messages == [f"group {number}" for number in range(count)]
