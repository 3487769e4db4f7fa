"""OffsetForLeaderEpoch: where the records of an epoch end."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness, batch

UNKNOWN = (-1, -1)


@pytest.fixture
def broker() -> BrokerHarness:
    """A broker on which offsets 0 and 1 have epoch 0, offsets 2 and 3 have epoch 2, and offsets 4
    and 5 have epoch 3. The current epoch is 5."""
    broker = BrokerHarness()
    broker.create_topic("orders")
    for epoch in (0, 2, 3):
        lead(broker, epoch)
        broker.produce("orders", batch(b"a", b"b"))
    lead(broker, 5)
    return broker


def lead(broker: BrokerHarness, epoch: int, node_id: int = 1) -> None:
    topic = broker.topic()
    topic.set_leader(topic.partitions[0], node_id, epoch)


def epoch_end(
    broker: BrokerHarness,
    epoch: int,
    *,
    current: int = -1,
    version: int = 4,
    topic: str = "orders",
    partition: int = 0,
) -> Any:
    api = "OffsetForLeaderEpoch"
    wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    topics = ({"topic": topic, "partitions": (wanted,)},)
    extra = {"replica_id": -1} if version >= 3 else {}
    return broker.call(api, version, topics=topics, **extra).topics[0].partitions[0]


def end(broker: BrokerHarness, epoch: int) -> tuple[int, int]:
    response = epoch_end(broker, epoch)
    assert response.error_code is ErrorCode.none
    return response.leader_epoch, response.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_an_epoch_in_every_version(broker: BrokerHarness, version: int) -> None:
    response = epoch_end(broker, 0, version=version)
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
    broker: BrokerHarness, epoch: int, found: tuple[int, int]
) -> None:
    assert end(broker, epoch) == found


def test_a_partition_without_records_has_its_leaders_epoch() -> None:
    broker = BrokerHarness()
    broker.create_topic("orders")
    assert (end(broker, 0), end(broker, 1)) == ((0, 0), UNKNOWN)


def test_epochs_survive_a_restart(broker: BrokerHarness) -> None:
    again = broker.restart()
    lead(again, 5)
    assert [end(again, epoch) for epoch in (0, 2, 3, 5)] == [(0, 2), (2, 4), (3, 6), (5, 6)]


def test_epochs_without_records_end_at_the_start_offset(broker: BrokerHarness) -> None:
    wanted = {"partition_index": 0, "offset": 3}
    topic = {"name": "orders", "partitions": (wanted,)}
    broker.call("DeleteRecords", topics=(topic,), timeout=1000)
    assert [end(broker, epoch) for epoch in (0, 2, 3)] == [(0, 3), (2, 4), (3, 6)]


@pytest.mark.parametrize(
    ("current", "error"),
    [
        (4, ErrorCode.fenced_leader_epoch),
        (5, ErrorCode.none),
        (6, ErrorCode.unknown_leader_epoch),
    ],
)
def test_a_wrong_leader_epoch_is_rejected(
    broker: BrokerHarness, current: int, error: ErrorCode
) -> None:
    assert epoch_end(broker, 0, current=current).error_code is error


@pytest.mark.parametrize("where", [{"topic": "nobody"}, {"partition": 1}])
def test_unknown_partitions_are_rejected(broker: BrokerHarness, where: Any) -> None:
    response = epoch_end(broker, 0, **where)
    assert response.error_code is ErrorCode.unknown_topic_or_partition
    assert (response.leader_epoch, response.end_offset) == UNKNOWN


def test_a_partition_of_another_leader_is_rejected(broker: BrokerHarness) -> None:
    lead(broker, 6, node_id=2)
    assert epoch_end(broker, 0).error_code is ErrorCode.not_leader_or_follower


def test_an_unreadable_log_is_a_storage_error(broker: BrokerHarness) -> None:
    again = broker.restart()
    again.files.fail("open")
    assert epoch_end(again, 0).error_code is ErrorCode.kafka_storage_error


def test_listed_offsets_have_the_epoch_they_were_written_in(broker: BrokerHarness) -> None:
    epochs = []
    for timestamp in (-2, -1):
        wanted = {"partition_index": 0, "timestamp": timestamp}
        topic = {"name": "orders", "partitions": (wanted,)}
        response = broker.call("ListOffsets", 4, replica_id=-1, isolation_level=0, topics=(topic,))
        epochs.append(response.topics[0].partitions[0].leader_epoch)
    assert epochs == [0, 5]


def test_a_consumer_beyond_the_end_of_its_epoch_gets_a_diverging_epoch(
    broker: BrokerHarness,
) -> None:
    diverging = broker.fetch("orders", 5, last_fetched_epoch=2).diverging_epoch
    assert (diverging.epoch, diverging.end_offset) == (2, 4)
    assert broker.fetch("orders", 5, last_fetched_epoch=3).error_code is ErrorCode.none
    lost = broker.fetch("orders", 5, last_fetched_epoch=9)
    assert lost.error_code is ErrorCode.offset_out_of_range
