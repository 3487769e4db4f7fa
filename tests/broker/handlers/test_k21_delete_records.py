"""DeleteRecords: new start offsets, which are durable."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.protocol.budgets import FIRST_STEPS_MAX
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import DATA, BrokerHarness, batch

CHECKPOINT = DATA / "log-start-offset-checkpoint"


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 2)
    for value in (b"a", b"b", b"c"):
        broker.produce("orders", batch(value, value))
    return broker


def delete(
    broker: BrokerHarness, *wanted: tuple[str, int, int], version: int = 2
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (low watermark, error) of each partition."""
    api = "DeleteRecords"
    topics = tuple(
        {"name": topic, "partitions": ({"partition_index": index, "offset": offset},)}
        for topic, index, offset in wanted
    )
    response = broker.call(api, version, topics=topics, timeout=1000)
    return {
        (topic.name, each.partition_index): (each.low_watermark, int(each.error_code))
        for topic in response.topics
        for each in topic.partitions
    }


def listed(broker: BrokerHarness, timestamp: int) -> Any:
    wanted = {"partition_index": 0, "timestamp": timestamp}
    topic = {"name": "orders", "partitions": (wanted,)}
    response = broker.call("ListOffsets", 4, replica_id=-1, isolation_level=0, topics=(topic,))
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(3))
def test_a_partition_starts_at_the_requested_offset(broker: BrokerHarness, version: int) -> None:
    assert delete(broker, ("orders", 0, 3), version=version) == {("orders", 0): (3, 0)}
    for each in (broker, broker.restart()):
        assert listed(each, -2).offset == 3
        assert each.fetch("orders", 2).error_code is ErrorCode.offset_out_of_range
        found = each.fetch("orders", 3)
        assert (found.error_code, found.log_start_offset) == (ErrorCode.none, 3)
        assert found.high_watermark == 6
        assert listed(each, 0).offset == 3, "deleted records are not found by timestamp either"


def test_the_start_offset_never_decreases(broker: BrokerHarness) -> None:
    delete(broker, ("orders", 0, 3))
    assert delete(broker, ("orders", 0, 1)) == {("orders", 0): (3, 0)}
    assert listed(broker, -2).offset == 3


def test_minus_one_deletes_all_records(broker: BrokerHarness) -> None:
    assert delete(broker, ("orders", 0, -1)) == {("orders", 0): (6, 0)}
    assert delete(broker, ("orders", 1, -1)) == {("orders", 1): (0, 0)}
    for each in (broker, broker.restart()):
        assert (listed(each, -2).offset, listed(each, -1).offset) == (6, 6)
        assert listed(each, 0).offset == -1


def test_offsets_are_not_reused_after_all_records_were_deleted(broker: BrokerHarness) -> None:
    delete(broker, ("orders", 0, -1))
    again = broker.restart()
    assert again.produce("orders", batch(b"d")).base_offset == 6
    assert again.restart().fetch("orders", 6).error_code is ErrorCode.none


def test_segments_with_only_deleted_records_are_removed(broker: BrokerHarness) -> None:
    broker.create_topic("bills", segment_bytes="1048576")
    for _ in range(4):
        broker.produce("bills", batch(b"x" * 600_000))
    folder = DATA / "bills-0"
    assert [name for name in broker.files.list(folder) if name.endswith(".log")] == [
        f"{base:020d}.log" for base in range(4)
    ]
    delete(broker, ("bills", 0, 2))
    assert broker.files.list(folder) == [f"{base:020d}.log" for base in (2, 3)]
    delete(broker, ("bills", 0, 4))
    assert broker.files.list(folder) == []
    assert broker.produce("bills", batch(b"y")).base_offset == 4


def test_start_offsets_are_stored_in_kafkas_checkpoint_format(broker: BrokerHarness) -> None:
    delete(broker, ("orders", 0, 3))
    assert bytes(broker.files.contents[CHECKPOINT]) == b"0\n1\norders 0 3\n"


def test_a_topic_that_is_recreated_during_the_request_starts_at_offset_0(
    broker: BrokerHarness,
) -> None:
    count = FIRST_STEPS_MAX * 4
    broker.create_topic("other", count)
    others = [{"partition_index": n, "offset": 0} for n in range(count)]
    topics = [
        {"name": "orders", "partitions": [{"partition_index": 0, "offset": 4}]},
        {"name": "other", "partitions": others},
    ]
    pending = broker.send("DeleteRecords", topics=topics, timeout=1000)
    assert not pending.is_done
    broker.topics.delete(broker.topic())
    broker.create_topic("orders", 1)
    assert pending.is_done
    assert broker.topics.checkpoints.start_offsets.get("orders-0") == 0


