"""Requests to three nodes: leaders, followers, elections."""

from typing import Any

import pytest
from kohort.protocol.errors import ErrorCode as E
from support.broker import BrokerHarness, batch


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness(nodes=3)
    broker.create_topic("t", 3)
    return broker


def elect(
    broker: BrokerHarness, topics: Any, election: int = 0, timeout: int = 1000
) -> dict[tuple[str, int], E]:
    wanted = topics and tuple(
        {"topic": topic, "partitions": tuple(indexes)} for topic, indexes in topics
    )
    response = broker.call(
        "ElectLeaders", 2, election_type=election, topic_partitions=wanted, timeout=timeout
    )
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def metadata(broker: BrokerHarness) -> Any:
    return broker.call("Metadata", 12, topics=None, include_topic_authorized_operations=False)


def partitions(broker: BrokerHarness) -> list[Any]:
    return list(metadata(broker).topics[0].partitions)


def test_metadata_returns_every_node_and_all_leaders(broker: BrokerHarness) -> None:
    response = metadata(broker)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (node_id, "broker.test", 9091 + node_id) for node_id in (1, 2, 3)
    ]
    assert response.controller_id == 1
    assert [p.leader_id for p in response.topics[0].partitions] == [1, 2, 3]
    assert response.topics[0].partitions[1].replica_nodes == (2, 3, 1)


def test_a_node_that_is_down_is_not_listed_and_out_of_sync(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(2))
    assert [b.node_id for b in metadata(broker).brokers] == [1, 3]
    second = partitions(broker)[1]
    assert (second.leader_id, second.leader_epoch) == (3, 1)
    assert (second.isr_nodes, second.offline_replicas) == ((3, 1), (2,))
    described = broker.call(
        "DescribeTopicPartitions", 0, topics=(), response_partition_limit=9, cursor=None
    )
    assert described.topics[0].partitions[1].offline_replicas == (2,)


def test_the_partitions_of_a_stopping_node_move_one_by_one(broker: BrokerHarness) -> None:
    kept, deleted = broker.create_topic("kept", 6), broker.create_topic("deleted", 3)
    steps = broker.node.cluster.node_stopping(2)
    while kept.partitions[1].leader_id == 2:
        next(steps)
    assert [each.leader_id for each in kept.partitions] == [1, 3, 3, 1, 2, 3]
    broker.topics.delete(deleted)
    assert len(list(steps)) == 1
    assert [each.leader_id for each in kept.partitions] == [1, 3, 3, 1, 3, 3]


def test_a_partition_has_no_leader_while_all_nodes_are_down(broker: BrokerHarness) -> None:
    for node_id in (1, 2, 3):
        list(broker.node.cluster.node_stopping(node_id))
    assert {(p.leader_id, p.error_code) for p in partitions(broker)} == {
        (-1, E.leader_not_available)
    }


def test_a_group_has_no_coordinator_while_its_partition_has_no_leader(
    broker: BrokerHarness,
) -> None:
    for node_id in (1, 2, 3):
        list(broker.node.cluster.node_stopping(node_id))
    missing = E.coordinator_not_available
    older = broker.call("FindCoordinator", 3, key="g", key_type=0)
    assert (older.error_code, older.error_message) == (
        missing,
        "The coordinator is not available.",
    )
    (found,) = broker.call("FindCoordinator", 4, coordinator_keys=("g",), key_type=0).coordinators
    # Since version 4, Kafka sends no message.
    assert (found.error_code, found.error_message) == (missing, "")


def test_only_the_leader_accepts_records(broker: BrokerHarness) -> None:
    assert broker.produce("t", batch(b"a"), 0).error_code is E.none
    assert broker.produce("t", batch(b"a"), 1).error_code is E.not_leader_or_follower


def test_consumers_may_read_from_a_follower_since_version_11(broker: BrokerHarness) -> None:
    assert broker.fetch("t", 0, 1, version=10).error_code is E.not_leader_or_follower
    assert broker.fetch("t", 0, 1, version=11).error_code is E.none


