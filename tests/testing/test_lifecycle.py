"""Stopped nodes, crashes, snapshots and forks, with clients that continue to work."""

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as Place
from kafka.structs import OffsetAndMetadata
from kohort.cli.main import main
from kohort.testing import Kafka
from support.wire import is_refused

from .conftest import Committer, NewCommitter, NewService, Service, serving

pytestmark = pytest.mark.clients


def events(kafka: Kafka) -> list[str]:
    return [each.what for each in kafka.history.lifecycle_events]


# --- nodes


def test_a_commit_succeeds_after_broker_down(kafka: Kafka, committer: Committer) -> None:
    committer.commit(1)
    with ThreadPoolExecutor(1) as pool, kafka.broker_down():
        assert [node.is_up for node in kafka.nodes] == [False]
        assert is_refused(kafka.nodes[0].address)
        second = pool.submit(committer.commit, 2)
        assert not second.done()
        kafka.start_node(1)
        second.result(10)
        kafka.stop_node(1)
    assert not is_refused(kafka.nodes[0].address)
    assert committer.committed() == 2
    assert events(kafka) == ["node 1 stopped", "node 1 started"] * 2


def test_another_node_takes_over_from_a_stopped_coordinator(committer_of: NewCommitter) -> None:
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


def test_a_kafka_python_consumer_commits_after_broker_down(kafka: Kafka) -> None:
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
    with kafka.broker_down():
        pass  # kafka-python raises KafkaConnectionError if it connects meanwhile
    consumer.commit({Place("orders", 0): OffsetAndMetadata(2, "", -1)})
    assert consumer.committed(Place("orders", 0)) == 2
    consumer.close(autocommit=False)


def test_unknown_and_stopped_nodes_are_rejected(kafka: Kafka) -> None:
    with pytest.raises(LookupError, match="Node 7 does not exist"):
        kafka.stop_node(7)
    with (
        pytest.raises(LookupError, match="Node 7 is not up; nodes that are up: "),
        kafka.broker_down(node=7),
    ):
        raise AssertionError("not reached")
    with pytest.raises(ValueError, match="Node 1 is already up"):
        kafka.start_node(1)
    with kafka.broker_down(), pytest.raises(ValueError, match="Node 1 is already down"):
        kafka.stop_node(1)


def test_broker_down_starts_only_nodes_that_are_down() -> None:
    with Kafka(nodes=3) as kafka:
        with kafka.broker_down():
            kafka.start_node(2)
        assert [each.is_up for each in kafka.nodes] == [True, True, True]
        with kafka.broker_down():
            kafka.restart()
        assert [each.is_up for each in kafka.nodes] == [True, True, True]


def test_the_address_of_a_node_may_be_ipv6() -> None:
    try:
        with Kafka(host="::1") as kafka:
            assert kafka.nodes[0].address == kafka.bootstrap_servers
    except OSError:
        pytest.skip("this machine has no IPv6")


# --- crash and replay


def test_the_state_after_a_crash_is_that_of_the_log(kafka: Kafka, service: Service) -> None:
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
    # The history continues across the crash. The client repeats a commit without a response.
    assert list(dict.fromkeys(each.offset for each in group.commits)) == [1, 2, 3, 4]
    (crash,) = kafka.history.lifecycle_events
    assert crash.what == "crashed"
    commits = kafka.history.requests_of("OffsetCommit")
    assert len([each for each in commits if each.number <= crash.after]) == 3


def test_a_crash_sends_no_response_to_a_waiting_fetch(kafka: Kafka) -> None:
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
    assert fetch.response_frame is None


def test_a_power_cut_loses_offsets_that_were_not_synced(committer_of: NewCommitter) -> None:
    with Kafka(durability="os") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        kafka.crash()
        assert committer.committed() == 1
        kafka.crash(power=True)
        assert kafka.group("billing").committed("orders", 0) is None
        assert events(kafka) == ["crashed", "lost power"]


def test_acknowledged_commits_survive_a_power_cut_with_fsync(committer_of: NewCommitter) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        for offset in range(1, 4):
            committer.commit(offset)
            kafka.disk.power_cut(seed=offset)
            assert committer.committed() == offset


def test_a_restart_keeps_everything_with_each_durability(committer_of: NewCommitter) -> None:
    for durability in ("none", "os", "fsync"):
        with Kafka(durability=durability) as kafka:  # type: ignore[arg-type]
            committer = committer_of(kafka)
            kafka.topic("orders").produce(["a", "b"])
            committer.commit(1)
            kafka.restart()
            assert committer.committed() == 1
            assert len(kafka.topic("orders", partitions=2).records()) == 2
            assert events(kafka) == ["restarted"]


