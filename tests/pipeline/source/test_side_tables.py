"""Samples of log ends and the event log through the data source."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kohort.pipeline.source.datasource import KohortSource, register
from kohort.pipeline.source.factory import open_source
from kohort.pipeline.source.source import SourceError
from kohort.testing import Kafka
from support.running_broker import BrokerThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """A broker with twelve records and a commit, on the data folder `tmp_path / "data"`."""
    config = {"kohort.events": "all"}
    with BrokerThread(config, data_dir=tmp_path / "data", durability="os") as broker:
        broker.call(lambda each: each.node.topics.create("orders", 2, {}))
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0})
        for number in range(12):
            producer.produce("orders", b"v", partition=number % 2)
        producer.flush()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        consumer.close()
        yield broker


def rows(**options: str) -> list[dict[str, Any]]:
    source = KohortSource(options)
    reader = source.reader(source.schema())
    pieces = pickle.loads(pickle.dumps(list(reader.partitions())))
    reader = pickle.loads(pickle.dumps(reader))
    return [row for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]


@pytest.mark.clients
def test_log_ends_are_sampled_from_a_broker_and_from_a_folder(
    tmp_path: Path, broker: BrokerThread
) -> None:
    sources = {"bootstrapServers": broker.bootstrap}, {"path": str(tmp_path / "data")}
    for options in sources:
        found = rows(table="ends", topics="orders, gone", **options)
        assert [(row["partition"], row["log_end"]) for row in found] == [(0, 6), (1, 6)]
        assert {row["cluster"] for row in found} == {open_source(options).cluster_id()}
        (renamed, _) = rows(table="ends", topics="orders", cluster="mine", **options)
        assert renamed["cluster"] == "mine"
        an_hour_ago = str(time.time_ns() // 1_000_000 - 3_600_000)
        past = rows(table="ends", topics="orders", sinceTimestamp=an_hour_ago, **options)
        assert len(past) >= 2 * 120
    assert open_source(sources[0]).cluster_id() == open_source(sources[1]).cluster_id()


@pytest.mark.clients
def test_events_are_read_from_the_given_offsets(tmp_path: Path, broker: BrokerThread) -> None:
    broker.call(
        lambda each: each.node.coordinators
    )  # events of earlier requests are written by now
    path = {"path": str(tmp_path / "data"), "table": "events"}
    found = rows(**path)
    assert "commit_accepted" in [row["type"] for row in found]
    (file,) = (tmp_path / "data" / "events").iterdir()
    first = len(file.read_bytes().splitlines(keepends=True)[0])
    assert rows(**path, startingOffsets=f'{{"{file.name}": {first}}}') == found[1:]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "weather"}, "expected log, ends or events"),
        ({"table": "ends", "path": "."}, "option topics"),
        ({"table": "ends", "topics": " , ", "path": "."}, "option topics"),
        ({"table": "ends", "topics": "a", "path": ".", "sinceTimestamp": "x"}, "milliseconds"),
        ({"table": "events"}, "option path"),
        ({"table": "events", "path": ".", "startingOffsets": "[]"}, "invalid startingOffsets"),
    ],
)
def test_invalid_options_are_errors(options: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        rows(**options)


def test_a_stream_reads_only_the_log() -> None:
    source = KohortSource({"table": "ends"})
    with pytest.raises(SourceError, match="Streams only support table log"):
        source.streamReader(source.schema())


@pytest.mark.spark
def test_spark_reads_the_log_and_log_ends_from_a_broker(
    spark: "SparkSession", tmp_path: Path
) -> None:
    register(spark)
    with Kafka() as kafka:
        kafka.topic("orders", partitions=2).produce([b"v"] * 10)
        member = kafka.fake_member("billing", topics=["orders"])
        member.wait_owned(2)
        for offset in range(5):
            assert member.commit("orders", 0, offset) is None
        read = spark.read.format("kohort").option("bootstrapServers", kafka.bootstrap_servers)
        log = read.load().where("kind = 'commit'").select("group", "topic", "offset")
        assert [tuple(row) for row in log.orderBy("offset").collect()] == [
            ("billing", "orders", offset) for offset in range(5)
        ]
        ends = read.option("table", "ends").option("topics", "orders").load()
        assert sum(row["log_end"] for row in ends.collect()) == 10
