"""DescribeProducers: active producers and their last batches."""

from typing import Any

import pytest
from kohort.protocol.errors import ErrorCode
from support.broker import NOW_MS, BrokerHarness
from support.log import NewRecord, build


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness({"producer.id.expiration.ms": "1000"})
    broker.create_topic("orders")
    return broker


def producers(broker: BrokerHarness, topic: str = "orders", partition: int = 0) -> Any:
    part = {"name": topic, "partition_indexes": (partition,)}
    return broker.call("DescribeProducers", topics=(part,)).topics[0].partitions[0]


def write(
    broker: BrokerHarness, producer_id: int, sequence: int, *values: bytes, epoch: int = 0
) -> None:
    records = [NewRecord(b"k", value, NOW_MS + sequence) for value in values]
    batch = build(
        records,
        base_offset=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    assert broker.produce("orders", batch).error_code == 0


def test_each_producer_is_returned_with_its_last_batch(broker: BrokerHarness) -> None:
    write(broker, 7, 0, b"a", b"b")
    write(broker, 7, 2, b"c")
    write(broker, 9, 0, b"d", epoch=3)
    for each in (broker, broker.restart()):
        assert [
            (p.producer_id, p.producer_epoch, p.last_sequence, p.last_timestamp)
            for p in producers(each).active_producers
        ] == [(7, 0, 2, NOW_MS + 2), (9, 3, 0, NOW_MS)]
    (first, _) = producers(broker).active_producers
    assert (first.coordinator_epoch, first.current_txn_start_offset) == (-1, -1)


def test_expired_producers_are_not_returned(broker: BrokerHarness) -> None:
    write(broker, 7, 0, b"a")
    broker.advance(999)
    write(broker, 9, 0, b"b")
    assert [each.producer_id for each in producers(broker).active_producers] == [7, 9]
    broker.advance(1)
    assert [each.producer_id for each in producers(broker).active_producers] == [9]


def test_an_unreadable_log_is_a_storage_error(broker: BrokerHarness) -> None:
    write(broker, 7, 0, b"a")
    again = broker.restart()
    again.files.fail("open")
    assert producers(again).error_code == 56


def test_a_response_with_too_long_a_message_is_an_error_and_is_logged(
    broker: BrokerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    found = producers(broker, "x" * 32_760)
    assert (found.error_code, found.error_message) == (ErrorCode.unknown_server_error, None)
    assert (
        "Responding with UNKNOWN_SERVER_ERROR: DescribeProducersResponse v0 cannot" in caplog.text
    )
