"""The room that logs keep allocated while they are synced for each commit."""

import asyncio
from pathlib import Path

import pytest
from kohort.broker.broker import Broker
from kohort.broker.build import PREALLOCATED_BYTES
from kohort.broker.config.broker_config import BrokerConfig
from kohort.log.group_commit import Durability


@pytest.mark.parametrize("durability", ["fsync", "os"])
async def test_synced_logs_are_preallocated_until_the_broker_stops(
    durability: Durability, tmp_path: Path
) -> None:
    broker = Broker(BrokerConfig({}), data_dir=tmp_path, durability=durability)
    await broker.start("127.0.0.1", 0)
    broker.node.topics.create("orders", 1, {})
    written = asyncio.Event()
    broker.node.group_commit.when_idle(written.set)
    await written.wait()
    (log,) = tmp_path.rglob("*.log")
    size = log.stat().st_size
    await broker.stop()
    assert (size >= PREALLOCATED_BYTES) == (durability == "fsync")
    assert 0 < log.stat().st_size < PREALLOCATED_BYTES
