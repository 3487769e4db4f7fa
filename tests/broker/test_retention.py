"""The oldest segments of ordinary topics go, by age and by size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kohort.testing.faulty_files import Crashed, FaultyFiles
from support.broker import FOLDER, NOW_MS, batch
from support.maintenance import CHECK_MS, DAY_MS, PART, UpkeepWorld, checkpoint


def test_segments_older_than_the_retention_go_and_the_log_begins_behind_them() -> None:
    world = UpkeepWorld()
    world.make("orders", retention_ms=str(DAY_MS))
    world.fill(6)
    world.pass_time(DAY_MS // 2)
    world.fill(4)
    world.later(DAY_MS // 2)
    assert world.left() == list(range(10))
    world.later(CHECK_MS)
    assert world.left() == [6, 7, 8, 9]
    assert world.log().start_offset == 6
    assert checkpoint(world, "log-start-offset-checkpoint") == "0\n1\norders 0 6\n"
    assert world.files.list(FOLDER / "orders-0") == [
        "00000000000000000006.log",
        "00000000000000000009.log",
    ]


def test_when_all_is_too_old_the_active_segment_goes_as_well_and_offsets_go_on() -> None:
    world = UpkeepWorld()
    world.make("orders", retention_ms=str(DAY_MS))
    world.fill(5)
    world.later(DAY_MS + CHECK_MS)
    assert world.left() == []
    assert (world.log().start_offset, world.log().end_offset) == (5, 5)
    assert world.fetch("orders", 4).error_code == 1
    assert world.produce("orders", batch(b"next", at_ms=world.now_ms)).base_offset == 5
    again = UpkeepWorld(files=world.files)
    assert again.left() == [5]


def test_the_oldest_segments_go_while_there_are_more_bytes_than_wanted() -> None:
    world = UpkeepWorld()
    world.make("orders", retention_bytes=str(4 * len(PART)), retention_ms="-1")
    world.fill(12)
    world.later(CHECK_MS)
    assert world.left() == [6, 7, 8, 9, 10, 11]
    world.later(CHECK_MS)
    assert world.left() == [6, 7, 8, 9, 10, 11]


def test_a_compacted_topic_keeps_what_is_old_unless_it_deletes_too() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact", retention_ms="1")
    world.make("both", cleanup_policy="compact,delete", retention_ms="1")
    for name in ("orders", "both"):
        world.fill(5, keys=5, topic=name)
    world.later(CHECK_MS)
    assert world.left() == [0, 1, 2, 3, 4]
    assert world.left("both") == []


def test_where_a_log_begins_is_noted_before_a_file_goes() -> None:
    def aged(files: FaultyFiles | None = None) -> UpkeepWorld:
        world = UpkeepWorld(files=files)
        world.make("orders", retention_ms=str(DAY_MS))
        world.fill(7)
        world.log().sync()
        world.now_ms += DAY_MS + 1
        return world

    world = aged()
    first = len(world.files.operations)
    world.later(CHECK_MS)
    count = len(world.files.operations) - first
    assert count > 5
    for number in range(count):
        world = aged()
        world.files.crash_at = first + number
        with pytest.raises(Crashed):
            world.later(CHECK_MS)
        world.files.crash()
        again = UpkeepWorld(files=world.files)
        log = again.log()
        assert log.end_offset == 7, number
        assert log.start_offset in (0, 7)
        assert again.left() == list(range(log.start_offset, 7))
        assert again.produce("orders", batch(b"next", at_ms=NOW_MS)).base_offset == 7


def test_a_log_that_was_asked_for_and_never_written_is_no_hindrance_for_the_others() -> None:
    world = UpkeepWorld()
    for name in ("empty", "orders"):
        world.make(name, retention_ms=str(DAY_MS))
    assert world.fetch("empty", 0).error_code == 0
    world.fill(5)
    world.later(DAY_MS + CHECK_MS)
    assert world.left() == []


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_is_noted_late_of_a_deleted_topic_is_not_noted_of_the_next_one_of_its_name(
    policy: str,
) -> None:
    """The disk is busy: in a thread the note waits until another topic has the partition's name."""
    world, late = UpkeepWorld(), list[Callable[[], object]]()
    run_outside = world.scheduler._run_in_thread

    def hold_notes(
        work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        if "OffsetCheckpoint" in repr(work):
            late.append(lambda: (work(), done(None)))
        else:
            run_outside(work, done)

    world.scheduler._run_in_thread = hold_notes
    topic = world.make("orders", retention_ms=str(DAY_MS), cleanup_policy=policy)
    world.fill(9)
    world.later(DAY_MS + CHECK_MS)
    (note,) = late
    world.topics.delete(topic)
    world.turn()
    world.make("orders", retention_ms="-1")
    world.fill(9)
    note()
    world.turn()
    again = UpkeepWorld(files=world.files)
    assert again.left() == list(range(9))
    assert again.topics.checkpoints.cleaned_offsets.get("orders-0") == 0
