"""Fetch: invalid requests, with the responses of Kafka 4.3, field by field."""

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness, batch

SIZE = len(batch(b"x"))
NO_EPOCH = (-1, -1)


@pytest.fixture
def broker() -> BrokerHarness:
    """A broker with two partitions with one record each, and an empty partition."""
    broker = BrokerHarness()
    broker.create_topic("orders", 3)
    broker.produce("orders", batch(b"x"))
    broker.produce("orders", batch(b"x"), 1)
    return broker


def errors(broker: BrokerHarness, offsets: dict[int, int], **how: Any) -> list[ErrorCode]:
    asked = broker.send_fetch("orders", offsets, **{"max_wait_ms": 0, **how})
    return [each.error_code for each in asked.response.responses[0].partitions]


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_aborted_transactions_are_an_empty_list_if_nothing_was_read(
    broker: BrokerHarness, version: int, isolation_level: int
) -> None:
    named, stranger = (broker.topic().id, uuid4()) if version >= 13 else ("orders", "nobody")
    how = {"version": version, "isolation_level": isolation_level}
    assert broker.fetch(stranger, **how).aborted_transactions == ()
    assert broker.fetch(named, partition=9, **how).aborted_transactions == ()
    # If reading failed, the list is null for every isolation level.
    out_of_range = broker.fetch(named, 99, **how)
    assert out_of_range.error_code is ErrorCode.offset_out_of_range
    assert out_of_range.aborted_transactions is None


NONE, STUMBLED = ErrorCode.none, ErrorCode.unknown_server_error
OUT_OF_RANGE = ErrorCode.offset_out_of_range
UNKNOWN = ErrorCode.unknown_topic_or_partition


def test_a_negative_partition_limit_fails_if_there_are_records(broker: BrokerHarness) -> None:
    for offset, error in ((0, STUMBLED), (1, NONE), (9, OUT_OF_RANGE)):
        assert errors(broker, {0: offset}, partition_max_bytes=-5) == [error]
    assert errors(broker, {2: 0, 9: 0}, partition_max_bytes=-5) == [NONE, UNKNOWN]


@pytest.mark.parametrize(
    ("offsets", "result"),
    [
        ({0: 0, 1: 0}, [STUMBLED, NONE]),
        ({0: 1, 1: 0}, [NONE, NONE]),
        ({0: 9, 1: 0}, [OUT_OF_RANGE, NONE]),
        ({9: 0, 1: 0}, [STUMBLED, UNKNOWN]),
    ],
)
def test_a_negative_response_limit_fails_the_first_existing_partition(
    broker: BrokerHarness, offsets: dict[int, int], result: list[ErrorCode]
) -> None:
    assert errors(broker, offsets, max_bytes=-1) == result


def test_min_bytes_above_max_bytes_is_not_waited_for(broker: BrokerHarness) -> None:
    full = broker.send_fetch("orders", {0: 0}, min_bytes=1000, max_bytes=SIZE)
    assert full.is_done
    assert broker.send_fetch("orders", {0: 1}, max_bytes=-1).is_done


@pytest.mark.parametrize("version", [4, 6, 7, 12])
def test_an_unknown_isolation_level_fails_the_whole_request(
    broker: BrokerHarness, version: int
) -> None:
    how = {"version": version, "isolation_level": 7, "session": (99, 0)}
    response = broker.send_fetch("orders", {0: 0, 9: 0}, **how).response
    assert [each.error_code for each in response.responses[0].partitions] == [STUMBLED, STUMBLED]
    first = response.responses[0].partitions[0]
    assert (first.high_watermark, first.aborted_transactions, first.records) == (-1, (), b"")
    if version >= 7:
        assert (response.error_code, response.session_id) == (STUMBLED, 99)


@pytest.mark.parametrize("version", range(13, 19))
def test_since_version_13_a_request_that_failed_names_no_partitions(
    broker: BrokerHarness, version: int
) -> None:
    topic = broker.topic()
    response = broker.send_fetch(topic.id, {0: 0}, version=version, isolation_level=7).response
    assert (response.error_code, response.responses) == (STUMBLED, ())


def test_an_unknown_isolation_level_is_ignored_if_nothing_is_read(broker: BrokerHarness) -> None:
    assert errors(broker, {9: 0}, isolation_level=7) == [UNKNOWN]


@pytest.mark.parametrize("version", [4, 12, 14, 15, 18])
@pytest.mark.parametrize(
    ("replica_id", "error"),
    [(0, 6), (1, 6), (2, 6), (-1, 0), (-2, 0)],
)
def test_followers_are_rejected(
    broker: BrokerHarness, version: int, replica_id: int, error: int
) -> None:
    name = {"topic_id": broker.topic().id} if version >= 13 else {"topic": "orders"}
    partitions = [
        {"partition": index, "fetch_offset": offset, "partition_max_bytes": SIZE}
        for index, offset in ((0, 0), (1, 1), (9, 0))
    ]
    asked = broker.send(
        "Fetch",
        version,
        replica_id=replica_id,
        replica_state={"replica_id": replica_id},
        min_bytes=1,
        max_bytes=SIZE,
        session_epoch=-1,
        topics=[{**name, "partitions": partitions}],
    )
    result = [each.error_code for each in asked.response.responses[0].partitions]
    assert result == [error, error, UNKNOWN]


@pytest.mark.parametrize("version", [12, 18])
@pytest.mark.parametrize(
    ("last_epoch", "offset", "error", "diverging"),
    [
        (-1, 0, NONE, NO_EPOCH),
        (-2, 2, OUT_OF_RANGE, NO_EPOCH),
        (0, 0, NONE, NO_EPOCH),
        (0, 1, NONE, NO_EPOCH),
        (0, 2, NONE, (0, 1)),
        (0, -1, OUT_OF_RANGE, NO_EPOCH),
        (1, 0, OUT_OF_RANGE, NO_EPOCH),
        (3, 99, OUT_OF_RANGE, NO_EPOCH),
    ],
)
def test_the_diverging_epoch_of_the_consumers_last_record(
    broker: BrokerHarness,
    version: int,
    last_epoch: int,
    offset: int,
    error: ErrorCode,
    diverging: tuple[int, int],
) -> None:
    named = broker.topic().id if version >= 13 else "orders"
    got = broker.fetch(named, offset, version=version, last_fetched_epoch=last_epoch)
    result = (got.diverging_epoch.epoch, got.diverging_epoch.end_offset)
    assert (got.error_code, result) == (error, diverging)
    assert len(got.records) == (SIZE if error is NONE and offset == 0 else 0)


def test_a_deleted_offset_is_out_of_range_also_if_epochs_diverge(broker: BrokerHarness) -> None:
    topic = broker.topic()
    partition = topic.partitions[0]
    for _ in range(2):
        broker.topics.elect_leader(topic, partition, partition.leader_id)
    broker.produce("orders", batch(b"x"))
    partition.log.delete_before(1)
    for offset, error in ((0, OUT_OF_RANGE), (1, NONE)):
        got = broker.fetch("orders", offset, last_fetched_epoch=1)
        assert (got.error_code, got.diverging_epoch.epoch) == (error, -1 if error else 0)


def test_a_diverging_epoch_ends_a_long_poll_at_once(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {2: 5}, last_fetched_epoch=0)
    (got,) = asked.response.responses[0].partitions
    assert (got.diverging_epoch.end_offset, got.high_watermark) == (0, 0)
