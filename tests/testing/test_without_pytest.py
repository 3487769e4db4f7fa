"""Without pytest: unittest, scripts, and code written for testcontainers."""

import io
import subprocess
import sys
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer
from kohort.testing import Kafka, KafkaContainer, UnusedFault


class OrdersCase(unittest.TestCase):
    """A test case as a user of unittest would write it."""

    def setUp(self) -> None:
        self.kafka = self.enterContext(Kafka())

    def test_orders_exist(self) -> None:
        self.kafka.topic("orders", partitions=1).produce(["a"])
        assert [each.value for each in self.kafka.topic("orders").records()] == [b"a"]

    def test_each_test_has_its_own(self) -> None:
        assert self.kafka.topic("orders", partitions=2).records() == []


def test_a_unittest_case_has_a_broker_for_each_test() -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(OrdersCase)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


def test_a_script_gets_unused_faults_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with pytest.raises(UnusedFault), Kafka() as kafka:
        kafka.faults.drop("OffsetCommit")
    assert threading.active_count() == before


def test_a_harness_in_memory_needs_nothing_that_windows_lacks() -> None:
    code = (
        "import os, sys; sys.modules['fcntl'] = None\n"
        "for name in ('pread', 'pwrite', 'fdatasync', 'posix_fallocate'):\n"
        "    vars(os).pop(name, None)\n"
        "from kohort.testing import Kafka\n"
        "with Kafka() as kafka: kafka.topic('orders').produce(['one'])\n"
        "from pathlib import Path\n"
        "from kohort.log.files import DiskFiles\n"
        "try: DiskFiles().lock(Path('.lock'))\n"
        "except OSError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "data on disk needs Linux or macOS: keep it in memory, or use WSL" in done.stdout


@pytest.mark.clients
def test_a_wait_ends_when_the_broker_is_stopped() -> None:
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with Kafka() as kafka:
            waiting = pool.submit(kafka.run, kafka._host.changes.wait_until(began.set, 30))
            assert began.wait(10)
        with pytest.raises(RuntimeError, match="The broker was stopped during this wait"):
            waiting.result(10)


def test_code_for_testcontainers_runs_unchanged() -> None:
    container = (
        KafkaContainer("confluentinc/cp-kafka:7.6.0", port=9093, mem_limit="1g")
        .with_kraft()
        .with_cluster_id("bW9ja2NsdXN0ZXJpZA==")
        .with_env("KAFKA_NUM_PARTITIONS", 3)
        .with_env("KAFKA_ADVERTISED_LISTENERS", "PLAINTEXT://kafka:9092")
        .with_exposed_ports(9093)
        .with_name("kafka")
        .with_tmpfs_mount("/var/lib/kafka", "64m")
        .waiting_for("a log line")
    )
    with container as kafka:
        server = kafka.get_bootstrap_server()
        assert server == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        consumer = Consumer({"bootstrap.servers": server, "group.id": "billing"})
        try:
            kafka.kafka.topic("orders")
            assert len(consumer.list_topics("orders", timeout=10).topics["orders"].partitions) == 3
        finally:
            consumer.close()


def test_a_container_can_be_started_again() -> None:
    before = threading.active_count()
    container = KafkaContainer().with_kraft()
    for _ in range(2):
        assert container.start(timeout=60).get_bootstrap_server().startswith("127.0.0.1:")
        container.stop(force=True)
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="The container is not started"):
        container.get_bootstrap_server()


def test_methods_of_real_containers_raise_an_explanation() -> None:
    with KafkaContainer() as container:
        assert not hasattr(container, "get_logs")
        with pytest.raises(AttributeError, match="has no exec, because there is no container"):
            container.exec("kafka-topics --create --topic orders")


def test_a_variable_for_the_image_is_no_error() -> None:
    container = KafkaContainer().with_env("KAFKA_CREATE_TOPICS", "orders:1:1")
    for start in (container.start, container.__enter__):
        with pytest.warns(
            UserWarning, match="unknown .* 'create.topics' .*; it is ignored"
        ) as warned:
            start()
        container.stop()
        (warning,) = warned
        assert "(from KAFKA_CREATE_TOPICS)" in str(warning.message)
        assert warning.filename == __file__


def test_a_container_cannot_be_started_twice() -> None:
    with KafkaContainer() as container, pytest.raises(RuntimeError, match="already started"):
        container.start()
