"""The file side of the event log, on disks that fill up, tear and lose."""

import errno
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.event_log import EventLog
from kohort.coordinator.classic.states import State
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import FaultyFiles

DATA = Path("/data")
EVENTS = DATA / "events"


class Desk:
    """An event log whose loop is turned by hand."""

    def __init__(
        self, files: FaultyFiles, file_bytes_max: int = 100_000, files_max: int = 0
    ) -> None:
        self.files = files
        files.make_folder(DATA)
        self.due: list[Callable[[], None]] = []
        self.log = EventLog(
            DATA,
            files,
            cluster_id="cluster",
            now_ms=lambda: 1_700_000_000_123,
            call_soon=self.due.append,
            file_bytes_max=file_bytes_max,
            files_max=files_max,
        )
        self.tell = self.log.listener(7)

    def turn(self) -> None:
        due, self.due[:] = list(self.due), []
        for callback in due:
            callback()

    def write(self, *groups: str) -> None:
        for group in groups:
            self.tell(GroupEvent(EventType.GROUP_CREATED, group))
        self.turn()


def names(files: FaultyFiles) -> list[str]:
    return files.list(EVENTS)


def lines(files: FaultyFiles) -> list[dict[str, Any]]:
    data = b"".join(files.read_bytes(EVENTS / name) for name in names(files))
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def told(files: FaultyFiles) -> list[tuple[int, str]]:
    return [(line["seq"], line["group"]) for line in lines(files)]


