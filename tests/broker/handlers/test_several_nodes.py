"""Requests to three nodes: leaders, followers, elections."""

from types import SimpleNamespace
from typing import Any

import pytest
from kohort.protocol.errors import ErrorCode as E
from support.broker import World, batch, milliseconds, three_nodes


@pytest.fixture
def world() -> World:
    return three_nodes()


def elect(world: World, topics: Any, election: int = 0) -> dict[tuple[str, int], E]:
    part = world.part
    wanted = topics and tuple(
        part("ElectLeaders", 2, "TopicPartitions", topic=topic, partitions=tuple(indexes))
        for topic, indexes in topics
    )
    response = world.ask(
        "ElectLeaders",
        2,
        election_type=election,
        topic_partitions=wanted,
        timeout=milliseconds(1000),
    )
    return {
        (topic.topic, each.partition_id): each.error_code
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


def metadata(world: World) -> Any:
    return world.ask("Metadata", 12, topics=None, include_topic_authorized_operations=False)


def partitions(world: World) -> list[Any]:
    return list(metadata(world).topics[0].partitions)


def test_metadata_returns_every_node_and_all_leaders(world: World) -> None:
    response = metadata(world)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (node_id, "node.test", node_id) for node_id in (1, 2, 3)
    ]
    assert response.controller_id == 1
    assert [p.leader_id for p in response.topics[0].partitions] == [1, 2, 3]
    assert response.topics[0].partitions[1].replica_nodes == (2, 3, 1)


def test_a_node_that_is_down_is_not_listed_and_out_of_sync(world: World) -> None:
    world.node.cluster.node_stopping(2)
    assert [b.node_id for b in metadata(world).brokers] == [1, 3]
    second = partitions(world)[1]
    assert (second.leader_id, second.leader_epoch) == (3, 1)
    assert (second.isr_nodes, second.offline_replicas) == ((3, 1), (2,))
    described = world.ask(
        "DescribeTopicPartitions", 0, topics=(), response_partition_limit=9, cursor=None
    )
    assert described.topics[0].partitions[1].offline_replicas == (2,)


def test_a_partition_has_no_leader_while_all_nodes_are_down(world: World) -> None:
    for node_id in (1, 2, 3):
        world.node.cluster.node_stopping(node_id)
    assert {(p.leader_id, p.error_code) for p in partitions(world)} == {
        (-1, E.leader_not_available)
    }


def test_a_group_has_no_coordinator_while_its_partition_has_no_leader(world: World) -> None:
    for node_id in (1, 2, 3):
        world.node.cluster.node_stopping(node_id)
    world.node.coordinators = SimpleNamespace(partition_of=lambda _group: 0)
    missing = E.coordinator_not_available
    older = world.ask("FindCoordinator", 3, key="g", key_type=0)
    assert (older.error_code, older.error_message) == (
        missing,
        "The coordinator is not available.",
    )
    (found,) = world.ask("FindCoordinator", 4, coordinator_keys=("g",), key_type=0).coordinators
    # Since v4 Kafka sends no message.
    assert (found.error_code, found.error_message) == (missing, "")


def test_only_the_leader_accepts_records(world: World) -> None:
    assert world.produce("t", batch(b"a"), 0).error_code is E.none
    assert world.produce("t", batch(b"a"), 1).error_code is E.not_leader_or_follower


def test_consumers_may_read_from_a_follower_since_version_11(
    world: World,
) -> None:
    assert world.fetch("t", 0, 1, version=10).error_code is E.not_leader_or_follower
    assert world.fetch("t", 0, 1, version=11).error_code is E.none


def test_a_long_poll_at_a_follower_waits_for_records(world: World) -> None:
    waiting = world.send_fetch("t", {1: 0}, max_wait_ms=10_000)
    assert not waiting.is_over
    world.node.node_id = 2
    world.produce("t", batch(b"a"), 1)
    assert waiting.answer.responses[0].partitions[0].high_watermark == 1


