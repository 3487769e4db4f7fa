"""Several nodes in one process: leaders, moves of partitions, and deletions during a move."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator import offset_cleanup
from kohort.coordinator.commands import (
    DescribeGroup,
    Heartbeat,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
)
from kohort.log.group_commit import Durability
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from support.coordinator import join_group, offset_commit
from support.running_broker import call, call_until_loaded, running_broker, until_durable

OFFSETS_PARTITIONS = 3
GROUP = "g"


class ThreeNodes:
    """A broker with the nodes 1, 2 and 3; commands are submitted without sockets."""

    def __init__(
        self,
        folder: Path | None,
        durability: Durability = "fsync",
        files: FaultyFiles | None = None,
    ) -> None:
        config = BrokerConfig(
            {
                "kohort.nodes": "3",
                "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
                "group.initial.rebalance.delay.ms": "0",
            }
        )
        self.broker = Broker(config, data_dir=folder, durability=durability, files=files)

    async def __aenter__(self) -> "ThreeNodes":
        await self.broker.start("127.0.0.1", 0)
        self.topics = self.broker.node.topics
        self.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        self.index = self.broker.node.coordinators.partition_of(GROUP)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.stop()

    @property
    def leader_id(self) -> int:
        partition = self.topics.partition(OFFSETS_TOPIC, self.index)
        return partition.leader_id

    @property
    def others(self) -> list[int]:
        return [node_id for node_id in (1, 2, 3) if node_id != self.leader_id]

    def submit(self, command: Any, at: int | None = None) -> asyncio.Future[Any]:
        """Submit at a node, by default the group's coordinator."""
        result = asyncio.get_running_loop().create_future()
        node = self.broker.cluster.nodes[self.leader_id if at is None else at]
        node.coordinators.submit(command, asyncio.Future.set_result, result)
        return result

    async def call(self, command: Any, at: int | None = None) -> Any:
        return await asyncio.wait_for(self.submit(command, at), 10)

    async def committed(self) -> int:
        """Fetch the committed offset as soon as the coordinator is loaded."""
        coordinators = self.broker.cluster.nodes[self.leader_id].coordinators
        found = await call_until_loaded(coordinators, FETCH)
        return int(found.topics[0][1][0].committed_offset)

    def move(self, to: int) -> None:
        self.broker.cluster.move(OFFSETS_TOPIC, self.index, to)


def commit(offset: int) -> OffsetCommit:
    return offset_commit(GROUP, [("orders", 0, offset)])


FETCH = OffsetFetch(GROUP, (("orders", (0,)),), False, None, -1)


JOIN = join_group(group_id=GROUP, version=3)


def sync(member_id: str, generation_id: int, assignment: bytes) -> SyncGroup:
    return SyncGroup(
        GROUP, generation_id, member_id, None, "consumer", "range", ((member_id, assignment),)
    )


