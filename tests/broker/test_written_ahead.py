"""The write-ahead log: one sync makes commits to many partitions of the offsets topic durable."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kohort.broker.broker import Broker
from kohort.coordinator.commands import Command, ListGroups, ListResult, OffsetCommit, OffsetFetch
from kohort.log.group_commit import Durability
from kohort.log.write_ahead import PREFIX
from kohort.protocol.errors import ErrorCode
from kohort.testing import Kafka
from kohort.topics.names import OFFSETS_TOPIC
from support.coordinator import offset_commit
from support.running_broker import running_broker, until_durable

GROUPS = [f"group-{number}" for number in range(20)]


@asynccontextmanager
async def running(folder: Path, durability: Durability = "fsync") -> AsyncIterator[Broker]:
    async with running_broker(data_dir=folder, durability=durability) as broker:
        # The topic is created first, because it uses the write-ahead log only once it is durable.
        broker.node.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        assert await until_durable(broker.node.topics) is None
        yield broker


async def call_all(broker: Broker, commands: Sequence[Command]) -> list[Any]:
    """Submit all commands in one iteration of the loop."""
    futures = [asyncio.get_running_loop().create_future() for _ in commands]
    for command, future in zip(commands, futures, strict=True):
        broker.node.coordinators.submit(command, asyncio.Future.set_result, future)
    return await asyncio.gather(*futures)


def commits(offset: int) -> list[OffsetCommit]:
    return [offset_commit(group, [("orders", 0, offset)]) for group in GROUPS]


async def commit(broker: Broker, offset: int) -> None:
    results = await call_all(broker, commits(offset))
    assert [list(result.errors) for result in results] == [[ErrorCode.none]] * len(GROUPS)


async def committed(broker: Broker) -> list[int]:
    fetches = [OffsetFetch(group, (("orders", (0,)),), False, None, -1) for group in GROUPS]
    results = await call_all(broker, fetches)
    return [result.topics[0][1][0].committed_offset for result in results]


async def list_groups(broker: Broker) -> ListResult:
    listed = asyncio.get_running_loop().create_future()
    command = ListGroups.filtered((), ())
    list(broker.node.coordinators.submit_to_all(command, asyncio.Future.set_result, listed))
    await asyncio.sleep(0)  # lets loading continue
    found: ListResult = await listed
    return found


def write_ahead_files(folder: Path) -> list[Path]:
    return list(folder.glob(f"{PREFIX}*"))


async def copy_without_partitions(broker: Broker, folder: Path, lost: Path) -> None:
    """Copy the folder without the files of partitions, which a power failure could lose."""
    shutil.copytree(folder, lost)
    for partition in lost.glob("__consumer_offsets-*"):
        shutil.rmtree(partition)
    assert len(write_ahead_files(lost)) == 1
    assert broker.is_running


async def test_commits_are_recovered_from_the_write_ahead_log(tmp_path: Path) -> None:
    data, lost = tmp_path / "data", tmp_path / "lost"
    async with running(data) as broker:
        await commit(broker, 1)
        await commit(broker, 2)
        await copy_without_partitions(broker, data, lost)
    assert write_ahead_files(data) == []
    async with running(data) as broker:
        assert await committed(broker) == [2] * len(GROUPS)
    async with running(lost) as broker:
        assert await committed(broker) == [2] * len(GROUPS)
        assert write_ahead_files(lost) == []


async def test_groups_recovered_from_the_write_ahead_log_are_listed(tmp_path: Path) -> None:
    data, lost = tmp_path / "data", tmp_path / "lost"
    async with running(data) as broker:
        await commit(broker, 1)
        await copy_without_partitions(broker, data, lost)
    async with running(lost) as broker:
        while (listed := await list_groups(broker)).error_code is not ErrorCode.none:
            assert listed.error_code is ErrorCode.coordinator_load_in_progress
        assert {group.group_id for group in listed.groups} == set(GROUPS)


async def test_durability_os_has_no_write_ahead_log(tmp_path: Path) -> None:
    async with running(tmp_path, "os") as broker:
        await commit(broker, 1)
        assert write_ahead_files(tmp_path) == []


def test_commits_of_the_test_harness_survive_a_power_failure() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.run(commit(kafka.broker, 1))
        kafka.crash(power=True)
        assert kafka.run(committed(kafka.broker)) == [1] * len(GROUPS)


def test_a_sync_fault_of_the_offsets_topic_fails_the_write_ahead_log() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.run(commit(kafka.broker, 1))
        kafka.disk.fail("sync", topic="__consumer_offsets")
        results = kafka.run(call_all(kafka.broker, commits(2)))
        assert {error for result in results for error in result.errors} == {
            ErrorCode.not_coordinator
        }
