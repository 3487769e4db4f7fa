"""Fetch: whole batches, limits, long polls, errors."""

from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.handlers.k01_fetch import JOINED_BYTES_MAX
from support.broker import World, batch, milliseconds


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders", 2)
    return world


SIZE = len(batch(b"x"))


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_in_every_version(world: World, version: int) -> None:
    world.produce("orders", batch(b"x"))
    topic = world.topics.get("orders")
    assert topic is not None
    got = world.fetch(topic.id if version >= 13 else "orders", version=version)
    assert (got.error_code, got.high_watermark, got.last_stable_offset) == (0, 1, 1)
    assert len(got.records) == SIZE


@pytest.mark.parametrize("version", range(4, 19))
def test_large_records_are_sent_without_copying(world: World, version: int) -> None:
    sent = [batch(bytes([number]) * JOINED_BYTES_MAX) for number in range(2)]
    for number in range(2):
        world.produce("orders", sent[number], number)
    topic = world.topics.get("orders")
    assert topic is not None
    asked = world.send_fetch(topic.id if version >= 13 else "orders", {1: 0, 0: 0}, version=version)
    got = asked.answer.responses[0].partitions
    assert [each.records[61:] for each in got] == [sent[1][61:], sent[0][61:]]
    assert asked.call is not None
    assert [len(piece) for piece in asked.call.response if len(piece) > JOINED_BYTES_MAX] == [
        len(sent[1]),
        len(sent[0]),
    ]


def test_records_begin_with_the_batch_that_contains_the_offset(world: World) -> None:
    world.produce("orders", batch(b"a", b"b"))
    world.produce("orders", batch(b"c"))
    assert len(world.fetch("orders", 1).records) == len(batch(b"a", b"b")) + SIZE
    assert len(world.fetch("orders", 2).records) == SIZE
    assert world.fetch("orders", 3).records == b""


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_offsets_out_of_range_are_rejected(world: World, offset: int) -> None:
    world.produce("orders", batch(b"x"))
    got = world.fetch("orders", offset)
    assert got.error_code is ErrorCode.offset_out_of_range
    assert (got.high_watermark, got.log_start_offset, got.records) == (-1, -1, b"")


def test_unknown_names_ids_and_partitions_are_rejected(world: World) -> None:
    topic = world.topics.get("orders")
    assert topic is not None
    assert world.fetch("nobody").error_code is ErrorCode.unknown_topic_or_partition
    assert world.fetch("orders", partition=9).error_code is ErrorCode.unknown_topic_or_partition
    assert world.fetch(uuid4(), version=13).error_code is ErrorCode.unknown_topic_id
    by_id = world.fetch(topic.id, partition=9, version=13)
    assert by_id.error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-2, ErrorCode.none), (-1, ErrorCode.none), (0, ErrorCode.none), (1, 75)],
)
def test_a_wrong_leader_epoch_is_rejected(world: World, epoch: int, error: int) -> None:
    assert world.fetch("orders", current_leader_epoch=epoch).error_code == error


def test_the_first_batch_is_returned_whole_whatever_the_limits(world: World) -> None:
    world.produce("orders", batch(b"x"))
    world.produce("orders", batch(b"x"), 1)
    for limits in ({"max_bytes": 1}, {"max_bytes": 0}, {"partition_max_bytes": 0}):
        asked = world.send_fetch("orders", {1: 0, 0: 0}, **limits)
        first, second = asked.answer.responses[0].partitions
        assert (len(first.records), len(second.records)) == (SIZE, 0)
        assert second.high_watermark == 1


def test_limits_apply_to_whole_batches(world: World) -> None:
    for _ in range(4):
        world.produce("orders", batch(b"x"))
    assert len(world.fetch("orders", partition_max_bytes=3 * SIZE - 1).records) == 2 * SIZE
    assert len(world.fetch("orders", max_bytes=3 * SIZE).records) == 3 * SIZE


def test_fetch_max_bytes_limits_every_response() -> None:
    world = World({"fetch.max.bytes": "1024"})
    world.make("orders")
    for _ in range(4):
        world.produce("orders", batch(b"x" * 400))
    assert len(world.fetch("orders").records) == 2 * len(batch(b"x" * 400))


def test_read_committed_returns_an_empty_list_of_aborted_transactions(world: World) -> None:
    assert world.fetch("orders", isolation_level=1).aborted_transactions == ()
    assert world.fetch("orders", isolation_level=0).aborted_transactions is None


def test_a_long_poll_responds_as_soon_as_records_arrive(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0, 1: 0})
    assert asked.is_held
    assert not asked.is_over
    world.send_produce("orders", {1: batch(b"news")})
    got = asked.answer.responses[0].partitions
    assert [len(each.records) for each in got] == [0, len(batch(b"news"))]
    assert [timer for timer in world.timers if timer.callback] == []


