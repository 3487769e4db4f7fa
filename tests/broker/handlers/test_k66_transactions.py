"""ListTransactions and DescribeTransactions."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness


def listed(version: int, **fields: Any) -> Any:
    wanted: dict[str, Any] = {"state_filters": (), "producer_id_filters": (), **fields}
    if version >= 1:
        wanted.setdefault("duration_filter", -1)
    if version >= 2:
        wanted.setdefault("transactional_id_pattern", None)
    return BrokerHarness().call("ListTransactions", version, **wanted)


@pytest.mark.parametrize("version", range(3))
def test_no_transaction_is_listed_and_unknown_states_are_reported(version: int) -> None:
    states = ("Ongoing", "Sleeping", "Asleep", "Ongoing", "Sleeping")
    response = listed(version, state_filters=states)
    assert (response.error_code, response.transaction_states) == (ErrorCode.none, ())
    assert response.unknown_state_filters == ("Sleeping", "Asleep")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("a.*", 0),
        ("", 0),
        ("a[", 128),
        ("a{99999999999999999999}", 128),
        ("((a{100}){100}){100}", 128),
        ("[[a]", 0),
        ("[à-ü]+é{2}", 0),
        (r"[\u0000-\uffff]", 128),
        ("(?=a)", 128),
        ("a" * 30_000, 0),
    ],
    ids=["plain", "empty", "open", "endless", "large", "odd", "accents", "escape", "ahead", "long"],
)
def test_a_pattern_must_be_a_regular_expression(pattern: str, error: int) -> None:
    assert listed(2, transactional_id_pattern=pattern).error_code == error


def test_unknown_transactional_ids_are_not_described() -> None:
    response = BrokerHarness().call("DescribeTransactions", 0, transactional_ids=("pay", "", "pay"))
    assert [(each.transactional_id, each.error_code) for each in response.transaction_states] == [
        ("pay", ErrorCode.transactional_id_not_found),
        ("", ErrorCode.invalid_request),
        ("pay", ErrorCode.transactional_id_not_found),
    ]


def test_a_transaction_that_has_not_begun_has_no_start_time() -> None:
    broker = BrokerHarness()
    values = {"transactional_id": "pay", "transaction_timeout": timedelta(minutes=1)}
    assert broker.call("InitProducerId", 1, **values).error_code == ErrorCode.none
    response = broker.call("DescribeTransactions", 0, transactional_ids=("pay",))
    (described,) = response.transaction_states
    assert (described.transaction_state, described.transaction_start_time) == ("Empty", None)
