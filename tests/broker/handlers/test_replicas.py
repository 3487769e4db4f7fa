"""Replicas of partitions on three nodes: placement, leaders, in-sync replicas, reassignments."""

from typing import Any

import pytest
from kohort.protocol.errors import ErrorCode as E
from kohort.topics.registry_log import TopicRecord
from support.broker import SET, TOPIC, BrokerHarness, batch, incremental_alter_configs


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness(nodes=3)
    broker.create_topic("t", 3)
    return broker


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


def test_too_many_partitions_are_rejected_before_they_are_placed(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1,))
    assert grow(broker, 2**31 - 1, topic="u").error_code is E.policy_violation
    assert create_topic(broker, "v", partitions=2**31 - 1, factor=1).error_code is (
        E.policy_violation
    )


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
    """The leader and its epoch, then the in-sync, the eligible and the last known eligible
    replicas."""
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


def test_a_changed_minimum_clears_the_eligible_leader_replicas(broker: BrokerHarness) -> None:
    """Measured on Kafka 4.3."""
    create_topic(broker, "u", (1, 2))
    incremental_alter_configs(broker, TOPIC, "u", ("min.insync.replicas", SET, "2"))
    list(broker.node.cluster.node_stopping(1))
    assert eligible(broker, "u") == (2, 1, (2,), (1,), ())
    incremental_alter_configs(broker, TOPIC, "u", ("min.insync.replicas", SET, "1"))
    assert eligible(broker, "u") == (2, 1, (2,), (), ())
    list(broker.node.cluster.node_stopping(2))
    list(broker.node.cluster.node_started(1))
    assert eligible(broker, "u") == (-1, 2, (), (2,), (2,))


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


def test_after_an_unclean_election_no_other_replica_is_eligible(broker: BrokerHarness) -> None:
    """Measured on Kafka 4.3."""
    create_topic(broker, "u", (1, 2, 3))
    for change in (("min.insync.replicas", "2"), ("unclean.leader.election.enable", "true")):
        incremental_alter_configs(broker, TOPIC, "u", (change[0], SET, change[1]))
    for node_id in (3, 2, 1):
        list(broker.node.cluster.node_stopping(node_id))
    assert eligible(broker, "u") == (-1, 1, (), (1, 2), (1,))
    list(broker.node.cluster.node_started(3))
    assert eligible(broker, "u") == (3, 2, (3,), (), ())


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
        assert moved.error_code is (E.replica_not_available if node_id == 3 else E.none)


# --- reassignments


def reassign(
    broker: BrokerHarness, index: int, *replicas: int, topic: str = "t", **values: bool
) -> tuple[E, str | None]:
    partition = {"partition_index": index, "replicas": replicas}
    topics = ({"name": topic, "partitions": (partition,)},)
    response = broker.call("AlterPartitionReassignments", timeout=1000, topics=topics, **values)
    (responded,) = response.responses[0].partitions
    return responded.error_code, responded.error_message


def test_a_partition_gets_other_replicas(broker: BrokerHarness) -> None:
    partition = broker.topic("t").partitions[1]

    def after(*replicas: int) -> tuple[int, int, tuple[int, ...]]:
        assert reassign(broker, 1, *replicas) == (E.none, None)
        assert described(broker, "t")[1] == (partition.leader_id, replicas, partition.isr, ())
        return partition.leader_id, partition.leader_epoch, partition.isr

    assert after(2, 3, 1) == (2, 0, (2, 3, 1))
    assert after(3, 1, 2) == (2, 0, (2, 3, 1))
    assert after(1, 2) == (2, 1, (2, 1))
    assert after(3, 1) == (3, 2, (1, 3))
    assert after(2) == (2, 3, (2,))
    error, message = reassign(broker, 1, 2, 3, allow_replication_factor_change=False)
    assert error is E.invalid_replication_factor
    assert message == "The replication factor is changed from 1 to 2"
    assert replicas(broker, "t") == [(1, 2, 3), (2,), (3, 1, 2)]


