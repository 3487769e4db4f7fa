"""AlterClientQuotas: Kafka 4.3's validation and messages; quotas are durable."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.log.group_commit import Durability
from support.broker import BrokerHarness

Entity = dict[str, str | None]
Ops = dict[str, float | None]
ALICE: Entity = {"user": "alice"}
RATE = "producer_byte_rate"


def alter(broker: BrokerHarness, *entries: tuple[Entity, Ops], validate_only: bool = False) -> Any:
    """Alter the quotas of an entity. None as a value removes the quota."""
    values = [
        {
            "entity": [{"entity_type": kind, "entity_name": n} for kind, n in entity.items()],
            "ops": [
                {"key": key, "value": value or 0.0, "remove": value is None}
                for key, value in ops.items()
            ],
        }
        for entity, ops in entries
    ]
    response = broker.call("AlterClientQuotas", entries=values, validate_only=validate_only)
    return response.entries


def described(broker: BrokerHarness, *components: Any, strict: bool = False) -> list[Any]:
    """Return (entity, quotas) of each entry."""
    filters = [{"entity_type": k, "match_type": t, "match": m} for k, t, m in components]
    response = broker.call("DescribeClientQuotas", components=filters, strict=strict)
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in response.entries
    ]


@pytest.mark.parametrize(
    ("entity", "ops", "message"),
    [
        (ALICE, {RATE: 0.0}, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, {RATE: 9.9999999}, "producer_byte_rate cannot be a fractional value."),
        (
            {"ip": "no such host"},
            {"connection_creation_rate": 5.0},
            "no such host is not a valid IP or resolvable host.",
        ),
    ],
)
def test_invalid_quotas_are_rejected_with_kafkas_message(
    entity: Entity, ops: Ops, message: str
) -> None:
    """The scenarios have the other messages."""
    broker = BrokerHarness()
    (entry,) = alter(broker, (entity, ops))
    assert (entry.error_code, entry.error_message) == (ErrorCode.invalid_request, message)
    assert described(broker) == []


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        (ALICE, {RATE: 9223372036854775807.0, "request_percentage": 0.5}),
        ({"ip": "localhost"}, {"connection_creation_rate": 1.0}),
    ],
)
def test_valid_quotas_are_set_and_described(entity: Entity, ops: Ops) -> None:
    broker = BrokerHarness()
    (entry,) = alter(broker, (entity, ops))
    assert (entry.error_code, entry.error_message) == (ErrorCode.none, None)
    assert described(broker) == [(entity, ops)]


@pytest.mark.parametrize(("client", "shown"), [("app", "app"), (None, "null")])
def test_an_entity_that_occurs_twice_is_altered_by_its_first_entry(
    client: str | None, shown: str
) -> None:
    broker = BrokerHarness()
    entity: Entity = {"user": "alice", "client-id": client}
    (entry,) = alter(broker, (entity, {RATE: 3.0}), (entity, {RATE: 4.0}))
    assert entry.error_code is ErrorCode.invalid_request
    assert entry.error_message == (
        f"Ignoring duplicate entity ClientQuotaEntity(entries={{client-id={shown}, user=alice}})"
    )
    assert [each.entity_type for each in entry.entity] == ["client-id", "user"]
    assert described(broker) == [(entity, {RATE: 3.0})]


USER_AND_CLIENT: Entity = {"client-id": None, "user": "bob"}


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ((), False, [ALICE, {"user": None}, USER_AND_CLIENT, {"ip": "10.0.0.1"}]),
        ((), True, []),
        ([("user", 0, "alice")], True, [ALICE]),
        ([("user", 1, None)], False, [{"user": None}]),
        ([("user", 2, None)], False, [ALICE, {"user": None}, USER_AND_CLIENT]),
        ([("user", 2, None)], True, [ALICE, {"user": None}]),
        ([("user", 0, "bob"), ("client-id", 1, None)], True, [USER_AND_CLIENT]),
        ([("user", 0, "bob"), ("client-id", 0, "x")], True, []),
        ([("ip", 2, None)], False, [{"ip": "10.0.0.1"}]),
    ],
)
def test_filters_select_entities(components: Any, strict: bool, found: list[Entity]) -> None:
    broker = BrokerHarness()
    clients: list[Entity] = [ALICE, {"user": None}, USER_AND_CLIENT]
    for entity in clients:
        alter(broker, (entity, {RATE: 1.0}))
    alter(broker, ({"ip": "10.0.0.1"}, {"connection_creation_rate": 1.0}))
    assert [entity for entity, _ in described(broker, *components, strict=strict)] == found


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_quotas_outlive_a_restart(durability: Durability) -> None:
    broker = BrokerHarness(durability=durability)
    alter(broker, (ALICE, {RATE: 1.0}), (USER_AND_CLIENT, {RATE: 2.0}))
    alter(broker, (ALICE, {RATE: None}))
    restarted = broker.restart(durability)
    assert described(restarted) == [(USER_AND_CLIENT, {RATE: 2.0})]
    assert restarted.node.security.quotas.is_active


def test_a_quota_that_cannot_be_stored_is_not_set() -> None:
    broker = BrokerHarness()
    broker.files.fail("sync")
    (entry,) = alter(broker, (ALICE, {RATE: 1.0}))
    assert entry.error_code is ErrorCode.kafka_storage_error
    assert described(broker) == []
    assert not broker.node.security.quotas.is_active
