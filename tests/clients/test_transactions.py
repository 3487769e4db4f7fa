"""Transactional producers and read_committed consumers of each client library."""

from collections.abc import Callable, Iterator

import pytest
from kafka.admin import KafkaAdminClient
from kohort.testing import Kafka

from .adapter import LIBRARIES, TransactionalProducer, load
from .consumers import read_committed, until

TIMEOUT_MS = 60_000
HOUR_MS = 3_600_000
GROUP = "ledger"

NewProducer = Callable[..., TransactionalProducer]


@pytest.fixture(params=LIBRARIES)
def new_producer(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[NewProducer]:
    """Create started producers of one library."""
    kafka.topic("orders", partitions=1)
    kafka.topic("bills", partitions=1)
    client = load(request.param)(kafka.bootstrap_servers)
    made: list[TransactionalProducer] = []

    def make(transactional_id: str = "billing-1") -> TransactionalProducer:
        made.append(client.transactional_producer(transactional_id, TIMEOUT_MS))
        made[-1].start()
        return made[-1]

    yield make
    for producer in made:
        producer.close()
    client.close()


def read(kafka: Kafka, library: str, topic: str, last: bytes) -> list[bytes]:
    return read_committed(load(library)(kafka.bootstrap_servers), topic, last)


def send_in_transaction(producer: TransactionalProducer, *values: bytes) -> None:
    producer.begin()
    for value in values:
        producer.send("orders", value)


def batch_offsets(kafka: Kafka, topic: str) -> list[int]:
    """Return the first offsets of the batches in partition 0, including markers."""
    partition = kafka.broker.node.topics.partition(topic, 0)
    assert partition is not None
    return [header.base_offset for header, _ in partition.log.batches()]


def transactional_ids(kafka: Kafka) -> list[str]:
    """Return the transactional ids that the broker lists."""
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    listed = admin.list_transactions()
    admin.close()
    return [each.transactional_id for found in listed.values() for each in found]


@pytest.mark.parametrize("reader", LIBRARIES)
def test_only_committed_records_are_read(
    kafka: Kafka, new_producer: NewProducer, reader: str
) -> None:
    producer = new_producer()
    send_in_transaction(producer, b"1", b"2")
    producer.commit()
    send_in_transaction(producer, b"aborted")
    producer.abort()
    send_in_transaction(producer, b"last")
    producer.commit()
    values = read(kafka, reader, "orders", b"last")
    assert values == [b"1", b"2", b"last"]


@pytest.mark.filterwarnings("ignore:zombie producer")
def test_a_zombie_is_fenced(kafka: Kafka, new_producer: NewProducer) -> None:
    zombie = new_producer()
    send_in_transaction(zombie, b"of the zombie")
    successor = new_producer()
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|newer"):
        zombie.commit()
    send_in_transaction(successor, b"of its successor")
    successor.commit()
    values = read(kafka, "librdkafka", "orders", b"of its successor")
    assert values == [b"of its successor"]


def test_a_transaction_times_out(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    send_in_transaction(producer, b"too late")
    kafka.clock.advance(ms=TIMEOUT_MS)
    kafka.transactions.wait("billing-1", "aborted")
    with pytest.raises(Exception, match=r"(?i)fenced|epoch|newer|abort"):
        producer.commit()
    successor = new_producer("billing-2")
    send_in_transaction(successor, b"last")
    successor.commit()
    assert read(kafka, "aiokafka", "orders", b"last") == [b"last"]


@pytest.mark.kafka(config={"log.cleaner.backoff.ms": 10})
@pytest.mark.parametrize("reader", LIBRARIES)
def test_records_after_a_compacted_aborted_transaction_are_read(
    kafka: Kafka, new_producer: NewProducer, reader: str
) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "segment.ms": 1,
        "delete.retention.ms": 0,
    }
    balances = kafka.topic("balances", partitions=1, config=config)
    producer = new_producer()
    producer.begin()
    producer.send("balances", b"aborted", b"alice")
    producer.abort()
    producer.begin()
    producer.send("balances", b"committed", b"bob")
    producer.commit()

    def is_abort_removed() -> bool:
        # Each record begins a segment, so that the log has a new segment to compact.
        balances.produce([("other", "other")])
        return not {0, 1} & kafka.call(lambda _broker: set(batch_offsets(kafka, "balances")))

    until(is_abort_removed, "the aborted record and its marker are removed")
    producer.begin()
    producer.send("balances", b"last", b"carol")
    producer.commit()
    values = read(kafka, reader, "balances", b"last")
    assert [value for value in values if value != b"other"] == [b"committed", b"last"]


@pytest.mark.kafka(config={"transactional.id.expiration.ms": HOUR_MS})
def test_an_unused_transactional_id_expires(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    send_in_transaction(producer, b"1")
    producer.commit()
    before = kafka.transactions.wait("billing-1", "committed")
    kafka.clock.advance(ms=HOUR_MS // 2)
    assert transactional_ids(kafka) == ["billing-1"]
    kafka.clock.advance(ms=2 * HOUR_MS)  # there is a check each hour
    assert transactional_ids(kafka) == []
    with pytest.raises(Exception, match=r"InvalidProducerIdMapping|Purged|batch delivery"):
        send_in_transaction(producer, b"of the expired id")
    *_, rejected = kafka.history.requests_of("AddPartitionsToTxn")
    assert rejected.errors == ("INVALID_PRODUCER_ID_MAPPING",)
    successor = new_producer()
    send_in_transaction(successor, b"2")
    successor.commit()
    assert read(kafka, "librdkafka", "orders", b"2") == [b"1", b"2"]
    assert kafka.transactions.describe("billing-1").producer_id != before.producer_id


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
def test_offsets_and_records_of_a_transaction_appear_together(
    kafka: Kafka, new_producer: NewProducer, commits: bool
) -> None:
    producer = new_producer()
    producer.begin()
    producer.send("bills", b"bill 7")
    producer.send_offset("orders", 7, GROUP)
    assert ("orders", 0) not in kafka.group(GROUP).offsets
    if commits:
        producer.commit()
    else:
        producer.abort()
    producer.begin()
    producer.send("bills", b"last")
    producer.commit()
    values = read(kafka, "kafka-python", "bills", b"last")
    assert values == ([b"bill 7", b"last"] if commits else [b"last"])
    assert kafka.group(GROUP).offsets.get(("orders", 0)) == (7 if commits else None)
