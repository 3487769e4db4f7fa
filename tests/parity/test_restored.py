"""`kohort conformance` leaves a broker as it was."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from kohort.cli import conformance
from kohort.cli.main import main
from kohort.conformance import broker, snapshot, wire
from kohort.conformance.wire import AsyncClient
from kohort.testing import Kafka
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC

BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 4, 8, 16, 32
SET = 0
KEY = "log.cleaner.min.cleanable.ratio"
VALUES = "values_are_described_as_they_were_written"  # of KEY and others
CHANGING = (
    *("syncing.a_sync_in_a_stable_group", "consumer_joining.a_consumer_joins"),
    *("levels_of_loggers_are_altered", "client_metrics_are_configured"),
    *("invalid_quotas_are_rejected", "scram_credentials_of_a_user_are_altered_once"),
    "topics.a_topic_that_metadata_creates_is_returned_to_the_next_request",
    "topics.the_topic_of_share_groups_is_internal",
)
DESCRIBED = [
    {"resource_type": kind, "resource_name": name}
    for kind, name in ((BROKER, "1"), (BROKER, ""), (BROKER_LOGGER, "1"))
]


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Loggers are those of this process."""
    yield
    logging.getLogger("kohort").setLevel(logging.NOTSET)


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka(preset="kafka", config={"group.initial.rebalance.delay.ms": "0"}) as kafka:
        kafka.topic("mine")
        yield kafka


def described(kafka: Kafka) -> list[Any]:
    async def calls() -> list[Any]:
        client = await AsyncClient.connect(port_of(kafka))
        found = [
            await client.call("ListGroups", 5),
            await client.call("DescribeClientQuotas", 1, components=(), strict=False),
            await client.call("DescribeUserScramCredentials", 0, users=None),
            await client.call("ListConfigResources", 1, resource_types=(CLIENT_METRICS, GROUP)),
            await client.call("DescribeConfigs", 4, resources=DESCRIBED),
        ]
        topics = (await client.call("Metadata", 12, topics=None))["topics"]
        client.close()
        internal = (OFFSETS_TOPIC, TRANSACTION_TOPIC)
        return [*found, [each["name"] for each in topics if each["name"] not in internal]]

    return asyncio.run(calls())


def alter(kafka: Kafka, key: str, value: str) -> None:
    """Change the default of all brokers."""

    async def call() -> None:
        client = await AsyncClient.connect(port_of(kafka))
        configs = [{"name": key, "config_operation": SET, "value": value}]
        resource = {"resource_type": BROKER, "resource_name": "", "configs": configs}
        await client.call("IncrementalAlterConfigs", 1, resources=[resource])
        client.close()

    asyncio.run(call())


def port_of(kafka: Kafka) -> int:
    return int(kafka.bootstrap_servers.rpartition(":")[2])


def play(kafka: Kafka, *scenarios: str) -> int:
    only = [argument for each in scenarios for argument in ("--only", each)]
    return main(["conformance", "--bootstrap-server", kafka.bootstrap_servers, *only])


def test_the_broker_is_as_before(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    before = described(kafka)
    assert before[-1] == ["mine"]
    assert play(kafka, *CHANGING) == 0
    assert described(kafka) == before
    assert capsys.readouterr().err == ""


def test_the_broker_is_as_before_a_difference(kafka: Kafka) -> None:
    """The scenario ends before it deletes the value that it has set."""
    alter(kafka, KEY, "0.7")
    before = described(kafka)
    assert "0.7" in str(before)
    assert play(kafka, VALUES) == 1
    assert described(kafka) == before


def test_what_cannot_be_restored_is_reported(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "APPLIED_SECONDS", 0.2)
    kafka.faults.answer("DeleteTopics", "TOPIC_AUTHORIZATION_FAILED", times=None)
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 0
    reported = capsys.readouterr().err
    assert reported == "kohort conformance: not restored: topics: orders, payments, shipments\n"


def test_a_broker_with_topics_of_these_names_is_refused(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.topic("payments")
    before = described(kafka)
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 2
    assert "topics that the scenarios create and delete (payments):" in capsys.readouterr().err
    assert described(kafka) == before


def test_a_broker_that_is_never_ready_is_reported_without_errors_that_it_does_not_have(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "READY_SECONDS", 1)
    kafka.faults.answer("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=None)
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 2
    reported = capsys.readouterr().err
    assert "not ready within 1 s: requests for groups fail with coordinator_load" in reported
    assert "none" not in reported


@pytest.mark.parametrize("when", ["compare", "restore"])
def test_an_interrupted_run_restores_the_broker(
    kafka: Kafka,
    when: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def interrupted(*_: object, **__: object) -> list[Any]:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()
        return []

    restore = snapshot.Snapshot.restore

    async def interrupted_restore(self: snapshot.Snapshot) -> list[str]:
        if when == "restore":
            signal.raise_signal(signal.SIGINT)
        return await restore(self)

    async def nothing(*_: object, **__: object) -> list[Any]:
        return []

    before = described(kafka)
    monkeypatch.setattr(conformance, "compare", interrupted if when == "compare" else nothing)
    monkeypatch.setattr(snapshot.Snapshot, "restore", interrupted_restore)
    # In the background of a shell, tests are started with SIGINT ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert play(kafka, "a_heartbeat_to_an_unknown_group") == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    shown = "kohort conformance: interrupted: restoring the broker ...\n"
    assert capsys.readouterr().err == (shown if when == "compare" else "")
    assert described(kafka) == before


def commit(kafka: Kafka, group: str) -> None:
    async def call() -> None:
        client = await AsyncClient.connect(port_of(kafka))
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        topics = [{"name": "mine", "partitions": [partition]}]
        values = {"member_id": "", "generation_id_or_member_epoch": -1, "topics": topics}
        await client.call("OffsetCommit", 8, group_id=group, **values)
        client.close()

    asyncio.run(call())


def test_a_group_of_others_is_not_deleted_though_a_topic_has_its_name(kafka: Kafka) -> None:
    """The group may be new, or may have been loading when the state was read."""
    commit(kafka, "orders")
    kafka.faults.answer("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS")
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 0
    groups = described(kafka)[0]["groups"]
    assert [each["group_id"] for each in groups] == ["orders"]


@pytest.mark.parametrize(
    "api", ["DescribeConfigs", "DescribeClientQuotas", "DescribeUserScramCredentials"]
)
def test_nothing_is_played_if_the_state_cannot_be_read(
    kafka: Kafka, api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise all of it would look new afterwards, and be deleted."""
    alter(kafka, KEY, "0.7")
    before = described(kafka)
    kafka.faults.answer(api, "REQUEST_TIMED_OUT", times=2)
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 2
    assert "cannot be read: REQUEST_TIMED_OUT" in capsys.readouterr().err
    kafka.faults.clear()
    assert described(kafka) == before


def test_nothing_is_played_if_the_broker_does_not_list_its_groups(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "TIMEOUT_SECONDS", 1)
    kafka.faults.never_answer("ListGroups")
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 2
    assert "did not respond in time" in capsys.readouterr().err


def test_a_broker_that_has_ended_is_reported(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ends(*_: object, **__: object) -> list[Any]:
        await asyncio.to_thread(kafka.stop)
        raise ConnectionError("the connection was closed")

    monkeypatch.setattr(conformance, "compare", ends)
    assert play(kafka, "a_heartbeat_to_an_unknown_group") == 2
    reported = capsys.readouterr().err
    assert "not restored: groups, topics, configurations, quotas, SCRAM users: cannot" in reported
    assert "the connection was closed" in reported
