"""A whole broker on a disk that fails in two places, one after the other."""

import asyncio
import errno
from pathlib import Path
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator.commands import OffsetFetch
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import FaultyFiles
from support.coordinator import offset_commit


class Service:
    def __init__(self, folder: Path, files: FaultyFiles) -> None:
        config = BrokerConfig({"offsets.topic.num.partitions": "1"})
        self.broker = Broker(config, data_dir=folder, durability="fsync", files=files)

    async def __aenter__(self) -> "Service":
        await self.broker.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.stop()

    async def ask(self, command: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self.broker.node.coordinators.submit(command, asyncio.Future.set_result, answer)
        return await answer

    async def commit(self, offset: int) -> ErrorCode:
        done = await self.ask(offset_commit("g", [("orders", 0, offset)]))
        return ErrorCode(done.errors[0])

    async def committed(self) -> int:
        found = await self.ask(OffsetFetch("g", (("orders", (0,)),), False, None, -1))
        return int(found.topics[0][1][0].offset)

    async def settled(self) -> OSError | None:
        told: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self.broker.node.topics.on_durable(told.set_result)
        return await told


async def test_offsets_survive_a_failed_topic_creation_and_a_failed_commit(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with Service(tmp_path, files) as service:
        assert await service.commit(1) is ErrorCode.none
        files.fail("append", error=errno.ENOSPC)
        service.broker.node.topics.create("too-much", 1, {})
        assert await service.settled() is not None
        # A reader of the offsets topic opens its log through the registry.
        partition = service.broker.node.topics.partition("__consumer_offsets", 0)
        assert partition is not None
        assert partition.high_watermark == 1
        for offset in (2, 3):
            assert await service.commit(offset) is ErrorCode.none
        assert partition.high_watermark == 3
        files.fail("append", error=errno.ENOSPC)
        assert await service.commit(4) is ErrorCode.not_coordinator
        assert await service.committed() == 3
    files.locked.clear()
    async with Service(tmp_path, files) as service:
        assert await service.committed() == 3
