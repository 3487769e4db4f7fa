"""Topics and configurations on three nodes."""

from typing import Any

import pytest
from kohort.protocol.errors import ErrorCode as E
from support.broker import (
    BROKER,
    SET,
    TOPIC,
    BrokerHarness,
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness(nodes=3)
    broker.create_topic("t", 3)
    return broker


# --- configurations of a node


def test_each_node_has_its_own_dynamic_configurations(broker: BrokerHarness) -> None:
    broker.node = broker.node.cluster.nodes[2]
    change = ("message.max.bytes", SET, "200")
    rejected = incremental_alter_configs(broker, BROKER, "1", change)
    assert rejected.error_code is E.invalid_request
    assert rejected.error_message == "Unexpected broker id, expected 2, but received 1"
    rejected = alter_configs(broker, BROKER, "3", change[::2])
    assert rejected.error_message == "Unexpected broker id, expected 2, but received 3"
    assert incremental_alter_configs(broker, BROKER, "2", change).error_code is E.none

    def result(kind: int, name: str) -> list[tuple[str, int]]:
        result = describe_configs(broker, kind, name, "message.max.bytes", "max.message.bytes")
        return [(each.value, each.config_source) for each in result.configs]

    assert result(BROKER, "2") == result(TOPIC, "t") == [("200", 2)]
    broker.node = broker.node.cluster.nodes[3]
    assert result(BROKER, "3") == result(TOPIC, "t") == [("1048588", 5)]
    assert describe_configs(broker, BROKER, "2").error_code is E.invalid_request


def test_the_defaults_of_a_node_apply_to_the_partitions_it_leads(broker: BrokerHarness) -> None:
    cluster = broker.node.cluster
    broker.node = cluster.nodes[2]
    incremental_alter_configs(broker, BROKER, "2", ("message.max.bytes", SET, "200"))

    def largest() -> list[int]:
        topic = broker.topic("t")
        return [each.settings.max_message_bytes for each in topic.partitions]

    assert largest() == [1048588, 200, 1048588]
    cluster.move("t", 1, 3)
    cluster.move("t", 0, 2)
    assert largest() == [200, 1048588, 1048588]
    incremental_alter_configs(broker, BROKER, "", ("message.max.bytes", SET, "300"))
    assert largest() == [200, 300, 300]


# --- the quorum


def quorum(broker: BrokerHarness) -> Any:
    topic = {"topic_name": "__cluster_metadata", "partitions": ({"partition_index": 0},)}
    return broker.call("DescribeQuorum", topics=(topic,)).topics[0].partitions[0]


def test_the_first_node_is_the_voter_and_others_are_observers(broker: BrokerHarness) -> None:
    before = quorum(broker)
    assert before.leader_id == 1
    assert [each.replica_id for each in before.current_voters] == [1]
    assert [each.replica_id for each in before.observers] == [2, 3]
    ends = {each.log_end_offset for each in (*before.current_voters, *before.observers)}
    assert ends == {before.high_watermark}


def test_the_voter_remains_while_its_node_is_down(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(1))
    broker.run_loop()
    after = quorum(broker)
    assert after.leader_id == 1
    assert [each.replica_id for each in after.current_voters] == [1]
    assert [each.replica_id for each in after.observers] == [2, 3]


def test_nodes_cannot_be_unregistered(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(3))
    for node_id in (1, 3):
        response = broker.call("UnregisterBroker", broker_id=node_id)
        assert response.error_code is E.invalid_request
        assert response.error_message == (
            f"Broker ID {node_id} is a node of this process and cannot be unregistered"
        )


def test_the_metadata_log_grows_with_each_change(broker: BrokerHarness) -> None:
    before = quorum(broker).high_watermark
    broker.create_topic("another")
    assert quorum(broker).high_watermark == before + 1


def test_no_replicas_are_placed_on_a_cordoned_node(broker: BrokerHarness) -> None:
    broker.node = broker.node.cluster.nodes[2]
    change = ("cordoned.log.dirs", SET, "*")
    assert incremental_alter_configs(broker, BROKER, "2", change).error_code is E.none

    def create(name: str, replicas: int) -> Any:
        topic = {"name": name, "num_partitions": 1, "replication_factor": replicas}
        return broker.call("CreateTopics", 5, timeout=1000, topics=(topic,)).topics[0]

    assert create("two", 2).error_code is E.none
    assert create("default", -1).replication_factor == 2
    rejected = create("three", 3)
    assert rejected.error_code is E.invalid_replication_factor
    assert "because only 2 broker(s) are registered" in rejected.error_message
