"""A topic is deleted while the offsets partition that has commits for it goes from node to node."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator import offsets as coordinator_offsets
from kohort.coordinator.commands import OffsetFetch
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from support.coordinator import offset_commit

PARTITIONS = tuple(range(10))
CONFIG = BrokerConfig({"kohort.nodes": "2", "offsets.topic.num.partitions": "1"})


async def ask(broker: Broker, node_id: int, command: Any) -> Any:
    while True:
        answer = asyncio.get_running_loop().create_future()
        broker.cluster.nodes[node_id].coordinators.submit(
            command, asyncio.Future.set_result, answer
        )
        result = await asyncio.wait_for(answer, 10)
        if getattr(result, "error", None) is not ErrorCode.coordinator_load_in_progress:
            return result


async def begun_to_forget(broker: Broker) -> asyncio.Future[OSError | None]:
    """Commits for a topic at node 1, and its deletion, which goes in slices; what comes of it."""
    topics = broker.node.topics
    topics.ensure_offsets_topic()
    topic = topics.create("orders", len(PARTITIONS), {})
    commit = offset_commit("g", [("orders", each, 100 + each) for each in PARTITIONS])
    assert not any((await ask(broker, 1, commit)).errors)
    gone: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    topics.delete(topic, gone.set_result)
    while broker.cluster.nodes[1].coordinators.contexts[0].cleanup is None:
        await asyncio.sleep(0)
    return gone


async def until_nothing_is_under_way(broker: Broker) -> None:
    while not broker.is_idle:
        await asyncio.sleep(0)


@pytest.mark.parametrize("nobody_leads", [False, True])
async def test_a_topic_is_deleted_only_after_the_next_leaders_cleanup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nobody_leads: bool
) -> None:
    monkeypatch.setattr(coordinator_offsets, "SLICE_TOMBSTONES", 2)
    broker = Broker(CONFIG, data_dir=tmp_path / "data", durability="fsync", files=FaultyFiles())
    await broker.start("127.0.0.1", 0)
    try:
        gone = await begun_to_forget(broker)
        goes_on: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        after = broker.cluster.nodes[2].coordinators
        after.when_read = lambda _partition, go: goes_on.set_result(go)
        if nobody_leads:
            for node_id in (2, 1):
                broker.cluster.node_stopping(node_id)
            await until_nothing_is_under_way(broker)
            assert not gone.done()
            broker.cluster.node_started(2)
        else:
            broker.cluster.move(OFFSETS_TOPIC, 0, 2)
        go = await asyncio.wait_for(goes_on, 10)
        await until_nothing_is_under_way(broker)
        # Whoever could make a topic of that name now would find these after a power cut.
        assert "orders" in after.contexts[0].offsets.of_group("g")
        assert not gone.done()
        go()
        assert await asyncio.wait_for(gone, 10) is None
        fetched = await ask(broker, 2, OffsetFetch("g", None, False, None, -1))
        assert fetched.topics == ()
    finally:
        await broker.stop()
