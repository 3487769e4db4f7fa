"""The stop of a broker: waiting requests, pending writes, and preallocated files."""

import asyncio
import threading
from pathlib import Path

import pytest
from kohort.broker.broker import FOLDER_CHECK_MS, Broker
from kohort.broker.build import PREALLOCATED_BYTES
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.event_loop.timers import READ_ITERATIONS
from kohort.conformance.script import Script
from kohort.coordinator.commands import Heartbeat
from kohort.log.group_commit import Durability
from kohort.log.tasks import CooperativeTask, in_thread
from kohort.protocol.errors import ErrorCode
from parity.brokers import kohort_broker
from support.connection import Transport
from support.coordinator import offset_commit
from support.log import open_below
from support.running_broker import call, running_broker, until_durable
from support.runtime import ManualClock


async def test_waiting_requests_fail_with_not_coordinator_at_the_stop() -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    async with (
        kohort_broker(settings) as served,
        Script(served, "g") as joining,
        Script(served, "h") as syncing,
    ):
        a, b = joining.member("A"), joining.member("B")
        await a.enter()
        assert await b.enter() is None
        c, d = syncing.member("C"), syncing.member("D")
        await c.enter()
        await d.enter()
        await c.join()
        assert await d.sync() is None
        await served.broker.stop()
        waiting = [script.steps[-1] for script in (joining, syncing)]
        async with asyncio.timeout(10):
            while any(step.response is None for step in waiting):
                await asyncio.sleep(0)
        join, sync = (step.response for step in waiting)
    assert (join["error_code"], join["member_id"]) == ("not_coordinator", b.id)
    assert (sync["error_code"], sync["assignment"]) == ("not_coordinator", b"")


async def test_no_session_expires_while_the_broker_stops() -> None:
    """While a connection is still open, a request sets a deadline."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    async with kohort_broker(settings) as served, Script(served, "g") as script:
        leader, follower = await script.joined("A", "B")
        assert await follower.sync() is None
        broker = served.broker
        connection = broker.attach(broker.config.node_id, Transport())  # type: ignore[arg-type]
        coordinators = broker.node.coordinators
        group = coordinators.contexts[coordinators.partition_of("g")].coordinator.groups["g"]
        stop = asyncio.create_task(broker.stop())
        await asyncio.sleep(0)
        heartbeat = Heartbeat("g", group.generation, leader.id, None)
        assert (await call(coordinators, heartbeat)).error_code is ErrorCode.none
        for _ in range(2 * READ_ITERATIONS):
            await asyncio.sleep(0)
        assert broker.is_running
        connection.connection_lost(None)
        await stop
    assert list(group.members) == [leader.id, follower.id]


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_a_stopped_broker_writes_nothing(tmp_path: Path, durability: Durability) -> None:
    """The broker stops while it deletes offsets of a topic in several slices, so that one is due
    when the last flush ends."""
    async with running_broker(data_dir=tmp_path, durability=durability) as broker:
        topic = broker.node.topics.create("orders", 1, {})
        for first in range(0, 40_000, 5_000):
            while await commit(broker, range(first, first + 5_000)) is not ErrorCode.none:
                await asyncio.sleep(0)
        broker.node.topics.delete(topic)
        await asyncio.sleep(0)
    written = {path: path.read_bytes() for path in tmp_path.rglob("*.log")}
    for _ in range(10):
        await asyncio.sleep(0)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.log")} == written
    assert open_below(tmp_path) == []


async def commit(broker: Broker, partitions: range) -> ErrorCode:
    command = offset_commit("g", [("orders", each, each) for each in partitions])
    result = await call(broker.node.coordinators, command)
    return ErrorCode(result.errors[0])


@pytest.mark.parametrize("durability", ["fsync", "os"])
async def test_synced_logs_are_preallocated_until_the_broker_stops(
    durability: Durability, tmp_path: Path
) -> None:
    async with running_broker(data_dir=tmp_path, durability=durability) as broker:
        broker.node.topics.create("orders", 1, {})
        assert await until_durable(broker.node.topics) is None
        (log,) = tmp_path.rglob("*.log")
        size = log.stat().st_size
    assert (size >= PREALLOCATED_BYTES) == (durability == "fsync")
    assert 0 < log.stat().st_size < PREALLOCATED_BYTES


async def test_no_timer_fires_while_the_broker_waits_for_a_thread(tmp_path: Path) -> None:
    clock, fired, ends = ManualClock(), list[str](), threading.Event()
    broker = Broker(BrokerConfig({}), data_dir=tmp_path, clock=clock)
    await broker.start("127.0.0.1", 0)
    timers = broker.node.timers

    def task() -> CooperativeTask[None]:
        yield from in_thread(ends.wait)

    broker.node.cluster.scheduler.spawn(task(), eager=True)
    timers.call_at(clock.now_ms() + 1, lambda: fired.append("before"))
    stop = asyncio.create_task(broker.stop())
    while broker.is_running:
        await asyncio.sleep(0)
    clock.ms += FOLDER_CHECK_MS
    timers.fire()
    timers.call_at(clock.now_ms(), lambda: fired.append("later"))
    for _ in range(10):
        await asyncio.sleep(0)
    ends.set()
    await stop
    assert fired == []
