"""Retention: the oldest segments are deleted, by age and by size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kohort.testing.faults.files import Crashed, FaultyFiles
from support.broker import CHECK_MS, DATA, DAY_MS, LARGE_VALUE, NOW_MS, MaintenanceHarness, batch


def test_segments_older_than_the_retention_are_deleted() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", retention_ms=str(DAY_MS))
    broker.fill(6)
    broker.advance(DAY_MS // 2)
    broker.fill(4)
    broker.advance_and_run(DAY_MS // 2)
    assert broker.offsets() == list(range(10))
    broker.advance_and_run(CHECK_MS)
    assert broker.offsets() == [6, 7, 8, 9]
    assert broker.log().start_offset == 6
    assert broker.checkpoint("log-start-offset-checkpoint") == "0\n1\norders 0 6\n"
    assert broker.files.list(DATA / "orders-0") == [
        "00000000000000000006.log",
        "00000000000000000009.log",
    ]


def test_the_active_segment_is_deleted_too_if_it_is_too_old() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", retention_ms=str(DAY_MS))
    broker.fill(5)
    broker.advance_and_run(DAY_MS + CHECK_MS)
    assert broker.offsets() == []
    assert (broker.log().start_offset, broker.log().end_offset) == (5, 5)
    assert broker.fetch("orders", 4).error_code == 1
    assert broker.produce("orders", batch(b"next", at_ms=broker.now_ms)).base_offset == 5
    again = MaintenanceHarness(files=broker.files)
    assert again.offsets() == [5]


def test_the_oldest_segments_are_deleted_above_the_retention_bytes() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", retention_bytes=str(4 * len(LARGE_VALUE)), retention_ms="-1")
    broker.fill(12)
    broker.advance_and_run(CHECK_MS)
    assert broker.offsets() == [6, 7, 8, 9, 10, 11]
    broker.advance_and_run(CHECK_MS)
    assert broker.offsets() == [6, 7, 8, 9, 10, 11]


def test_retention_applies_to_compacted_topics_only_with_delete() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact", retention_ms="1")
    broker.create_topic("both", cleanup_policy="compact,delete", retention_ms="1")
    for name in ("orders", "both"):
        broker.fill(5, keys=5, topic=name)
    broker.advance_and_run(CHECK_MS)
    assert broker.offsets() == [0, 1, 2, 3, 4]
    assert broker.offsets("both") == []


def test_the_start_offset_is_written_before_a_segment_is_deleted() -> None:
    def expired(files: FaultyFiles | None = None) -> MaintenanceHarness:
        broker = MaintenanceHarness(files=files)
        broker.create_topic("orders", retention_ms=str(DAY_MS))
        broker.fill(7)
        broker.log().sync()
        broker.timers.clock.ms += DAY_MS + 1
        return broker

    broker = expired()
    first = len(broker.files.operations)
    broker.advance_and_run(CHECK_MS)
    count = len(broker.files.operations) - first
    assert count > 5
    for number in range(count):
        broker = expired()
        broker.files.crash_at = first + number
        with pytest.raises(Crashed):
            broker.advance_and_run(CHECK_MS)
        broker.files.crash()
        again = MaintenanceHarness(files=broker.files)
        log = again.log()
        assert log.end_offset == 7, number
        assert log.start_offset in (0, 7)
        assert again.offsets() == list(range(log.start_offset, 7))
        assert again.produce("orders", batch(b"next", at_ms=NOW_MS)).base_offset == 7


def test_an_empty_log_does_not_stop_retention_of_others() -> None:
    broker = MaintenanceHarness()
    for name in ("empty", "orders"):
        broker.create_topic(name, retention_ms=str(DAY_MS))
    assert broker.fetch("empty", 0).error_code == 0
    broker.fill(5)
    broker.advance_and_run(DAY_MS + CHECK_MS)
    assert broker.offsets() == []


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_late_start_offset_of_a_deleted_topic_is_dropped(policy: str) -> None:
    """The thread writes the checkpoint after another topic with the same name was created."""
    broker, late = MaintenanceHarness(), list[Callable[[], object]]()
    run_in_thread = broker.scheduler._run_in_thread

    def hold_checkpoints(
        work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        if "OffsetCheckpoint" in repr(work):
            late.append(lambda: (work(), done(None)))
        else:
            run_in_thread(work, done)

    broker.scheduler._run_in_thread = hold_checkpoints
    topic = broker.create_topic("orders", retention_ms=str(DAY_MS), cleanup_policy=policy)
    broker.fill(9)
    broker.advance_and_run(DAY_MS + CHECK_MS)
    (write_checkpoint,) = late
    broker.topics.delete(topic)
    broker.run_loop()
    broker.create_topic("orders", retention_ms="-1")
    broker.fill(9)
    write_checkpoint()
    broker.run_loop()
    again = MaintenanceHarness(files=broker.files)
    assert again.offsets() == list(range(9))
    assert again.topics.checkpoints.cleaned_offsets.get("orders-0") == 0


def test_a_bug_in_retention_is_not_repeated_until_the_next_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = MaintenanceHarness({"log.cleaner.enable": "false"})
    broker.create_topic("orders", retention_ms="1")
    broker.fill(1)
    passes: list[int] = []

    def retention_offset(*_args: object, **_options: object) -> int:
        passes.append(broker.now_ms)
        raise AssertionError("a bug")

    monkeypatch.setattr("kohort.broker.maintenance.retention_offset", retention_offset)
    began_ms = broker.now_ms
    for _ in range(2):
        with pytest.raises(AssertionError, match="a bug"):
            broker.advance_and_run(CHECK_MS)
        broker.advance_and_run(0)
    assert passes == [began_ms + CHECK_MS, began_ms + 2 * CHECK_MS]
