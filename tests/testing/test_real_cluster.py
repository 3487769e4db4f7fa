"""The same tests on their own brokers and on a real cluster: another kohort, and Kafka itself."""

import io
import re
import socket
import socketserver
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kohort.testing import Kafka, kafka_for_test
from kohort.testing.backend import VARIABLE, check_reachable
from kohort.testing.deadline import poll
from kohort.testing.group import Group
from kohort.testing.real_cluster import SKIPPED, RealCluster, RealKafka
from support.kafka_process import STARTED_WITHIN_SECONDS, KafkaFolder

from .conftest import Committer, begin, transactional_producer

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.clients
pytest_plugins = ["pytester"]

SUITE = """
import contextlib
import pytest
from confluent_kafka import Consumer
from kohort.testing import BarrierTimeout


@contextlib.contextmanager
def consuming(kafka, **config):
    consumer = Consumer({
        **config,
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing", "client.id": "mine",
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })
    # With a callback, partitions are revoked in poll().
    consumer.subscribe(["orders"], on_revoke=lambda *_: None)
    try:
        yield consumer
    finally:
        consumer.close()


NEW = {"group.protocol": "consumer"}
STATIC = {"group.instance.id": "static"}


def test_cooperative_members(kafka):
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    strategy = {"partition.assignment.strategy": "cooperative-sticky"}
    with consuming(kafka, **strategy) as one:
        kafka.wait(lambda: one.poll(0.05) or one.assignment())
        with consuming(kafka, **strategy) as two:
            kafka.wait(lambda: (one.poll(0.05), two.poll(0.05)) and two.assignment())
            group.wait_stable(members=2)
            assert [len(each.partitions) for each in group.members] == [1, 1]


def test_records(kafka):
    topic = kafka.topic("orders", partitions=2, config={"retention.ms": "-1"})
    assert topic.produce([b"a", ("key", "b"), ("key", None)]) == [(0, 0), (1, 0), (1, 1)]
    assert [(each.key, each.value) for each in topic.records()] == [
        (None, b"a"), (b"key", b"b"), (b"key", None)
    ]
    assert topic.produce(["c"], partition=0) == [(0, 1)]
    assert (topic.end_offset(0), topic.end_offset(1)) == (2, 2)
    assert topic.start_offset(1) == 0
    assert (kafka.group("billing").lag("orders"), kafka.group("billing").lag("orders", 1)) == (4, 2)
    topic.add_partitions(3)
    assert kafka.topic("orders").partitions == 3
    with pytest.raises(ValueError, match="has 3 partitions, not 2"):
        kafka.topic("orders", partitions=2)
    with pytest.raises(ValueError):
        kafka.topic("orders!")
    topic.delete()
    assert kafka.topic("orders", partitions=1).records() == []


@pytest.mark.parametrize("protocol", ["classic", "consumer", "classic"])
def test_a_group_in_a_clean_view(kafka, protocol):
    topic = kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    assert (group.state, group.committed("orders", 0)) == ("Dead", None)
    assert kafka.groups == []
    topic.produce([b"a", b"b"])
    with consuming(kafka, **{"group.protocol": protocol}) as consumer:
        assert [consumer.poll(20).value() for _ in range(2)] == [b"a", b"b"]
        group.wait_stable(members=1)
        (member,) = group.members
        assert (member.client_id, member.partitions) == ("mine", (("orders", 0),))
        assert group.wait_owner("orders", 0, "mine").member_id == member.member_id
        consumer.commit(asynchronous=False)
        assert group.wait_committed("orders", 0, 2) == 2
        kafka.wait(lambda: group.committed("orders", 0) == 2)
        assert group.offsets == {("orders", 0): 2}
        with pytest.raises(BarrierTimeout, match="billing .*Stable"):
            group.wait_stable(members=2, timeout=0.1)
    group.wait_empty()
    assert [each.group_id for each in kafka.groups] == ["billing"]


def test_members_of_a_consumer_group_by_their_epochs(kafka):
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    with pytest.raises(BarrierTimeout, match="billing does not exist"):
        group.wait_generation(1, timeout=0.1)
    with consuming(kafka, **NEW) as one:
        kafka.wait(lambda: one.poll(0.05) or one.assignment())
        first = group.wait_stable(members=1).generation
        assert group.wait_epoch(first).members[0].epoch == first
        with consuming(kafka, **NEW) as two:
            # Nobody polls the first one, so it cannot revoke what the second one waits for.
            kafka.wait(lambda: two.poll(0.05) or len(group.members) == 2)
            group.wait_generation(first + 1)
            kafka.wait(lambda: two.poll(0.05) or any(each.revoking for each in group.members))
            old, new = sorted(group.members, key=lambda each: not each.revoking)
            assert (old.epoch, len(old.partitions), new.partitions) == (first, 1, ())
            (moving,) = old.revoking
            assert group.owner(*moving).member_id == old.member_id
            with pytest.raises(BarrierTimeout) as timeout:
                group.wait_epoch(first + 1, old.member_id, timeout=0.1)
            for what in ("is Reconciling", old.member_id, f"{moving[0]}-{moving[1]}"):
                assert what in str(timeout.value)
            kafka.wait(lambda: (one.poll(0.05), two.poll(0.05)) and two.assignment())
            assert group.wait_owner(*moving, new.member_id).epoch >= first + 1
            group.wait_stable(members=2)
            assert {each.protocol for each in group.members} == {"consumer"}
            assert [each.partitions for each in group.members] == [
                each.target for each in group.members
            ]
    group.wait_empty()


def test_a_group_with_members_of_both_protocols(kafka):
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    with consuming(kafka) as one:
        kafka.wait(lambda: one.poll(0.05) or one.assignment())
        group.wait_stable(members=1)
        with consuming(kafka, **NEW) as two:
            kafka.wait(lambda: (one.poll(0.05), two.poll(0.05)) and two.assignment())
            kafka.wait(lambda: (one.poll(0.05), two.poll(0.05)) and group.state == "Stable")
            group.wait_stable(members=2)
            assert {each.protocol: len(each.partitions) for each in group.members} == {
                "classic": 1, "consumer": 1
            }


@pytest.mark.parametrize("config", [{}, STATIC, {}, {**STATIC, **NEW}, NEW])
def test_a_group_that_the_test_does_not_name(kafka, config):
    kafka.topic("orders", partitions=1).produce([b"a"])
    with consuming(kafka, **config) as consumer:
        assert consumer.poll(20).value() == b"a"
        consumer.commit(asynchronous=False)


async def test_waits_are_awaited(async_kafka):
    async_kafka.topic("orders", partitions=1)
    await async_kafka.group("billing").wait_empty()
    await async_kafka.wait(lambda: True)


@pytest.mark.kafka(nodes=1, preset="kafka", profile="kafka-4.x", config={})
def test_default_arguments_and_ignored_client_checks(kafka):
    kafka.client_checks.ignore("zombie commit")
    with pytest.raises(ValueError, match="Unknown kind"):
        kafka.client_checks.ignore("zombie")
    assert kafka.group("billing").offsets == {}


def test_a_reset_view_is_clean(kafka):
    kafka.topic("orders", partitions=1).produce(["a"])
    kafka.reset()
    assert kafka.topic("orders", partitions=2).records() == []
"""
SUITE_TESTS = 15

