"""Metadata: automatic creation, leaders, ids, errors. The scenarios have responses of all
versions."""

from typing import Any
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from kohort.protocol.budgets import AUTO_CREATED_MAX
from support.broker import BrokerHarness

UNKNOWN = ErrorCode.unknown_topic_or_partition


def metadata(broker: BrokerHarness, *topics: Any, version: int = 12, **fields: Any) -> Any:
    """Send a Metadata request. `topics`: names or ids."""
    wanted = []
    for topic in topics:
        named: dict[str, Any] = {"name": topic if isinstance(topic, str) else None}
        if version >= 10:
            named["topic_id"] = None if isinstance(topic, str) else topic
        wanted.append(named)
    return broker.call("Metadata", version, topics=wanted, **fields)


def test_every_leader_is_one_of_the_brokers_while_a_node_stops() -> None:
    broker = BrokerHarness(nodes=3)
    broker.create_topic("orders", 6)
    steps = 0
    for _ in broker.cluster.node_stopping(2):
        steps += 1
        response = metadata(broker, "orders")
        leaders = {p.leader_id: p.error_code for p in response.topics[0].partitions}
        assert {each.node_id for each in response.brokers} == {1, 3}
        assert leaders.pop(-1, ErrorCode.leader_not_available) is ErrorCode.leader_not_available
        assert leaders == {1: ErrorCode.none, 3: ErrorCode.none}
    assert steps == 2  # it led two of the partitions


@pytest.mark.parametrize("version", range(14))
def test_an_unknown_topic_is_returned_to_the_next_request(version: int) -> None:
    broker = BrokerHarness({"kohort.auto.create.immediate": "false"})
    for name in ("new", "__consumer_offsets", "__transaction_state"):
        (unknown,) = metadata(broker, name, version=version).topics
        assert (unknown.error_code, unknown.partitions) == (UNKNOWN, ())
        assert broker.topics.get(name) is not None
        (found,) = metadata(broker, name, version=version).topics
        assert found.error_code is ErrorCode.none
        if version:
            assert unknown.is_internal == found.is_internal == (name != "new")


@pytest.mark.parametrize("immediate", ["true", "false"])
def test_topics_beyond_the_limit_are_created_by_the_next_request(immediate: str) -> None:
    broker = BrokerHarness({"kohort.auto.create.immediate": immediate})
    names = [f"topic-{number}" for number in range(AUTO_CREATED_MAX + 1)]
    found = metadata(broker, *names).topics
    assert found[-1].error_code is UNKNOWN
    assert len(broker.topics) == AUTO_CREATED_MAX
    metadata(broker, *names)
    assert len(broker.topics) == AUTO_CREATED_MAX + 1


def test_with_immediate_creation_a_topic_is_returned_once_durable() -> None:
    broker = BrokerHarness({"num.partitions": "3"})
    asked = broker.send(
        "Metadata",
        12,
        topics=({"name": "new", "topic_id": None},),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )
    assert not asked.is_done
    broker.run_loop()
    (created,) = asked.response.topics
    assert (created.error_code, len(created.partitions)) == (ErrorCode.none, 3)
    assert broker.restart().topics.get("new") is not None


def test_the_offsets_topic_is_created_with_its_own_settings() -> None:
    broker = BrokerHarness({"offsets.topic.num.partitions": "7"})
    (created,) = metadata(broker, "__consumer_offsets").topics
    assert (created.is_internal, len(created.partitions)) == (True, 7)


@pytest.mark.parametrize(("client", "broker"), [(False, "true"), (True, "false")])
def test_client_and_broker_can_both_disable_topic_creation(client: bool, broker: str) -> None:
    broker = BrokerHarness({"auto.create.topics.enable": broker})
    (topic,) = metadata(broker, "new", allow_auto_topic_creation=client).topics
    assert topic.error_code is ErrorCode.unknown_topic_or_partition
    assert len(broker.topics) == 0


def test_no_topic_is_created_with_more_replicas_than_there_are_nodes() -> None:
    """Kafka responds like this with default.replication.factor=3 and one broker."""
    broker = BrokerHarness({"default.replication.factor": "2"})
    for _ in range(2):
        (topic,) = metadata(broker, "new").topics
        assert topic.error_code is UNKNOWN
    (offsets,) = metadata(broker, "__consumer_offsets").topics
    assert offsets.error_code is ErrorCode.none
    assert len(broker.topics) == 1


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_rejected_in_versions_10_and_11(version: int) -> None:
    broker = BrokerHarness()
    topic = broker.create_topic("orders")
    response = metadata(broker, topic.id, version=version)
    assert response.topics[0].error_code is ErrorCode.invalid_request
    assert response.brokers == ()


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (10, ErrorCode.invalid_request),
        (11, ErrorCode.invalid_request),
        (12, ErrorCode.unknown_server_error),
        (13, ErrorCode.unknown_server_error),
    ],
)
def test_a_topic_without_name_and_id_fails_the_request(version: int, error: ErrorCode) -> None:
    broker = BrokerHarness()
    broker.create_topic("orders")
    response = metadata(broker, "orders", None, version=version)
    assert {each.error_code for each in response.topics} == {error}
    assert response.brokers == ()


def test_beside_ids_a_topic_without_name_and_id_is_ignored() -> None:
    broker = BrokerHarness()
    topic = broker.create_topic("orders")
    (found,) = metadata(broker, None, topic.id, version=13).topics
    assert (found.name, found.error_code) == ("orders", ErrorCode.none)


@pytest.mark.parametrize("version", [12, 13])
def test_beside_ids_names_are_ignored(version: int) -> None:
    broker = BrokerHarness()
    topic = broker.create_topic("orders")
    broker.create_topic("bills")
    for wanted in (("bills", topic.id), (topic.id, "orders"), ("nope", topic.id, "bad!", topic.id)):
        response = metadata(broker, *wanted, version=version, allow_auto_topic_creation=True)
        assert [each.name for each in response.topics] == ["orders"]
    (unknown,) = metadata(broker, "bills", uuid4(), version=version).topics
    assert unknown.error_code is ErrorCode.unknown_topic_id
    assert broker.topics.get("nope") is None


def test_a_repeated_topic_is_returned_once() -> None:
    broker = BrokerHarness()
    broker.create_topic("orders")
    assert len(metadata(broker, "orders", "orders").topics) == 1


def test_a_topic_that_did_not_become_durable_is_not_returned() -> None:
    broker = BrokerHarness()
    broker.files.fail("append")
    (topic,) = metadata(broker, "new").topics
    assert topic.error_code is UNKNOWN
    assert broker.topics.get("new") is None


def test_the_topic_of_share_groups_is_internal_before_and_after_it_is_created() -> None:
    broker = BrokerHarness({"share.coordinator.state.topic.num.partitions": "7"})
    for allowed, partitions in ((False, 0), (True, 7)):
        response = metadata(broker, "__share_group_state", allow_auto_topic_creation=allowed)
        (topic,) = response.topics
        assert topic.is_internal
        assert len(topic.partitions) == partitions
