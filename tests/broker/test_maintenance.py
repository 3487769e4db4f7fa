"""Compaction in the background: when it begins, what it leaves, who is served meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.maintenance import RETRY_FAILED_MS
from kohort.coordinator.commands import OffsetFetch
from kohort.protocol.errors import ErrorCode
from support.broker import batch
from support.coordinator import offset_commit
from support.log import newest
from support.maintenance import BACKOFF_MS, CHECK_MS, DAY_MS, UpkeepWorld, checkpoint


def test_a_dirty_log_is_compacted_once_the_backoff_is_over_and_not_again() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact")
    world.fill(11)
    before = newest(world.log())
    world.later(BACKOFF_MS - 1)
    assert world.left() == list(range(11))
    world.later(1)
    assert world.left() == [7, 8, 9, 10]
    assert newest(world.log()) == before
    assert checkpoint(world, "cleaner-offset-checkpoint") == "0\n1\norders 0 9\n"
    other = UpkeepWorld(files=world.files)
    assert other.left() == [7, 8, 9, 10]
    operations = len(other.files.operations)
    other.later()
    assert len(other.files.operations) == operations


def test_others_are_served_between_the_slices() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact")
    world.fill(11)
    world.pass_time(BACKOFF_MS)
    produced = slices = 0
    while world._turns:
        world._turns.pop(0)()
        if world.slices > slices:
            slices = world.slices
            produced += 1
            world.send_produce("orders", {0: batch(b"small", key=b"other")})
            assert world.fetch("orders", world.log().start_offset).records
    assert produced > 2
    assert world.left()[:4] == [7, 8, 9, 10]
    assert newest(world.log())["other"] == (10 + produced, "small")


def test_a_log_that_is_hardly_dirty_waits_until_its_topic_asks_for_less() -> None:
    world = UpkeepWorld()
    topic = world.make("orders", cleanup_policy="compact")
    world.fill(12, keys=12)
    world.later()
    world.fill(4, keys=12)
    world.later()
    assert world.left() == list(range(16))
    world.topics.configure(topic, {**topic.overrides, "min.cleanable.dirty.ratio": "0.1"})
    world.later()
    assert world.left() == list(range(3, 16))


def test_records_younger_than_the_lag_are_left_alone() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact", min_compaction_lag_ms=str(DAY_MS))
    world.fill(6)
    world.pass_time(DAY_MS // 2)
    world.fill(5)
    world.later(DAY_MS // 2 - 1)
    assert world.left() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    world.later()
    assert world.left() == [4, 5, 6, 7, 8, 9, 10]


def test_records_older_than_the_longest_lag_are_compacted_however_few_they_are() -> None:
    world = UpkeepWorld()
    world.make(
        "orders",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="1",
        max_compaction_lag_ms=str(DAY_MS),
    )
    world.fill(7)
    world.later(DAY_MS)
    assert world.left() == list(range(7))
    world.later(1 + BACKOFF_MS)
    assert world.left() == [4, 5, 6]


def test_an_active_segment_is_closed_in_time_for_the_longest_lag() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact", max_compaction_lag_ms=str(DAY_MS))
    world.fill(2, keys=1)
    world.pass_time(DAY_MS + 1)
    world.fill(1, keys=1)
    assert [segment.base_offset for segment in world.log().segments] == [0, 2]


def test_nothing_is_compacted_where_the_cleaner_is_off_or_the_topic_does_not_want_it() -> None:
    world = UpkeepWorld({"log.cleaner.enable": "false"})
    world.make("orders", cleanup_policy="compact")
    world.fill(11)
    world.later()
    world.later(CHECK_MS)
    assert world.left() == list(range(11))
    other = UpkeepWorld()
    other.make("orders", cleanup_policy="delete")
    other.fill(11)
    other.later()
    assert other.left() == list(range(11))


def test_the_dirtiest_log_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    world = UpkeepWorld()
    for name in ("half", "whole"):
        world.make(name, cleanup_policy="compact")
    world.fill(7, keys=6, topic="half")
    world.later()
    world.fill(9, topic="half")
    world.fill(7, topic="whole")
    with caplog.at_level(logging.DEBUG, "kohort.cleaner"):
        world.later()
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [
        "whole-0",
        "half-0",
    ]


def test_a_failing_disk_ends_the_compaction_of_that_log_until_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = UpkeepWorld()
    for name in ("orders", "others"):
        world.make(name, cleanup_policy="compact")
    world.fill(12)
    world.fill(11, topic="others")
    before = newest(world.log())
    world.files.fail("truncate", after=0)
    with caplog.at_level(logging.ERROR, "kohort.cleaner"):
        world.later()
    assert len(caplog.records) == 1
    assert "orders-0" in caplog.text
    assert newest(world.log()) == before
    assert world.left("others") == [7, 8, 9, 10]
    world.fill(1)
    world.later()
    assert world.left()[0] == 0
    world.later(RETRY_FAILED_MS)
    assert world.left()[0] > 0
    assert newest(world.log())["key 1"] == before["key 1"]


def test_a_walk_under_way_makes_the_compaction_wait() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact")
    world.fill(11)
    walk = world.log().batches()
    next(walk)
    world.later()
    assert world.left() == list(range(11))
    walk.close()
    world.later()
    assert world.left() == [7, 8, 9, 10]


def test_a_topic_may_be_deleted_while_it_is_compacted(caplog: pytest.LogCaptureFixture) -> None:
    steps = itertools.count()
    for step in steps:
        world = UpkeepWorld()
        topic = world.make("orders", cleanup_policy="compact")
        world.fill(7)
        world.pass_time(BACKOFF_MS)
        for _ in range(step):
            if world._turns:
                world._turns.pop(0)()
        is_over = not world._turns
        world.topics.delete(topic)
        world.turn()
        world.make("orders", cleanup_policy="compact")
        world.fill(3, keys=3)
        assert world.left() == [0, 1, 2]
        world.later()
        world.later(RETRY_FAILED_MS)
        assert world.left() == [0, 1, 2]
        assert not [r for r in caplog.records if r.levelno >= logging.WARNING], step
        if is_over:
            break
    assert step > 5


# --- in a broker


async def ask(broker: Broker, command: Any) -> Any:
    answer = asyncio.get_running_loop().create_future()
    broker.node.coordinators.submit(command, asyncio.Future.set_result, answer)
    return await answer


def test_a_changed_backoff_counts_from_the_next_look_on() -> None:
    world = UpkeepWorld()
    world.make("orders", cleanup_policy="compact")
    world.topics.configure_broker("1", {"log.cleaner.backoff.ms": "100"})
    world.later()
    world.fill(11)
    world.later(100)
    assert world.left() == [7, 8, 9, 10]


async def committed(broker: Broker, group_id: str) -> int:
    while True:
        found = await ask(broker, OffsetFetch(group_id, None, False, None, -1))
        if found.error is not ErrorCode.coordinator_load_in_progress:
            ((_, (partition,)),) = found.topics
            return int(partition.offset)


async def test_committed_offsets_are_compacted_under_a_broker_and_read_back(tmp_path: Path) -> None:
    config = {
        "log.cleaner.backoff.ms": "10",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": str(1024 * 1024),
    }
    broker = Broker(BrokerConfig(config), data_dir=tmp_path, durability="os")
    await broker.start("127.0.0.1", 0)
    text = "m" * 4000
    last = {}
    for number in range(1000):
        group_id = f"g{number % 7}"
        commit = offset_commit(group_id, [("orders", 0, number)], metadata=text)
        done = await ask(broker, commit)
        assert done.errors == (ErrorCode.none,)
        last[group_id] = number
    async with asyncio.timeout(30):
        while not (tmp_path / "cleaner-offset-checkpoint").exists():
            await asyncio.sleep(0.01)
        log = broker.node.topics.partition("__consumer_offsets", 0)
        assert log is not None
        while log.size > 2 * 1024 * 1024:
            await asyncio.sleep(0.01)
    assert {group_id: await committed(broker, group_id) for group_id in last} == last
    await broker.stop()
    again = Broker(BrokerConfig(config), data_dir=tmp_path, durability="os")
    await again.start("127.0.0.1", 0)
    assert {group_id: await committed(again, group_id) for group_id in last} == last
    await again.stop()
