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
    batch,
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


# --- replicas


def create_topic(
    broker: BrokerHarness,
    name: str,
    *assigned: tuple[int, ...],
    partitions: int = -1,
    factor: int = -1,
    validate_only: bool = False,
) -> Any:
    assignments = [{"partition_index": i, "broker_ids": ids} for i, ids in enumerate(assigned)]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": factor}
    (created,) = broker.call(
        "CreateTopics",
        topics=({**topic, "assignments": assignments, "configs": ()},),
        timeout=1000,
        validate_only=validate_only,
    ).topics
    return created


def grow(broker: BrokerHarness, count: int, *assigned: tuple[int, ...], topic: str = "t") -> Any:
    assignments = [{"broker_ids": ids} for ids in assigned] or None
    requested = {"name": topic, "count": count, "assignments": assignments}
    (grown,) = broker.call("CreatePartitions", topics=(requested,), timeout=9).results
    return grown


def described(broker: BrokerHarness, topic: str) -> list[tuple[Any, ...]]:
    """The leader, the replicas, those in sync and those offline, of each partition."""
    (found,) = broker.call("Metadata", topics=({"name": topic, "topic_id": None},)).topics
    return [
        (each.leader_id, each.replica_nodes, each.isr_nodes, each.offline_replicas)
        for each in found.partitions
    ]


def replicas(broker: BrokerHarness, topic: str) -> list[tuple[int, ...]]:
    return [each[1] for each in described(broker, topic)]


def test_partitions_have_as_many_replicas_as_requested(broker: BrokerHarness) -> None:
    assert create_topic(broker, "one", partitions=4, factor=1).replication_factor == 1
    assert create_topic(broker, "two", partitions=4, factor=2).replication_factor == 2
    assert create_topic(broker, "all", partitions=1).replication_factor == 3
    assert create_topic(broker, "four", factor=4).error_code is E.invalid_replication_factor
    assert replicas(broker, "one") == [(1,), (2,), (3,), (1,)]
    assert replicas(broker, "two") == [(1, 2), (2, 3), (3, 1), (1, 2)]
    assert replicas(broker, "all") == [(1, 2, 3)]
    assert described(broker, "two")[1] == (2, (2, 3), (2, 3), ())


def test_the_default_replication_factor_can_be_set() -> None:
    broker = BrokerHarness(nodes=3, config={"default.replication.factor": "2"})
    assert create_topic(broker, "t").replication_factor == 2
    broker.call("Metadata", topics=({"name": "u", "topic_id": None},))
    broker.run_loop()
    assert replicas(broker, "t") == replicas(broker, "u") == [(1, 2)]


def test_replicas_can_be_assigned(broker: BrokerHarness) -> None:
    created = create_topic(broker, "u", (3, 1), (2, 3))
    assert (created.num_partitions, created.replication_factor) == (2, 2)
    assert grow(broker, 4, (1, 2), (3, 2), topic="u").error_code is E.none
    assert grow(broker, 5, topic="u").error_code is E.none
    assert replicas(broker, "u") == [(3, 1), (2, 3), (1, 2), (3, 2), (2, 3)]


def test_all_partitions_of_an_assignment_need_equally_many_replicas(broker: BrokerHarness) -> None:
    message = (
        "The manual partition assignment includes a partition with 1 replica(s), but this is not "
        "consistent with previous partitions, which have {} replica(s)."
    )
    created = create_topic(broker, "u", (1, 2), (3,), validate_only=True)
    assert created.error_code is E.invalid_replica_assignment
    assert created.error_message == message.format(2)
    grown = grow(broker, 5, (1, 2, 3), (3,))
    assert grown.error_code is E.invalid_replica_assignment
    assert grown.error_message == message.format(3)
    assert "broker 9," in grow(broker, 4, (1, 2, 9)).error_message


def test_replicas_on_stopped_nodes_are_offline(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(3))
    create_topic(broker, "one", partitions=3, factor=1)
    create_topic(broker, "all", partitions=2, factor=3)
    create_topic(broker, "u", (3, 1), (2, 3))
    assert replicas(broker, "one") == [(1,), (2,), (1,)]
    assert described(broker, "all") == [
        (1, (1, 2, 3), (1, 2), (3,)),
        (2, (2, 1, 3), (2, 1), (3,)),
    ]
    assert described(broker, "u") == [(1, (3, 1), (1,), (3,)), (2, (2, 3), (2,), (3,))]
    failed = create_topic(broker, "v", (1,), (3,))
    assert failed.error_code is E.invalid_replica_assignment
    assert failed.error_message == (
        "All brokers specified in the manual partition assignment for partition 1 are fenced or in "
        "controlled shutdown."
    )


