"""One writer; what counts is what the manifest says; what counts for nobody is removed in time."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kohort.pipeline.lake import Lake, LakeError, write_batch
from kohort.pipeline.lake.compaction import Merged, compact
from kohort.pipeline.lake.writer import GRACE_S, Writer

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
APPEND, CURRENT = "bronze_log_end", "gold_group_lifecycle"


class Killed(BaseException):
    """Nothing of ours catches it."""


def add(
    path: Path,
    log_end: int,
    passing: Callable[[str], None] = lambda _point: None,
    clock: Callable[[], float] = lambda: 0.0,
) -> None:
    """A batch with one row of each kind of table."""
    with Writer(path, passing=passing, now=clock) as writer:
        sample = {"topic": "t", "partition": 0, "log_end": log_end, "sampled_at": NOON}
        writer.write_rows(APPEND, [{"cluster": "c", **sample}])
        group = {"cluster": "c", "group": str(log_end), "first_seen": NOON}
        writer.write_rows(CURRENT, [group])
        writer.commit(cluster="c", positions={0: log_end}, inputs={}, as_of=NOON)


def seen(path: Path) -> tuple[list[int], list[str], dict[int, int]]:
    if not Lake.exists(path):
        return [], [], {}
    lake = Lake(path)
    ends = sorted(lake.read(APPEND)["log_end"].to_pylist())
    return ends, lake.read(CURRENT)["group"].to_pylist(), dict(lake.positions)


def folders(path: Path, table: str) -> list[str]:
    return sorted(folder.name for folder in (path / table).iterdir())


def points_of(work: Callable[[Callable[[str], None]], object]) -> list[str]:
    passed: list[str] = []
    work(passed.append)
    return passed


def killing_at(number: int) -> Callable[[str], None]:
    left = iter(range(number, -1, -1))

    def passing(point: str) -> None:
        if next(left) == 0:
            raise Killed(point)

    return passing


def test_a_writer_that_is_killed_anywhere_leaves_the_batch_undone_or_done(tmp_path: Path) -> None:
    points = points_of(lambda passing: add(tmp_path / "points", 1, passing))
    assert points[-2:] == ["before the manifest", "after the manifest"]
    for number, point in enumerate(points):
        lake = tmp_path / str(number)
        add(lake, 1)
        with pytest.raises(Killed, match=point):
            add(lake, 2, killing_at(number))
        done = point == "after the manifest"
        assert seen(lake) == (([1, 2], ["2"], {0: 2}) if done else ([1], ["1"], {0: 1}))
        if not done:
            add(lake, 2)  # as the next run would
        assert seen(lake) == ([1, 2], ["2"], {0: 2})
        assert folders(lake, APPEND) == ["batch_id=0", "batch_id=1"]


def test_a_lake_whose_first_batch_was_killed_is_made_by_the_next_run(tmp_path: Path) -> None:
    for number, point in enumerate(points_of(lambda passing: add(tmp_path / "p", 1, passing))[:-1]):
        lake = tmp_path / str(number)
        with pytest.raises(Killed, match=point):
            add(lake, 1, killing_at(number))
        assert seen(lake) == ([], [], {})
        add(lake, 2)
        assert seen(lake) == ([2], ["2"], {0: 2})


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    add(tmp_path, 1)
    with pytest.raises(Killed):
        add(tmp_path, 2, killing_at(3))
    assert folders(tmp_path, APPEND) == ["batch_id=0", "batch_id=1"]
    with Writer(tmp_path):
        assert folders(tmp_path, APPEND) == ["batch_id=0"]


def test_a_folder_that_a_reader_may_have_open_stays_for_a_grace(tmp_path: Path) -> None:
    add(tmp_path, 1, clock=lambda: 1000.0)
    reader = Lake(tmp_path)
    add(tmp_path, 2, clock=lambda: 1000.0)
    assert reader.read(CURRENT)["group"].to_pylist() == ["1"]
    with Writer(tmp_path, now=lambda: 1000.0 + GRACE_S - 1):
        assert reader.read(CURRENT)["group"].to_pylist() == ["1"]
    with Writer(tmp_path, now=lambda: 1000.0 + GRACE_S):
        assert folders(tmp_path, CURRENT) == ["batch_id=1"]
    add(tmp_path, 3, clock=lambda: 2000.0)
    assert [one.batch_id for one in Lake(tmp_path).manifest.retired] == [1]


def test_compaction_leaves_the_rows_and_one_folder(tmp_path: Path) -> None:
    for log_end in range(4):
        add(tmp_path, log_end)
    before = seen(tmp_path)
    reader = Lake(tmp_path)
    with Writer(tmp_path) as writer:
        assert compact(writer, at_folders=5) == []
        assert compact(writer) == [Merged(APPEND, 4, 4)]
        assert compact(writer) == []
    assert seen(tmp_path) == before
    assert set(Lake(tmp_path).read(APPEND)["batch_id"].to_pylist()) == {4}
    # Who has opened it before still reads what was there.
    assert reader.read(APPEND).num_rows == 4
    add(tmp_path, 4)
    assert seen(tmp_path) == ([0, 1, 2, 3, 4], ["4"], {0: 4})
    with Writer(tmp_path, now=lambda: 1e12):
        assert folders(tmp_path, APPEND) == ["batch_id=4", "batch_id=5"]


def test_compaction_that_is_killed_anywhere_changes_no_row(tmp_path: Path) -> None:
    def compacted(path: Path, passing: Callable[[str], None]) -> None:
        with Writer(path, passing=passing) as writer:
            compact(writer)

    for log_end in range(2):
        add(tmp_path / "points", log_end)
    points = points_of(lambda passing: compacted(tmp_path / "points", passing))
    for number, point in enumerate(points):
        lake = tmp_path / str(number)
        for log_end in range(2):
            add(lake, log_end)
        before = seen(lake)
        with pytest.raises(Killed, match=point):
            compacted(lake, killing_at(number))
        assert seen(lake) == before
        compacted(lake, lambda _point: None)
        assert seen(lake) == before
        assert len(Lake(lake).live(APPEND)) == 1


def test_two_writers_are_refused_and_readers_are_not(tmp_path: Path) -> None:
    write_batch(tmp_path, {})
    with Writer(tmp_path):
        expected = rf"is in use by process {os.getpid()} \(kohort pipeline\)\. Stop it, or wait"
        with pytest.raises(LakeError, match=expected):
            Writer(tmp_path)
        assert Lake(tmp_path).batch_id == 0
    write_batch(tmp_path, {})


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(LakeError, match="is not empty and holds no lake"):
        Writer(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_batch_without_rows_adds_no_folder(tmp_path: Path) -> None:
    add(tmp_path, 1)
    write_batch(tmp_path, {APPEND: [], CURRENT: []})
    assert seen(tmp_path) == ([1], [], {0: 1})
    assert folders(tmp_path, APPEND) == ["batch_id=0"]