def test_the_new_replicas_of_a_topic_are_stored_together(broker: BrokerHarness) -> None:
    def stored(*replicas: tuple[int, ...]) -> int:
        before, _ = broker.topics.metadata_offsets
        partitions = [{"partition_index": i, "replicas": ids} for i, ids in enumerate(replicas)]
        topics = ({"name": "t", "partitions": partitions},)
        broker.call("AlterPartitionReassignments", timeout=1000, topics=topics)
        after, _ = broker.topics.metadata_offsets
        return after - before

    assert stored((1, 3, 2), (2, 1, 3), (3, 2, 1)) == 1
    assert stored((1, 3, 2), (2, 1, 3), (3, 2, 1)) == 0
    assert replicas(broker, "t") == [(1, 3, 2), (2, 1, 3), (3, 2, 1)]


def test_a_reassignment_ends_the_wait_for_the_last_leader(broker: BrokerHarness) -> None:
    create_topic(broker, "t1", (3,))
    list(broker.node.cluster.node_stopping(3))
    assert eligible(broker, "t1") == (-1, 1, (), (3,), (3,))
    assert reassign(broker, 0, 2, 1, topic="t1") == (E.none, None)
    assert eligible(broker, "t1") == (2, 2, (1, 2), (), ())


def test_the_first_partition_determines_when_replicas_become_eligible_leaders(
    broker: BrokerHarness,
) -> None:
    """Measured on Kafka 4.3."""
    create_topic(broker, "u", (2, 1), (1, 2))
    change = ("min.insync.replicas", SET, "2")
    incremental_alter_configs(broker, TOPIC, "u", change)
    partitions = broker.topic("u").partitions

    def after(index: int, *replicas: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        assert reassign(broker, index, *replicas, topic="u") == (E.none, None)
        return partitions[index].isr, partitions[index].elr

    assert after(1, 3) == ((3,), (1, 2))
    assert after(1, 3, 1) == ((1, 3), ())
    assert after(0, 2) == ((2,), (1,))
    assert after(1, 3) == ((3,), ())
    for change in (broker.node.cluster.node_stopping, broker.node.cluster.node_started):
        list(change(2))
    assert (partitions[0].isr, partitions[0].elr) == ((2,), (1,))


def test_a_partition_is_not_reassigned_to_a_stopped_node(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(3))
    error, message = reassign(broker, 1, 2, 3)
    assert error is E.invalid_replica_assignment
    assert message == (
        "Partition t-1 cannot be reassigned to [2, 3] while node 3 is stopped: start it, or choose "
        "other nodes."
    )
    assert reassign(broker, 1, 2, 1) == (E.none, None)


# --- requests to nodes that do not lead a partition


def errors(broker: BrokerHarness, epoch: int) -> list[E]:
    """Return the errors of Fetch (old and new consumers), ListOffsets, OffsetForLeaderEpoch with a
    leader epoch, and DescribeProducers, DeleteRecords, WriteTxnMarkers."""
    fetched = [
        broker.fetch("u", 0, 0, version=version, max_wait_ms=0, current_leader_epoch=epoch)
        for version in (10, 12)
    ]
    partition = {"partition_index": 0, "current_leader_epoch": epoch}
    listed = broker.call(
        "ListOffsets",
        replica_id=-1,
        isolation_level=0,
        topics=({"name": "u", "partitions": ({**partition, "timestamp": -1},)},),
    )
    ended = broker.call(
        "OffsetForLeaderEpoch",
        replica_id=-1,
        topics=(
            {
                "topic": "u",
                "partitions": ({"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0},),
            },
        ),
    )
    described = broker.call("DescribeProducers", topics=({"name": "u", "partition_indexes": (0,)},))
    records = {"name": "u", "partitions": ({"partition_index": 0, "offset": 0},)}
    deleted = broker.call("DeleteRecords", topics=(records,), timeout=1000)
    marker = {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 0}
    topics = ({"name": "u", "partition_indexes": (0,)},)
    marked = broker.call(
        "WriteTxnMarkers", markers=({**marker, "transaction_result": True, "topics": topics},)
    )
    return [
        *(each.error_code for each in fetched),
        listed.topics[0].partitions[0].error_code,
        ended.topics[0].partitions[0].error_code,
        described.topics[0].partitions[0].error_code,
        deleted.topics[0].partitions[0].error_code,
        marked.markers[0].topics[0].partitions[0].error_code,
    ]


WRONG, FENCED, NEWER = E.not_leader_or_follower, E.fenced_leader_epoch, E.unknown_leader_epoch


@pytest.mark.parametrize(
    ("node_id", "epoch", "expected"),
    [
        (2, 0, [FENCED, FENCED, FENCED, FENCED, E.none, WRONG, WRONG]),
        (2, 1, [WRONG, E.none, WRONG, WRONG, E.none, WRONG, WRONG]),
        (2, 2, [NEWER, NEWER, NEWER, NEWER, E.none, WRONG, WRONG]),
        *((3, epoch, [*[WRONG] * 6, E.unknown_topic_or_partition]) for epoch in (0, 1, 2)),
    ],
)
def test_followers_serve_some_requests_and_other_nodes_none(
    broker: BrokerHarness, node_id: int, epoch: int, expected: list[E]
) -> None:
    """Measured on Kafka 4.3."""
    create_topic(broker, "u", (2, 1))
    broker.node.cluster.move("u", 0, 1)
    broker.node = broker.node.cluster.nodes[node_id]
    assert errors(broker, epoch) == expected


# --- restarts


def test_a_restart_restores_replicas_and_leaders(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2), (2, 3))
    grow(broker, 3, (3, 1), topic="u")
    broker.topics.configure(broker.topic("u"), {"retention.ms": "7"})
    assert reassign(broker, 1, 3, 1) == (E.none, None)
    broker.node.cluster.move("u", 0, 2)
    before = [described(broker, name) for name in ("u", "t")]
    again = broker.restart()
    assert [described(again, name) for name in ("u", "t")] == before
    assert before[0] == [
        (2, (1, 2), (1, 2), ()),
        (2, (2, 3), (2, 3), ()),
        (3, (3, 1), (3, 1), ()),
    ]


def test_an_undone_reassignment_leaves_replicas_that_can_lead(broker: BrokerHarness) -> None:
    create_topic(broker, "t1", (3,))
    list(broker.node.cluster.node_stopping(3))
    broker.run_loop()
    broker.files.fail("append")
    assert reassign(broker, 0, 1, topic="t1")[0] is E.kafka_storage_error
    broker.files.heal()
    assert described(broker, "t1") == [(-1, (3,), (), (3,))]
    list(broker.node.cluster.node_started(3))
    assert described(broker, "t1") == [(3, (3,), (3,), ())]


def test_replicas_on_nodes_that_no_longer_exist_are_ignored(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (3, 2))
    create_topic(broker, "single", (3,))
    fewer = broker.restart(nodes=2)
    assert described(fewer, "u") == [(2, (2,), (2,), ())]
    assert described(fewer, "single") == [(1, (1, 2), (1, 2), ())]
    assert grow(fewer, 2, topic="u").error_code is E.none
    assert replicas(fewer.restart(nodes=3), "u") == [(3, 2), (2,)]


def test_a_reassignment_to_another_order_keeps_the_leader_after_a_restart(
    broker: BrokerHarness,
) -> None:
    assert reassign(broker, 0, 3, 2, 1) == (E.none, None)
    assert described(broker, "t")[0] == (1, (3, 2, 1), (1, 2, 3), ())
    assert described(broker.restart(), "t")[0] == (1, (3, 2, 1), (3, 2, 1), ())


def test_a_failed_write_leaves_partitions_as_they_were(broker: BrokerHarness) -> None:
    create_topic(broker, "u", (1, 2))
    create_topic(broker, "v", (1, 3))
    cluster = broker.node.cluster
    for node_id in (1, 2):
        list(cluster.node_stopping(node_id))
    list(cluster.node_started(1))
    broker.run_loop()
    broker.node = cluster.nodes[1]
    before = [eligible(broker, name) for name in ("u", "v")]
    assert before == [(-1, 2, (), (2,), (2,)), (3, 1, (1, 3), (), ())]
    broker.files.fail("append")
    assert create_topic(broker, "w").error_code is E.kafka_storage_error
    broker.files.heal()
    assert [eligible(broker, name) for name in ("u", "v")] == before
    list(cluster.node_started(2))
    assert eligible(broker, "u") == (2, 3, (1, 2), (), ())


def test_a_crash_between_a_reassignment_and_its_election_leaves_a_leader(
    broker: BrokerHarness,
) -> None:
    topic = broker.topic("t")
    broker.topics.change(TopicRecord("t", topic.id, 3, {}, ((2,), (3, 1), (1,))))
    again = broker.restart()
    assert described(again, "t") == [
        (2, (2,), (2,), ()),
        (3, (3, 1), (3, 1), ()),
        (1, (1,), (1,), ()),
    ]