def test_the_last_in_sync_replica_becomes_the_next_leader(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (2, 1))
    create_topic(broker, "single", (1,))
    cluster = broker.node.cluster
    list(cluster.node_stopping(2))
    assert described(broker, "u") == [(1, (2, 1), (1,), (2,))]
    list(cluster.node_stopping(1))
    assert described(broker, "u") == [(-1, (2, 1), (), (2, 1))]
    assert described(broker, "single") == [(-1, (1,), (), (1,))]
    list(cluster.node_started(2))
    assert described(broker, "u") == [(-1, (2, 1), (), (1,))]
    list(cluster.node_started(1))
    assert described(broker, "u") == [(1, (2, 1), (1, 2), ())]
    assert described(broker, "single") == [(1, (1,), (1,), ())]


def eligible(broker: BrokerHarness, topic: str) -> tuple[Any, ...]:
    """The leader, its epoch, and the replicas that are in sync, eligible, or last known as it."""
    (found,) = broker.call(
        "DescribeTopicPartitions",
        topics=({"name": topic},),
        response_partition_limit=9,
        cursor=None,
    ).topics
    (each,) = found.partitions
    assert each.error_code is E.none
    leader = each.leader_id, each.leader_epoch
    return *leader, each.isr_nodes, each.eligible_leader_replicas, each.last_known_elr


# For each change, the partition as Kafka 4.3 describes it.
STOPPED_AND_STARTED = [
    (
        ((1, 2), 1),
        {
            -1: (2, 1, (2,), (), ()),
            -2: (-1, 2, (), (2,), (2,)),
            1: (-1, 2, (), (2,), (2,)),
            2: (2, 3, (1, 2), (), ()),
        },
    ),
    (
        ((1, 2), 2),
        {
            -1: (2, 1, (2,), (1,), ()),
            -2: (-1, 2, (), (1, 2), (2,)),
            1: (1, 3, (1,), (2,), ()),
            2: (1, 3, (1, 2), (), ()),
        },
    ),
    (
        ((2, 1), 2),
        {
            -1: (2, 0, (2,), (1,), ()),
            -2: (-1, 1, (), (1, 2), (2,)),
            1: (1, 2, (1,), (2,), ()),
            2: (1, 2, (1, 2), (), ()),
        },
    ),
    (
        ((1, 2, 3), 3),
        {
            -1: (2, 1, (2, 3), (1,), ()),
            -2: (3, 2, (3,), (1, 2), ()),
            1: (3, 2, (1, 3), (2,), ()),
            2: (3, 2, (1, 2, 3), (), ()),
        },
    ),
]


@pytest.mark.parametrize(("topic", "changes"), STOPPED_AND_STARTED)
def test_eligible_leader_replicas_as_in_kafka(
    broker: BrokerHarness,
    topic: tuple[tuple[int, ...], int],
    changes: dict[int, tuple[Any, ...]],
) -> None:
    """A key of `changes` is a node that starts or, if negative, stops."""
    assigned, min_insync_replicas = topic
    create_topic(broker, "u", assigned)
    change = ("min.insync.replicas", SET, str(min_insync_replicas))
    incremental_alter_configs(broker, TOPIC, "u", change)
    cluster = broker.node.cluster
    for node_id, expected in changes.items():
        list(cluster.node_started(node_id) if node_id > 0 else cluster.node_stopping(-node_id))
        broker.run_loop()
        assert eligible(broker, "u") == expected, node_id


def test_the_oldest_metadata_contains_no_replicas_that_are_down(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2), (2, 3), (3, 1))
    create_topic(broker, "single", (3,))
    list(broker.node.cluster.node_stopping(3))
    found = broker.call("Metadata", 0, topics=({"name": "u"}, {"name": "single"})).topics
    partitions = [
        (each.leader_id, each.replica_nodes, each.isr_nodes, each.error_code)
        for topic in found
        for each in topic.partitions
    ]
    assert partitions == [
        (1, (1, 2), (1, 2), E.none),
        (2, (2,), (2,), E.replica_not_available),
        (1, (1,), (1,), E.replica_not_available),
        (-1, (), (), E.leader_not_available),
    ]


def elect(broker: BrokerHarness, election_type: int, topic: str = "u") -> tuple[E, str | None]:
    topics = ({"topic": topic, "partitions": (0,)},)
    response = broker.call(
        "ElectLeaders", topic_partitions=topics, election_type=election_type, timeout=1000
    )
    (result,) = response.replica_election_results[0].partition_result
    return result.error_code, result.error_message


