"""kafka-transactions ends transactions. tests/cli/transactions/test_transactions.py tests what it
lists and describes."""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException

from ..clients.adapter import Message, TransactionalProducer
from ..clients.consumers import read_committed
from ..clients.kafka_python import KafkaPython
from ..clients.librdkafka import Librdkafka
from .tools import Result, Tools


@pytest.fixture
def transactional_id() -> str:
    return f"id-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def producer(bootstrap: str, topic: str, transactional_id: str) -> Iterator[TransactionalProducer]:
    """A producer with an open transaction, whose only record is at offset 0 of partition 0."""
    producer = Librdkafka(bootstrap).transactional_producer(transactional_id, 60_000)
    producer.start()
    producer.begin()
    producer.send(topic, b"never committed")
    yield producer
    producer.close()


def rows(result: Result) -> list[dict[str, str]]:
    """The printed table, whose cells may be empty."""
    assert result.status == 0, result.output
    lines = (line for line in result.output.splitlines() if "\t" in line)
    titles, *others = ([cell.strip() for cell in line.split("\t")] for line in lines)
    return [dict(zip(titles, row, strict=True)) for row in others]


def of_partition(topic: str) -> tuple[str, ...]:
    return ("--topic", topic, "--partition", "0")


def test_an_open_transaction_is_terminated(
    tools: Tools, producer: TransactionalProducer, topic: str, transactional_id: str
) -> None:
    terminate = ("forceTerminateTransaction", "--transactionalId")
    for each in (transactional_id, f"{transactional_id}-unknown"):
        done = tools.run("transactions", *terminate, each)
        assert (done.lines(), done.status) == ([], 0)
    # It was aborted in epoch 1. As in Kafka, the tool has then initialized a producer in epoch 2,
    # and one of the unknown id.
    pattern = ("--transactional-id-pattern", f"{transactional_id}.*")
    listed = rows(tools.run("transactions", "list", *pattern))
    assert {row["TransactionalId"]: row["TransactionState"] for row in listed} == {
        transactional_id: "Empty",
        f"{transactional_id}-unknown": "Empty",
    }
    flags = ("--transactional-id", transactional_id)
    (described,) = rows(tools.run("transactions", "describe", *flags))
    assert (described["ProducerEpoch"], described["TopicPartitions"]) == ("2", "")
    (active,) = rows(tools.run("transactions", "describe-producers", *of_partition(topic)))
    assert (active["ProducerEpoch"], active["CurrentTransactionStartOffset"]) == ("1", "None")
    with pytest.raises(KafkaException, match="fenced"):
        producer.commit()


@pytest.mark.usefixtures("producer")
def test_the_transaction_at_an_offset_is_aborted(tools: Tools, topic: str) -> None:
    abort = ("abort", *of_partition(topic), "--start-offset", 0)
    done = tools.run("transactions", *abort)
    assert (done.lines(), done.status) == ([], 0)
    (active,) = rows(tools.run("transactions", "describe-producers", *of_partition(topic)))
    assert active["CurrentTransactionStartOffset"] == "None"
    again = tools.run("transactions", *abort)
    assert again.status == 1
    assert again.lines() == [
        f"Could not find any open transactions starting at offset 0 on partition {topic}-0"
    ]


@pytest.mark.usefixtures("producer")
def test_the_transaction_of_a_producer_is_aborted(
    tools: Tools, client: KafkaPython, bootstrap: str, topic: str
) -> None:
    (active,) = rows(tools.run("transactions", "describe-producers", *of_partition(topic)))
    name = ("--producer-id", active["ProducerId"], "--producer-epoch", active["ProducerEpoch"])
    abort = ("abort", *of_partition(topic), *name, "--coordinator-epoch")
    done = tools.run("transactions", *abort, 7)
    assert (done.lines(), done.status) == ([], 0)
    (active,) = rows(tools.run("transactions", "describe-producers", *of_partition(topic)))
    assert active["LatestCoordinatorEpoch"] == "7"
    assert active["CurrentTransactionStartOffset"] == "None"
    fenced = tools.run("transactions", *abort, 6)
    assert fenced.status == 1
    assert "coordinator epoch 6 has been fenced by the active coordinator" in fenced.output
    client.produce(topic, [Message(b"last", partition=0)])
    assert read_committed(Librdkafka(bootstrap), topic, b"last") == [b"last"]
