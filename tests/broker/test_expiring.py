"""Expired offsets and offsets of deleted topics in the runtime and in a broker: tombstones in the
log, restarts, and requests during a sweep."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.runtime import loader
from kohort.broker.runtime.context import CoordinatorState
from kohort.broker.runtime.loader import EAGER_RECORDS
from kohort.coordinator.commands import OffsetFetch
from kohort.coordinator.offset_cleanup import SLICE_TOMBSTONES
from kohort.log.records import records
from kohort.offsets.record_codec import decode_record
from kohort.offsets.records import GroupTombstone, OffsetCommitRecord, OffsetTombstone
from kohort.protocol.errors import ErrorCode
from kohort.topics.names import OFFSETS_TOPIC
from support.coordinator import offset_commit
from support.running_broker import call, call_until_loaded, running_broker, until_durable
from support.runtime import SWEEP_INTERVAL_MS, ManualClock, RuntimeHarness

RETENTION_MS = group_config(BrokerConfig()).offsets_retention_ms


def written(harness: RuntimeHarness) -> list[Any]:
    batches = harness.partition.log.batches()
    return [decode_record(each.key, each.value) for _, batch in batches for each in records(batch)]


def expire(harness: RuntimeHarness) -> None:
    """Advance the clock so that one sweep finds everything that has expired."""
    harness.timers.advance(RETENTION_MS)


def test_expired_offsets_are_deleted_in_the_log() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    harness.timers.advance(RETENTION_MS - 1)
    harness.commit_and_run(2, group_id="other")
    harness.timers.advance(SWEEP_INTERVAL_MS)
    harness.run_loop()
    assert written(harness)[2:] == [OffsetTombstone("g", "t", 0), GroupTombstone("g")]
    assert (harness.committed_offset(), harness.committed_offset("other")) == (-1, 2)
    reopened = RuntimeHarness("fsync", harness.files)
    assert (reopened.committed_offset(), reopened.committed_offset("other")) == (-1, 2)
    assert not list(reopened.context.coordinator.groups)


def test_no_sweep_begins_in_a_partition_that_is_being_reloaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader, "EAGER_RECORDS", 1)
    monkeypatch.setattr(loader, "STEP_RECORDS", 1)
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    harness.clock.ms += RETENTION_MS
    for number in range(6):
        harness.commit_and_run(number, group_id=f"other {number}")
    harness.commit_and_run(2)
    harness.timers.advance(0)
    assert len(harness.slices) == 1  # the sweep has not begun
    harness.files.fail("sync")
    harness.commit("rejected", 5, group_id="rejected")
    while harness.due:
        harness.due.pop(0)()
    assert harness.context.state is CoordinatorState.LOADING
    harness.run_loop()
    assert harness.timers.pending == [harness.context.retention_timer]
    assert harness.committed_offset() == 2
    assert not any(isinstance(each, OffsetTombstone) for each in written(harness))


def test_requests_are_served_between_the_slices_of_a_sweep() -> None:
    harness = RuntimeHarness("os")
    for i in range(SLICE_TOMBSTONES):
        harness.commit(f"c{i}", 1, group_id=f"g{i}")
    harness.run_loop()
    expire(harness)
    left = []
    while not harness.scheduler.is_idle:
        harness.run_slice()
        # Requests neither accelerate the sweep nor start another one.
        harness.commit(f"during{len(left)}", 1, group_id="new")
        assert len(harness.scheduler._runnable) <= 1
        left.append(len(harness.context.offsets))
    harness.run_loop()
    # There are two steps to start, then two tombstones for each group, then the log line.
    half = SLICE_TOMBSTONES // 2
    assert left == [SLICE_TOMBSTONES + 1, SLICE_TOMBSTONES + 1, half + 1, 1, 1, 1]
    assert [r for r in written(harness) if isinstance(r, OffsetCommitRecord)][-1].group_id == "new"
    assert harness.committed_offset("g0") == -1
    assert harness.committed_offset("new") == 1


def test_sweeps_are_repeated() -> None:
    harness = RuntimeHarness("os")
    assert harness.committed_offset() == -1
    for offset in (1, 2):
        harness.commit_and_run(offset)
        expire(harness)
        harness.run_loop()
        assert harness.committed_offset() == -1


def test_a_failed_partition_is_swept_again_later() -> None:
    harness = RuntimeHarness("fsync")
    for i in range(SLICE_TOMBSTONES):
        harness.commit(f"c{i}", 1, group_id=f"g{i}")
    harness.run_loop()
    expire(harness)
    harness.run_slice()
    harness.run_slice()
    harness.files.fail("append")
    harness.run_loop()
    assert harness.committed_offset("g0") == 1
    harness.timers.advance(SWEEP_INTERVAL_MS)
    harness.run_loop()
    assert not harness.context.offsets.has_group("g0")


def test_offsets_of_a_topic_deleted_during_loading_are_deleted() -> None:
    harness = RuntimeHarness("os")
    for offset in range(2 * EAGER_RECORDS):
        harness.commit(f"c{offset}", offset)
        if offset % 1_000 == 0:
            harness.run_loop()
    harness.run_loop()
    reopened = RuntimeHarness("os", harness.files)
    reopened.runtime.load([0])
    reopened.topic_deleted()
    reopened.topic_deleted("unknown")
    reopened.run_loop()
    assert reopened.committed_offset() == -1
    assert written(reopened)[-1] == OffsetTombstone("g", "t", 0)
    again = RuntimeHarness("os", harness.files)
    again.runtime.load([0])
    again.run_loop()
    assert again.committed_offset() == -1


@asynccontextmanager
async def two_nodes(folder: Path, clock: ManualClock) -> AsyncIterator["TwoNodes"]:
    config = {"kohort.nodes": "2", "offsets.retention.minutes": "1"}
    async with running_broker(config, data_dir=folder, clock=clock) as broker:
        broker.node.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        yield TwoNodes(broker)


class TwoNodes:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def coordinators_of(self, group_id: str) -> Any:
        index = self.broker.node.coordinators.partition_of(group_id)
        return self.broker.cluster.leader_of(OFFSETS_TOPIC, index).coordinators

    async def commit(self, group_id: str, topic: str) -> None:
        command = offset_commit(group_id, [(topic, 0, 7)])
        done = await call(self.coordinators_of(group_id), command)
        assert done.errors == (ErrorCode.none,)

    async def committed(self, group_id: str) -> list[str]:
        fetch = OffsetFetch(group_id, None, False, None, -1)
        found = await call_until_loaded(self.coordinators_of(group_id), fetch)
        return [topic for topic, _ in found.topics]

    async def create(self, *names: str) -> None:
        for name in names:
            self.broker.node.topics.create(name, 1, {})
        assert await until_durable(self.broker.node.topics) is None

    async def delete(self, name: str) -> None:
        topic = self.broker.node.topics.get(name)
        assert topic is not None
        error: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self.broker.node.topics.delete(topic, error.set_result)
        assert await error is None


GROUPS = [f"g{i}" for i in range(20)]  # of many partitions, and of both nodes


async def test_offsets_of_a_deleted_topic_are_deleted_on_every_node(tmp_path: Path) -> None:
    clock = ManualClock()
    async with two_nodes(tmp_path, clock) as nodes:
        await nodes.create("orders", "bills")
        for group_id in GROUPS:
            await nodes.commit(group_id, "orders")
            await nodes.commit(group_id, "bills")
        await nodes.delete("orders")
        await nodes.create("orders")
        for group_id in GROUPS:
            assert await nodes.committed(group_id) == ["bills"]
    async with two_nodes(tmp_path, clock) as nodes:
        # This topic is deleted before any partition is loaded.
        await nodes.delete("bills")
        await nodes.create("bills")
        for group_id in GROUPS:
            assert await nodes.committed(group_id) == []
    async with two_nodes(tmp_path, clock) as nodes:
        for group_id in GROUPS:
            assert await nodes.committed(group_id) == []


async def test_offsets_of_a_running_broker_expire_when_its_clock_advances(tmp_path: Path) -> None:
    async with two_nodes(tmp_path, clock := ManualClock()) as nodes:
        for group_id in GROUPS:
            await nodes.commit(group_id, "orders")
        clock.ms += 600_000
        nodes.broker.node.timers.fire()
        async with asyncio.timeout(10):
            for group_id in GROUPS:
                while await nodes.committed(group_id):
                    await asyncio.sleep(0)


async def test_the_event_log_has_expired_offsets_and_those_of_deleted_topics(
    tmp_path: Path,
) -> None:
    async with two_nodes(tmp_path, clock := ManualClock()) as nodes:
        await nodes.create("orders", "bills")
        await nodes.commit("g", "orders")
        await nodes.commit("g", "bills")
        await nodes.delete("bills")
        clock.ms += 600_000
        nodes.broker.node.timers.fire()
        async with asyncio.timeout(10):
            while await nodes.committed("g"):
                await asyncio.sleep(0)
    (file,) = (tmp_path / "events").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    columns = ("type", "group", "state_from", "state_to", "detail")
    assert [tuple(line[column] for column in columns) for line in lines] == [
        ("group_created", "g", None, "Empty", {"cause": "GROUP_CREATED"}),
        ("offsets_deleted", "g", None, None, {"offsets": "1", "cause": "TOPIC_DELETED"}),
        ("offsets_deleted", "g", None, None, {"offsets": "1", "cause": "OFFSETS_EXPIRED"}),
        ("group_deleted", "g", "Empty", "Dead", {"cause": "GROUP_EXPIRED"}),
    ]
