"""CreatePartitions: more partitions, never fewer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import BrokerHarness, batch


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 2)
    return broker


def grow(
    broker: BrokerHarness,
    *topics: tuple[str, int, list[list[int]] | None],
    version: int = 3,
    validate_only: bool = False,
    timeout_ms: int = 1000,
) -> Any:
    wanted = tuple(
        {
            "name": name,
            "count": count,
            "assignments": None
            if assignments is None
            else tuple({"broker_ids": tuple(b)} for b in assignments),
        }
        for name, count, assignments in topics
    )
    response = broker.call(
        "CreatePartitions", version, topics=wanted, timeout=timeout_ms, validate_only=validate_only
    )
    return response.results


def count(broker: BrokerHarness) -> int:
    return len(broker.topic().partitions)


@pytest.mark.parametrize("version", range(4))
def test_records_stay_in_their_partitions(broker: BrokerHarness, version: int) -> None:
    broker.produce("orders", batch(b"x"), 1)
    (grown,) = grow(broker, ("orders", 5, None), version=version)
    assert (grown.error_code, grown.error_message) == (ErrorCode.none, None)
    assert count(broker) == count(broker.restart()) == 5
    assert broker.fetch("orders", partition=1).high_watermark == 1
    assert broker.produce("orders", batch(b"x"), 4).error_code is ErrorCode.none


def test_validate_only_creates_nothing(broker: BrokerHarness) -> None:
    (valid,) = grow(broker, ("orders", 5, None), validate_only=True)
    assert valid.error_code is ErrorCode.none
    assert count(broker) == 2


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
            ("orders", 20_000, [[1]]),
            39,
            (
                "Attempted to add 19998 additional partition(s), "
                "but only 1 assignment(s) were specified."
            ),
        ),
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
    broker: BrokerHarness, wanted: Any, error: int, message: str | None
) -> None:
    (rejected,) = grow(broker, wanted)
    assert (rejected.error_code, rejected.error_message) == (error, message)
    assert count(broker) == 2


def test_a_repeated_topic_and_the_offsets_topic_are_rejected(broker: BrokerHarness) -> None:
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    (twice,) = grow(broker, ("orders", 3, None), ("orders", 4, None))
    assert twice.error_message == "Duplicate topic name."
    for wanted, error in ((3, 37), (5, 37), (0, 37), (60, 17)):
        (internal,) = grow(broker, ("__consumer_offsets", wanted, None))
        assert internal.error_code == error


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_of_zero_creates_nothing(broker: BrokerHarness, timeout_ms: int) -> None:
    wanted: list[Any] = [("orders", 3, None), ("nobody", 3, None), ("nobody", 3, None)]
    responses = grow(broker, *wanted, timeout_ms=timeout_ms)
    assert [each.error_code for each in responses] == [ErrorCode.request_timed_out] * 3
    (twice,) = grow(broker, *wanted[1:], timeout_ms=timeout_ms)
    assert twice.error_code is ErrorCode.invalid_request
    assert count(broker) == 2


def test_partitions_that_do_not_become_durable_are_an_error(broker: BrokerHarness) -> None:
    broker.files.fail("sync")
    (rejected,) = grow(broker, ("orders", 3, None))
    assert rejected.error_code is ErrorCode.kafka_storage_error
    assert count(broker) == 2
