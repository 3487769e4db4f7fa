"""Faults on each API of transactions, with librdkafka, which has to commit each record once."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kohort.testing import Kafka

from .conftest import NewProducer, begin, client_settings, transactional_producer

pytestmark = pytest.mark.clients

RETRIABLE = {
    "InitProducerId": "COORDINATOR_LOAD_IN_PROGRESS",
    "AddPartitionsToTxn": "CONCURRENT_TRANSACTIONS",
    "Produce": "NOT_LEADER_OR_FOLLOWER",
    "AddOffsetsToTxn": "NOT_COORDINATOR",
    "TxnOffsetCommit": "COORDINATOR_LOAD_IN_PROGRESS",
    "EndTxn": "NOT_COORDINATOR",
}
BY_ID = {"transactional_id": "billing-1"}
LATER_MS = 30


def commit_one(kafka: Kafka) -> None:
    """One transaction, with a record and an offset."""
    producer = transactional_producer(kafka, "billing-1", "payments")
    begin(producer)
    consumer = Consumer(client_settings(kafka, group_id="ledger"))
    producer.send_offsets_to_transaction(
        [TopicPartition("orders", 0, 7)], consumer.consumer_group_metadata()
    )
    consumer.close()
    producer.commit_transaction()


def check_committed_once(kafka: Kafka) -> None:
    kafka.transactions.wait("billing-1", "committed")
    assert [each.value for each in kafka.topic("orders").records()] == [b"paid"]
    assert kafka.group("ledger").wait_committed("orders", 0) == 7


@pytest.mark.parametrize("api", RETRIABLE)
def test_an_error_of_each_api_is_retried(kafka: Kafka, api: str) -> None:
    kafka.topic("orders", partitions=1)
    fault = kafka.faults.answer(api, RETRIABLE[api], **BY_ID)
    commit_one(kafka)
    assert [each.errors for each in fault.fired] == [(RETRIABLE[api],)]
    check_committed_once(kafka)


@pytest.mark.parametrize("api", RETRIABLE)
@pytest.mark.parametrize("action", ["drop", "lose_answer", "close_mid_frame"])
def test_a_lost_connection_neither_loses_nor_repeats_a_transaction(
    kafka: Kafka, api: str, action: str
) -> None:
    kafka.topic("orders", partitions=1)
    getattr(kafka.faults, action)(api, **BY_ID)
    commit_one(kafka)
    check_committed_once(kafka)


@pytest.mark.parametrize("api", RETRIABLE)
@pytest.mark.parametrize("action", ["delay", "delay_answer", "throttle"])
def test_a_slow_response_does_not_fail_a_transaction(kafka: Kafka, api: str, action: str) -> None:
    kafka.topic("orders", partitions=1)
    fault = getattr(kafka.faults, action)(api, ms=LATER_MS, **BY_ID)
    commit_one(kafka)
    assert len(fault.fired) == 1
    check_committed_once(kafka)


@pytest.mark.parametrize("is_handled", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("api", RETRIABLE)
def test_a_crash_before_or_after_a_request_does_not_lose_a_transaction(
    kafka: Kafka, in_thread: Callable[[Callable[[], None]], None], api: str, is_handled: bool
) -> None:
    kafka.topic("orders", partitions=1)
    fault = (kafka.faults.lose_answer if is_handled else kafka.faults.never_answer)(api, **BY_ID)
    in_thread(lambda: commit_one(kafka))
    fault.wait()
    kafka.crash()
    check_committed_once(kafka)


def test_a_fault_is_of_one_transactional_id(kafka: Kafka, new_producer: NewProducer) -> None:
    fault = kafka.faults.answer("EndTxn", "NOT_COORDINATOR", transactional_id="two")
    for name in ("one", "two"):
        producer = new_producer(name)
        begin(producer)
        producer.commit_transaction()
    assert [each.transactional_id for each in fault.fired] == ["two"]


def test_a_mistyped_transactional_id_is_reported(kafka: Kafka, new_producer: NewProducer) -> None:
    fault = kafka.faults.drop("EndTxn", transactional_id="billing-2")
    producer = new_producer("billing-1")
    begin(producer)
    producer.commit_transaction()
    report = fault.report()
    assert "no request has transactional id billing-2: did you mean billing-1?" in report
    assert "near miss (transactional id billing-1): EndTxn v1 billing-1" in report
    fault.cancel()
    with pytest.raises(ValueError, match="Heartbeat requests have no transactional id"):
        kafka.faults.drop("Heartbeat", transactional_id="billing-1")


def test_an_error_that_makes_a_transaction_abortable_reaches_the_application(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    kafka.faults.answer("Produce", "TRANSACTION_ABORTABLE", **BY_ID)
    begin(producer, b"lost")
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction()
    assert raised.value.args[0].txn_requires_abort()
    producer.abort_transaction()
    kafka.transactions.wait("billing-1", "aborted")
