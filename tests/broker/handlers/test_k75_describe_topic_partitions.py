"""DescribeTopicPartitions: topics in order of their names, in pages."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from topic_world import World


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders", 3)
    world.make("bills", 2)
    return world


def describe(
    world: World, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    api = "DescribeTopicPartitions"
    if cursor is not None:
        topic, partition = cursor
        start = world.part(api, 0, "Cursor", topic_name=topic, partition_index=partition)
    return world.ask(
        api,
        0,
        topics=tuple(world.part(api, 0, "TopicRequest", name=name) for name in names),
        response_partition_limit=limit,
        cursor=start if cursor is not None else None,
    )


def page(answer: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    """What is told of which topic, and where the next page begins."""
    assert all(topic.error_code is ErrorCode.none for topic in answer.topics)
    told = [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics]
    cursor = answer.next_cursor
    return told, cursor and (cursor.topic_name, cursor.partition_index)


def test_everything_is_told_of_a_partition(world: World) -> None:
    (topic,) = describe(world, "bills").topics
    made = world.topics.get("bills")
    assert made is not None
    assert (topic.topic_id, topic.is_internal) == (made.id, False)
    assert topic.topic_authorized_operations == 3576
    first = topic.partitions[0]
    assert (first.leader_id, first.leader_epoch, first.replica_nodes) == (1, 0, (1,))
    assert (first.isr_nodes, first.offline_replicas) == ((1,), ())


def test_what_is_not_known_of_leaders_to_be_is_empty_and_not_null(world: World) -> None:
    for partition in describe(world, "bills").topics[0].partitions:
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())


@pytest.mark.parametrize("names", [(), ("orders", "bills"), ("bills", "orders", "bills")])
def test_topics_come_in_the_order_of_their_names(world: World, names: tuple[str, ...]) -> None:
    told = page(describe(world, *names))
    assert told == ([("bills", [0, 1]), ("orders", [0, 1, 2])], None)


@pytest.mark.parametrize(
    ("limit", "told", "cursor"),
    [
        (-1, [("bills", [0])], ("bills", 1)),
        (1, [("bills", [0])], ("bills", 1)),
        (2, [("bills", [0, 1])], ("orders", 0)),
        (3, [("bills", [0, 1]), ("orders", [0])], ("orders", 1)),
        (5, [("bills", [0, 1]), ("orders", [0, 1, 2])], None),
    ],
)
def test_a_page_has_no_more_partitions_than_asked_for(
    world: World, limit: int, told: Any, cursor: Any
) -> None:
    assert page(describe(world, limit=limit)) == (told, cursor)


def test_the_pages_put_together_are_the_whole(world: World) -> None:
    told: list[tuple[str, int]] = []
    cursor = None
    for _ in range(5):
        topics, cursor = page(describe(world, "orders", "bills", limit=1, cursor=cursor))
        told += [(name, index) for name, indexes in topics for index in indexes]
    assert cursor is None
    assert told == [("bills", 0), ("bills", 1), ("orders", 0), ("orders", 1), ("orders", 2)]


def test_the_brokers_limit_holds_for_everyone() -> None:
    world = World({"max.request.partition.size.limit": "2"})
    world.make("orders", 3)
    assert page(describe(world)) == ([("orders", [0, 1])], ("orders", 2))


def test_a_cursor_behind_the_last_partition_finds_the_topic_empty(world: World) -> None:
    told = page(describe(world, cursor=("orders", 9)))
    assert told == ([("orders", [])], None)


@pytest.mark.parametrize("cursor", [("bills", -1), ("carts", 0), ("zebras", 0)])
def test_a_cursor_that_leads_nowhere_is_refused(world: World, cursor: tuple[str, int]) -> None:
    answer = describe(world, "orders", "bills", "orders", cursor=cursor)
    # In the order of the request, and as often as there: nothing of it was looked at.
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("orders", ErrorCode.invalid_request),
        ("bills", ErrorCode.invalid_request),
        ("orders", ErrorCode.invalid_request),
    ]
    assert {each.topic_authorized_operations for each in answer.topics} == {-(2**31)}


def test_topics_that_are_not_there(world: World) -> None:
    world.topics.ensure_offsets_topic()
    names = ("nobody", "no such name!", "__consumer_offsets")
    answer = describe(world, *names, limit=1)
    assert [(each.name, each.error_code, each.is_internal) for each in answer.topics] == [
        ("__consumer_offsets", ErrorCode.none, True)
    ]
    answer = describe(world, "nobody", "no such name!")
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("no such name!", ErrorCode.invalid_topic_exception),
        ("nobody", ErrorCode.unknown_topic_or_partition),
    ]


def test_a_topic_without_a_name_spoils_the_request_as_in_kafka(world: World) -> None:
    answer = describe(world, "orders", "")
    errors = {each.error_code for each in answer.topics}
    assert errors == {ErrorCode.unknown_server_error}