def list_offsets(world: World, partition: int, replica_id: int) -> E:
    part = world.part
    asked = part(
        "ListOffsets",
        6,
        "ListOffsetsPartition",
        partition_index=partition,
        current_leader_epoch=-1,
        timestamp=-1,
    )
    topic = part("ListOffsets", 6, "ListOffsetsTopic", name="t", partitions=(asked,))
    response = world.ask(
        "ListOffsets", 6, replica_id=replica_id, isolation_level=0, topics=(topic,)
    )
    error: E = response.topics[0].partitions[0].error_code
    return error


def test_only_the_leader_returns_offsets_except_to_the_debugging_replica(world: World) -> None:
    assert list_offsets(world, 0, -1) is E.none
    assert list_offsets(world, 1, -1) is E.not_leader_or_follower
    assert list_offsets(world, 1, -2) is E.none


def current_leaders(response: Any) -> tuple[list[tuple[int, int]], list[tuple[int, str, int]]]:
    """(leader, epoch) of each partition in a response, and the endpoints of these leaders."""
    (topic,) = response.responses
    replies = getattr(topic, "partition_responses", None) or topic.partitions
    leaders = [(r.current_leader.leader_id, r.current_leader.leader_epoch) for r in replies]
    return leaders, [(e.node_id, e.host, e.port) for e in response.node_endpoints]


NOBODY = (-1, -1)


def test_a_produce_to_the_wrong_node_returns_leader_and_endpoint(
    world: World,
) -> None:
    world.node.cluster.move("t", 1, 3)
    sent = {index: batch(b"a") for index in (0, 1, 2, 9)}
    for version in (10, 12):
        asked = world.send_produce("t", sent, version=version)
        assert current_leaders(asked.answer) == (
            [NOBODY, (3, 1), (3, 0), NOBODY],
            [(3, "node.test", 3)],
        )
    topic = world.topics.get("t")
    assert topic is not None
    asked = world.send_produce(topic.id, {1: batch(b"a")}, version=13)
    assert current_leaders(asked.answer) == ([(3, 1)], [(3, "node.test", 3)])
    # Since v10 (KIP-951).
    older = world.send_produce("t", sent, version=9).answer
    assert not hasattr(older, "node_endpoints")


def test_a_fetch_with_an_old_leader_epoch_returns_leader_and_endpoint(
    world: World,
) -> None:
    world.node.cluster.move("t", 0, 2)
    topic = world.topics.get("t")
    assert topic is not None

    def fetch(version: int, epoch: int) -> Any:
        asked = world.send_fetch(
            topic.id, {0: 0}, version=version, max_wait_ms=0, current_leader_epoch=epoch
        )
        return asked.answer

    for version in (16, 18):
        assert current_leaders(fetch(version, 0)) == ([(2, 1)], [(2, "node.test", 2)])
        assert current_leaders(fetch(version, 1)) == ([NOBODY], [])
        assert current_leaders(fetch(version, 2)) == ([NOBODY], [])
    older = fetch(15, 0).responses[0].partitions[0]
    assert older.error_code is E.fenced_leader_epoch
    assert older.current_leader.leader_id == -1


def test_a_wrong_leader_epoch_is_rejected_before_a_wrong_leader(world: World) -> None:
    world.node.cluster.move("t", 0, 2)
    fenced = world.fetch("t", 0, 0, version=10, current_leader_epoch=0)
    assert fenced.error_code is E.fenced_leader_epoch
    newer = world.fetch("t", 0, 0, version=10, current_leader_epoch=2)
    assert newer.error_code is E.unknown_leader_epoch
    moved = world.fetch("t", 0, 0, version=10, current_leader_epoch=1)
    assert moved.error_code is E.not_leader_or_follower


