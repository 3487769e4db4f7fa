"""ListTransactions and DescribeTransactions."""

from typing import Any

import pytest
from support.broker import BrokerHarness


def listed(version: int, **fields: Any) -> Any:
    wanted: dict[str, Any] = {"state_filters": (), "producer_id_filters": (), **fields}
    if version >= 1:
        wanted.setdefault("duration_filter", -1)
    if version >= 2:
        wanted.setdefault("transactional_id_pattern", None)
    return BrokerHarness().call("ListTransactions", version, **wanted)


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
        ("a" * 4096, 0),
        ("a" * 4097, 128),
    ],
    ids=[
        "plain",
        "empty",
        "open",
        "endless",
        "large",
        "odd",
        "accents",
        "escape",
        "ahead",
        "long",
        "longer",
    ],
)
def test_a_pattern_must_be_a_regular_expression(pattern: str, error: int) -> None:
    assert listed(2, transactional_id_pattern=pattern).error_code == error
