"""DescribeLogDirs: the data folder and its partitions."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness, batch

DATA = batch(b"a" * 100)


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 3)
    broker.create_topic("bills")
    for partition in (0, 0, 1):
        broker.produce("orders", DATA, partition)
    return broker


def log_dir(broker: BrokerHarness, *topics: tuple[str, tuple[int, ...]], version: int = 5) -> Any:
    api = "DescribeLogDirs"
    wanted = tuple({"topic": name, "partitions": indexes} for name, indexes in topics)
    response = broker.call(api, version, topics=wanted or None)
    if version >= 3:
        assert response.error_code is ErrorCode.none
    (only,) = response.results
    return only


def sizes(found: Any) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(each.partition_index, each.partition_size) for each in topic.partitions]
        for topic in found.topics
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_null_returns_all_partitions(broker: BrokerHarness, version: int) -> None:
    found = log_dir(broker, version=version)
    assert (found.error_code, found.log_dir) == (ErrorCode.none, "/data")
    size = len(DATA)
    assert sizes(found) == {"orders": [(0, 2 * size), (1, size), (2, 0)], "bills": [(0, 0)]}
    assert all(
        (each.offset_lag, each.is_future_key) == (0, False)
        for topic in found.topics
        for each in topic.partitions
    )


def test_a_log_that_is_not_open_has_the_same_size(broker: BrokerHarness) -> None:
    again = broker.restart()
    assert sizes(log_dir(again)) == sizes(log_dir(broker))
    topic = again.topic()
    assert [each.opened_log for each in topic.partitions] == [None] * 3


def test_unknown_partitions_are_left_out_and_repeated_ones_returned_once(
    broker: BrokerHarness,
) -> None:
    found = log_dir(broker, ("nobody", (0,)), ("orders", (9, 1, 1)), ("orders", (2,)))
    assert sizes(found) == {"orders": [(1, len(DATA)), (2, 0)]}
    assert sizes(log_dir(broker, ("orders", (9,)))) == {}


def test_data_in_memory_has_no_volume_size(broker: BrokerHarness) -> None:
    found = log_dir(broker)
    assert (found.total_bytes, found.usable_bytes, found.is_cordoned) == (-1, -1, False)


def test_an_unreadable_disk_is_a_storage_error(broker: BrokerHarness) -> None:
    again = broker.restart()
    again.files.fail("open")
    found = log_dir(again)
    assert (found.error_code, found.topics) == (ErrorCode.kafka_storage_error, ())
