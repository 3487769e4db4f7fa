"""Client instances of telemetry (KIP-714): when they end, and how much work they cause. The
responses are tested by the scenarios in conformance/scenarios/telemetry.py."""

import asyncio
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker import client_telemetry
from kohort.broker.client_telemetry import EXPIRY_MS_MIN
from kohort.conformance.wire import AsyncClient
from kohort.protocol.budgets import REGEX_BYTES_MAX
from kohort.topics.configs.client_metrics import validate_subscription
from kohort.topics.configs.config_def import InvalidConfigValue
from kohort.topics.registry_log import ClientMetricsRecord
from support.broker import BrokerHarness
from support.running_broker import running_broker

A, B, C, D = (UUID(int=number) for number in range(11, 15))
INTERVAL_MS = 300_000
THROTTLED = ErrorCode.throttling_quota_exceeded


@pytest.fixture
def broker() -> BrokerHarness:
    return BrokerHarness()


def get(broker: BrokerHarness, instance: UUID) -> ErrorCode:
    response = broker.call("GetTelemetrySubscriptions", 0, client_instance_id=instance)
    error: ErrorCode = response.error_code
    return error


def terminate(broker: BrokerHarness, instance: UUID, **values: object) -> ErrorCode:
    """A client may terminate at any time, but only once."""
    values = {"client_instance_id": instance, "terminating": True, **values}
    error: ErrorCode = broker.call("PushTelemetry", 0, **values).error_code
    return error


def interval_ms(broker: BrokerHarness, instance: UUID) -> int:
    response = broker.call("GetTelemetrySubscriptions", 0, client_instance_id=instance)
    return int(response.push_interval.total_seconds() * 1000)


def test_the_least_recently_used_instance_is_evicted(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_telemetry, "INSTANCES_MAX", 3)
    for instance in (A, B, C):
        assert get(broker, instance) is ErrorCode.none
    assert get(broker, A) is THROTTLED
    assert get(broker, D) is ErrorCode.none
    assert len(broker.node.telemetry) == 3
    assert [get(broker, each) for each in (A, C, D)] == [THROTTLED] * 3
    assert get(broker, B) is ErrorCode.none


@pytest.mark.parametrize(
    ("interval", "expiry_ms"), [("100", EXPIRY_MS_MIN), (str(INTERVAL_MS), 3 * INTERVAL_MS)]
)
def test_an_instance_expires_after_three_intervals_but_not_within_a_minute(
    broker: BrokerHarness, interval: str, expiry_ms: int
) -> None:
    broker.topics.change(ClientMetricsRecord("all", {"interval.ms": interval}))
    for _ in range(2):
        assert terminate(broker, A) is ErrorCode.unknown_subscription_id
        broker.advance(expiry_ms - 1)
        assert terminate(broker, A) is ErrorCode.invalid_request
        broker.advance(expiry_ms)


def test_a_changed_subscription_applies_to_instances_that_exist(broker: BrokerHarness) -> None:
    assert interval_ms(broker, A) == INTERVAL_MS
    broker.topics.change(ClientMetricsRecord("all", {"interval.ms": "1000"}))
    assert interval_ms(broker, A) == 1000
    broker.topics.change(ClientMetricsRecord("all", {}))
    assert interval_ms(broker, A) == INTERVAL_MS


def test_clients_are_matched_by_their_address_and_software(broker: BrokerHarness) -> None:
    match = "client_source_address=10[.]0.*,client_software_name=unknown"
    broker.topics.change(ClientMetricsRecord("a", {"interval.ms": "1000", "match": match}))
    # Clients inside the process have no port.
    match = "client_source_port=.*"
    broker.topics.change(ClientMetricsRecord("b", {"interval.ms": "500", "match": match}))
    assert interval_ms(broker, A) == 1000


@pytest.mark.parametrize("pattern", [r"\Qtest\E", r"\p{L}+", "test(?i)", r"test\z", "(?<n>test)"])
def test_javas_syntax_for_patterns_is_valid(broker: BrokerHarness, pattern: str) -> None:
    configs = {"interval.ms": "1000", "match": f"client_id={pattern}"}
    validate_subscription(configs)
    broker.topics.change(ClientMetricsRecord("a", configs))
    instance, _ = broker.node.telemetry.instance(A, {"client_id": "test"})
    assert instance.push_interval_ms == 1000


@pytest.mark.parametrize(
    "match",
    [
        "client_id=(?!x).*",
        "client_id=((a{100}){100}){100}",
        ",".join(f"client_id={'x' * count}|.*" for count in range(REGEX_BYTES_MAX // 40)),
    ],
    ids=["lookahead", "memory", "length"],
)
def test_a_rejected_pattern_that_is_stored_matches_no_client(
    broker: BrokerHarness, match: str
) -> None:
    with pytest.raises(InvalidConfigValue):
        validate_subscription({"match": match})
    broker.topics.change(ClientMetricsRecord("a", {"interval.ms": "1000", "match": match}))
    assert interval_ms(broker, A) == INTERVAL_MS


def test_a_pattern_is_matched_in_linear_time(broker: BrokerHarness) -> None:
    """With a backtracking matcher, this would take years."""
    broker.topics.change(
        ClientMetricsRecord("a", {"match": "client_source_address=(([0-9.]+)+)+x"})
    )
    attributes = {"client_source_address": "1" * 10_000}
    assert broker.node.telemetry.instance(A, attributes)[0].push_interval_ms == INTERVAL_MS


def test_the_largest_metrics_are_configured() -> None:
    broker = BrokerHarness({"telemetry.max.bytes": "10"})
    response = broker.call("GetTelemetrySubscriptions", 0, client_instance_id=A)
    assert response.telemetry_max_bytes == 10
    values = {"subscription_id": response.subscription_id, "metrics": b"x" * 11}
    assert terminate(broker, A, **values) is ErrorCode.telemetry_too_large


async def test_an_instance_ends_with_the_connection_that_created_it() -> None:
    async with running_broker() as broker:
        creator, other = [await AsyncClient.connect(broker.port) for _ in range(2)]
        for client, instance in ((creator, A), (creator, B), (other, B), (other, C)):
            await client.call("GetTelemetrySubscriptions", 0, client_instance_id=instance)
        telemetry = broker.node.telemetry
        assert len(telemetry) == 3
        creator.close()
        async with asyncio.timeout(10):
            while len(telemetry) == 3:
                await asyncio.sleep(0)
        # Kafka also keeps only the last instance of each connection.
        assert list(telemetry._instances) == [A, C]
        await broker.stop_node(broker.node.node_id)
        assert len(telemetry) == 0


async def test_requests_get_responses_although_they_are_not_listed() -> None:
    async with running_broker() as broker:
        client = await AsyncClient.connect(broker.port)
        listed = (await client.call("ApiVersions", 4))["api_keys"]
        assert {each["api_key"] for each in listed} & {71, 72} == set()
        response = await client.call("GetTelemetrySubscriptions", 0)
        assert (response["error_code"], response["push_interval"]) == ("none", INTERVAL_MS)
