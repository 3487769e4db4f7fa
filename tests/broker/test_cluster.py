"""Several nodes in one process: who coordinates what, and what happens when that changes."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.coordinator.commands import (
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    OffsetCommit,
    OffsetFetch,
    SyncGroup,
)
from kohort.log.group_commit import Durability
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from support.coordinator import offset_commit

OFFSETS_PARTITIONS = 3
GROUP = "g"


class Three:
    """A broker of three nodes, 1, 2 and 3, asked without sockets."""

    def __init__(
        self, folder: Path | None, durability: Durability, files: FaultyFiles | None = None
    ) -> None:
        config = BrokerConfig(
            {
                "kohort.nodes": "3",
                "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
                "group.initial.rebalance.delay.ms": "0",
            }
        )
        self.broker = Broker(config, data_dir=folder, durability=durability, files=files)

    async def __aenter__(self) -> "Three":
        await self.broker.start("127.0.0.1", 0)
        self.topics = self.broker.node.topics
        self.topics.ensure_offsets_topic()
        self.index = self.broker.node.coordinators.partition_of(GROUP)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.stop()

    @property
    def leader_id(self) -> int:
        partition = self.topics.partition(OFFSETS_TOPIC, self.index)
        assert partition is not None
        return partition.leader_id

    @property
    def others(self) -> list[int]:
        return [node_id for node_id in (1, 2, 3) if node_id != self.leader_id]

    def begin(self, command: Any, at: int | None = None) -> asyncio.Future[Any]:
        """Submit at a node, by default the group's coordinator."""
        answer = asyncio.get_running_loop().create_future()
        node = self.broker.cluster.nodes[self.leader_id if at is None else at]
        node.coordinators.submit(command, asyncio.Future.set_result, answer)
        return answer

    async def ask(self, command: Any, at: int | None = None) -> Any:
        return await asyncio.wait_for(self.begin(command, at), 10)

    async def ask_until_loaded(self, command: Any) -> Any:
        """As clients do: while the coordinator loads, ask again."""
        while (answer := await self.ask(command)).error is LOADING:
            await asyncio.sleep(0)
        return answer

    def move(self, to: int) -> None:
        self.broker.cluster.move(OFFSETS_TOPIC, self.index, to)


LOADING = ErrorCode.coordinator_load_in_progress


def commit(offset: int) -> OffsetCommit:
    return offset_commit(GROUP, [("orders", 0, offset)])


FETCH = OffsetFetch(GROUP, (("orders", (0,)),), False, None, -1)


def join(member_id: str = "") -> JoinGroup:
    protocols = (("range", b"metadata"),)
    return JoinGroup(
        GROUP, member_id, None, "c", "/h", 10_000, 60_000, "consumer", protocols, False, True, None
    )


def sync(member_id: str, generation_id: int, assignment: bytes) -> SyncGroup:
    return SyncGroup(
        GROUP, generation_id, member_id, None, "consumer", "range", ((member_id, assignment),)
    )


def of_three(
    story: Callable[[Three], Awaitable[None]],
) -> Callable[[Path, Durability], Awaitable[None]]:
    """Run the story on a broker of three nodes, on disk and in memory."""

    @pytest.mark.parametrize("durability", ["fsync", "none"])
    @wraps(story)
    async def run(tmp_path: Path, durability: Durability) -> None:
        folder = None if durability == "none" else tmp_path / "data"
        async with Three(folder, durability) as three:
            await story(three)

    del run.__wrapped__  # type: ignore[attr-defined]  # pytest would ask for the story's arguments
    return run


@of_three
async def test_only_the_leader_of_the_partition_coordinates_the_group(three: Three) -> None:
    assert (await three.ask(commit(5))).errors == (ErrorCode.none,)
    for other in three.others:
        assert (await three.ask(commit(6), at=other)).errors == (ErrorCode.not_coordinator,)
        refused = await three.ask(FETCH, at=other)
        assert refused.error is ErrorCode.not_coordinator
    assert (await three.ask(FETCH)).topics[0][1][0].offset == 5


@of_three
async def test_leaders_are_spread_over_the_nodes(three: Three) -> None:
    topic = three.topics.get(OFFSETS_TOPIC)
    assert topic is not None
    assert [each.leader_id for each in topic.partitions] == [1, 2, 3]


@of_three
async def test_a_moved_group_keeps_offsets_members_and_generation(
    three: Three,
) -> None:
    joined = await three.ask(join())
    synced = await three.ask(sync(joined.member_id, joined.generation_id, b"mine"))
    assert synced.assignment == b"mine"
    assert (await three.ask(commit_of(joined, 7))).errors == (ErrorCode.none,)
    before, after = three.leader_id, three.others[0]
    three.move(after)
    assert three.leader_id == after
    told = await three.ask_until_loaded(
        Heartbeat(GROUP, joined.generation_id, joined.member_id, None)
    )
    assert told.error is ErrorCode.none
    found = await three.ask_until_loaded(FETCH)
    assert found.topics[0][1][0].offset == 7
    described = await three.ask(DescribeGroup(GROUP))
    assert [member.member_id for member in described.members] == [joined.member_id]
    again = await three.ask(sync(joined.member_id, joined.generation_id, b""))
    assert (again.error, again.assignment) == (ErrorCode.none, b"mine")
    assert (await three.ask(FETCH, at=before)).error is ErrorCode.not_coordinator


def commit_of(joined: Any, offset: int) -> OffsetCommit:
    return commit(offset)._replace(generation_id=joined.generation_id, member_id=joined.member_id)


