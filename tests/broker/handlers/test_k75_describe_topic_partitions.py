"""DescribeTopicPartitions: sorted topics in pages."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import BrokerHarness


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 3)
    broker.create_topic("bills", 2)
    return broker


def describe(
    broker: BrokerHarness, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    api = "DescribeTopicPartitions"
    if cursor is not None:
        topic, partition = cursor
        start = {"topic_name": topic, "partition_index": partition}
    return broker.call(
        api,
        0,
        topics=tuple({"name": name} for name in names),
        response_partition_limit=limit,
        cursor=start if cursor is not None else None,
    )


def page(response: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    """Return the topics of a page, and the cursor of the next page."""
    assert all(topic.error_code is ErrorCode.none for topic in response.topics)
    result = [(t.name, [p.partition_index for p in t.partitions]) for t in response.topics]
    cursor = response.next_cursor
    return result, cursor and (cursor.topic_name, cursor.partition_index)


@pytest.mark.parametrize("names", [(), ("orders", "bills"), ("bills", "orders", "bills")])
def test_topics_are_sorted_by_name(broker: BrokerHarness, names: tuple[str, ...]) -> None:
    result = page(describe(broker, *names))
    assert result == ([("bills", [0, 1]), ("orders", [0, 1, 2])], None)


@pytest.mark.parametrize(
    ("limit", "result", "cursor"),
    [
        (-1, [("bills", [0])], ("bills", 1)),
        (1, [("bills", [0])], ("bills", 1)),
        (2, [("bills", [0, 1])], ("orders", 0)),
        (3, [("bills", [0, 1]), ("orders", [0])], ("orders", 1)),
        (5, [("bills", [0, 1]), ("orders", [0, 1, 2])], None),
    ],
)
def test_a_page_has_at_most_the_requested_number_of_partitions(
    broker: BrokerHarness, limit: int, result: Any, cursor: Any
) -> None:
    assert page(describe(broker, limit=limit)) == (result, cursor)


def test_the_pages_together_contain_everything(broker: BrokerHarness) -> None:
    result: list[tuple[str, int]] = []
    cursor = None
    for _ in range(5):
        topics, cursor = page(describe(broker, "orders", "bills", limit=1, cursor=cursor))
        result += [(name, index) for name, indexes in topics for index in indexes]
    assert cursor is None
    assert result == [("bills", 0), ("bills", 1), ("orders", 0), ("orders", 1), ("orders", 2)]


def test_the_brokers_limit_applies_to_every_request() -> None:
    broker = BrokerHarness({"max.request.partition.size.limit": "2"})
    broker.create_topic("orders", 3)
    assert page(describe(broker)) == ([("orders", [0, 1])], ("orders", 2))


def test_a_cursor_behind_the_last_partition_returns_an_empty_topic(broker: BrokerHarness) -> None:
    result = page(describe(broker, cursor=("orders", 9)))
    assert result == ([("orders", [])], None)


@pytest.mark.parametrize("cursor", [("bills", -1), ("carts", 0), ("zebras", 0)])
def test_an_invalid_cursor_is_rejected(broker: BrokerHarness, cursor: tuple[str, int]) -> None:
    response = describe(broker, "orders", "bills", "orders", cursor=cursor)
    # In the order of the request and with repeated topics, because the request failed earlier.
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("orders", ErrorCode.invalid_request),
        ("bills", ErrorCode.invalid_request),
        ("orders", ErrorCode.invalid_request),
    ]
    assert {each.topic_authorized_operations for each in response.topics} == {-(2**31)}


def test_unknown_topics_get_errors(broker: BrokerHarness) -> None:
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    names = ("nobody", "no such name!", "__consumer_offsets")
    response = describe(broker, *names, limit=1)
    assert [(each.name, each.error_code, each.is_internal) for each in response.topics] == [
        ("__consumer_offsets", ErrorCode.none, True)
    ]
    response = describe(broker, "nobody", "no such name!")
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("no such name!", ErrorCode.invalid_topic_exception),
        ("nobody", ErrorCode.unknown_topic_or_partition),
    ]


def test_a_topic_without_a_name_fails_the_request(broker: BrokerHarness) -> None:
    response = describe(broker, "orders", "")
    errors = {each.error_code for each in response.topics}
    assert errors == {ErrorCode.unknown_server_error}


def test_a_topic_without_a_name_is_invalid_if_it_is_the_cursor(broker: BrokerHarness) -> None:
    response = describe(broker, "orders", "", cursor=("", 0))
    errors = [(each.name, each.error_code) for each in response.topics]
    assert errors == [("", ErrorCode.invalid_topic_exception), ("orders", ErrorCode.none)]