def test_a_long_poll_at_a_follower_waits_for_records(broker: BrokerHarness) -> None:
    waiting = broker.send_fetch("t", {1: 0}, max_wait_ms=10_000)
    assert not waiting.is_done
    broker.node.node_id = 2
    broker.produce("t", batch(b"a"), 1)
    assert waiting.response.responses[0].partitions[0].high_watermark == 1


def list_offsets(broker: BrokerHarness, partition: int, replica_id: int) -> E:
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    topic = {"name": "t", "partitions": (asked,)}
    response = broker.call(
        "ListOffsets", 6, replica_id=replica_id, isolation_level=0, topics=(topic,)
    )
    error: E = response.topics[0].partitions[0].error_code
    return error


def test_only_the_leader_returns_offsets_except_to_the_debugging_replica(
    broker: BrokerHarness,
) -> None:
    assert list_offsets(broker, 0, -1) is E.none
    assert list_offsets(broker, 1, -1) is E.not_leader_or_follower
    assert list_offsets(broker, 1, -2) is E.none


def current_leaders(response: Any) -> tuple[list[tuple[int, int]], list[tuple[int, str, int]]]:
    """Return (leader, epoch) of each partition in a response, and the leaders' endpoints."""
    (topic,) = response.responses
    replies = getattr(topic, "partition_responses", None) or topic.partitions
    leaders = [(r.current_leader.leader_id, r.current_leader.leader_epoch) for r in replies]
    return leaders, [(e.node_id, e.host, e.port) for e in response.node_endpoints]


NOBODY = (-1, -1)


def test_a_produce_to_the_wrong_node_returns_leader_and_endpoint(broker: BrokerHarness) -> None:
    broker.node.cluster.move("t", 1, 3)
    sent = {index: batch(b"a") for index in (0, 1, 2, 9)}
    for version in (10, 12):
        asked = broker.send_produce("t", sent, version=version)
        assert current_leaders(asked.response) == (
            [NOBODY, (3, 1), (3, 0), NOBODY],
            [(3, "broker.test", 9094)],
        )
    asked = broker.send_produce(broker.topic("t").id, {1: batch(b"a")}, version=13)
    assert current_leaders(asked.response) == ([(3, 1)], [(3, "broker.test", 9094)])
    # Since version 10 (KIP-951).
    older = broker.send_produce("t", sent, version=9).response
    assert not hasattr(older, "node_endpoints")


def test_a_fetch_with_an_old_leader_epoch_returns_leader_and_endpoint(
    broker: BrokerHarness,
) -> None:
    broker.node.cluster.move("t", 0, 2)
    topic = broker.topic("t")

    def fetch(version: int, epoch: int) -> Any:
        asked = broker.send_fetch(
            topic.id, {0: 0}, version=version, max_wait_ms=0, current_leader_epoch=epoch
        )
        return asked.response

    for version in (16, 18):
        assert current_leaders(fetch(version, 0)) == ([(2, 1)], [(2, "broker.test", 9093)])
        assert current_leaders(fetch(version, 1)) == ([NOBODY], [])
        assert current_leaders(fetch(version, 2)) == ([NOBODY], [])
    older = fetch(15, 0).responses[0].partitions[0]
    assert older.error_code is E.fenced_leader_epoch
    assert older.current_leader.leader_id == -1


def test_a_wrong_leader_epoch_is_rejected_before_a_wrong_leader(broker: BrokerHarness) -> None:
    broker.node.cluster.move("t", 0, 2)
    fenced = broker.fetch("t", 0, 0, version=10, current_leader_epoch=0)
    assert fenced.error_code is E.fenced_leader_epoch
    newer = broker.fetch("t", 0, 0, version=10, current_leader_epoch=2)
    assert newer.error_code is E.unknown_leader_epoch
    moved = broker.fetch("t", 0, 0, version=10, current_leader_epoch=1)
    assert moved.error_code is E.not_leader_or_follower


def test_a_long_poll_ends_when_its_partition_moves(broker: BrokerHarness) -> None:
    older = broker.send_fetch("t", {0: 0}, version=10, max_wait_ms=10_000)
    waiting = broker.send_fetch("t", {0: 0}, max_wait_ms=10_000, current_leader_epoch=0)
    assert not older.is_done
    assert not waiting.is_done
    broker.node.cluster.move("t", 0, 2)
    assert older.response.responses[0].partitions[0].error_code is E.not_leader_or_follower
    assert waiting.response.responses[0].partitions[0].error_code is E.fenced_leader_epoch


