"""OffsetForLeaderEpoch: where each leader's records end."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from topic_world import World, batch, milliseconds

UNKNOWN = (-1, -1)


@pytest.fixture
def world() -> World:
    """Offsets 0 and 1 are of epoch 0, 2 and 3 of epoch 2, 4 and 5 of epoch 3; now it is epoch 5."""
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
    topic.partitions[0].lead(node_id, epoch)


def asked(
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
    answer = asked(world, epoch)
    assert answer.error_code is ErrorCode.none
    return answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_every_version(world: World, version: int) -> None:
    answer = asked(world, 0, version=version)
    assert (answer.error_code, answer.partition) == (ErrorCode.none, 0)
    assert (answer.leader_epoch, answer.end_offset) == (0, 2)


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
def test_the_records_of_an_epoch_end_where_those_of_the_next_begin(
    world: World, epoch: int, found: tuple[int, int]
) -> None:
    assert end(world, epoch) == found


def test_a_partition_without_records_has_the_epoch_of_its_leader() -> None:
    world = World()
    world.make("orders")
    assert (end(world, 0), end(world, 1)) == ((0, 0), UNKNOWN)


def test_the_history_outlives_a_restart(world: World) -> None:
    again = world.restarted()
    lead(again, 5)
    assert [end(again, epoch) for epoch in (0, 2, 3, 5)] == [(0, 2), (2, 4), (3, 6), (5, 6)]


def test_epochs_whose_records_were_deleted_end_where_the_partition_begins(world: World) -> None:
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
def test_who_believes_in_another_leader_is_told_so(
    world: World, current: int, error: ErrorCode
) -> None:
    assert asked(world, 0, current=current).error_code is error


@pytest.mark.parametrize("where", [{"topic": "nobody"}, {"partition": 1}])
def test_what_is_not_there_is_refused(world: World, where: Any) -> None:
    answer = asked(world, 0, **where)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition
    assert (answer.leader_epoch, answer.end_offset) == UNKNOWN


def test_another_node_is_to_be_asked_for_what_it_leads(world: World) -> None:
    lead(world, 6, node_id=2)
    assert asked(world, 0).error_code is ErrorCode.not_leader_or_follower


def test_a_log_that_cannot_be_read_is_a_storage_error(world: World) -> None:
    again = world.restarted()
    again.files.fail("open")
    assert asked(again, 0).error_code is ErrorCode.kafka_storage_error


def test_offsets_are_listed_with_the_epoch_they_were_written_in(world: World) -> None:
    part = world.part
    epochs = []
    for timestamp in (-2, -1):
        wanted = part(
            "ListOffsets", 4, "ListOffsetsPartition", partition_index=0, timestamp=timestamp
        )
        topic = part("ListOffsets", 4, "ListOffsetsTopic", name="orders", partitions=(wanted,))
        answer = world.ask("ListOffsets", 4, replica_id=-1, isolation_level=0, topics=(topic,))
        epochs.append(answer.topics[0].partitions[0].leader_epoch)
    assert epochs == [0, 5]


def test_a_consumer_that_read_what_is_not_there_is_sent_back(world: World) -> None:
    diverging = world.fetch("orders", 5, last_fetched_epoch=2).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (2, 4)
    assert world.fetch("orders", 5, last_fetched_epoch=3).error_code is ErrorCode.none
    lost = world.fetch("orders", 5, last_fetched_epoch=9)
    assert lost.error_code is ErrorCode.offset_out_of_range