@of_three
async def test_waiting_requests_at_the_old_coordinator_fail(
    three: Three,
) -> None:
    leader = await three.ask(join())
    await three.ask(sync(leader.member_id, leader.generation_id, b"mine"))
    parked = three.begin(join())
    assert not parked.done()
    three.move(three.others[0])
    assert (await parked).error is ErrorCode.not_coordinator


@of_three
async def test_a_commit_during_a_move_is_kept_by_the_new_coordinator(
    three: Three,
) -> None:
    await three.ask(commit(1))
    under_way = three.begin(commit(2))
    three.move(three.others[1])
    # The new leader reads the log once what the old one wrote is safe.
    assert (await under_way).errors == (ErrorCode.none,)
    assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 2


@of_three
async def test_partitions_of_a_stopped_node_move_to_other_nodes(
    three: Three,
) -> None:
    await three.ask(commit(3))
    stopped = three.leader_id
    await three.broker.stop_node(stopped)
    assert three.leader_id != stopped
    assert stopped not in [node.node_id for node in three.broker.cluster.up]
    assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 3
    await three.broker.start_node(stopped)
    assert three.leader_id != stopped
    three.move(stopped)
    assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 3
    with pytest.raises(LookupError, match="node 9 does not exist"):
        three.move(9)


@of_three
async def test_no_node_leads_while_all_nodes_are_stopped(three: Three) -> None:
    await three.ask(commit(3))
    for node_id in (1, 2, 3):
        await three.broker.stop_node(node_id)
    assert three.leader_id == -1
    await three.broker.start_node(2)
    assert three.leader_id == 2
    assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 3


async def test_leaders_and_their_epochs_survive_a_restart(tmp_path: Path) -> None:
    async with Three(tmp_path / "data", "fsync") as three:
        await three.ask(commit(4))
        moved_to = three.others[0]
        three.move(moved_to)
        await three.ask_until_loaded(FETCH)
    async with Three(tmp_path / "data", "fsync") as three:
        partition = three.topics.partition(OFFSETS_TOPIC, three.index)
        assert partition is not None
        assert (partition.leader_id, partition.leader_epoch) == (moved_to, 1)
        assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 4


async def test_a_failed_sync_after_a_move_rejects_the_commit(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()
    async with Three(tmp_path / "data", "fsync", files) as three:
        await three.ask(commit(1))
        under_way = three.begin(commit(2))
        three.move(three.others[0])
        files.fail("sync")
        assert (await under_way).errors == (ErrorCode.not_coordinator,)
        found = await three.ask_until_loaded(FETCH)
        assert found.topics[0][1][0].offset == 1


async def test_a_move_that_cannot_be_written_does_not_take_place(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()
    async with Three(tmp_path / "data", "fsync", files) as three:
        await three.ask(commit(1))
        before, after = three.leader_id, three.others[0]
        files.fail("append")
        three.move(after)
        settled = asyncio.get_running_loop().create_future()
        three.topics.on_durable(settled.set_result)
        assert isinstance(await settled, OSError)
        assert three.leader_id == before
        assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 1
        assert (await three.ask(commit(2))).errors == (ErrorCode.none,)
        refused = await three.ask(commit(3), at=after)
        assert refused.errors == (ErrorCode.not_coordinator,)
    async with Three(tmp_path / "data", "fsync", files) as three:
        assert three.leader_id == before
        assert (await three.ask_until_loaded(FETCH)).topics[0][1][0].offset == 2


async def test_each_node_reports_its_own_id(tmp_path: Path) -> None:
    async with Three(tmp_path / "data", "fsync") as three:
        nodes = three.broker.cluster.nodes
        assert [node.config.int("node.id") for node in nodes.values()] == [1, 2, 3]
        (own, default) = nodes[2].configs.broker_synonyms("node.id")
        assert (own.value, default.value) == (2, 1)


async def test_leaders_chosen_while_a_node_was_stopped_survive_a_restart(
    tmp_path: Path,
) -> None:
    async with Three(tmp_path / "data", "fsync") as three:
        await three.broker.stop_node(2)
        made = three.topics.create("orders", 2, {})
        three.topics.add_partitions(made, 5)
        leaders = [each.leader_id for each in made.partitions]
        assert 2 not in leaders
    async with Three(tmp_path / "data", "fsync") as three:
        found = three.topics.get("orders")
        assert found is not None
        assert [each.leader_id for each in found.partitions] == leaders


async def test_a_rejected_commit_is_not_loaded_by_the_next_leader(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()
    async with Three(tmp_path / "data", "fsync", files) as three:
        await three.ask(commit(1))
        files.fail("sync")
        files.fail("truncate", times=1_000)
        assert (await three.ask(commit(2))).errors == (ErrorCode.not_coordinator,)
        files.heal()
        three.move(three.others[0])
        found = await three.ask_until_loaded(FETCH)
        assert found.topics[0][1][0].offset == 1


async def test_a_move_is_logged_in_the_words_of_kafka(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Three(tmp_path / "data", "fsync") as three:
        await three.ask(commit(1))
        before, after = three.leader_id, three.others[0]
        place = f"{OFFSETS_TOPIC}-{three.index} with epoch 1"
        with caplog.at_level("INFO", "kohort.coordinator"):
            three.move(after)
        assert [record.message for record in caplog.records] == [
            f"[GroupCoordinator id={before}] Scheduling unloading of metadata for {place}",
            f"[GroupCoordinator id={after}] Scheduling loading of metadata from {place}",
        ]