@pytest.fixture(params=["fsync", "none"])
async def three(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[ThreeNodes]:
    """Three nodes on disk and in memory."""
    folder = None if request.param == "none" else tmp_path
    async with ThreeNodes(folder, request.param) as three:
        yield three


async def test_only_the_leader_of_the_partition_coordinates_the_group(three: ThreeNodes) -> None:
    assert (await three.call(commit(5))).errors == (ErrorCode.none,)
    for other in three.others:
        assert (await three.call(commit(6), at=other)).errors == (ErrorCode.not_coordinator,)
        rejected = await three.call(FETCH, at=other)
        assert rejected.error_code is ErrorCode.not_coordinator
    assert await three.committed() == 5


async def test_leaders_are_spread_over_the_nodes(three: ThreeNodes) -> None:
    topic = three.topics.get(OFFSETS_TOPIC)
    assert [each.leader_id for each in topic.partitions] == [1, 2, 3]


async def test_a_moved_group_keeps_offsets_members_and_generation(three: ThreeNodes) -> None:
    joined = await three.call(JOIN)
    synced = await three.call(sync(joined.member_id, joined.generation_id, b"assigned"))
    assert synced.assignment == b"assigned"
    assert (await three.call(commit_of(joined, 7))).errors == (ErrorCode.none,)
    before, after = three.leader_id, three.others[0]
    three.move(after)
    assert three.leader_id == after
    assert await three.committed() == 7
    heartbeat = Heartbeat(GROUP, joined.generation_id, joined.member_id, None)
    assert (await three.call(heartbeat)).error_code is ErrorCode.none
    described = await three.call(DescribeGroup(GROUP))
    assert [member.member_id for member in described.members] == [joined.member_id]
    again = await three.call(sync(joined.member_id, joined.generation_id, b""))
    assert (again.error_code, again.assignment) == (ErrorCode.none, b"assigned")
    assert (await three.call(FETCH, at=before)).error_code is ErrorCode.not_coordinator


def commit_of(joined: Any, offset: int) -> OffsetCommit:
    return commit(offset)._replace(generation_id=joined.generation_id, member_id=joined.member_id)


async def test_waiting_requests_at_the_old_coordinator_fail(three: ThreeNodes) -> None:
    leader = await three.call(JOIN)
    await three.call(sync(leader.member_id, leader.generation_id, b"assigned"))
    waiting = three.submit(JOIN)
    assert not waiting.done()
    three.move(three.others[0])
    assert (await waiting).error_code is ErrorCode.not_coordinator


async def test_a_commit_during_a_move_is_kept_by_the_new_coordinator(three: ThreeNodes) -> None:
    await three.call(commit(1))
    pending = three.submit(commit(2))
    three.move(three.others[1])
    # The new leader reads the log once the writes of the old one are durable.
    assert (await pending).errors == (ErrorCode.none,)
    assert await three.committed() == 2


async def test_partitions_of_a_stopped_node_move_to_other_nodes(three: ThreeNodes) -> None:
    await three.call(commit(3))
    stopped = three.leader_id
    await three.broker.stop_node(stopped)
    assert three.leader_id != stopped
    assert stopped not in [node.node_id for node in three.broker.cluster.up]
    assert await three.committed() == 3
    await three.broker.start_node(stopped)
    assert three.leader_id != stopped
    three.move(stopped)
    assert await three.committed() == 3
    with pytest.raises(LookupError, match="node 9 does not exist"):
        three.move(9)


async def test_no_node_leads_while_all_nodes_are_stopped(three: ThreeNodes) -> None:
    await three.call(commit(3))
    for node_id in (1, 2, 3):
        await three.broker.stop_node(node_id)
    assert three.leader_id == -1
    await three.broker.start_node(2)
    assert three.leader_id == -1, "node 3 was the last one that was in sync"
    await three.broker.start_node(3)
    assert three.leader_id == 3
    assert await three.committed() == 3


async def test_a_node_that_is_up_is_not_started_again(three: ThreeNodes) -> None:
    with pytest.raises(ValueError, match="node 2 is already up"):
        await three.broker.start_node(2)
    assert [each.node_id for each in three.broker.cluster.up] == [1, 2, 3]


async def test_a_node_whose_address_was_in_use_can_be_started_later() -> None:
    listeners = "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    broker = Broker(BrokerConfig({"kohort.nodes": "2", "listeners": listeners}))
    await broker.start()
    await broker.stop_node(2)
    address = broker.listener_addresses[2]["PLAINTEXT"]
    with socket.create_server(address), pytest.raises(OSError, match="in use"):
        await broker.start_node(2)
    assert [each.node_id for each in broker.cluster.up] == [1]
    await broker.start_node(2)
    assert [each.node_id for each in broker.cluster.up] == [1, 2]
    socket.create_connection(address).close()
    await broker.stop()


async def test_leaders_and_their_epochs_survive_a_restart(tmp_path: Path) -> None:
    async with ThreeNodes(tmp_path) as three:
        await three.call(commit(4))
        moved_to = three.others[0]
        three.move(moved_to)
        await three.committed()
    async with ThreeNodes(tmp_path) as three:
        partition = three.topics.partition(OFFSETS_TOPIC, three.index)
        assert (partition.leader_id, partition.leader_epoch) == (moved_to, 1)
        assert await three.committed() == 4


async def test_a_failed_sync_after_a_move_rejects_the_commit(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with ThreeNodes(tmp_path, files=files) as three:
        await three.call(commit(1))
        pending = three.submit(commit(2))
        three.move(three.others[0])
        files.fail("sync")
        assert (await pending).errors == (ErrorCode.not_coordinator,)
        assert await three.committed() == 1


async def test_a_move_that_cannot_be_written_does_not_take_place(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with ThreeNodes(tmp_path, files=files) as three:
        await three.call(commit(1))
        before, after = three.leader_id, three.others[0]
        files.fail("append")
        three.move(after)
        assert isinstance(await until_durable(three.topics), OSError)
        assert three.leader_id == before
        assert await three.committed() == 1
        assert (await three.call(commit(2))).errors == (ErrorCode.none,)
        rejected = await three.call(commit(3), at=after)
        assert rejected.errors == (ErrorCode.not_coordinator,)
    async with ThreeNodes(tmp_path, files=files) as three:
        assert three.leader_id == before
        assert await three.committed() == 2


async def test_each_node_reports_its_own_id(tmp_path: Path) -> None:
    async with ThreeNodes(tmp_path) as three:
        nodes = three.broker.cluster.nodes
        assert [node.config.int("node.id") for node in nodes.values()] == [1, 2, 3]
        (own, default) = nodes[2].configs.broker_synonyms("node.id")
        assert (own.value, default.value) == (2, 1)


async def test_leaders_chosen_while_a_node_was_stopped_survive_a_restart(tmp_path: Path) -> None:
    async with ThreeNodes(tmp_path) as three:
        await three.broker.stop_node(2)
        created = three.topics.create("orders", 2, {})
        three.topics.add_partitions(created, 5)
        leaders = [each.leader_id for each in created.partitions]
        assert 2 not in leaders
    async with ThreeNodes(tmp_path) as three:
        found = three.topics.get("orders")
        assert [each.leader_id for each in found.partitions] == leaders


async def test_a_rejected_commit_is_not_loaded_by_the_next_leader(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with ThreeNodes(tmp_path, files=files) as three:
        await three.call(commit(1))
        files.fail("sync")
        files.fail("truncate", times=1_000)
        assert (await three.call(commit(2))).errors == (ErrorCode.not_coordinator,)
        files.heal()
        three.move(three.others[0])
        assert await three.committed() == 1


async def test_a_move_is_logged_in_the_words_of_kafka(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with ThreeNodes(tmp_path) as three:
        await three.call(commit(1))
        before, after = three.leader_id, three.others[0]
        place = f"{OFFSETS_TOPIC}-{three.index} with epoch 1"
        with caplog.at_level("INFO", "kohort.coordinator"):
            three.move(after)
        assert [record.message for record in caplog.records] == [
            f"[GroupCoordinator id={before}] Scheduling unloading of metadata for {place}",
            f"[GroupCoordinator id={after}] Scheduling loading of metadata from {place}",
        ]


# --- deletion of a topic during a move

TOPIC_PARTITIONS = tuple(range(10))


async def start_deletion(broker: Broker) -> asyncio.Future[OSError | None]:
    """Commit for a topic at node 1 and delete the topic. Its offsets are deleted in slices."""
    topics = broker.node.topics
    topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    topic = topics.create("orders", len(TOPIC_PARTITIONS), {})
    command = offset_commit("g", [("orders", each, 100 + each) for each in TOPIC_PARTITIONS])
    assert not any((await call(broker.cluster.nodes[1].coordinators, command)).errors)
    deleted: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    topics.delete(topic, deleted.set_result)
    while broker.cluster.nodes[1].coordinators.contexts[0].cleanup is None:
        await asyncio.sleep(0)
    return deleted


async def until_idle(broker: Broker) -> None:
    while not broker.is_idle:
        await asyncio.sleep(0)


@pytest.mark.parametrize("without_leader", [False, True])
async def test_a_topic_is_deleted_only_after_the_next_leaders_cleanup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_leader: bool
) -> None:
    monkeypatch.setattr(offset_cleanup, "SLICE_TOMBSTONES", 2)
    config = {"kohort.nodes": "2", "offsets.topic.num.partitions": "1"}
    parts = {"data_dir": tmp_path / "data", "durability": "fsync", "files": FaultyFiles()}
    async with running_broker(config, **parts) as broker:
        deleted = await start_deletion(broker)
        loading: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        after = broker.cluster.nodes[2].coordinators
        after.on_log_read = lambda _partition, resume: loading.set_result(resume)
        if without_leader:
            for node_id in (1, 2):
                list(broker.cluster.node_stopping(node_id))
            await until_idle(broker)
            assert not deleted.done()
            list(broker.cluster.node_started(2))
        else:
            broker.cluster.move(OFFSETS_TOPIC, 0, 2)
        continue_loading = await asyncio.wait_for(loading, 10)
        await until_idle(broker)
        # After a power failure, a new topic with this name would have these offsets.
        assert "orders" in after.contexts[0].offsets.of_group("g")
        assert not deleted.done()
        continue_loading()
        assert await asyncio.wait_for(deleted, 10) is None
        fetched = await call_until_loaded(after, OffsetFetch("g", None, False, None, -1))
        assert fetched.topics == ()