CONTROLLED = """
from contextlib import closing
import pytest
from confluent_kafka import Consumer, TopicPartition

def test_clock(kafka):
    kafka.clock.freeze()

def test_faults(kafka):
    kafka.faults.drop("OffsetCommit").cancel()

def test_client_checks(kafka):
    kafka.client_checks.check()

def test_history(kafka):
    assert kafka.history.commits("billing") == []

def test_generation(kafka):
    kafka.topic("orders", partitions=1)
    with closing(Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing",
    })) as consumer:
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        assert kafka.group("billing").generation == 0

async def test_requests(async_kafka):
    kafka = async_kafka
    with pytest.raises(AssertionError):
        await kafka.wait_request("OffsetCommit", timeout=0.01)

def test_call(kafka):
    assert kafka.call(lambda broker: broker.port) > 0

@pytest.mark.parametrize("do", [
    lambda kafka: kafka.crash(),
    lambda kafka: kafka.snapshot(),
    lambda kafka: kafka.stop_node(1),
    lambda kafka: kafka.disk.heal(),
    lambda kafka: kafka.security.quotas({"user": "alice"}),
    lambda kafka: kafka.transactions.all,
    lambda kafka: kafka.group("billing").hold_syncs().release(),
    lambda kafka: kafka.group("billing").hold_joins().release(),
    lambda kafka: kafka.group("billing").move_to(1),
    lambda kafka: kafka.group("billing").explain(),
])
def test_control(kafka, do):
    do(kafka)

def test_cluster(kafka_cluster):
    kafka_cluster(nodes=2)

@pytest.mark.kafka(config={"group.max.size": "2"})
def test_config(kafka):
    pass

def test_records(kafka):
    kafka.topic("orders", partitions=1)
"""
CONTROLLED_TESTS = 19


