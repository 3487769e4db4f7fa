"""DescribeUserScramCredentials: there are no users."""

import pytest
from support.broker import BrokerHarness


@pytest.mark.parametrize(
    ("names", "result"),
    [
        (None, []),
        ((), []),
        (
            ("alice", "bob", "alice"),
            [
                (
                    "alice",
                    92,
                    (
                        "Cannot describe SCRAM credentials for the same user twice in a single "
                        "request: alice"
                    ),
                ),
                ("bob", 91, "Attempt to describe a user credential that does not exist: bob"),
            ],
        ),
    ],
)
def test_users_are_unknown(
    names: tuple[str, ...] | None, result: list[tuple[str, int, str]]
) -> None:
    broker = BrokerHarness()
    api = "DescribeUserScramCredentials"
    users = None if names is None else tuple({"name": n} for n in names)
    response = broker.call(api, 0, users=users)
    assert (response.error_code, response.error_message) == (0, "")
    assert [(each.user, each.error_code, each.error_message) for each in response.results] == result
    assert all(each.credential_infos == () for each in response.results)
