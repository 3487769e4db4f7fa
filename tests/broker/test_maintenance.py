"""Background compaction: when it starts, what it keeps, and requests during it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path

import pytest
from kohort.broker.broker import Broker
from kohort.broker.maintenance import RETRY_FAILED_MS
from kohort.coordinator.commands import OffsetFetch
from kohort.protocol.errors import ErrorCode
from kohort.topics.registry_log import BrokerConfigRecord
from support.broker import BACKOFF_MS, CHECK_MS, DAY_MS, MaintenanceHarness, batch
from support.coordinator import offset_commit
from support.log import newest
from support.running_broker import call, call_until_loaded, running_broker


def test_a_dirty_log_is_compacted_once_after_the_backoff() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(11)
    before = newest(broker.log())
    broker.advance_and_run(BACKOFF_MS - 1)
    assert broker.offsets() == list(range(11))
    broker.advance_and_run(1)
    assert broker.offsets() == [7, 8, 9, 10]
    assert newest(broker.log()) == before
    assert broker.checkpoint("cleaner-offset-checkpoint") == "0\n1\norders 0 9\n"
    other = MaintenanceHarness(files=broker.files)
    assert other.offsets() == [7, 8, 9, 10]
    operations = len(other.files.operations)
    other.advance_and_run()
    assert len(other.files.operations) == operations


def test_requests_are_served_between_the_slices() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(11)
    broker.advance(BACKOFF_MS)
    produced = slices = 0
    while broker.callbacks:
        broker.callbacks.pop(0)()
        if broker.slices > slices:
            slices = broker.slices
            produced += 1
            broker.send_produce("orders", {0: batch(b"small", key=b"other")})
            assert broker.fetch("orders", broker.log().start_offset).records
    assert produced > 2
    assert broker.offsets()[:4] == [7, 8, 9, 10]
    assert newest(broker.log())["other"] == (10 + produced, "small")


def test_a_log_below_the_dirty_ratio_is_compacted_once_the_ratio_is_lowered() -> None:
    broker = MaintenanceHarness()
    topic = broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(12, keys=12)
    broker.advance_and_run()
    broker.fill(4, keys=12)
    broker.advance_and_run()
    assert broker.offsets() == list(range(16))
    broker.topics.configure(topic, {**topic.overrides, "min.cleanable.dirty.ratio": "0.1"})
    broker.advance_and_run()
    assert broker.offsets() == list(range(3, 16))


def test_records_younger_than_the_lag_are_not_compacted() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact", min_compaction_lag_ms=str(DAY_MS))
    broker.fill(6)
    broker.advance(DAY_MS // 2)
    broker.fill(5)
    broker.advance_and_run(DAY_MS // 2 - 1)
    assert broker.offsets() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    broker.advance_and_run()
    assert broker.offsets() == [4, 5, 6, 7, 8, 9, 10]


def test_records_older_than_the_maximum_lag_are_compacted() -> None:
    broker = MaintenanceHarness()
    broker.create_topic(
        "orders",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="1",
        max_compaction_lag_ms=str(DAY_MS),
    )
    broker.fill(7)
    broker.advance_and_run(DAY_MS)
    assert broker.offsets() == list(range(7))
    broker.advance_and_run(1 + BACKOFF_MS)
    assert broker.offsets() == [4, 5, 6]


def test_the_active_segment_is_rolled_in_time_for_the_maximum_lag() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact", max_compaction_lag_ms=str(DAY_MS))
    broker.fill(2, keys=1)
    broker.advance(DAY_MS + 1)
    broker.fill(1, keys=1)
    assert [segment.base_offset for segment in broker.log().segments] == [0, 2]


def test_nothing_is_compacted_without_cleaner_or_policy() -> None:
    broker = MaintenanceHarness({"log.cleaner.enable": "false"})
    broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(11)
    broker.advance_and_run()
    broker.advance_and_run(CHECK_MS)
    assert broker.offsets() == list(range(11))
    other = MaintenanceHarness()
    other.create_topic("orders", cleanup_policy="delete")
    other.fill(11)
    other.advance_and_run()
    assert other.offsets() == list(range(11))


def test_the_dirtiest_log_is_compacted_first(caplog: pytest.LogCaptureFixture) -> None:
    broker = MaintenanceHarness()
    for name in ("half", "dirty"):
        broker.create_topic(name, cleanup_policy="compact")
    broker.fill(7, keys=6, topic="half")
    broker.advance_and_run()
    broker.fill(9, topic="half")
    broker.fill(7, topic="dirty")
    with caplog.at_level(logging.DEBUG, "kohort.cleaner"):
        broker.advance_and_run()
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
        "dirty-0",
        "half-0",
    ]


def test_a_failing_disk_postpones_the_compaction_of_that_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = MaintenanceHarness()
    for name in ("orders", "others"):
        broker.create_topic(name, cleanup_policy="compact")
    broker.fill(12)
    broker.fill(11, topic="others")
    before = newest(broker.log())
    broker.files.fail("truncate", after=0)
    with caplog.at_level(logging.ERROR, "kohort.cleaner"):
        broker.advance_and_run()
    assert len(caplog.records) == 1
    assert "orders-0" in caplog.text
    assert newest(broker.log()) == before
    assert broker.offsets("others") == [7, 8, 9, 10]
    broker.fill(1)
    broker.advance_and_run()
    assert broker.offsets()[0] == 0
    broker.advance_and_run(RETRY_FAILED_MS)
    assert broker.offsets()[0] > 0
    assert newest(broker.log())["key 1"] == before["key 1"]


def test_a_recreated_topic_does_not_wait_for_the_compaction_that_failed() -> None:
    broker = MaintenanceHarness()
    topic = broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(12)
    broker.files.fail("truncate", after=0)
    broker.advance_and_run()
    assert broker.offsets()[0] == 0
    broker.topics.delete(topic)
    broker.run_loop()
    broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(12)
    broker.advance_and_run()
    assert broker.offsets()[0] > 0


def test_compaction_waits_for_a_running_iteration() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact")
    broker.fill(11)
    iteration = broker.log().batches()
    next(iteration)
    broker.advance_and_run()
    assert broker.offsets() == list(range(11))
    iteration.close()
    broker.advance_and_run()
    assert broker.offsets() == [7, 8, 9, 10]


def test_a_topic_may_be_deleted_during_its_compaction(caplog: pytest.LogCaptureFixture) -> None:
    steps = itertools.count()
    for step in steps:
        broker = MaintenanceHarness()
        topic = broker.create_topic("orders", cleanup_policy="compact")
        broker.fill(7)
        broker.advance(BACKOFF_MS)
        for _ in range(step):
            if broker.callbacks:
                broker.callbacks.pop(0)()
        is_done = not broker.callbacks
        broker.topics.delete(topic)
        broker.run_loop()
        broker.create_topic("orders", cleanup_policy="compact")
        broker.fill(3, keys=3)
        assert broker.offsets() == [0, 1, 2]
        broker.advance_and_run()
        broker.advance_and_run(RETRY_FAILED_MS)
        assert broker.offsets() == [0, 1, 2]
        assert not [r for r in caplog.records if r.levelno >= logging.WARNING], step
        if is_done:
            break
    assert step > 5


# --- in a broker


def test_a_changed_backoff_applies_from_the_next_check_on() -> None:
    broker = MaintenanceHarness()
    broker.create_topic("orders", cleanup_policy="compact")
    broker.topics.change(BrokerConfigRecord("1", {"log.cleaner.backoff.ms": "100"}))
    broker.advance_and_run()
    broker.fill(11)
    broker.advance_and_run(100)
    assert broker.offsets() == [7, 8, 9, 10]


async def committed(broker: Broker, group_id: str) -> int:
    fetch = OffsetFetch(group_id, None, False, None, -1)
    found = await call_until_loaded(broker.node.coordinators, fetch)
    ((_, (partition,)),) = found.topics
    return int(partition.committed_offset)


async def test_committed_offsets_survive_compaction_by_a_running_broker(tmp_path: Path) -> None:
    config = {
        "log.cleaner.backoff.ms": "10",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": str(1024 * 1024),
    }
    metadata = "m" * 4000
    last = {}
    async with running_broker(config, data_dir=tmp_path) as broker:
        for number in range(1000):
            group_id = f"g{number % 7}"
            commit = offset_commit(group_id, [("orders", 0, number)], metadata=metadata)
            done = await call(broker.node.coordinators, commit)
            assert done.errors == (ErrorCode.none,)
            last[group_id] = number
        async with asyncio.timeout(30):
            while not (tmp_path / "cleaner-offset-checkpoint").exists():
                await asyncio.sleep(0.01)
            log = broker.node.topics.partition("__consumer_offsets", 0)
            while log.size > 2 * 1024 * 1024:
                await asyncio.sleep(0.01)
        assert {group_id: await committed(broker, group_id) for group_id in last} == last
    async with running_broker(config, data_dir=tmp_path) as broker:
        assert {group_id: await committed(broker, group_id) for group_id in last} == last