def test_a_frozen_clock_stays_frozen_across_a_crash(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    assert service is not None
    kafka.clock.freeze()
    now_ms = kafka.clock.now_ms
    kafka.crash()
    assert kafka.clock.now_ms == now_ms
    kafka.clock.advance(minutes=5)
    assert [each.cause for each in group.generations] == ["member joined", "session expired"]


@pytest.mark.parametrize("end", ["crash", "restart", "broker_down"])
def test_a_restart_evicts_no_disconnected_member(end: str) -> None:
    with Kafka(evict_disconnected=True) as kafka, serving(kafka):
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
def test_stop_and_reset_record_no_exits(end: str) -> None:
    with Kafka(evict_disconnected=True) as kafka, serving(kafka):
        kafka.group("billing").wait_stable(members=1)
        history = kafka.history
        getattr(kafka, end)()
        assert history.exits() == []


def test_a_hold_continues_across_a_crash(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with group.hold_joins() as held, serving(kafka):
        held.wait()
        kafka.crash()
        held.wait()
        assert group.members == []
        held.release()
        group.wait_stable(members=1)


def test_a_crash_ends_the_loading_of_a_coordinator(kafka: Kafka, committer: Committer) -> None:
    committer.commit(1)
    with kafka.group("billing").loading():
        kafka.crash()
        assert committer.committed() == 1
    assert committer.committed() == 1


def test_the_nodes_of_a_reset_cluster_keep_their_addresses(committer_of: NewCommitter) -> None:
    with Kafka(nodes=3) as kafka:
        before = kafka.nodes
        kafka.reset()
        assert kafka.nodes == before
        committer_of(kafka).commit(1)


# --- snapshot, restore, fork


def test_a_snapshot_can_be_restored_several_times(kafka: Kafka, committer: Committer) -> None:
    committer.commit(1)
    snapshot = kafka.snapshot()
    for _ in range(3):
        committer.commit(5)
        kafka.topic("later", partitions=1).produce(["x"])
        kafka.restore(snapshot)
        assert committer.committed() == 1
        assert kafka.call(lambda broker: broker.node.topics.get("later")) is None
    assert events(kafka) == ["restored"] * 3


def test_members_rejoin_after_their_group_was_restored(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("first")
    group = kafka.group("billing").wait_stable(members=1)
    first = group.generation
    snapshot = kafka.snapshot()
    second = new_service("second")
    group.wait_stable(members=2)
    second.close()
    group.wait_stable(members=1)
    assert group.generation > first
    kafka.restore(snapshot)
    # The generation of its member is unknown to the restored broker, so the member rejoins.
    group.wait_generation(first + 1)
    group.wait_stable(members=1)


def test_a_saved_snapshot_is_a_data_folder(
    kafka: Kafka, committer: Committer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    committer.commit(7)
    kafka.snapshot().save(tmp_path / "saved")
    assert main(["log", "dump", str(tmp_path / "saved"), "--format", "json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    commits = [each["value"] for each in records if each["kind"] == "OffsetCommit"]
    assert [value["offset"] for value in commits] == [7]


def test_a_fork_is_independent(
    kafka: Kafka, committer: Committer, committer_of: NewCommitter
) -> None:
    committer.commit(1)
    kafka.clock.advance(days=1)
    with kafka.fork() as other:
        assert other.clock.now_ms - kafka.clock.now_ms < 10_000
        assert other.bootstrap_servers != kafka.bootstrap_servers
        other_committer = committer_of(other)
        assert other_committer.committed() == 1
        other_committer.commit(7)
        committer.commit(2)
        assert other_committer.committed() == 7
        assert [each.offset for each in other.group("billing").commits] == [7]
    assert committer.committed() == 2


def test_snapshot_restore_fork_crash_and_restart_take_milliseconds(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=10).produce([b"x" * 100] * 1000)

    def best_seconds(function: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            began = time.process_time()
            function()
            times.append(time.process_time() - began)
        return min(times)

    def fork() -> None:
        with kafka.fork(snapshot):
            pass

    snapshot = kafka.snapshot()
    for function in (
        kafka.snapshot,
        lambda: kafka.restore(snapshot),
        fork,
        kafka.crash,
        kafka.restart,
    ):
        assert best_seconds(function) < 0.02


def test_restoring_something_else_leaves_the_broker_running(kafka: Kafka) -> None:
    with pytest.raises(AttributeError):
        kafka.restore(None)  # type: ignore[arg-type]
    assert kafka.topics == []


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_outside_of_the_range_is_rejected(port: int) -> None:
    with pytest.raises(ValueError, match=f"port must be between 0 and 65535, not {port}"):
        Kafka(port=port)


@pytest.mark.parametrize("seed", range(12))
def test_a_broker_does_not_import_its_own_partitions_after_a_power_cut(seed: int) -> None:
    with Kafka() as kafka:
        kafka.topic("orders", partitions=1)
        kafka.fake_member("billing", topics=["orders"]).commit("orders", 0, 1)
        kafka.crash(power=True, seed=seed)
        found = {each.name: each.partitions for each in kafka.topics}
        assert found.get("__consumer_offsets", 50) == 50
