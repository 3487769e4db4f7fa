"""Conditions of the network, the disk and a node's clock, as real clients see them."""

import asyncio
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer
from kohort.testing import Kafka, UnusedFault
from kohort.testing.faults.faults import Fault
from support.wire import Client

from .conftest import Committer, NewCommitter, NewService, client_settings

pytestmark = pytest.mark.clients


@contextmanager
def taking(at_least_ms: int) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began >= at_least_ms / 1000


def test_latency_delays_every_request_of_a_client_and_other_faults_apply_as_well(
    kafka: Kafka, new_committer: NewCommitter
) -> None:
    near, far = new_committer(client_id="near"), new_committer(client_id="far")
    latency = kafka.faults.latency(ms=40, jitter_ms=10, client_id="far")
    near.commit(1)
    with taking(30):
        far.commit(2)
    assert {each.client_id for each in latency.fired} == {"far"}
    assert "OffsetCommit" in {each.api for each in latency.fired}
    kafka.faults.answer("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")
    with taking(30), pytest.raises(confluent_kafka.KafkaException, match="GROUP_AUTHORIZATION"):
        far.commit(3)
    latency.end()
    fired = len(latency.fired)
    far.commit(4)
    assert len(latency.fired) == fired


def test_latency_of_one_api(kafka: Kafka, committer: Committer) -> None:
    with kafka.faults.latency("OffsetFetch", ms=30) as latency:
        committer.commit(1)
        with taking(30):
            assert committer.committed() == 1
    assert [each.api for each in latency.fired] == ["OffsetFetch"]


def test_bandwidth_limits_the_responses_of_a_connection(kafka: Kafka) -> None:
    topic = kafka.topic("orders", partitions=1)
    topic.produce([b"x" * 30_000])

    async def consume(at_least_ms: int) -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            with taking(at_least_ms):
                record = await asyncio.wait_for(consumer.getone(), 10)
            assert record.value == b"x" * 30_000
            limited.end()
            topic.produce([b"x" * 1_000_000])  # would take ten seconds
            record = await asyncio.wait_for(consumer.getone(), 5)
            assert len(record.value) == 1_000_000
        finally:
            await consumer.stop()

    limited = kafka.faults.limit_bandwidth("Fetch", bytes_per_second=100_000)
    asyncio.run(consume(250))


def test_bandwidth_limits_small_responses(kafka: Kafka) -> None:
    limited = kafka.faults.limit_bandwidth("Metadata", bytes_per_second=10_000)
    with Client(kafka.bootstrap_servers) as raw:
        raw.call("Metadata", 4, topics=[])
        sizes = []
        began = time.monotonic()
        for _ in range(20):
            raw.send("Metadata", 4, topics=[])
            sizes.append(len(raw.receive_frame()))
        seconds = time.monotonic() - began
        assert max(sizes) < 100  # less than the response in one step of 10 ms
        assert sum(sizes) / seconds <= 10_000
        limited.end()


