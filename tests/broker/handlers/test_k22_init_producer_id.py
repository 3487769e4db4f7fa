"""InitProducerId: unique ids."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness


def init(
    broker: BrokerHarness, version: int = 5, transactional_id: str | None = None, **given: Any
) -> Any:
    return broker.call(
        "InitProducerId",
        version,
        transactional_id=transactional_id,
        transaction_timeout=60_000,
        **given,
    )


def test_ids_are_unique_across_restarts_and_blocks() -> None:
    broker = BrokerHarness()
    seen = set()
    for _ in range(3):
        for _ in range(1_001):
            seen.add(init(broker).producer_id)
        broker = broker.restart()
    assert len(seen) == 3_003


def test_an_id_is_returned_once_its_block_is_durable() -> None:
    broker = BrokerHarness()
    asked = broker.send("InitProducerId", transactional_id=None, transaction_timeout=0)
    assert not asked.is_done
    broker.run_loop()
    assert asked.response.error_code is ErrorCode.none


def test_a_storage_error_is_retriable() -> None:
    broker = BrokerHarness()
    broker.files.fail("append")
    assert init(broker).error_code is ErrorCode.coordinator_load_in_progress
    first = init(broker)
    assert first.error_code is ErrorCode.none
    assert init(broker.restart()).producer_id > first.producer_id


@pytest.mark.parametrize(
    ("transactional_id", "given", "error"),
    [
        ("", {}, ErrorCode.invalid_request),
        (None, {"producer_id": 1}, ErrorCode.invalid_request),
        (None, {"producer_epoch": 1}, ErrorCode.invalid_request),
        (None, {"producer_id": 1, "producer_epoch": 5}, ErrorCode.none),
        ("payments", {}, ErrorCode.none),
    ],
)
def test_invalid_requests_are_rejected(
    transactional_id: str | None, given: dict[str, int], error: ErrorCode
) -> None:
    assert init(BrokerHarness(), 5, transactional_id, **given).error_code is error