def test_records_that_a_failed_sync_removes_during_the_request_cannot_be_deleted(
    broker: BrokerHarness,
) -> None:
    count = FIRST_STEPS_MAX
    broker.create_topic("other", count)
    partitions = {"orders": {0: 6}, "other": dict.fromkeys(range(count), 0)}
    topics = [
        {"name": topic, "partitions": [{"partition_index": n, "offset": o} for n, o in of.items()]}
        for topic, of in partitions.items()
    ]
    pending = broker.send("DeleteRecords", topics=topics, timeout=1000)
    assert not pending.is_done
    broker.log().truncate_to(4)
    broker.run_loop()
    failed, *others = [each for topic in pending.response.topics for each in topic.partitions]
    assert failed.error_code is ErrorCode.kafka_storage_error
    assert {each.error_code for each in others} == {ErrorCode.none}


def test_a_recreated_topic_starts_at_offset_0(broker: BrokerHarness) -> None:
    delete(broker, ("orders", 0, 3))
    broker.topics.delete(broker.topic())
    broker.run_loop()
    broker.create_topic("orders")
    for each in (broker, broker.restart()):
        assert listed(each, -2).offset == 0
    assert broker.produce("orders", batch(b"a")).base_offset == 0


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "error"),
    [
        ("orders", 0, 7, ErrorCode.offset_out_of_range),
        ("orders", 0, -2, ErrorCode.offset_out_of_range),
        ("orders", 5, 0, ErrorCode.unknown_topic_or_partition),
        ("nobody", 0, 0, ErrorCode.unknown_topic_or_partition),
        ("compacted", 0, 0, ErrorCode.policy_violation),
        ("both", 0, 0, ErrorCode.none),
        ("__consumer_offsets", 0, 0, ErrorCode.invalid_topic_exception),
    ],
)
def test_invalid_deletions_are_rejected(
    broker: BrokerHarness, topic: str, partition: int, offset: int, error: ErrorCode
) -> None:
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    broker.create_topic("compacted", cleanup_policy="compact")
    broker.create_topic("both", cleanup_policy="compact,delete")
    low_watermark = 0 if error is ErrorCode.none else -1
    done = delete(broker, (topic, partition, offset))
    assert done == {(topic, partition): (low_watermark, error)}


def test_a_partition_of_another_leader_is_rejected(broker: BrokerHarness) -> None:
    topic = broker.topic()
    topic.set_leader(topic.partitions[0], 2, 1)
    assert delete(broker, ("orders", 0, 3)) == {("orders", 0): (-1, 6)}


def test_the_last_entry_of_a_repeated_partition_counts(broker: BrokerHarness) -> None:
    assert delete(broker, ("orders", 0, 5), ("orders", 0, 2)) == {("orders", 0): (2, 0)}
    assert delete(broker, ("orders", 0, 5), ("orders", 0, 9)) == {("orders", 0): (-1, 1)}
    assert listed(broker, -2).offset == 2


def test_records_are_not_deleted_if_the_start_offset_cannot_be_stored(
    broker: BrokerHarness,
) -> None:
    broker.files.fail("replace")
    assert delete(broker, ("orders", 0, 3), ("orders", 1, 0)) == {
        ("orders", 0): (-1, ErrorCode.kafka_storage_error),
        ("orders", 1): (-1, ErrorCode.kafka_storage_error),
    }
    for each in (broker, broker.restart()):
        assert listed(each, -2).offset == 0


def test_a_segment_that_cannot_be_removed_is_removed_at_the_next_start(
    broker: BrokerHarness,
) -> None:
    broker.files.fail("remove")
    assert delete(broker, ("orders", 0, 6)) == {("orders", 0): (-1, ErrorCode.kafka_storage_error)}
    assert listed(broker, -2).offset == 6
    again = broker.restart()
    assert listed(again, -2).offset == 6
    assert again.files.list(DATA / "orders-0") == []


@pytest.mark.parametrize("text", [b"", b"1\n0\n", b"0\n2\norders 0 3\n", b"0\n1\norders 0\n"])
def test_an_invalid_checkpoint_file_is_ignored(broker: BrokerHarness, text: bytes) -> None:
    broker.run_loop()
    broker.files.contents[CHECKPOINT] = bytearray(text)
    assert listed(broker.restart(), -2).offset == 0
