"""ListOffsets: by timestamp, earliest and latest, special timestamps by version."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.log.codecs import INLINE_BYTES_MAX
from support.broker import NOW_MS, BrokerHarness, batch
from support.log import NewRecord, build

GZIP = 1


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders")
    for second in (1, 3, 2):
        broker.produce("orders", batch(b"a", b"b", at_ms=NOW_MS + 1000 * second))
    return broker


def listed(broker: BrokerHarness, *timestamps: int, version: int = 11, **fields: Any) -> Any:
    topic = fields.pop("topic", "orders")
    partitions = tuple({"partition_index": 0, "timestamp": t, **fields} for t in timestamps)
    extra: dict[str, Any] = {"isolation_level": 0} if version >= 2 else {}
    if version >= 10:
        extra["timeout"] = 1000
    response = broker.call(
        "ListOffsets",
        version,
        replica_id=-1,
        topics=({"name": topic, "partitions": partitions},),
        **extra,
    )
    (only,) = response.topics[0].partitions
    return only


def test_a_timestamp_after_the_last_record_finds_none(broker: BrokerHarness) -> None:
    got = listed(broker, NOW_MS + 3001)
    assert (got.error_code, got.offset, got.timestamp, got.leader_epoch) == (0, -1, -1, -1)


def test_the_record_with_the_largest_timestamp_is_found(broker: BrokerHarness) -> None:
    got = listed(broker, -3)
    assert (got.offset, got.timestamp) == (2, NOW_MS + 3000)
    broker.create_topic("empty")
    assert listed(broker, -3, topic="empty").offset == -1


@pytest.mark.parametrize(("special", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_are_unsupported_before_their_version(
    broker: BrokerHarness, special: int, since: int
) -> None:
    assert listed(broker, special, version=since).error_code is ErrorCode.none
    before = listed(broker, special, version=since - 1)
    assert before.error_code is ErrorCode.unsupported_version


def test_all_offsets_are_local_and_none_tiered(broker: BrokerHarness) -> None:
    assert listed(broker, -4).offset == 0
    assert (listed(broker, -5).offset, listed(broker, -6).offset) == (-1, -1)
    assert listed(broker, -7).error_code is ErrorCode.unsupported_version


def test_unknown_topics_wrong_epochs_and_repeated_partitions_are_rejected(
    broker: BrokerHarness,
) -> None:
    assert listed(broker, -1, topic="nobody").error_code is ErrorCode.unknown_topic_or_partition
    assert listed(broker, -1, current_leader_epoch=4).error_code is ErrorCode.unknown_leader_epoch
    assert listed(broker, -1, current_leader_epoch=-2).error_code is ErrorCode.fenced_leader_epoch
    # The timestamp is validated against the version first.
    assert listed(broker, -7, current_leader_epoch=4).error_code is ErrorCode.unsupported_version
    assert listed(broker, -1, -2).error_code is ErrorCode.invalid_request


def test_large_batches_are_decompressed_within_the_limit(broker: BrokerHarness) -> None:
    large = [NewRecord(b"k", bytes(INLINE_BYTES_MAX), NOW_MS + 9000)]
    broker.produce("orders", build(large, base_offset=0, codec=GZIP))
    decompressions = broker.cluster.decompressions
    while decompressions.begin_now():
        pass
    assert listed(broker, NOW_MS).offset == 0
    requested = {"partition_index": 0, "timestamp": NOW_MS + 5000}
    topics = ({"name": "orders", "partitions": (requested,)},)
    pending = broker.send("ListOffsets", 1, replica_id=-1, topics=topics)
    broker.run_loop()
    assert not pending.is_done
    decompressions.end()
    broker.run_loop()
    assert pending.response.topics[0].partitions[0].offset == 6
    assert decompressions.begin_now()
