"""Without pytest: unittest, scripts, and code that was written for a container."""

import io
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer
from kohort.testing import Kafka, KafkaContainer, UnusedFault


class OrdersCase(unittest.TestCase):
    """What a user of unittest writes."""

    def setUp(self) -> None:
        self.kafka = self.enterContext(Kafka())

    def test_orders_are_there(self) -> None:
        self.kafka.topic("orders", partitions=1).produce(["a"])
        assert [each.value for each in self.kafka.topic("orders").records()] == [b"a"]

    def test_each_has_its_own(self) -> None:
        assert self.kafka.topic("orders", partitions=2).records() == []


def test_a_unittest_case_has_a_broker_for_each_of_its_tests() -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(OrdersCase)
    result = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


def test_a_script_is_told_of_a_fault_that_never_fired_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with pytest.raises(UnusedFault), Kafka() as kafka:
        kafka.faults.drop("OffsetCommit")
    assert threading.active_count() == before


@pytest.mark.clients
def test_who_waits_for_a_broker_that_is_stopped_is_told_at_once() -> None:
    began = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with Kafka() as kafka:
            waiting = pool.submit(kafka.run, kafka.changes.until(began.set, 30))
            assert began.wait(10)
        with pytest.raises(RuntimeError, match="the broker was stopped while it was waited for"):
            waiting.result(10)


def test_code_that_was_written_for_a_container_runs_as_it_is() -> None:
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


def test_a_container_that_is_started_and_stopped_by_hand_can_be_started_again() -> None:
    before = threading.active_count()
    container = KafkaContainer().with_kraft()
    for _ in range(2):
        assert container.start(timeout=60).get_bootstrap_server().startswith("127.0.0.1:")
        container.stop(force=True)
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match="start it first"):
        container.get_bootstrap_server()


def test_what_can_only_be_asked_of_a_container_says_that_there_is_none() -> None:
    with KafkaContainer() as container:
        assert not hasattr(container, "get_logs")
        with pytest.raises(AttributeError, match="has no exec: there is no container here"):
            container.exec("kafka-topics --create --topic orders")


def test_a_variable_that_only_the_scripts_of_an_image_know_is_no_error() -> None:
    container = KafkaContainer().with_env("KAFKA_CREATE_TOPICS", "orders:1:1")
    with pytest.warns(UserWarning, match=r"unknown .* 'create.topics' .from code.; it is ignored"):
        container.start()
    container.stop()
