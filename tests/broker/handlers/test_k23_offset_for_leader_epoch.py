"""OffsetForLeaderEpoch: where the records of an epoch end."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import World, batch, milliseconds

UNKNOWN = (-1, -1)


@pytest.fixture
def world() -> World:
    """Offsets 0 and 1 have epoch 0, 2 and 3 epoch 2, 4 and 5 epoch 3; the current epoch is 5."""
    world = World()
    world.make("orders")
    for epoch in (0, 2, 3):
        lead(world, epoch)
        world.produce("orders", batch(b"a", b"b"))
    lead(world, 5)
    return world


def lead(world: World, epoch: int, node_id: int = 1) -> None:
    topic = world.topics.get("orders")
    assert topic is not None
    topic.set_leader(topic.partitions[0], node_id, epoch)


def epoch_end(
    world: World,
    epoch: int,
    *,
    current: int = -1,
    version: int = 4,
    topic: str = "orders",
    partition: int = 0,
) -> Any:
    api = "OffsetForLeaderEpoch"
    wanted = world.part(
        api,
        version,
        "OffsetForLeaderPartition",
        partition=partition,
        current_leader_epoch=current,
        leader_epoch=epoch,
    )
    topics = (world.part(api, version, "OffsetForLeaderTopic", topic=topic, partitions=(wanted,)),)
    extra = {"replica_id": -1} if version >= 3 else {}
    return world.ask(api, version, topics=topics, **extra).topics[0].partitions[0]


def end(world: World, epoch: int) -> tuple[int, int]:
    response = epoch_end(world, epoch)
    assert response.error_code is ErrorCode.none
    return response.leader_epoch, response.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_an_epoch_in_every_version(world: World, version: int) -> None:
    response = epoch_end(world, 0, version=version)
    assert (response.error_code, response.partition) == (ErrorCode.none, 0)
    assert (response.leader_epoch, response.end_offset) == (0, 2)


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (0, (0, 2)),
        (1, (0, 2)),
        (2, (2, 4)),
        (3, (3, 6)),
        (4, (3, 6)),
        (5, (5, 6)),
        (6, UNKNOWN),
        (-1, UNKNOWN),
        (-2, (-2, 0)),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(
    world: World, epoch: int, found: tuple[int, int]
) -> None:
    assert end(world, epoch) == found


def test_a_partition_without_records_has_its_leaders_epoch() -> None:
    world = World()
    world.make("orders")
    assert (end(world, 0), end(world, 1)) == ((0, 0), UNKNOWN)


def test_epochs_survive_a_restart(world: World) -> None:
    again = world.restarted()
    lead(again, 5)
    assert [end(again, epoch) for epoch in (0, 2, 3, 5)] == [(0, 2), (2, 4), (3, 6), (5, 6)]


def test_epochs_without_records_end_at_the_start_offset(world: World) -> None:
    part = world.part
    wanted = part("DeleteRecords", 2, "DeleteRecordsPartition", partition_index=0, offset=3)
    topic = part("DeleteRecords", 2, "DeleteRecordsTopic", name="orders", partitions=(wanted,))
    world.ask("DeleteRecords", 2, topics=(topic,), timeout=milliseconds(1000))
    assert [end(world, epoch) for epoch in (0, 2, 3)] == [(0, 3), (2, 4), (3, 6)]


@pytest.mark.parametrize(
    ("current", "error"),
    [
        (4, ErrorCode.fenced_leader_epoch),
        (5, ErrorCode.none),
        (6, ErrorCode.unknown_leader_epoch),
    ],
)
def test_a_wrong_leader_epoch_is_rejected(world: World, current: int, error: ErrorCode) -> None:
    assert epoch_end(world, 0, current=current).error_code is error


@pytest.mark.parametrize("where", [{"topic": "nobody"}, {"partition": 1}])
def test_unknown_partitions_are_rejected(world: World, where: Any) -> None:
    response = epoch_end(world, 0, **where)
    assert response.error_code is ErrorCode.unknown_topic_or_partition
    assert (response.leader_epoch, response.end_offset) == UNKNOWN


def test_a_partition_of_another_leader_is_rejected(world: World) -> None:
    lead(world, 6, node_id=2)
    assert epoch_end(world, 0).error_code is ErrorCode.not_leader_or_follower


def test_an_unreadable_log_is_a_storage_error(world: World) -> None:
    again = world.restarted()
    again.files.fail("open")
    assert epoch_end(again, 0).error_code is ErrorCode.kafka_storage_error


def test_listed_offsets_have_the_epoch_they_were_written_in(world: World) -> None:
    part = world.part
    epochs = []
    for timestamp in (-2, -1):
        wanted = part(
            "ListOffsets", 4, "ListOffsetsPartition", partition_index=0, timestamp=timestamp
        )
        topic = part("ListOffsets", 4, "ListOffsetsTopic", name="orders", partitions=(wanted,))
        response = world.ask("ListOffsets", 4, replica_id=-1, isolation_level=0, topics=(topic,))
        epochs.append(response.topics[0].partitions[0].leader_epoch)
    assert epochs == [0, 5]


def test_a_consumer_beyond_the_end_of_its_epoch_gets_a_diverging_epoch(world: World) -> None:
    diverging = world.fetch("orders", 5, last_fetched_epoch=2).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (2, 4)
    assert world.fetch("orders", 5, last_fetched_epoch=3).error_code is ErrorCode.none
    lost = world.fetch("orders", 5, last_fetched_epoch=9)
    assert lost.error_code is ErrorCode.offset_out_of_range
