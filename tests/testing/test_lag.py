"""Committed offsets and lag, which are correct immediately after a commit."""

import threading
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kohort.log.group_commit import Durability
from kohort.testing import BarrierTimeout, Kafka

from ..clients.adapter import LIBRARIES, ConsumerSettings, load
from ..clients.consumers import until


@pytest.mark.clients
@pytest.mark.parametrize("library", LIBRARIES)
def test_lag_is_what_a_group_has_not_committed(kafka: Kafka, library: str) -> None:
    orders = kafka.topic("orders", partitions=2)
    orders.produce(["a", "b", "c", "d", "e"], partition=1)
    group = kafka.group("billing")
    assert (group.lag("orders"), group.lag("orders", 0)) == (5, 0)
    with (
        closing(load(library)(kafka.bootstrap_servers)) as client,
        closing(client.consumer(ConsumerSettings("billing"))) as consumer,
    ):
        consumer.subscribe("orders")
        for left in (4, 3):
            until(lambda: consumer.poll(max_records=1), "it reads a record")
            # The consumer commits its position, not what it has fetched.
            consumer.commit()
            assert (group.lag("orders"), group.lag("orders", 1)) == (left, left)
    orders.produce(["f"], partition=0)
    assert (group.lag("orders"), group.lag("orders", 0)) == (4, 1)


def test_the_lag_of_an_unknown_topic_raises(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with pytest.raises(LookupError, match="Topic orders does not exist"):
        group.lag("orders")
    kafka.topic("orders", partitions=1)
    with pytest.raises(LookupError, match="Partition orders-1 does not exist"):
        group.lag("orders", 1)


def test_the_committed_offset_of_an_unknown_topic_raises(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    assert group.committed("orders", 0) is None
    with pytest.raises(LookupError, match=r"Topic oders does not exist: did you mean orders\?"):
        group.committed("oders", 0)
    with pytest.raises(LookupError, match="Partition orders-1 does not exist"):
        group.committed("orders", 1)


@pytest.mark.clients
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_lag_of_a_group_is_explained(kafka: Kafka, library: str) -> None:
    kafka.topic("orders", partitions=2).produce(["a", "b"], partition=1)
    group = kafka.group("billing")
    with (
        closing(load(library)(kafka.bootstrap_servers)) as client,
        closing(client.consumer(ConsumerSettings("billing", client_id="till"))) as consumer,
    ):
        consumer.subscribe("orders")
        until(lambda: consumer.poll(max_records=1), "it reads a record")
        with pytest.raises(BarrierTimeout) as raised:
            kafka.wait(lambda: group.lag("orders") == 0, timeout=0.01)
        assert (
            "Its lag is 2: orders-1 (committed offset: none; log end offset: 2). till fetched "
            "records, but no client has sent OffsetCommit."
        ) in str(raised.value)
        consumer.commit()
        lag = "Its lag is 1: orders-1 (committed offset: 1; log end offset: 2)."
        assert lag in group.explain()
        assert "no client has sent" not in group.explain()
    assert lag in group.explain()  # also when the group is empty
    group.wait_empty()
    kafka.fake_member("billing").commit("orders", 1, 2)
    assert "lag" not in group.explain()


@pytest.mark.clients
def test_deleted_records_are_no_lag_before_the_first_commit(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=1)
    orders.produce(["a", "b", "c"])
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition("orders", 0): 2})
    assert orders.start_offset(0) == 2
    assert kafka.group("billing").lag("orders") == 1


@pytest.mark.parametrize("durability", ["none", "os", "fsync"])
def test_committed_offsets_are_written_when_they_are_returned(durability: Durability) -> None:
    with Kafka(durability=durability) as kafka:
        kafka.topic("orders", partitions=1)
        fake = kafka.fake_member("billing", topics=["orders"])
        fake.commit("orders", 0, 1)
        stopping = threading.Event()

        def commit() -> None:
            offset = 1
            while not stopping.is_set():
                offset += 1
                fake.commit("orders", 0, offset)

        committing = threading.Thread(target=commit)
        committing.start()
        group = kafka.group("billing")
        try:
            seen = [(group.committed("orders", 0), group.offsets) for _ in range(500)]
        finally:
            stopping.set()
            committing.join()
    assert all(committed and offsets for committed, offsets in seen)