def test_an_event_becomes_a_line_with_every_column() -> None:
    desk = Desk(FaultyFiles())
    desk.tell(
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
    desk.turn()
    assert lines(desk.files) == [
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


def test_nothing_is_written_before_the_turn_of_the_loop_is_over_and_then_all_at_once() -> None:
    desk = Desk(FaultyFiles())
    for group in "abc":
        desk.tell(GroupEvent(EventType.GROUP_CREATED, group))
    assert not desk.files.exists(EVENTS)
    assert len(desk.due) == 1
    desk.turn()
    assert told(desk.files) == [(0, "a"), (1, "b"), (2, "c")]
    assert [what for what, _ in desk.files.operations].count("append") == 1
    assert "sync" not in [what for what, _ in desk.files.operations]


def test_what_was_told_in_the_last_turn_is_written_when_the_log_is_closed() -> None:
    desk = Desk(FaultyFiles())
    desk.tell(GroupEvent(EventType.GROUP_CREATED, "a"))
    desk.log.close()
    assert told(desk.files) == [(0, "a")]


def test_nodes_share_one_row_of_numbers() -> None:
    desk = Desk(FaultyFiles())
    desk.write("a")
    desk.log.listener(8)(GroupEvent(EventType.GROUP_CREATED, "b"))
    desk.turn()
    assert [(line["seq"], line["node"]) for line in lines(desk.files)] == [(0, 7), (1, 8)]


def test_a_full_file_is_followed_by_one_that_is_named_after_its_first_line() -> None:
    desk = Desk(FaultyFiles(), file_bytes_max=700)
    for group in "abcde":
        desk.write(group)
    assert names(desk.files) == [f"{seq:020}.jsonl" for seq in (0, 2, 4)]
    assert told(desk.files) == list(enumerate("abcde"))
    assert all(len(desk.files.read_bytes(EVENTS / name)) <= 700 for name in names(desk.files))


def test_a_restart_goes_on_in_the_newest_file_with_the_next_number() -> None:
    files = FaultyFiles()
    Desk(files, file_bytes_max=700).write("a")
    first = Desk(files, file_bytes_max=700)
    first.write("b")
    first.write("c")
    first.log.close()
    Desk(files).write("d", "e")
    assert told(files) == list(enumerate("abcde"))
    assert names(files) == [f"{seq:020}.jsonl" for seq in (0, 2)]


def test_of_more_files_than_are_kept_the_oldest_go_and_nothing_else() -> None:
    files = FaultyFiles()
    desk = Desk(files, file_bytes_max=700, files_max=2)
    files.make_folder(EVENTS)
    files.replace(EVENTS / "notes.txt", b"mine")
    for group in "abcdefg":
        desk.write(group)
    kept = [f"{seq:020}.jsonl" for seq in (4, 6)]
    assert sorted(names(files)) == [*kept, "notes.txt"]
    desk.log.close()
    # A restart with a smaller number need not wait for the next file.
    Desk(files, files_max=1).write("h")
    assert sorted(names(files)) == [kept[1], "notes.txt"]
    assert files.read_bytes(EVENTS / kept[1]).count(b"\n") == 2


def test_an_old_file_that_cannot_be_removed_costs_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = FaultyFiles()
    desk = Desk(files, file_bytes_max=700, files_max=1)
    desk.write("a", "b")
    files.fail("remove")
    desk.write("c")
    assert told(files) == list(enumerate("abc"))
    assert "Old files of events cannot be removed" in caplog.text


@pytest.mark.parametrize("kept", range(1, 40))
def test_a_line_that_a_crash_cut_off_is_taken_away_by_the_next_one(kept: int) -> None:
    files = FaultyFiles()
    Desk(files).write("a", "b")
    content = files.contents[EVENTS / f"{0:020}.jsonl"]
    end = content.index(b"\n") + 1
    del content[end + kept :]
    Desk(files).write("c")
    assert told(files) == [(0, "a"), (1, "c")]


@pytest.mark.parametrize("rest", [b"\0" * 5_000, b"\0\n", b"junk", b'{"seq":90}\n', b"\xff" * 9])
def test_what_no_event_log_has_written_repeats_no_number_and_harms_nobody(rest: bytes) -> None:
    files = FaultyFiles()
    Desk(files).write("a", "b")
    files.contents[EVENTS / f"{0:020}.jsonl"] += rest
    Desk(files).write("c")
    last = json.loads(files.read_bytes(EVENTS / names(files)[-1]).splitlines()[-1])
    assert (last["seq"], last["group"]) == (2, "c")


def test_a_file_without_a_line_is_left_alone_and_its_numbers_are_left_out() -> None:
    files = FaultyFiles()
    Desk(files).write("a")
    files.contents[EVENTS / f"{0:020}.jsonl"][:] = b"\0" * 3_000_000
    Desk(files).write("b")
    assert names(files) == [f"{seq:020}.jsonl" for seq in (0, 3_000_000)]
    assert json.loads(files.read_bytes(EVENTS / names(files)[1]))["group"] == "b"


@pytest.mark.parametrize("operation", ["append", "create", "make_folder"])
def test_a_disk_that_fails_is_told_of_once_and_costs_its_lines_and_nothing_else(
    operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(FaultyFiles())
    desk.files.fail(operation, error=errno.ENOSPC, times=3)
    for group in "abcde":
        desk.write(group)
    assert told(desk.files) == [(3, "d"), (4, "e")]
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "No space left on device" in warnings[0]
    assert warnings[1] == "Events are written again; 3 are missing."


@pytest.mark.parametrize("written", [1, 100, 250])
def test_half_a_line_of_a_write_that_failed_is_not_left_among_the_others(written: int) -> None:
    desk = Desk(FaultyFiles())
    desk.write("a")
    desk.files.fail("append", error=errno.ENOSPC, written=written)
    desk.write("b" * 300)
    desk.write("c")
    assert told(desk.files) == [(0, "a"), (2, "c")]


def test_a_disk_that_stays_full_until_the_end_lets_the_log_be_closed() -> None:
    desk = Desk(FaultyFiles())
    desk.write("a")
    desk.files.fail("append", error=errno.ENOSPC, times=100)
    desk.tell(GroupEvent(EventType.GROUP_CREATED, "b"))
    desk.log.close()
    assert told(desk.files) == [(0, "a")]
