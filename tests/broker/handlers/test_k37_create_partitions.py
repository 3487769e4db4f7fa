"""CreatePartitions: more partitions, never fewer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import World, batch, milliseconds


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders", 2)
    return world


def grow(
    world: World,
    *topics: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    validate_only: bool = False,
    timeout_ms: int = 1000,
) -> Any:
    part = world.part
    wanted = tuple(
        part(
            "CreatePartitions",
            version,
            "CreatePartitionsTopic",
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else tuple(
                part("CreatePartitions", version, "CreatePartitionsAssignment", broker_ids=tuple(b))
                for b in assignments
            ),
        )
        for name, count, assignments in topics
    )
    response = world.ask(
        "CreatePartitions",
        version,
        topics=wanted,
        timeout=milliseconds(timeout_ms),
        validate_only=validate_only,
    )
    return response.results


def count(world: World) -> int:
    topic = world.topics.get("orders")
    assert topic is not None
    return len(topic.partitions)


@pytest.mark.parametrize("version", range(4))
def test_records_stay_in_their_partitions(world: World, version: int) -> None:
    world.produce("orders", batch(b"x"), 1)
    (grown,) = grow(world, ("orders", 5, None), version=version)
    assert (grown.error_code, grown.error_message) == (ErrorCode.none, None)
    assert count(world) == count(world.restarted()) == 5
    assert world.fetch("orders", partition=1).high_watermark == 1
    assert world.produce("orders", batch(b"x"), 4).error_code is ErrorCode.none


def test_validate_only_creates_nothing(world: World) -> None:
    grow(world, ("orders", 5, None), validate_only=True)
    assert count(world) == 2


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        (("orders", 2, None), 37, "Topic already has 2 partition(s)."),
        (
            ("orders", 1, None),
            37,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (("nobody", 3, None), 3, None),
        (("orders", 20_000, None), 44, "Excessively large number of partitions per request."),
        (
            ("orders", 3, [[1], [1]]),
            39,
            "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified.",
        ),
        (
            ("orders", 3, [[2]]),
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
    ],
)
def test_invalid_requests_are_rejected(
    world: World, wanted: Any, error: int, message: str | None
) -> None:
    (rejected,) = grow(world, wanted)
    assert (rejected.error_code, rejected.error_message) == (error, message)
    assert count(world) == 2


def test_a_repeated_topic_and_the_offsets_topic_are_rejected(world: World) -> None:
    world.topics.ensure_offsets_topic()
    (twice,) = grow(world, ("orders", 3, None), ("orders", 4, None))
    assert twice.error_message == "Duplicate topic name."
    for wanted, error in ((3, 37), (50, 37), (0, 37), (60, 17)):
        (internal,) = grow(world, ("__consumer_offsets", wanted, None))
        assert internal.error_code == error


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_of_zero_creates_nothing(world: World, timeout_ms: int) -> None:
    wanted: list[Any] = [("orders", 3, None), ("nobody", 3, None), ("nobody", 3, None)]
    responses = grow(world, *wanted, timeout_ms=timeout_ms)
    assert [each.error_code for each in responses] == [ErrorCode.request_timed_out] * 3
    (twice,) = grow(world, *wanted[1:], timeout_ms=timeout_ms)
    assert twice.error_code is ErrorCode.invalid_request
    assert count(world) == 2


def test_partitions_that_do_not_become_durable_are_an_error(world: World) -> None:
    world.files.fail("sync")
    (rejected,) = grow(world, ("orders", 3, None))
    assert rejected.error_code is ErrorCode.kafka_storage_error
    assert count(world) == 2
