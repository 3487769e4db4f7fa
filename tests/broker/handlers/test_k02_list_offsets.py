"""ListOffsets: by timestamp, earliest and latest, special timestamps by version."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import NOW_MS, World, batch, milliseconds


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders")
    for second in (1, 3, 2):
        world.produce("orders", batch(b"a", b"b", at_ms=NOW_MS + 1000 * second))
    return world


def listed(world: World, *timestamps: int, version: int = 11, **fields: Any) -> Any:
    part = world.part
    topic = fields.pop("topic", "orders")
    partitions = tuple(
        part(
            "ListOffsets", version, "ListOffsetsPartition", partition_index=0, timestamp=t, **fields
        )
        for t in timestamps
    )
    extra: dict[str, Any] = {"isolation_level": 0} if version >= 2 else {}
    if version >= 10:
        extra["timeout"] = milliseconds(1000)
    response = world.ask(
        "ListOffsets",
        version,
        replica_id=-1,
        topics=(
            part("ListOffsets", version, "ListOffsetsTopic", name=topic, partitions=partitions),
        ),
        **extra,
    )
    (only,) = response.topics[0].partitions
    return only


@pytest.mark.parametrize("version", range(1, 12))
def test_earliest_and_latest_in_every_version(world: World, version: int) -> None:
    assert (
        listed(world, -2, version=version).offset,
        listed(world, -1, version=version).offset,
    ) == (
        0,
        6,
    )


@pytest.mark.parametrize(
    ("since_ms", "offset", "timestamp"),
    [(0, 0, 1000), (1000, 0, 1000), (1001, 2, 3000), (3000, 2, 3000), (2500, 2, 3000)],
)
def test_a_timestamp_finds_the_first_record_that_is_not_older(
    world: World, since_ms: int, offset: int, timestamp: int
) -> None:
    got = listed(world, NOW_MS + since_ms)
    assert (got.offset, got.timestamp, got.leader_epoch) == (offset, NOW_MS + timestamp, 0)


def test_a_timestamp_after_the_last_record_finds_none(world: World) -> None:
    got = listed(world, NOW_MS + 3001)
    assert (got.error_code, got.offset, got.timestamp, got.leader_epoch) == (0, -1, -1, -1)


def test_the_record_with_the_largest_timestamp_is_found(world: World) -> None:
    got = listed(world, -3)
    assert (got.offset, got.timestamp) == (2, NOW_MS + 3000)
    world.make("empty")
    assert listed(world, -3, topic="empty").offset == -1


@pytest.mark.parametrize(("special", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_are_unsupported_before_their_version(
    world: World, special: int, since: int
) -> None:
    assert listed(world, special, version=since).error_code is ErrorCode.none
    before = listed(world, special, version=since - 1)
    assert before.error_code is ErrorCode.unsupported_version


def test_all_offsets_are_local_and_none_tiered(world: World) -> None:
    assert listed(world, -4).offset == 0
    assert (listed(world, -5).offset, listed(world, -6).offset) == (-1, -1)
    assert listed(world, -7).error_code is ErrorCode.unsupported_version


def test_unknown_topics_wrong_epochs_and_repeated_partitions_are_rejected(world: World) -> None:
    assert listed(world, -1, topic="nobody").error_code is ErrorCode.unknown_topic_or_partition
    assert listed(world, -1, current_leader_epoch=4).error_code is ErrorCode.unknown_leader_epoch
    assert listed(world, -1, current_leader_epoch=-2).error_code is ErrorCode.fenced_leader_epoch
    # The timestamp is validated against the version first.
    assert listed(world, -7, current_leader_epoch=4).error_code is ErrorCode.unsupported_version
    assert listed(world, -1, -2).error_code is ErrorCode.invalid_request