def test_an_unclean_election_accepts_replicas_that_are_not_in_sync(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2))
    cluster = broker.node.cluster
    for node_id in (1, 2):
        list(cluster.node_stopping(node_id))
    broker.node = cluster.nodes[3]
    assert elect(broker, 1)[0] is E.eligible_leaders_not_available
    list(cluster.node_started(1))
    assert elect(broker, 0)[0] is E.preferred_leader_not_available
    assert elect(broker, 1) == (E.none, None)
    assert described(broker, "u") == [(1, (1, 2), (1,), (2,))]


def test_unclean_elections_can_be_enabled_for_a_topic(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2))
    change = ("unclean.leader.election.enable", SET, "true")
    incremental_alter_configs(broker, TOPIC, "u", change)
    for node_id in (1, 2):
        list(broker.node.cluster.node_stopping(node_id))
    list(broker.node.cluster.node_started(1))
    assert described(broker, "u") == [(1, (1, 2), (1,), (2,))]


def test_only_replicas_can_be_made_leaders(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2))
    with pytest.raises(ValueError, match=r"not one of its replicas: \[1, 2\]"):
        broker.node.cluster.move("u", 0, 3)


@pytest.mark.parametrize(("acks", "error"), [(-1, E.not_enough_replicas), (1, E.none)])
def test_acks_all_requires_enough_in_sync_replicas(
    broker: BrokerHarness, acks: int, error: E
) -> None:
    create_topic(broker, "u", (1, 2))
    create_topic(broker, "single", (1,))
    for name in ("u", "single"):
        incremental_alter_configs(broker, TOPIC, name, ("min.insync.replicas", SET, "2"))

    def produced(topic: str) -> tuple[E, str | None, int]:
        response = broker.produce(topic, batch(b"value"), acks=acks)
        return response.error_code, response.error_message, response.log_start_offset

    accepted = E.none, None, 0
    assert produced("u") == accepted
    list(broker.node.cluster.node_stopping(2))
    assert produced("u") == (error, None, 0)
    assert produced("single") == accepted, "no more than all replicas are required"
    list(broker.node.cluster.node_started(2))
    assert produced("u") == accepted


def test_a_node_describes_its_own_replicas_on_disk(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2), (2, 3))
    cluster = broker.node.cluster
    for node_id, expected in ((1, {"u": [0]}), (2, {"u": [0, 1]}), (3, {"u": [1]})):
        broker.node = cluster.nodes[node_id]
        requested = ({"topic": "u", "partitions": (0, 1)},)
        for topics in (None, requested):
            (folder,) = broker.call("DescribeLogDirs", topics=topics).results
            found = {
                topic.name: [each.partition_index for each in topic.partitions]
                for topic in folder.topics
            }
            assert {name: found[name] for name in found if name != "t"} == expected
        path = folder.log_dir
        dirs = ({"path": path, "topics": ({"name": "u", "partitions": (0,)},)},)
        (moved,) = broker.call("AlterReplicaLogDirs", dirs=dirs).results[0].partitions
        assert moved.error_code is (E.not_leader_or_follower if node_id == 3 else E.none)


# --- reassignments


def reassign(
    broker: BrokerHarness, index: int, *replicas: int, **values: bool
) -> tuple[E, str | None]:
    partition = {"partition_index": index, "replicas": replicas}
    topics = ({"name": "t", "partitions": (partition,)},)
    response = broker.call("AlterPartitionReassignments", timeout=1000, topics=topics, **values)
    (responded,) = response.responses[0].partitions
    return responded.error_code, responded.error_message


def test_a_partition_gets_other_replicas(broker: BrokerHarness) -> None:
    assert reassign(broker, 1, 2, 3, 1) == (E.none, None)
    assert reassign(broker, 1, 1, 2) == (E.none, None)
    assert described(broker, "t")[1] == (2, (1, 2), (1, 2), ()), "the leader stays"
    assert elect(broker, 0, "t")[0] is E.election_not_needed
    assert reassign(broker, 1, 3) == (E.none, None)
    assert described(broker, "t")[1] == (3, (3,), (3,), ())
    error, message = reassign(broker, 1, 2, 3, allow_replication_factor_change=False)
    assert error is E.invalid_replication_factor
    assert message == "The replication factor is changed from 1 to 2"
    assert replicas(broker, "t") == [(1, 2, 3), (3,), (3, 1, 2)]


def test_a_partition_is_not_reassigned_to_a_stopped_node(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(3))
    error, message = reassign(broker, 1, 2, 3)
    assert error is E.invalid_replica_assignment
    assert message == (
        "Partition t-1 cannot be reassigned to [2, 3] while node 3 is stopped: start it, or choose "
        "other nodes."
    )
    assert reassign(broker, 1, 2, 1) == (E.none, None)


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
    rejected = create("three", 3)
    assert rejected.error_code is E.invalid_replication_factor
    assert "because only 2 broker(s) are registered" in rejected.error_message
