"""AlterUserScramCredentials and DescribeUserScramCredentials, with the responses of Kafka 4.3."""

from typing import Any

import pytest
from kohort.conformance.wire import plain
from support.broker import BrokerHarness
from support.sasl import upsertion

SHA_256, SHA_512 = 1, 2
DUPLICATE = ("duplicate_resource", "A user credential cannot be altered twice in the same request")
MISSING = ("resource_not_found", "Attempt to delete a user credential that does not exist")
UNNAMED = ("unacceptable_credential", "Username must not be empty")
TOO_FEW = ("unacceptable_credential", "Too few iterations")
DONE = ("none", None)


def up(user: str, mechanism: int = SHA_256, iterations: int = 4096, **changed: Any) -> Any:
    values = upsertion(user, "secret", SHA_256)
    return {**values, "mechanism": mechanism, "iterations": iterations, **changed}


def alter(broker: BrokerHarness, *requested: Any) -> dict[str, tuple[str, str | None]]:
    """Alter credentials. `requested`: upsertions, and deletions as (user, mechanism)."""
    upserted = tuple(each for each in requested if isinstance(each, dict))
    deleted = tuple(
        {"name": each[0], "mechanism": each[1]} for each in requested if isinstance(each, tuple)
    )
    api = "AlterUserScramCredentials"
    response = plain(broker.call(api, 0, upsertions=upserted, deletions=deleted))
    return {r["user"]: (r["error_code"], r["error_message"]) for r in response["results"]}


def describe(broker: BrokerHarness, *users: str) -> dict[str, Any]:
    requested = tuple({"name": user} for user in users) if users else None
    response = plain(broker.call("DescribeUserScramCredentials", users=requested))
    assert (response["error_code"], response["error_message"]) == ("none", "")
    return {
        each["user"]: (
            each["error_code"],
            each["error_message"],
            [(info["mechanism"], info["iterations"]) for info in each["credential_infos"]],
        )
        for each in response["results"]
    }


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    assert alter(broker, up("alice"), up("bob")) == {"alice": DONE, "bob": DONE}
    return broker


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        ((), {}),
        ((up("ü,=x"),), {"ü,=x": DONE}),
        # Kafka returns UNKNOWN_SERVER_ERROR.
        (
            (up("c", salted_password=b""),),
            {"c": ("unacceptable_credential", "Salted password must not be empty")},
        ),
        ((up(""),), {"": UNNAMED}),
        ((("", 0),), {"": UNNAMED}),
        ((("nobody", SHA_256),), {"nobody": MISSING}),
        ((up("c"), up("c"), up("c", 9)), {"c": DUPLICATE}),
        (
            (up("c"), up("d", iterations=1), ("zz", SHA_256), ("bob", SHA_256)),
            {"c": DONE, "bob": DONE, "d": TOO_FEW, "zz": MISSING},
        ),
    ],
)
def test_each_user_has_a_result(
    broker: BrokerHarness, requested: tuple[Any, ...], expected: dict[str, Any]
) -> None:
    before = set(describe(broker))
    assert alter(broker, *requested) == expected
    deleted = {each[0] for each in requested if isinstance(each, tuple)}
    changed = {user for user, result in expected.items() if result == DONE}
    assert set(describe(broker)) == (before | changed) - (deleted & changed)


def test_a_change_that_is_not_durable_is_undone_and_reported(broker: BrokerHarness) -> None:
    broker.files.fail("sync")
    results = alter(broker, up("c"), ("alice", SHA_256), up("d", iterations=1))
    assert {user: error for user, (error, _) in results.items()} == {
        "c": "kafka_storage_error",
        "alice": "kafka_storage_error",
        "d": "unacceptable_credential",
    }
    broker.files.heal()
    assert set(describe(broker)) == {"alice", "bob"}