@pytest.fixture
def elsewhere(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    """Another broker, which the environment names as the real cluster."""
    with Kafka() as elsewhere:
        monkeypatch.setenv(VARIABLE, elsewhere.bootstrap_servers)
        yield elsewhere


def run(pytester: pytest.Pytester, suite: str) -> pytest.RunResult:
    pytester.makepyfile(suite)
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
        "kafka_config = num.partitions=1\n"
    )
    return pytester.runpytest_inprocess("-p", "no:randomly", "-rs")


def commit(kafka: Kafka, group: str, topic: str) -> None:
    committer = Committer(kafka, group)
    committer.commit(1, topic)
    committer.consumer.close()


def test_the_suite_passes_on_its_own_brokers(pytester: pytest.Pytester) -> None:
    run(pytester, SUITE).assert_outcomes(passed=SUITE_TESTS)


def test_the_suite_passes_on_another_broker_and_cleans_up(
    pytester: pytest.Pytester, elsewhere: Kafka
) -> None:
    run(pytester, SUITE).assert_outcomes(passed=SUITE_TESTS)
    requests = elsewhere.history.requests
    assert "mine" in {each.client_id for each in requests}
    assert elsewhere.groups == []
    assert elsewhere.topic("orders", partitions=3).records() == []


def test_tests_that_need_the_harness_are_skipped_with_a_reason(
    pytester: pytest.Pytester, elsewhere: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(pytester, CONTROLLED)
    result.assert_outcomes(skipped=CONTROLLED_TESTS, passed=1)
    ending = SKIPPED
    for what in ("clock", "history", "crash", "security", "transactions", "wait_request"):
        result.stdout.fnmatch_lines([f"SKIPPED*the test uses kafka.{what}, {ending}"])
    result.stdout.fnmatch_lines([f"SKIPPED*the test uses broker internals, {ending}"])
    too_small = "the test uses Kafka(nodes=2), but the cluster has 1 broker"
    result.stdout.fnmatch_lines([f"1 × {too_small}", f"SKIPPED*{too_small}"])
    # The line of the test that used it; the first line of the test if a fixture did.
    for name, line in (("kafka.clock", "kafka.clock.freeze"), ("Kafka(config*)", "kafka(config")):
        number = 1 + next(
            i for i, text in enumerate(CONTROLLED.strip().splitlines()) if line in text
        )
        result.stdout.fnmatch_lines([f"SKIPPED*py:{number}: the test uses {name}, {ending}"])
    result.stdout.fnmatch_lines(
        [
            f"*the real cluster {elsewhere.bootstrap_servers}*",
            f"1 passed and 0 failed; {CONTROLLED_TESTS} need a kohort broker:",
            f"* × the test uses kafka.disk, {ending}",
            "    *::test_control[[]<lambda>3]",
        ]
    )
    monkeypatch.delenv(VARIABLE)
    run(pytester, CONTROLLED).assert_outcomes(passed=CONTROLLED_TESTS + 1)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_cluster_that_cannot_be_reached_ends_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    pytester.makepyfile("def test_any(kafka): pass")
    if by == "variable":
        monkeypatch.setenv(VARIABLE, "127.0.0.1:1")
    options = ["--kafka-cluster", "127.0.0.1:1,nonsense"] if by == "option" else []
    result = pytester.runpytest_inprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    where = "--kafka-cluster" if options else VARIABLE
    what = f"ERROR: the cluster in {where} cannot be reached: 127.0.0.1:1: Connection refused"
    invalid = "; invalid address 'nonsense': expected HOST:PORT" if options else ""
    result.stderr.fnmatch_lines([what + invalid])


def test_a_missing_kafka_python_ends_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before the cluster is contacted, and reports the reason once, not once per test."""
    monkeypatch.setitem(sys.modules, "kafka", None)
    result = pytester.runpytest_inprocess("--kafka-cluster", "127.0.0.1:1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --kafka-cluster needs kafka-python: pip install 'kafka-python>=3'"]
    )


def test_a_port_that_is_no_kafka_ends_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_any(kafka): pass")
    with socketserver.TCPServer(("127.0.0.1", 0), _Http) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{server.server_address[1]}"
        result = pytester.runpytest_inprocess(f"--kafka-cluster={where}")
        server.shutdown()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*: {where} is not a Kafka broker: it does not respond to ApiVersi*"]
    )


def test_a_response_may_arrive_in_parts() -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _SlowBroker) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert check_reachable(f"127.0.0.1:{server.server_address[1]}") is None


class _SlowBroker(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        request = self.request.recv(100)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request.sendall(bytes(3))
        self.request.settimeout(0.05)
        with suppress(TimeoutError):  # a client that does not wait for the rest closes
            self.request.recv(1)
        self.request.sendall(b"\4" + request[8:12])


class _Http(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(1)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.slow
def test_parallel_processes_take_turns(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("n", range(4))
        def test_orders(kafka, n):
            topic = kafka.topic("orders", partitions=1)
            topic.produce([str(n)])
            assert [each.value for each in topic.records()] == [str(n).encode()]
        """
    )
    with Kafka() as elsewhere:
        options = ("--kafka-cluster", elsewhere.bootstrap_servers, "-n", "2")
        result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=4)


