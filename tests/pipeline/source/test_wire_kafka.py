"""The offsets log of Kafka 4.3 with consumers of three libraries, read from the broker."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source.factory import open_source
from kohort.pipeline.source.folder import FolderSource
from kohort.pipeline.source.log_ends import to_arrow
from kohort.pipeline.source.source import Source, TimeSpan
from kohort.pipeline.source.wire_source import WireSource
from kohort.pipeline.tables import TABLES
from support.kafka_process import KafkaFolder
from support.sasl import PLAIN_MODULE

from ...clients.adapter import LIBRARIES, ConsumerSettings, Message, Partition, load
from ...clients.consumers import until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.toolchain]

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
# offsets.topic.compression.codec. Each needs a restart of some seconds; the recorded folder of
# test_wire.py has all codecs.
CODECS = {"none": "0", "zstd": "4"}
TOPIC, PARTITIONS, RECORDS = "orders", 3, 30
HISTORY = "history"


class KafkaLog(NamedTuple):
    bootstrap: str
    sasl_bootstrap: str
    data: Path
    committed: dict[str, dict[int, int]]
    """Group -> partition -> offset, fetched from Kafka."""


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaLog]:
    folder = KafkaFolder(kafka_jars, tmp_path_factory.mktemp("kafka"), SETTINGS, ["alice"])
    folder.format()
    groups: list[str] = []
    for codec, number in CODECS.items():
        is_last = codec == list(CODECS)[-1]
        settings = {"offsets.topic.compression.codec": number}
        with folder.running(settings, ends_well=not is_last) as bootstrap:
            for library in LIBRARIES:
                groups.append(f"{library}-{codec}")
                consume(bootstrap, library, groups[-1])
            groups += transactions(bootstrap, codec)
            if is_last:
                offsets = {group: committed(bootstrap, group) for group in groups}
                yield KafkaLog(bootstrap, f"127.0.0.1:{folder.sasl_port}", folder.data, offsets)


def consume(bootstrap: str, library: str, group: str) -> None:
    """Let a member read all records, commit and leave."""
    client = load(library)(bootstrap)
    with contextlib.closing(client):
        admin = client.admin()
        if TOPIC not in admin.topics():
            admin.create_topic(TOPIC, PARTITIONS)
            until(lambda: TOPIC in admin.topics(), f"topic {TOPIC} exists")
        admin.close()
        client.produce(
            TOPIC, [Message(b"v", partition=number % PARTITIONS) for number in range(RECORDS)]
        )
        consumer = client.consumer(ConsumerSettings(group_id=group))
        consumer.subscribe(TOPIC)
        received = 0

        def read() -> bool:
            nonlocal received
            received += len(consumer.poll())
            return received >= RECORDS

        until(read, f"{RECORDS} records were received")
        consumer.commit()
        consumer.close()


def transactions(bootstrap: str, codec: str) -> list[str]:
    """Send offsets in three transactions: one is committed, one aborted, one left open."""
    servers = {"bootstrap.servers": bootstrap}
    groups = []
    for end in ("committed", "aborted", "open"):
        group = f"txn-{end}-{codec}"
        producer = Producer({**servers, "transactional.id": group})
        producer.init_transactions(30)
        producer.begin_transaction()
        consumer = Consumer({**servers, "group.id": group})
        producer.send_offsets_to_transaction(
            [TopicPartition(TOPIC, 0, 5)], consumer.consumer_group_metadata(), 30
        )
        if end == "committed":
            producer.commit_transaction(30)
        elif end == "aborted":
            producer.abort_transaction(30)
        consumer.close()
        groups.append(group)
    return groups


def committed(bootstrap: str, group: str) -> dict[int, int]:
    client = load("kafka-python")(bootstrap)
    with contextlib.closing(client):
        consumer = client.consumer(ConsumerSettings(group_id=group))
        with contextlib.closing(consumer):
            offsets = {
                index: consumer.committed(Partition(TOPIC, index)) for index in range(PARTITIONS)
            }
    return {index: offset for index, offset in offsets.items() if offset is not None}


def read(source: Source) -> pa.Table:
    ends = source.ends()
    batches = [rows for split in source.splits({}, ends) for rows in source.read(split)]
    return pa.Table.from_batches(batches, SOURCE).combine_chunks()


def test_rows_from_the_broker_equal_those_from_its_folder(kafka: KafkaLog) -> None:
    from_broker = read(WireSource(kafka.bootstrap))
    assert from_broker.equals(read(FolderSource(kafka.data)))
    assert from_broker["flaw"].null_count == len(from_broker)
    assert set(from_broker["missing_before"].to_pylist()) == {0}


def test_rows_are_the_same_from_a_listener_with_sasl(kafka: KafkaLog, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN_MODULE} required username="alice" password="alice";\n'
    )
    from_sasl = read(WireSource(kafka.sasl_bootstrap, str(file)))
    assert from_sasl.equals(read(WireSource(kafka.bootstrap)))


def test_all_commits_are_read_including_transactional_ones(kafka: KafkaLog) -> None:
    rows = read(WireSource(kafka.bootstrap)).to_pylist()
    commits = [row for row in rows if row["kind"] == "commit"]
    for group, offsets in kafka.committed.items():
        last = {row["partition"]: row["offset"] for row in commits if row["group"] == group}
        outcome = group.split("-")[1]
        if outcome in ("aborted", "open"):
            # Kafka does not count the commit, but it is in the log.
            assert (offsets, last) == ({}, {0: 5})
        else:
            assert last == offsets, group
    assert {row["group"] for row in commits if row["txn"]} == {
        f"txn-{end}-{codec}" for codec in CODECS for end in ("committed", "aborted", "open")
    }
    ends = Counter(row["key_version"] for row in rows if row["control"])
    assert min(ends[0], ends[1]) >= len(CODECS)  # markers of aborts and of commits


def test_members_have_their_assigned_partitions(kafka: KafkaLog) -> None:
    rows = read(WireSource(kafka.bootstrap)).to_pylist()
    for library in LIBRARIES:
        for codec in CODECS:
            group = f"{library}-{codec}"
            assigned = [
                sorted(tp["partition"] for tp in member["assigned"])
                for row in rows
                if row["kind"] == "group" and row["group"] == group
                for member in row["members"] or ()
            ]
            # A member that joins before it has the topic's metadata gets no partitions; it rejoins.
            assert [partitions for partitions in assigned if partitions] == [[0, 1, 2]], group


def test_past_log_ends_from_the_broker_equal_those_from_its_folder(kafka: KafkaLog) -> None:
    half_an_hour_ago = time.time_ns() // 1_000_000 - 1_800_000
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "log_level": 0})
    for number in range(20):
        at_ms = half_an_hour_ago + 70_000 * number
        producer.produce(HISTORY, b"v", partition=0, timestamp=at_ms)
        producer.flush()
    past = TimeSpan(half_an_hour_ago - 60_000, half_an_hour_ago + 1_800_000)
    schema = TABLES["bronze_log_end"].schema
    wire, folder = (
        pa.Table.from_batches(
            to_arrow(open_source(options).log_ends([HISTORY, TOPIC], past), "here"), schema
        )
        for options in ({"bootstrapServers": kafka.bootstrap}, {"path": str(kafka.data)})
    )
    rows = {key(row): row["log_end"] for row in folder.to_pylist()}
    sampled = [row for row in wire.to_pylist() if row["log_start"] is None]
    assert [row["log_end"] for row in sampled] == [rows[key(row)] for row in sampled]
    ends = [row["log_end"] for row in sampled if row["topic"] == HISTORY]
    assert set(ends) == set(range(21))
    now = [row for row in wire.to_pylist() if row["log_start"] is not None]
    assert [(row["topic"], row["log_end"]) for row in now] == [
        (HISTORY, 20),
        *[(TOPIC, RECORDS * len(LIBRARIES) * len(CODECS) // PARTITIONS)] * PARTITIONS,
    ]


def key(row: dict[str, object]) -> tuple[object, ...]:
    return row["topic"], row["partition"], row["sampled_at"]