def test_a_long_poll_waits_for_min_bytes_over_all_its_partitions(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0, 1: 0}, min_bytes=3 * SIZE)
    world.produce("orders", batch(b"x"))
    world.produce("orders", batch(b"x"), 1)
    assert not asked.is_over
    world.produce("orders", batch(b"x"), 1)
    assert sum(len(each.records) for each in asked.answer.responses[0].partitions) == 3 * SIZE


def test_bytes_that_do_not_fit_into_the_response_do_not_count(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0, 1: 0}, min_bytes=2 * SIZE, partition_max_bytes=SIZE)
    for _ in range(5):
        world.produce("orders", batch(b"x"))
    assert not asked.is_over
    world.produce("orders", batch(b"x"), 1)
    assert asked.is_over


def test_bytes_cut_off_by_a_limit_count_as_available(world: World) -> None:
    """Only whole batches are sent. If they have fewer bytes than min_bytes, but more are available,
    the poll does not wait (Kafka sends a part of the next batch)."""
    for _ in range(3):
        world.produce("orders", batch(b"x"))
    limit = 2 * SIZE + 5
    asked = world.send_fetch("orders", {0: 0}, min_bytes=limit, partition_max_bytes=limit)
    assert len(asked.answer.responses[0].partitions[0].records) == 2 * SIZE
    # The limit fits the last two batches.
    asked = world.send_fetch("orders", {0: 1}, min_bytes=limit, partition_max_bytes=limit)
    assert not asked.is_over


def test_errors_of_unknown_partitions_wait_for_the_others(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0, 9: 0})
    assert not asked.is_over
    world.send_produce("orders", {0: batch(b"news")})
    known, unknown = asked.answer.responses[0].partitions
    assert len(known.records) == len(batch(b"news"))
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_a_long_poll_ends_if_one_of_its_partitions_is_deleted(world: World) -> None:
    world.make("gone")
    part = {"current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}
    fetch_topics = tuple(
        world.part(
            "Fetch",
            11,
            "FetchTopic",
            topic=name,
            partitions=(world.part("Fetch", 11, "FetchPartition", partition=0, **part),),
        )
        for name in ("gone", "orders", "nobody")
    )
    asked = world.send(
        "Fetch",
        11,
        replica_id=-1,
        max_wait=milliseconds(500),
        min_bytes=1,
        session_id=0,
        session_epoch=-1,
        topics=fetch_topics,
        forgotten_topics_data=(),
    )
    assert not asked.is_over
    topic = world.topics.get("gone")
    assert topic is not None
    world.topics.delete(topic)
    result = [(each.topic, each.partitions[0].error_code) for each in asked.answer.responses]
    assert result == [("gone", 3), ("orders", 0), ("nobody", 3)]


def test_a_produce_to_several_partitions_becomes_visible_at_once(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0, 1: 0})
    world.send_produce("orders", {0: batch(b"x"), 1: batch(b"x")})
    assert [len(each.records) for each in asked.answer.responses[0].partitions] == [SIZE, SIZE]


def test_a_long_poll_responds_at_its_deadline_with_what_there_is(world: World) -> None:
    world.produce("orders", batch(b"x"))
    asked = world.send_fetch("orders", {0: 0}, min_bytes=1000, max_wait_ms=500)
    world.pass_time(499)
    assert not asked.is_over
    world.pass_time(1)
    assert len(asked.answer.responses[0].partitions[0].records) == SIZE


def test_an_error_ends_a_long_poll_at_once(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0, 1: 55}, min_bytes=1000)
    assert asked.answer.responses[0].partitions[1].error_code is ErrorCode.offset_out_of_range


def test_deleting_a_topic_ends_its_long_polls(world: World) -> None:
    asked = world.send_fetch("orders", {0: 0})
    topic = world.topics.get("orders")
    assert topic is not None
    world.topics.delete(topic)
    got = asked.answer.responses[0].partitions[0]
    assert got.error_code is ErrorCode.unknown_topic_or_partition


def test_a_disconnected_client_leaves_no_long_poll_behind(world: World) -> None:
    world.send_fetch("orders", {0: 0})
    partition = world.topics.partition("orders", 0)
    assert partition is not None
    assert len(partition.delayed_fetches.waiting) == 1
    world.last_call.disconnected()
    assert len(partition.delayed_fetches.waiting) == 0
    assert [timer for timer in world.timers if timer.callback] == []


def test_records_of_the_offsets_topic_are_readable_once_durable(world: World) -> None:
    partition = world.topics.ensure_offsets_topic().partitions[3]
    world.group_commit.append(partition.log, [(b"key", b"value")], world.now_ms)
    asked = world.send_fetch("__consumer_offsets", {3: 0})
    partition.log.append(batch(b"not synced"))
    partition.delayed_fetches.complete_all()
    assert not asked.is_over
    partition.log.sync()
    partition.delayed_fetches.complete_all()
    assert asked.is_over
