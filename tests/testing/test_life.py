"""Nodes that stop, brokers that crash and replay, snapshots and forks: and clients live on."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiokafka
import pytest
from addresses import refuses
from kafka import KafkaConsumer
from kafka import TopicPartition as Place
from kafka.structs import OffsetAndMetadata
from kohort.testing import Kafka

pytestmark = pytest.mark.clients

NewCommitter = Callable[..., Any]
"""Committer of conftest.py"""


def marks(kafka: Kafka) -> list[str]:
    return [mark.what for mark in kafka.history.marks]


# --- nodes


def test_a_commit_rides_through_a_broker_that_is_down(kafka: Kafka, committer: Any) -> None:
    committer.commit(1)
    with ThreadPoolExecutor(1) as pool, kafka.broker_down():
        assert [node.is_up for node in kafka.nodes] == [False]
        assert refuses(kafka.nodes[0].address)
        second = pool.submit(committer.commit, 2)
        assert not second.done()
        kafka.start_node(1)
        second.result(10)
        kafka.stop_node(1)
    assert not refuses(kafka.nodes[0].address)
    assert committer.committed() == 2
    assert marks(kafka) == ["node 1 stopped", "node 1 started"] * 2


def test_another_node_coordinates_what_a_stopped_one_did(committer_of: NewCommitter) -> None:
    with Kafka(nodes=3) as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        group = kafka.group("billing")
        first = group.node_id
        with kafka.broker_down(node=first):
            assert [node.node_id for node in kafka.nodes if not node.is_up] == [first]
            assert group.node_id != first
            committer.commit(2)
        assert all(node.is_up for node in kafka.nodes)
        assert committer.committed() == 2


def test_a_consumer_of_kafka_python_rides_through_a_broker_that_is_down(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        enable_auto_commit=False,
        retry_backoff_ms=10,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=20,
    )
    consumer.commit({Place("orders", 0): OffsetAndMetadata(1, "", -1)})
    with ThreadPoolExecutor(1) as pool:
        with kafka.broker_down():
            place = {Place("orders", 0): OffsetAndMetadata(2, "", -1)}
            second = pool.submit(consumer.commit, place)
        second.result(10)
    assert consumer.committed(Place("orders", 0)) == 2
    consumer.close(autocommit=False)


async def test_a_consumer_of_aiokafka_goes_on_after_a_crash(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["a"])
    consumer = aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=10,
        heartbeat_interval_ms=50,
    )
    await consumer.start()
    try:
        assert (await consumer.getone()).value == b"a"
        await consumer.commit()
        kafka.crash()
        kafka.topic("orders").produce(["b"])
        assert (await consumer.getone()).value == b"b"
        await consumer.commit()
        assert [each.offset for each in kafka.group("billing").commits] == [1, 2]
        # It is the member that it was: the log has it.
        assert [g.cause for g in kafka.group("billing").generations] == ["member joined"]
    finally:
        await consumer.stop()


def test_a_node_that_is_not_there_or_down_already_is_told(kafka: Kafka) -> None:
    with pytest.raises(LookupError, match="there is no node 7"):
        kafka.stop_node(7)
    with pytest.raises(LookupError, match="there is no node 7"), kafka.broker_down(node=7):
        raise AssertionError("it is not there")
    with pytest.raises(ValueError, match="node 1 is up already"):
        kafka.start_node(1)
    with kafka.broker_down(), pytest.raises(ValueError, match="node 1 is down already"):
        kafka.stop_node(1)


# --- crash and replay


def test_after_a_crash_all_is_what_the_log_says(kafka: Kafka, service: Any) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    group.wait_committed("orders", 0, 3)
    members, generation = group.members, group.generation
    servers, before_ms = kafka.bootstrap_servers, kafka.clock.now_ms
    kafka.crash()
    assert kafka.bootstrap_servers == servers
    assert kafka.clock.now_ms >= before_ms
    group.wait_stable(members=1)
    assert (group.members, group.generation) == (members, generation)
    assert group.committed("orders", 0) == 3
    assert [each.value for each in kafka.topic("orders").records()] == [b"a", b"b", b"c"]
    kafka.topic("orders").produce(["d"])
    group.wait_committed("orders", 0, 4)
    # The history has what was before, and what came after.
    assert [each.offset for each in group.commits] == [1, 2, 3, 4]
    (crash,) = kafka.history.marks
    assert crash.what == "crashed"
    commits = kafka.history.requests_of("OffsetCommit")
    assert len([each for each in commits if each.number <= crash.after]) == 3


def test_a_crash_says_nothing_to_who_waits(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    with socket.create_connection(("127.0.0.1", kafka.broker.port)) as client:
        # Fetch v4, of orders-0 at offset 0: wait for 100,000 bytes, up to 30 s.
        body = (
            b"\0\x01\0\x04\0\0\0\x01\0\x01x"
            b"\xff\xff\xff\xff\0\0\x75\x30\0\x01\x86\xa0\x7f\xff\xff\xff\0"
            b"\0\0\0\x01\0\x06orders\0\0\0\x01\0\0\0\0"
            b"\0\0\0\0\0\0\0\0\0\x10\0\0"
        )
        client.sendall(len(body).to_bytes(4, "big") + body)
        kafka.wait_request("Fetch")
        kafka.crash()
        assert client.recv(1000) == b""
    (fetch,) = kafka.history.requests_of("Fetch")
    assert fetch.answer is None


def test_an_offset_that_was_not_synced_is_gone_when_the_power_was(
    committer_of: NewCommitter,
) -> None:
    with Kafka(durability="os") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        kafka.crash()
        assert committer.committed() == 1
        kafka.crash(power=True)
        assert kafka.group("billing").committed("orders", 0) is None
        assert marks(kafka) == ["crashed", "lost its power"]


def test_what_was_answered_outlives_the_power_where_commits_are_synced(
    committer_of: NewCommitter,
) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        for offset in range(1, 4):
            committer.commit(offset)
            kafka.disk.power_cut(seed=offset)
            assert committer.committed() == offset


def test_a_restart_keeps_everything_under_each_durability(committer_of: NewCommitter) -> None:
    for durability in ("none", "os", "fsync"):
        with Kafka(durability=durability) as kafka:  # type: ignore[arg-type]
            committer = committer_of(kafka)
            kafka.topic("orders").produce(["a", "b"])
            committer.commit(1)
            kafka.restart()
            assert committer.committed() == 1
            assert len(kafka.topic("orders", partitions=2).records()) == 2
            assert marks(kafka) == ["restarted"]


def test_a_frozen_clock_stands_through_a_crash_and_sessions_end_after_it(
    kafka: Kafka, service: Any
) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    assert service is not None
    kafka.clock.freeze()
    now_ms = kafka.clock.now_ms
    kafka.crash()
    assert kafka.clock.now_ms == now_ms
    kafka.clock.advance(minutes=5)
    assert [each.cause for each in group.generations] == ["member joined", "session expired"]


@pytest.mark.parametrize("end", ["crash", "restart", "broker_down"])
def test_a_broker_that_ends_evicts_nobody_whose_connection_it_takes_along(
    end: str, service_of: Callable[..., Any]
) -> None:
    with Kafka(evict_disconnected=True) as kafka, service_of(kafka):
        group = kafka.group("billing").wait_stable(members=1)
        members = group.members
        if end == "broker_down":
            with kafka.broker_down():
                pass
        else:
            getattr(kafka, end)()
        group.wait_stable(members=1)
        assert group.members == members
        assert [each.cause for each in group.generations] == ["member joined"]


@pytest.mark.parametrize("end", ["stop", "reset"])
def test_a_broker_that_ends_for_good_says_of_nobody_that_it_is_out(
    end: str, service_of: Callable[..., Any]
) -> None:
    with Kafka(evict_disconnected=True) as kafka, service_of(kafka):
        kafka.group("billing").wait_stable(members=1)
        history = kafka.history
        getattr(kafka, end)()
        assert history.exits() == []


def test_what_is_held_dies_with_the_broker_and_what_comes_after_is_held(
    kafka: Kafka, service_of: Callable[..., Any]
) -> None:
    group = kafka.group("billing")
    with group.hold_joins() as held, service_of(kafka):
        held.wait()
        kafka.crash()
        held.wait(2)
        assert group.members == []
        held.release()
        group.wait_stable(members=1)


def test_a_coordinator_that_loads_while_the_broker_crashes_is_there_afterwards(
    kafka: Kafka, committer: Any
) -> None:
    committer.commit(1)
    with kafka.group("billing").loading():
        kafka.crash()
        assert committer.committed() == 1
    assert committer.committed() == 1


def test_a_cluster_that_was_reset_has_its_addresses(committer_of: NewCommitter) -> None:
    with Kafka(nodes=3) as kafka:
        before = kafka.nodes
        kafka.reset()
        assert kafka.nodes == before
        committer_of(kafka).commit(1)


# --- snapshot, restore, fork


def test_a_restored_broker_is_what_it_was_as_often_as_one_likes(
    kafka: Kafka, committer: Any
) -> None:
    committer.commit(1)
    point = kafka.snapshot()
    for _ in range(3):
        committer.commit(5)
        kafka.topic("later", partitions=1).produce(["x"])
        kafka.restore(point)
        assert committer.committed() == 1
        assert kafka.ask(lambda broker: broker.node.topics.get("later")) is None
    assert marks(kafka) == ["restored"] * 3


def test_a_group_that_has_gone_on_finds_itself_back_in_the_generation_of_then(
    kafka: Kafka, new_service: Callable[..., Any]
) -> None:
    new_service("first")
    group = kafka.group("billing").wait_stable(members=1)
    first = group.generation
    point = kafka.snapshot()
    second = new_service("second")
    group.wait_stable(members=2)
    second.close()
    group.wait_stable(members=1)
    assert group.generation > first
    kafka.restore(point)
    # Its member is in a generation that is not known any more, and joins again.
    group.wait_generation(first + 1)
    group.wait_stable(members=1)


def test_a_fork_goes_its_own_way(kafka: Kafka, committer: Any, committer_of: NewCommitter) -> None:
    committer.commit(1)
    kafka.clock.advance(days=1)
    with kafka.fork() as other:
        assert other.clock.now_ms - kafka.clock.now_ms < 10_000
        assert other.bootstrap_servers != kafka.bootstrap_servers
        twin = committer_of(other)
        assert twin.committed() == 1
        twin.commit(7)
        committer.commit(2)
        assert twin.committed() == 7
        assert [each.offset for each in other.group("billing").commits] == [7]
    assert committer.committed() == 2


def test_snapshot_restore_fork_crash_and_restart_take_milliseconds(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=10).produce([b"x" * 100] * 1000)

    def best(what: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            started = time.process_time()
            what()
            times.append(time.process_time() - started)
        return min(times)

    def fork() -> None:
        with kafka.fork(point):
            pass

    point = kafka.snapshot()
    for what in (kafka.snapshot, lambda: kafka.restore(point), fork, kafka.crash, kafka.restart):
        assert best(what) < 0.02