def test_a_long_poll_ends_when_its_partition_moves(world: World) -> None:
    older = world.send_fetch("t", {0: 0}, version=10, max_wait_ms=10_000)
    waiting = world.send_fetch("t", {0: 0}, max_wait_ms=10_000, current_leader_epoch=0)
    assert not older.is_over
    assert not waiting.is_over
    world.node.cluster.move("t", 0, 2)
    assert older.answer.responses[0].partitions[0].error_code is E.not_leader_or_follower
    assert waiting.answer.responses[0].partitions[0].error_code is E.fenced_leader_epoch


def test_batches_carry_the_epoch_of_their_leader(world: World) -> None:
    world.node.cluster.move("t", 0, 2)
    world.node.cluster.move("t", 0, 1)
    world.produce("t", batch(b"a"), 0)
    records = world.fetch("t", 0, 0).records
    assert int.from_bytes(records[12:16], "big") == 2


def test_preferred_leaders_are_elected_if_they_do_not_lead(world: World) -> None:
    world.node.cluster.move("t", 1, 1)
    assert elect(world, [("t", [0, 1, 9]), ("nope", [0])]) == {
        ("t", 0): E.election_not_needed,
        ("t", 1): E.none,
        ("t", 9): E.unknown_topic_or_partition,
        ("nope", 0): E.unknown_topic_or_partition,
    }
    assert [p.leader_id for p in partitions(world)] == [1, 2, 3]


def test_an_election_of_all_partitions_returns_only_changed_ones(world: World) -> None:
    world.node.cluster.node_stopping(3)
    world.node.cluster.node_started(3)
    assert elect(world, None) == {("t", 2): E.none}
    assert elect(world, None) == {}


def test_a_preferred_leader_that_is_down_cannot_be_elected(world: World) -> None:
    world.node.cluster.node_stopping(3)
    assert elect(world, [("t", [2])]) == {("t", 2): E.preferred_leader_not_available}
    assert elect(world, [("t", [2])], election=1) == {("t", 2): E.election_not_needed}
    assert elect(world, [("t", [2])], election=5) == {("t", 2): E.invalid_request}


def test_an_unknown_election_type_is_rejected_if_partitions_are_named(
    world: World,
) -> None:
    def error(topics: list[tuple[str, list[int]]] | None) -> E:
        wanted = tuple(
            world.part("ElectLeaders", 2, "TopicPartitions", topic=topic, partitions=tuple(indexes))
            for topic, indexes in topics or ()
        )
        response: E = world.ask(
            "ElectLeaders",
            2,
            election_type=5,
            topic_partitions=None if topics is None else wanted,
            timeout=milliseconds(9),
        ).error_code
        return response

    assert error([("t", [0])]) is E.invalid_request
    assert error([("t", [])]) is E.invalid_request
    assert error(None) is E.invalid_request
    assert error([]) is E.none


def test_an_election_that_does_not_become_durable_is_reverted(world: World) -> None:
    world.node.cluster.move("t", 1, 1)
    world.turn()
    waiting = world.send_fetch("t", {1: 0}, max_wait_ms=10_000, current_leader_epoch=1)
    world.files.fail("append")
    assert elect(world, [("t", [1])]) == {("t", 1): E.kafka_storage_error}
    assert waiting.answer.responses[0].partitions[0].error_code is E.fenced_leader_epoch
    # Epoch 2 was that of the other node, until it was reverted.
    assert [(p.leader_id, p.leader_epoch) for p in partitions(world)] == [(1, 0), (1, 3), (3, 0)]
    assert world.produce("t", batch(b"a"), 1).error_code is E.none
    assert elect(world, [("t", [1])]) == {("t", 1): E.none}
    assert [p.leader_id for p in partitions(world)] == [1, 2, 3]


def test_a_stopped_node_leads_nothing_even_if_storing_that_fails(
    world: World,
) -> None:
    world.files.fail("append")
    world.node.cluster.node_stopping(2)
    world.turn()
    assert [p.leader_id for p in partitions(world)] == [1, 3, 3]