def test_batches_carry_the_epoch_of_their_leader(broker: BrokerHarness) -> None:
    broker.node.cluster.move("t", 0, 2)
    broker.node.cluster.move("t", 0, 1)
    broker.produce("t", batch(b"a"), 0)
    records = broker.fetch("t", 0, 0).records
    assert int.from_bytes(records[12:16], "big") == 2


def test_preferred_leaders_are_elected_if_they_do_not_lead(broker: BrokerHarness) -> None:
    broker.node.cluster.move("t", 1, 1)
    assert elect(broker, [("t", [0, 1, 9]), ("nope", [0])]) == {
        ("t", 0): E.election_not_needed,
        ("t", 1): E.none,
        ("t", 9): E.unknown_topic_or_partition,
        ("nope", 0): E.unknown_topic_or_partition,
    }
    assert [p.leader_id for p in partitions(broker)] == [1, 2, 3]


@pytest.mark.parametrize("timeout", [0, -1])
def test_after_the_timeout_no_leader_is_elected(broker: BrokerHarness, timeout: int) -> None:
    broker.node.cluster.move("t", 1, 1)
    late = E.request_timed_out
    wanted = {("t", 1): late, ("nope", 0): late}
    assert elect(broker, [("t", [1]), ("nope", [0])], timeout=timeout) == wanted
    assert elect(broker, None, timeout=timeout) == {}
    assert [p.leader_id for p in partitions(broker)] == [1, 1, 3]


def test_an_election_of_all_partitions_returns_only_changed_ones(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(3))
    list(broker.node.cluster.node_started(3))
    assert elect(broker, None) == {("t", 2): E.none}
    assert elect(broker, None) == {}


def test_a_preferred_leader_that_is_down_cannot_be_elected(broker: BrokerHarness) -> None:
    list(broker.node.cluster.node_stopping(3))
    assert elect(broker, [("t", [2])]) == {("t", 2): E.preferred_leader_not_available}
    assert elect(broker, [("t", [2])], election=1) == {("t", 2): E.election_not_needed}
    assert elect(broker, [("t", [2])], election=5) == {("t", 2): E.invalid_request}


def test_an_unknown_election_type_is_rejected_if_partitions_are_named(
    broker: BrokerHarness,
) -> None:
    def error(topics: list[tuple[str, list[int]]] | None) -> E:
        wanted = tuple(
            {"topic": topic, "partitions": tuple(indexes)} for topic, indexes in topics or ()
        )
        response: E = broker.call(
            "ElectLeaders",
            2,
            election_type=5,
            topic_partitions=None if topics is None else wanted,
            timeout=9,
        ).error_code
        return response

    assert error([("t", [0])]) is E.invalid_request
    assert error([("t", [])]) is E.invalid_request
    assert error(None) is E.invalid_request
    assert error([]) is E.none


def test_an_election_that_does_not_become_durable_is_reverted(broker: BrokerHarness) -> None:
    broker.node.cluster.move("t", 1, 1)
    broker.run_loop()
    waiting = broker.send_fetch("t", {1: 0}, max_wait_ms=10_000, current_leader_epoch=1)
    broker.files.fail("append")
    assert elect(broker, [("t", [1])]) == {("t", 1): E.kafka_storage_error}
    assert waiting.response.responses[0].partitions[0].error_code is E.fenced_leader_epoch
    # Epoch 2 was the other node's epoch, until the election was reverted.
    assert [(p.leader_id, p.leader_epoch) for p in partitions(broker)] == [(1, 0), (1, 3), (3, 0)]
    assert broker.produce("t", batch(b"a"), 1).error_code is E.none
    assert elect(broker, [("t", [1])]) == {("t", 1): E.none}
    assert [p.leader_id for p in partitions(broker)] == [1, 2, 3]


def test_a_stopped_node_leads_nothing_even_if_storing_that_fails(broker: BrokerHarness) -> None:
    broker.files.fail("append")
    list(broker.node.cluster.node_stopping(2))
    broker.run_loop()
    assert [p.leader_id for p in partitions(broker)] == [1, 3, 3]
