"""DeleteTopics: by name or by id, with all records."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from support.broker import FOLDER, World, batch, milliseconds

Pair = tuple[str | None, UUID | None]


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders", 2)
    return world


def delete(world: World, *topics: Pair, version: int = 6, timeout_ms: int = 1000) -> Any:
    if version >= 6:
        states = tuple(
            world.part("DeleteTopics", version, "DeleteTopicState", name=name, topic_id=id_)
            for name, id_ in topics
        )
        fields: dict[str, Any] = {"topics": states}
    else:
        fields = {"topic_names": tuple(name for name, _ in topics)}
    return world.ask("DeleteTopics", version, timeout=milliseconds(timeout_ms), **fields).responses


def orders(world: World) -> UUID:
    topic = world.topics.get("orders")
    assert topic is not None
    return topic.id


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name_in_every_version(world: World, version: int) -> None:
    (gone,) = delete(world, ("orders", None), version=version)
    assert (gone.name, gone.error_code) == ("orders", ErrorCode.none)
    assert len(world.topics) == 0
    assert len(world.restarted().topics) == 0


def test_a_topic_is_deleted_by_id(world: World) -> None:
    id_ = orders(world)
    (gone,) = delete(world, (None, id_))
    assert (gone.name, gone.topic_id, gone.error_code) == ("orders", id_, ErrorCode.none)


def test_a_recreated_topic_has_none_of_the_deleted_records(world: World) -> None:
    world.produce("orders", batch(b"old"))
    delete(world, ("orders", None))
    assert not world.files.exists(FOLDER / "orders-0")
    world.make("orders")
    assert world.fetch("orders").high_watermark == 0


def test_invalid_deletions_are_rejected(world: World) -> None:
    stranger, id_ = uuid4(), orders(world)
    responses = delete(world, ("nobody", None), (None, stranger), ("orders", id_), (None, None))
    assert [(each.error_code, each.error_message) for each in responses] == [
        (
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        ),
        (ErrorCode.unknown_topic_id, "This server does not host this topic ID."),
        (ErrorCode.invalid_request, "You may not specify both topic name and topic id."),
        (ErrorCode.invalid_request, "Neither topic name nor id were specified."),
    ]
    assert len(world.topics) == 1


def test_a_repeated_topic_is_not_deleted(world: World) -> None:
    (twice,) = delete(world, ("orders", None), ("orders", None))
    assert (twice.error_code, twice.error_message) == (
        ErrorCode.invalid_request,
        "Duplicate topic name.",
    )
    (both,) = delete(world, ("orders", None), (None, orders(world)))
    assert both.error_message == "The provided topic name maps to an ID that was already supplied."
    assert len(world.topics) == 1


@pytest.mark.parametrize("version", range(1, 7))
def test_a_repeated_name_is_rejected_even_if_it_is_unknown(world: World, version: int) -> None:
    twice, once = delete(
        world, ("nobody", None), ("nobody", None), ("stranger", None), version=version
    )
    assert (twice.name, twice.error_code) == ("nobody", ErrorCode.invalid_request)
    assert once.error_code is ErrorCode.unknown_topic_or_partition


def test_a_repeated_name_does_not_conflict_with_the_id(world: World) -> None:
    id_ = orders(world)
    twice, gone = delete(world, ("orders", None), ("orders", None), (None, id_))
    assert (twice.error_message, gone.error_code) == ("Duplicate topic name.", ErrorCode.none)
    assert len(world.topics) == 0
    again, unknown = delete(world, (None, id_), (None, id_), ("orders", None))
    assert again.error_message == "Duplicate topic id."
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_each_entry_without_exactly_one_of_name_and_id_gets_an_error(world: World) -> None:
    both = ("orders", orders(world))
    responses = delete(world, (None, None), both, both, (None, None))
    assert [each.error_code for each in responses] == [ErrorCode.invalid_request] * 4


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_of_zero_deletes_and_validates_nothing(world: World, timeout_ms: int) -> None:
    responses = delete(
        world, ("orders", None), ("no", None), (None, None), version=6, timeout_ms=timeout_ms
    )
    assert [each.error_code for each in responses] == [ErrorCode.request_timed_out] * 3
    (twice,) = delete(world, ("no", None), ("no", None), version=5, timeout_ms=timeout_ms)
    assert twice.error_code is ErrorCode.invalid_request
    assert len(world.topics) == 1


def test_the_offsets_topic_cannot_be_deleted(world: World) -> None:
    world.topics.ensure_offsets_topic()
    (rejected,) = delete(world, ("__consumer_offsets", None))
    assert rejected.error_code is ErrorCode.invalid_topic_exception


def test_topic_deletion_can_be_disabled() -> None:
    world = World({"delete.topic.enable": "false"})
    world.make("orders")
    (rejected,) = delete(world, ("orders", None))
    assert rejected.error_code is ErrorCode.topic_deletion_disabled


def test_a_deletion_that_does_not_become_durable_is_an_error(world: World) -> None:
    world.produce("orders", batch(b"kept"))
    world.files.fail("sync")
    (rejected,) = delete(world, ("orders", None))
    assert rejected.error_code is ErrorCode.kafka_storage_error
    assert len(world.fetch("orders").records) == len(batch(b"kept"))
    assert world.restarted().topics.get("orders") is not None


def test_the_name_of_a_deleted_topic_is_free_once_durable(world: World) -> None:
    topic = world.topics.get("orders")
    assert topic is not None
    world.topics.delete(topic)
    response = world.ask(
        "Metadata",
        12,
        topics=(world.part("Metadata", 12, "MetadataRequestTopic", name="orders", topic_id=None),),
        include_topic_authorized_operations=False,
    )
    assert response.topics[0].error_code is ErrorCode.leader_not_available