def is_locked(lock: Path) -> bool:
    fcntl = pytest.importorskip("fcntl")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_failed_start_and_a_second_stop_leave_the_lock_intact(
    elsewhere: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError):
        kafka_for_test().start()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for _ in range(2):
        kafka = kafka_for_test().start()
        (lock,) = tmp_path.iterdir()
        assert is_locked(lock)
        kafka.stop()
        kafka.stop()
        assert not is_locked(lock)


def test_records_of_a_real_cluster_are_read_with_read_committed(elsewhere: Kafka) -> None:
    with kafka_for_test() as kafka:
        topic = kafka.topic("orders", partitions=1)
        producer = transactional_producer(elsewhere, "billing-1", "payments")
        begin(producer, b"aborted")
        producer.abort_transaction()
        begin(producer, b"committed")
        producer.commit_transaction()
        begin(producer, b"open")
        assert len(topic.records()) == 3
        assert [each.value for each in topic.records(read_committed=True)] == [b"committed"]
        producer.abort_transaction()


def test_existing_topics_and_groups_are_neither_used_nor_deleted(elsewhere: Kafka) -> None:
    elsewhere.topic("orders", partitions=1).produce(["precious"])
    commit(elsewhere, "before", "orders")
    with kafka_for_test() as kafka:
        with pytest.raises(
            ValueError, match=r"group before existed before the test.*delete.* still be open"
        ):
            kafka.group("before")
        with pytest.raises(ValueError, match=r"topic orders existed .*delete.* kafka\.topic"):
            kafka.topic("orders")
        kafka.topic("mine", partitions=1)
        commit(elsewhere, "meanwhile", "orders")
        commit(elsewhere, "ours", "mine")
        assert [each.group_id for each in kafka.groups] == ["meanwhile", "ours"]
    assert [each.group_id for each in elsewhere.groups] == ["before", "meanwhile"]
    assert len(elsewhere.topic("orders").records()) == 1


