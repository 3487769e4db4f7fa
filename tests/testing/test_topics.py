"""Topics that a test creates and changes."""

import contextlib
from functools import partial

import pytest
from kafka import KafkaProducer
from kohort.testing import Kafka
from support.broker import batch
from support.wire import Client


def test_a_topic_cannot_shrink(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=3)
    for total in (2, 3):
        with pytest.raises(ValueError, match=f"already has 3 partitions: .* grow to {total}"):
            orders.add_partitions(total)
    orders.add_partitions(4)
    assert orders.partitions == 4


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_a_topic_of_the_coordinators_can_be_neither_grown_nor_deleted(
    kafka: Kafka, name: str
) -> None:
    with Client(kafka.bootstrap_servers) as client:
        for key_type in (0, 1):
            client.call("FindCoordinator", 4, key_type=key_type, coordinator_keys=["orders"])
    topic = next(each for each in kafka.topics if each.name == name)
    for change in (partial(topic.add_partitions, 60), topic.delete):
        with pytest.raises(ValueError, match=f"'{name}' is reserved by the broker"):
            change()
    assert topic.partitions == 50


def test_a_topic_cannot_be_deleted_while_all_nodes_are_down(kafka: Kafka) -> None:
    """No node runs the coordinator that must delete the topic's offsets. A topic without committed
    offsets can be deleted."""
    orders, payments = kafka.topic("orders", partitions=1), kafka.topic("payments", partitions=1)
    with kafka.broker_down():
        payments.delete()
    kafka.fake_member("billing", ["orders"])
    with kafka.broker_down(), pytest.raises(ValueError, match="all nodes are down"):
        orders.delete()
    orders.delete()
    assert not {each.name for each in kafka.topics} & {"orders", "payments"}


@pytest.mark.kafka(config={"kohort.offsets.mirror": "offsets"})
def test_the_mirror_cannot_be_created(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="'offsets' is the mirror of __consumer_offsets"):
        kafka.topic("offsets", partitions=2)


def test_deleted_records_are_not_read(kafka: Kafka) -> None:
    """This includes deleted records in a batch with a record that was not deleted."""
    orders = kafka.topic("orders", partitions=1)
    with Client(kafka.bootstrap_servers) as client:
        assert client.produce(batch(b"a", b"b", b"c"))["error_code"] == "none"
        deleted = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 2}]}
        client.call("DeleteRecords", 2, topics=[deleted], timeout=9000)
    assert [(each.offset, each.value) for each in orders.records()] == [(2, b"c")]


def test_another_config_for_an_existing_topic_is_rejected(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1, config={"retention.ms": -1})
    assert kafka.topic("orders", config={"retention.ms": "-1"}).partitions == 1
    with pytest.raises(ValueError, match=r"has retention.ms=-1, not retention.ms=1$"):
        kafka.topic("orders", config={"retention.ms": 1})
    with pytest.raises(ValueError, match=r"has no cleanup.policy, not cleanup.policy=comp"):
        kafka.topic("orders", config={"cleanup.policy": "compact"})


@pytest.mark.parametrize("key", [b"", b"a", b"ab", b"abc", b"order-17", bytes(range(256))])
def test_a_record_with_a_key_is_in_the_partition_that_a_producer_chooses(
    kafka: Kafka, key: bytes
) -> None:
    orders = kafka.topic("orders", partitions=7)
    with contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)) as producer:
        chosen = producer.send("orders", key=key, value=b"").get().partition
    assert [partition for partition, _ in orders.produce([(key, "x"), (key, "y")])] == [chosen] * 2


def test_records_without_a_key_go_round_robin_beside_those_with_one(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=2)
    found = [partition for partition, _ in orders.produce(["a", ("key", "b"), "c", "d"])]
    assert [found[0], *found[2:]] == [0, 1, 0]
