"""Writing a lake: atomic batches, compaction, removal of unused folders, one writer at a time."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.lake.schema import LakeError
from kohort.pipeline.lake.writer import GRACE_S, Compacted, Writer, compact
from lake_builder import from_dicts, write_batch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
APPEND, CURRENT = "bronze_log_end", "gold_group_lifecycle"


class Killed(BaseException):
    """Not caught by product code."""


def add(
    path: Path,
    log_end: int,
    failpoint: Callable[[str], None] = lambda _step: None,
    clock: Callable[[], float] = lambda: 0.0,
) -> None:
    """Write a batch with one row in a table of each kind."""
    with Writer(path, failpoint=failpoint, now=clock) as writer:
        sample = {"topic": "t", "partition": 0, "log_end": log_end, "sampled_at": NOON}
        writer.write(APPEND, from_dicts(APPEND, [{"cluster": "c", **sample}]))
        group = {"cluster": "c", "group": str(log_end), "first_seen": NOON}
        writer.write(CURRENT, from_dicts(CURRENT, [group]))
        writer.commit(cluster="c", positions={0: log_end}, inputs={}, as_of=NOON)


def contents(path: Path) -> tuple[list[int], list[str], dict[int, int]]:
    if not Lake.exists(path):
        return [], [], {}
    lake = Lake(path)
    ends = sorted(lake.read(APPEND)["log_end"].to_pylist())
    return ends, lake.read(CURRENT)["group"].to_pylist(), dict(lake.positions)


def folders(path: Path, table: str) -> list[str]:
    return sorted(folder.name for folder in (path / table).iterdir())


def steps_of(work: Callable[[Callable[[str], None]], object]) -> list[str]:
    steps: list[str] = []
    work(steps.append)
    return steps


def kill_at(number: int) -> Callable[[str], None]:
    left = iter(range(number, -1, -1))

    def failpoint(step: str) -> None:
        if next(left) == 0:
            raise Killed(step)

    return failpoint


def test_a_batch_killed_at_any_step_is_either_complete_or_absent(tmp_path: Path) -> None:
    steps = steps_of(lambda failpoint: add(tmp_path / "points", 1, failpoint))
    assert steps[-2:] == ["before the manifest", "after the manifest"]
    for number, step in enumerate(steps):
        lake = tmp_path / str(number)
        add(lake, 1)
        with pytest.raises(Killed, match=step):
            add(lake, 2, kill_at(number))
        done = step == "after the manifest"
        assert contents(lake) == (([1, 2], ["2"], {0: 2}) if done else ([1], ["1"], {0: 1}))
        if not done:
            add(lake, 2)  # the next run
        assert contents(lake) == ([1, 2], ["2"], {0: 2})
        assert folders(lake, APPEND) == ["batch_id=0", "batch_id=1"]


def test_the_run_after_a_killed_first_batch_creates_the_lake(tmp_path: Path) -> None:
    for number, step in enumerate(
        steps_of(lambda failpoint: add(tmp_path / "p", 1, failpoint))[:-1]
    ):
        lake = tmp_path / str(number)
        with pytest.raises(Killed, match=step):
            add(lake, 1, kill_at(number))
        assert contents(lake) == ([], [], {})
        add(lake, 2)
        assert contents(lake) == ([2], ["2"], {0: 2})


def test_folders_of_a_killed_run_are_removed_by_the_next_one(tmp_path: Path) -> None:
    add(tmp_path, 1)
    with pytest.raises(Killed):
        add(tmp_path, 2, kill_at(3))
    assert folders(tmp_path, APPEND) == ["batch_id=0", "batch_id=1"]
    with Writer(tmp_path):
        assert folders(tmp_path, APPEND) == ["batch_id=0"]


def test_a_replaced_folder_is_kept_for_the_grace_period(tmp_path: Path) -> None:
    add(tmp_path, 1, clock=lambda: 1000.0)
    reader = Lake(tmp_path)
    add(tmp_path, 2, clock=lambda: 1000.0)
    assert reader.read(CURRENT)["group"].to_pylist() == ["1"]
    with Writer(tmp_path, now=lambda: 1000.0 + GRACE_S - 1):
        assert reader.read(CURRENT)["group"].to_pylist() == ["1"]
    with Writer(tmp_path, now=lambda: 1000.0 + GRACE_S):
        assert folders(tmp_path, CURRENT) == ["batch_id=1"]
    add(tmp_path, 3, clock=lambda: 2000.0)
    assert [folder.batch_id for folder in Lake(tmp_path).manifest.retired] == [1]


def test_compaction_merges_folders_and_keeps_the_rows(tmp_path: Path) -> None:
    for log_end in range(4):
        add(tmp_path, log_end)
    before = contents(tmp_path)
    reader = Lake(tmp_path)
    with Writer(tmp_path) as writer:
        assert compact(writer, at_folders=5) == []
        assert compact(writer) == [Compacted(APPEND, 4, 4)]
        assert compact(writer) == []
    assert contents(tmp_path) == before
    assert set(Lake(tmp_path).read(APPEND)["batch_id"].to_pylist()) == {4}
    # A reader that opened the lake before still reads the old folders.
    assert reader.read(APPEND).num_rows == 4
    add(tmp_path, 4)
    assert contents(tmp_path) == ([0, 1, 2, 3, 4], ["4"], {0: 4})
    with Writer(tmp_path, now=lambda: 1e12):
        assert folders(tmp_path, APPEND) == ["batch_id=4", "batch_id=5"]


def test_compaction_killed_at_any_step_keeps_the_rows(tmp_path: Path) -> None:
    def compacted(path: Path, failpoint: Callable[[str], None]) -> None:
        with Writer(path, failpoint=failpoint) as writer:
            compact(writer)

    for log_end in range(2):
        add(tmp_path / "points", log_end)
    steps = steps_of(lambda failpoint: compacted(tmp_path / "points", failpoint))
    for number, step in enumerate(steps):
        lake = tmp_path / str(number)
        for log_end in range(2):
            add(lake, log_end)
        before = contents(lake)
        with pytest.raises(Killed, match=step):
            compacted(lake, kill_at(number))
        assert contents(lake) == before
        compacted(lake, lambda _step: None)
        assert contents(lake) == before
        assert len(Lake(lake).live(APPEND)) == 1


def test_a_second_writer_is_rejected_and_readers_are_not(tmp_path: Path) -> None:
    write_batch(tmp_path, {})
    with Writer(tmp_path):
        expected = rf"is in use by process {os.getpid()} \(kohort pipeline\)\. Stop it, or wait"
        with pytest.raises(LakeError, match=expected):
            Writer(tmp_path)
        assert Lake(tmp_path).batch_id == 0
    write_batch(tmp_path, {})


def test_a_folder_with_other_files_is_rejected_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(LakeError, match="is not empty and not a lake"):
        Writer(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_batch_without_rows_adds_no_folder(tmp_path: Path) -> None:
    add(tmp_path, 1)
    write_batch(tmp_path, {APPEND: [], CURRENT: []})
    assert contents(tmp_path) == ([1], [], {0: 1})
    assert folders(tmp_path, APPEND) == ["batch_id=0"]
