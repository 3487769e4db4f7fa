"""DescribeClientQuotas: invalid filters are rejected."""

from typing import Any

import pytest
from support.broker import BrokerHarness

Component = tuple[str, int, str | None]


def quotas(*components: Component) -> Any:
    broker = BrokerHarness()
    parts = tuple(
        {"entity_type": kind, "match_type": match_type, "match": match}
        for kind, match_type, match in components
    )
    return broker.call("DescribeClientQuotas", components=parts, strict=False)


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ((("planet", 2, None),), 35, "Unsupported entity type planet"),
        ((("", 0, "x"),), 42, "Invalid empty entity type."),
        (
            (("user", 2, None), ("user", 2, None)),
            42,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            (("ip", 2, None), ("user", 2, None)),
            42,
            (
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            ),
        ),
        ((("user", 7, None),), 42, "Unknown match type 7"),
        (
            (("user", 0, None),),
            42,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            (("user", 1, "x"),),
            42,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            (("user", 2, "x"),),
            42,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
    ],
)
def test_invalid_filters_are_rejected(
    components: tuple[Component, ...], error: int, message: str
) -> None:
    response = quotas(*components)
    assert (response.error_code, response.error_message, response.entries) == (error, message, None)