def test_librdkafka_reports_a_throttle_and_the_next_request_of_its_connection_waits(
    kafka: Kafka,
) -> None:
    throttles: list[float] = []
    kafka.topic("orders", partitions=1)
    producer = Producer(
        {
            **client_settings(kafka),
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )
    kafka.faults.throttle("Produce", ms=120)
    producer.produce("orders", b"one")
    assert producer.flush(10) == 0
    with taking(60):  # Less than the throttle time: the response to the first may have been late.
        producer.produce("orders", b"two")
        assert producer.flush(10) == 0
    assert throttles == [0.12, 0]  # the second event: no longer throttled


def test_kafka_python_waits_for_a_throttle(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    try:
        kafka.faults.throttle("Produce", ms=120)
        producer.send("orders", b"one").get(10)
        with taking(60):
            producer.send("orders", b"two").get(10)
    finally:
        producer.close()


def test_aiokafka_ignores_a_throttle_and_its_next_request_waits(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)

    async def produce() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"one")
            with taking(60):
                await producer.send_and_wait("orders", b"two")
        finally:
            await producer.stop()

    kafka.faults.throttle("Produce", ms=120)
    asyncio.run(produce())


def test_a_throttled_connection_is_not_read_for_the_throttle_time(kafka: Kafka) -> None:
    kafka.faults.throttle("Metadata", ms=100)
    with Client(kafka.bootstrap_servers) as raw, taking(100):
        assert raw.call("Metadata", 4, topics=[])["throttle_time"] == 100
        assert raw.call("Metadata", 4, topics=[])["throttle_time"] == 0


def test_a_partitioned_consumer_is_removed_and_rejoins_when_the_network_is_back(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("near", session_timeout_ms=45_000)
    new_service("far", session_timeout_ms=45_000)
    group = kafka.group("billing").wait_stable(members=2)
    with kafka.faults.network_partition(client_id="far") as partition:
        partition.wait(1)
        group.expire("far")
        group.wait_stable(members=1)
        assert [each.client_id for each in group.members] == ["near"]
        assert {each.client_id for each in partition.fired} == {"far"}
    group.wait_stable(members=2)


def test_the_response_to_an_earlier_request_is_withheld_as_well(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    with (
        Client(kafka.bootstrap_servers, "far") as far,
        Client(kafka.bootstrap_servers, "near") as near,
    ):
        first = far.join("billing")
        near.send_join("billing", near.new_member_id("billing"))
        kafka.wait(lambda: kafka.group("billing").state == "PreparingRebalance")
        partition = kafka.faults.network_partition(client_id="near", node=1)
        near.send("Metadata", 4, topics=[])
        far.join("billing", first["member_id"])  # completes the rebalance
        assert select.select([near.socket], [], [], 0.05)[0] == []
        partition.end()
        assert near.receive()["generation_id"] == 2
        assert near.receive()["brokers"]


def test_a_client_that_is_cut_off_from_one_node_reaches_the_others(
    committer_of: NewCommitter,
) -> None:
    with Kafka(nodes=2) as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        (other,) = (n for n in kafka.nodes if n.node_id != kafka.group("billing").node_id)
        with kafka.faults.network_partition(node=other.node_id) as partition:
            producer = Producer({"bootstrap.servers": other.address, "log_level": 0})
            kafka.wait(lambda: producer.poll(0) or partition.fired)
            committer.commit(2)
        assert "orders" in producer.list_topics(timeout=10).topics


def test_a_slow_sync_delays_the_response_to_a_commit(committer_of: NewCommitter) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        slow = kafka.disk.slow_sync(ms=50, times=1, topic="__consumer_offsets")
        with taking(50):
            committer.commit(2)
        assert slow.fired == 1
        committer.commit(3)
        kafka.disk.slow_sync(seconds=1)
        with pytest.raises(UnusedFault, match="disk: sync takes 1000 ms longer, fired 0"):
            kafka.faults.check()


def test_a_node_with_a_skewed_clock_stamps_and_rejects_records(kafka: Kafka) -> None:
    kafka.topic("stamped", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    kafka.topic("checked", partitions=1, config={"message.timestamp.after.max.ms": "60000"})
    errors: list[object] = []
    producer = Producer(client_settings(kafka))
    before_ms = kafka.clock.now_ms
    with kafka.faults.skew_clock(node=1, seconds=3600):
        producer.produce("stamped", b"x")
        assert producer.flush(10) == 0
    (record,) = kafka.topic("stamped").records()
    assert 3_600_000 <= record.timestamp - before_ms < 3_660_000
    with kafka.faults.skew_clock(node=1, seconds=-3600):
        producer.produce("checked", b"x", on_delivery=lambda error, _: errors.append(error.name()))
        assert producer.flush(10) == 0
    assert errors == ["INVALID_TIMESTAMP"]
    producer.produce("checked", b"y")
    assert producer.flush(10) == 0
    assert [each.value for each in kafka.topic("checked").records()] == [b"y"]


def test_skews_of_one_node_add_up_and_end_in_any_order(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    clock = kafka.call(lambda broker: broker.node.clock)

    def ahead_s() -> int:
        with Client(kafka.bootstrap_servers) as raw:
            raw.call("Produce", 9, topic_data=[], acks=1, timeout=0, transactional_id=None)
        skewed = kafka.call(lambda broker: broker.node.clock.now_ms() - clock.now_ms())
        return round(skewed / 1000)

    first = kafka.faults.skew_clock(node=1, seconds=60)
    assert ahead_s() == 60
    second = kafka.faults.skew_clock(node=1, seconds=-3600)
    assert ahead_s() == -3540
    first.end()
    assert ahead_s() == -3600
    second.end()
    assert ahead_s() == 0


CONDITIONS: dict[str, Callable[[Kafka], Fault]] = {
    "latency of 5 ms": lambda kafka: kafka.faults.latency(ms=5),
    "bandwidth of 10 bytes": lambda kafka: kafka.faults.limit_bandwidth(bytes_per_second=10),
    "throttled by 5 ms": lambda kafka: kafka.faults.throttle("Fetch", ms=5),
    "network partition": lambda kafka: kafka.faults.network_partition(client_id="till"),
    "clock skew of -5 ms": lambda kafka: kafka.faults.skew_clock(node=1, ms=-5),
}


@pytest.mark.parametrize("description", CONDITIONS)
def test_a_condition_must_fire(kafka: Kafka, description: str) -> None:
    new = CONDITIONS[description]
    with pytest.raises(UnusedFault, match=description), new(kafka):
        pass
    new(kafka)
    with pytest.raises(UnusedFault, match=description):
        kafka.faults.check()
    with pytest.raises(ZeroDivisionError), new(kafka):
        raise ZeroDivisionError  # not hidden by an unused fault
    new(kafka).cancel()
    kafka.faults.check()


@pytest.mark.parametrize("description", CONDITIONS)
def test_a_condition_does_not_survive_the_check_of_a_stopped_broker(description: str) -> None:
    kafka = Kafka().start()
    condition = CONDITIONS[description](kafka)
    hold = kafka.transactions.hold_markers()
    kafka.stop()
    with pytest.raises(UnusedFault, match=description):
        kafka.faults.check()
    with kafka:
        kafka.fake_member("billing", client_id="till")
        assert condition.fired == []
        assert kafka.faults.checked == []
    assert hold.is_unused


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (lambda faults: faults.latency(), "delay must be positive, not 0 ms"),
        (lambda faults: faults.latency(ms=5, jitter_ms=6), "jitter_ms must be from 0 to 5, not 6"),
        (lambda faults: faults.limit_bandwidth(bytes_per_second=0), "at least 1, not 0"),
        (lambda faults: faults.network_partition(), "needs a client_id, a node, or both"),
        (lambda faults: faults.network_partition(node=7), "node 7 does not exist"),
        (lambda faults: faults.skew_clock(node=1), "skew_clock needs seconds or ms"),
        (lambda faults: faults.latency("Fetch", ms=5, group="g"), "Fetch requests have no group"),
    ],
)
def test_invalid_conditions_are_rejected(
    kafka: Kafka, new: Callable[[object], None], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        new(kafka.faults)
