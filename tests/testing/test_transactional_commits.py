"""Offsets that a producer commits in a transaction, for the group of a consumer."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.timeline.drawing import draw
from kohort.testing.timeline.timeline import member_names, timeline

from .conftest import NewProducer, client_settings

pytestmark = pytest.mark.clients

NewReader = Callable[..., Consumer]


@pytest.fixture
def new_reader(kafka: Kafka) -> Iterator[NewReader]:
    """`new_reader()` returns a consumer that has read both records of `orders`."""
    kafka.topic("orders", partitions=1).produce(["a", "b"])
    created: list[Consumer] = []

    def new(protocol: str = "classic") -> Consumer:
        settings = {} if protocol == "consumer" else {"heartbeat_interval_ms": 50}
        settings |= {"group_id": "svc", "group_protocol": protocol, "client_id": "app"}
        settings |= {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = Consumer(client_settings(kafka, fetch_wait_max_ms=50, **settings))
        created.append(consumer)
        consumer.subscribe(["orders"])
        for value in (b"a", b"b"):
            message = consumer.poll(10)
            assert message is not None
            assert message.value() == value
        return consumer

    yield new
    for each in created:
        each.close()


def send(producer: Producer, reader: Consumer | object, offset: int) -> None:
    """Begin a transaction with an offset of `orders`. `reader`: the consumer, or its group
    metadata."""
    metadata = reader.consumer_group_metadata() if isinstance(reader, Consumer) else reader
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], metadata)


def test_a_member_does_not_get_the_name_of_the_producer_that_commits_for_it(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader, protocol: str
) -> None:
    send(new_producer(), new_reader(protocol), 1)
    (commit,) = kafka.history.requests_of("TxnOffsetCommit")
    until = [each for each in kafka.history.requests if each.number <= commit.number]
    name = member_names(until)[commit.member_id or ""]
    assert name.startswith("app")


def test_a_member_is_not_connected_through_the_producer_that_commits_for_it(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    metadata = reader.consumer_group_metadata()
    kafka.faults.drop("LeaveGroup")
    reader.close()
    send(producer, metadata, 1)
    assert " has disconnected without leaving the group" in kafka.group("svc").explain()


def test_a_commit_in_a_transaction_is_in_the_history_once_that_is_committed(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader, protocol: str
) -> None:
    producer, reader = new_producer(), new_reader(protocol)
    group = kafka.group("svc").wait_stable(members=1)
    (member,) = group.members
    send(producer, reader, 1)
    assert group.commits == []
    producer.commit_transaction()
    group.wait_committed("orders", 0, 1)
    (first,) = group.commits
    assert (first.before, first.offset, first.transactional_id) == (None, 1, "billing-1")
    assert (first.member_id, first.client_id) == (member.member_id, "app")
    assert first.generation == member.epoch
    position = [TopicPartition("orders", 0, 2)]
    reader.commit(offsets=position, asynchronous=False)
    last = group.commits[-1]
    assert (last.before, last.offset, last.transactional_id) == (1, 2, None)
    assert (last.member_id, last.generation) == (first.member_id, first.generation)


def test_a_commit_in_an_aborted_transaction_is_not_in_the_history(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    send(producer, reader, 1)
    producer.abort_transaction()
    send(producer, reader, 2)
    producer.commit_transaction()
    kafka.group("svc").wait_committed("orders", 0)
    (commit,) = kafka.history.commits()
    assert (commit.before, commit.offset) == (None, 2)


def test_a_newer_commit_replaces_a_pending_one_in_the_history_too(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    send(producer, reader, 1)
    reader.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    producer.commit_transaction()
    kafka.transactions.wait("billing-1", "committed")
    assert [each.offset for each in kafka.history.commits("svc")] == [2]


def test_a_commit_in_a_transaction_is_in_the_history_once_after_a_crash(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    with kafka.transactions.hold_markers("billing-1") as held:
        send(producer, reader, 1)
        producer.commit_transaction()
        held.wait()
        assert kafka.history.commits("svc") == []
        kafka.crash()
    kafka.group("svc").wait_committed("orders", 0, 1)
    (commit,) = kafka.history.commits("svc")
    assert (commit.client_id, commit.transactional_id) == ("app", "billing-1")


def test_both_timelines_show_a_commit_in_a_transaction(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    send(producer, reader, 1)
    assert 'class="commit"' not in draw(kafka.history)
    producer.commit_transaction()
    kafka.group("svc").wait_committed("orders", 0, 1)
    line = "  = svc: orders-0 at 1 committed in transaction billing-1"
    assert [each.endswith(line) for each in timeline(kafka.history)].count(True) == 1
    drawing = draw(kafka.history)
    assert "commits orders-0 at 1 in transaction billing-1</title>" in drawing
    assert ">others<" not in drawing  # it is in the row of the member


def test_a_rejected_commit_in_a_transaction_is_in_the_history(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    metadata = reader.consumer_group_metadata()
    kafka.faults.answer("TxnOffsetCommit", "ILLEGAL_GENERATION")
    for _ in range(2):
        with pytest.raises(KafkaException):
            send(producer, metadata, 1)
        producer.abort_transaction()
        reader.close()
    kafka.client_checks.ignore("zombie commit")
    by_fault, rejected = kafka.history.rejected_commits("svc")
    assert (by_fault.error, by_fault.is_by_fault) == ("ILLEGAL_GENERATION", True)
    assert (rejected.error, rejected.is_by_fault) == ("UNKNOWN_MEMBER_ID", False)
    assert (rejected.transactional_id, rejected.client_id) == ("billing-1", "app")
    assert (rejected.member_id, rejected.generation) == (by_fault.member_id, 1)
    assert (rejected.topic, rejected.partition, rejected.offset) == ("orders", 0, 1)
    assert kafka.history.commits() == []


@pytest.mark.parametrize(("offset", "is_ahead"), [(2, False), (999, True)])
def test_a_commit_ahead_of_delivery_in_a_transaction_is_a_finding(
    kafka: Kafka,
    new_producer: NewProducer,
    new_reader: NewReader,
    protocol: str,
    offset: int,
    is_ahead: bool,
) -> None:
    producer, reader = new_producer(), new_reader(protocol)
    send(producer, reader, offset)
    producer.commit_transaction()
    findings = kafka.client_checks.findings
    assert [(each.kind, each.client_id) for each in findings] == [
        ("commit ahead of delivery", "app")
    ] * is_ahead
    message = "committed orders-0 at 999, but has fetched only records before 2"
    assert all(message in each.message for each in findings)
    kafka.client_checks.ignore("commit ahead of delivery")


def test_a_producer_with_the_offset_of_another_client_is_not_ahead(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    """It may have it from a client that does not commit; nothing proves a mistake."""
    producer = new_producer(client_id="app")  # the client id that has fetched
    new_reader()
    other = Consumer(client_settings(kafka, group_id="other"))
    send(producer, other, 999)
    producer.commit_transaction()
    other.close()
    assert kafka.client_checks.findings == []


def test_a_commit_of_a_closed_consumer_in_a_transaction_is_a_zombie_commit(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader, protocol: str
) -> None:
    producer, reader = new_producer(), new_reader(protocol)
    metadata = reader.consumer_group_metadata()
    reader.close()
    with pytest.raises(KafkaException):
        send(producer, metadata, 1)
    (finding,) = kafka.client_checks.findings
    assert (finding.kind, finding.client_id) == ("zombie commit", "app")
    assert "tried to commit orders-0 at 1 for group svc" in finding.message
    assert "UNKNOWN_MEMBER_ID" in finding.message
    assert "payments" not in finding.message
    kafka.client_checks.ignore("zombie commit")


def test_a_commit_in_a_transaction_rejected_by_a_fault_is_no_finding(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    kafka.faults.answer("TxnOffsetCommit", "ILLEGAL_GENERATION")
    with pytest.raises(KafkaException):
        send(producer, reader, 1)
    assert kafka.client_checks.findings == []


def test_a_failed_wait_names_the_transaction_in_which_the_offset_is_pending(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    send(producer, reader, 1)
    kafka.clock.freeze()
    age_ms = kafka.transactions.describe("billing-1").age_ms or 0
    kafka.clock.advance(ms=12_000 - age_ms)
    group = kafka.group("svc")
    with pytest.raises(BarrierTimeout) as raised:
        group.wait_committed("orders", 0, 1, timeout=0.01)
    assert (
        " The offset of orders-0 is pending in transaction billing-1, which has been open for 12 s "
        "(timeout 1 min)."
    ) in str(raised.value)
    with kafka.transactions.hold_markers() as held:
        producer.commit_transaction()
        held.wait()
        assert (
            " which is in state PrepareCommit: its markers have not been written (the test holds "
            "them back)."
        ) in group.explain()
    group.wait_committed("orders", 0, 1)
    assert "pending" not in group.explain()


def test_an_offset_that_no_transaction_will_commit_is_not_called_pending(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    """A newer commit has replaced it."""
    producer, reader = new_producer(), new_reader()
    send(producer, reader, 1)
    assert " is pending in transaction billing-1" in kafka.group("svc").explain()
    reader.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    assert "pending" not in kafka.group("svc").explain()