def test_a_group_of_kafka_connect_does_not_prevent_the_cleanup(
    elsewhere: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.testing.kafka_python.cluster.LEAVE_SECONDS", 0.1)
    kafka = kafka_for_test().start()
    kafka.topic("mine", partitions=1)
    commit(elsewhere, "ours", "mine")
    for group in ("connect-others", "connect-ours"):
        elsewhere.fake_member(group, protocol_type="connect", connectors={"sink": 2})
    with pytest.raises(ValueError, match="members of group connect-ours are not consumers"):
        kafka.group("connect-ours").state  # noqa: B018
    with pytest.warns(UserWarning, match="group connect-ours was not deleted"):
        kafka.stop()
    assert [each.group_id for each in elsewhere.groups] == ["connect-others", "connect-ours"]
    assert "mine" not in [each.name for each in elsewhere.topics]


def test_a_group_whose_members_stay_is_a_warning(
    elsewhere: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.testing.kafka_python.cluster.LEAVE_SECONDS", 0.1)
    consumer = Consumer({"bootstrap.servers": elsewhere.bootstrap_servers, "group.id": "billing"})
    try:
        kafka = kafka_for_test().start()
        kafka.topic("orders", partitions=1)
        consumer.subscribe(["orders"])
        assert consumer.poll(0) is None  # it joins
        kafka.group("billing").wait_stable(members=1)
        with pytest.warns(
            UserWarning, match="group billing was not deleted .* must close its consumers"
        ):
            kafka.stop()
    finally:
        consumer.close()


class ClockCase(unittest.TestCase):
    """A test case as a user of unittest would write it."""

    def test_time(self) -> None:
        kafka = self.enterContext(kafka_for_test())
        kafka.topic("orders", partitions=1)
        kafka.clock.advance(days=1)


def test_a_unittest_case_is_skipped_too(elsewhere: Kafka) -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(ClockCase)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    ((_, reason),) = result.skipped
    assert reason == f"the test uses kafka.clock, {SKIPPED}"
    assert result.wasSuccessful()


KAFKA_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "1",
}


NO_COORDINATOR_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def create_offsets_topic(server: str) -> None:
    """Wait for the first response of a group coordinator: a new Kafka creates __consumer_offsets
    for it, which may take longer than the barriers of the tests wait."""
    with closing(Consumer({"bootstrap.servers": server, "group.id": "first"})) as consumer:

        def has_coordinator() -> bool:
            try:
                consumer.committed([TopicPartition("orders", 0)], timeout=STARTED_WITHIN_SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in NO_COORDINATOR_YET:
                    raise
                return False
            return True

        assert poll(has_coordinator, STARTED_WITHIN_SECONDS)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.toolchain
def test_the_suite_passes_on_kafka_itself(
    pytester: pytest.Pytester,
    kafka_jars: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = KafkaFolder(kafka_jars, tmp_path, KAFKA_SETTINGS)
    folder.format()
    with folder.running(ends_well=False) as server:
        create_offsets_topic(server)
        monkeypatch.setenv(VARIABLE, server)
        run(pytester, SUITE).assert_outcomes(passed=SUITE_TESTS)
        run(pytester, CONTROLLED).assert_outcomes(skipped=CONTROLLED_TESTS, passed=1)
        # The unchanged tests of a sample service.
        command = [sys.executable, "-m", "pytest", "-n", "0", "examples/billing"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        assert re.search(r"= \d+ passed, \d+ skipped in", done.stdout)


def test_a_cluster_with_enough_brokers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Kafka(nodes=2) as elsewhere:
        monkeypatch.setenv(VARIABLE, elsewhere.bootstrap_servers)
        with kafka_for_test(nodes=2) as kafka:
            assert kafka.topic("orders", partitions=1).records() == []
        with pytest.raises(unittest.SkipTest, match=r"nodes=3\), but the cluster has 2 brokers"):
            kafka_for_test(nodes=3).start()


def test_a_mistyped_attribute_does_not_skip_the_test() -> None:
    kafka = RealKafka("127.0.0.1:1")
    assert repr(kafka) == "<RealKafka at 127.0.0.1:1>"
    with pytest.raises(
        AttributeError, match="RealKafka has no attribute 'fault': did you mean fau"
    ):
        kafka.fault  # noqa: B018
    with pytest.raises(unittest.SkipTest, match=r"kafka\.faults, which only a kohort"):
        kafka.faults  # noqa: B018


CONTROL = """
rebalance lead expire fence evict hold_joins hold_syncs hold_heartbeats hold_assignment loading
move_to node_id commits generations assignments exits explain
"""


@pytest.mark.parametrize("name", CONTROL.split())
@pytest.mark.usefixtures("elsewhere")
def test_a_group_of_a_real_cluster_names_what_it_lacks(name: str) -> None:
    with kafka_for_test() as kafka:
        group = kafka.group("billing")
        with pytest.raises(unittest.SkipTest, match=rf"the test uses group\.{name}, which only"):
            getattr(group, name)


def test_every_other_part_of_a_group_works_on_a_real_cluster() -> None:
    works = """
    state generation members owner committed offsets lag group_id
    wait_stable wait_generation wait_epoch wait_owner wait_committed wait_empty wait_gone
    """
    names = {name for name in dir(Group) if not name.startswith("_")} - {"node"}
    assert names == {*works.split(), *CONTROL.split()} - {"group_id"}


@pytest.mark.usefixtures("elsewhere")
def test_a_group_of_another_type_is_not_a_missing_group(monkeypatch: pytest.MonkeyPatch) -> None:
    with kafka_for_test() as kafka:
        monkeypatch.setattr(RealCluster, "_group_types", lambda _: {"billing": "share"})
        with pytest.raises(ValueError, match="Group billing is a share group: tests on a real"):
            kafka.group("billing").state  # noqa: B018
