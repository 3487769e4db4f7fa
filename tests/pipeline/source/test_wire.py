"""The offsets log read from a broker in this process: faults, moved leaders, errors."""

import pickle
import shutil
import socket
import threading
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, TopicPartition
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source import wire_source
from kohort.pipeline.source.factory import open_source
from kohort.pipeline.source.folder import FolderSource
from kohort.pipeline.source.source import NO_LIMIT, Source, SourceError, fair_shares
from kohort.pipeline.source.wire_cluster import Cluster
from kohort.pipeline.source.wire_source import WireSource
from kohort.protocol.apis import PROFILES
from kohort.testing import Kafka
from kohort.topics.names import OFFSETS_TOPIC
from support.running_broker import BrokerThread


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    """Three nodes and a group with 39 commits."""
    with Kafka(nodes=3) as kafka:
        commit(kafka, range(1, 40))
        yield kafka
        kafka.faults.clear()


def commit(kafka: Kafka, offsets: range, group: str = "billing") -> None:
    kafka.topic("orders", partitions=1)
    member = kafka.fake_member(group, topics=["orders"])
    member.wait_owned(1)
    for offset in offsets:
        assert member.commit("orders", 0, offset) is None
    member.leave()


def source_of(kafka: Kafka, retry_seconds: float = 10) -> WireSource:
    return WireSource(kafka.bootstrap_servers, retry_seconds=retry_seconds)


def read(source: Source, split_bytes: int = 1 << 20) -> pa.Table:
    ends = source.ends()
    splits = pickle.loads(pickle.dumps(source.splits({}, ends, split_bytes)))
    batches = [batch for split in splits for batch in source.read(split)]
    return pa.Table.from_batches(batches, SOURCE)


def committed(rows: pa.Table) -> list[int]:
    return [offset for offset in rows["offset"].to_pylist() if offset is not None]


def test_commits_are_read(kafka: Kafka) -> None:
    rows = read(source_of(kafka))
    assert committed(rows) == list(range(1, 40))
    assert set(rows["group"].to_pylist()) == {"billing"}
    assert rows["missing_before"].to_pylist() == [0] * len(rows)
    assert rows["kind"].to_pylist().count("group") >= 2


def test_names_of_topics_are_found_by_id(kafka: Kafka) -> None:
    with Cluster(kafka.bootstrap_servers) as cluster:
        names = cluster.topic_names()
        ids = {name: cluster.topic_id(name) for name in names.values()}
    assert OFFSETS_TOPIC in ids
    assert {
        name: str(UUID(bytes=urlsafe_b64decode(id_ + "=="))) for id_, name in names.items()
    } == ids


def test_splits_cover_the_whole_log(kafka: Kafka) -> None:
    source = source_of(kafka)
    splits = source.splits({}, source.ends(), 10 * wire_source.RECORD_BYTES)
    assert len(splits) > 2
    assert read(source, 10 * wire_source.RECORD_BYTES).equals(read(source))


@pytest.mark.clients
@pytest.mark.parametrize("profile", PROFILES)
def test_brokers_of_any_version_are_read(profile: str) -> None:
    with Kafka(profile=profile) as kafka:
        kafka.topic("orders", partitions=1)
        servers = {"bootstrap.servers": kafka.bootstrap_servers}
        consumer = Consumer({**servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        assert committed(read(source_of(kafka))) == [7]
        assert "Fetch" in [each.api for each in kafka.history.requests]


def test_only_new_records_are_read_the_next_time() -> None:
    with Kafka() as kafka:
        commit(kafka, range(5))
        source = source_of(kafka)
        before = source.ends()
        assert source.splits(before, source.ends()) == []
        commit(kafka, range(5, 8))
        (split,) = source.splits(before, source.ends())
        assert committed(pa.Table.from_batches(source.read(split))) == [5, 6, 7]


def test_a_limit_is_divided_among_the_partitions(kafka: Kafka) -> None:
    source = source_of(kafka)
    ends = source.ends()
    assert source.limited({}, ends, records_max=NO_LIMIT, bytes_max=NO_LIMIT) == ends
    assert source.limited({}, ends, records_max=1000, bytes_max=NO_LIMIT) == ends
    (partition,) = ends
    assert source.limited({}, ends, records_max=7, bytes_max=NO_LIMIT) == {partition: 7}
    assert source.limited({}, ends, records_max=7, bytes_max=1) == {partition: 1}
    begun = {partition: 30}
    assert source.limited(begun, ends, records_max=7, bytes_max=NO_LIMIT) == {partition: 37}


def test_the_unused_share_of_small_partitions_goes_to_the_others() -> None:
    assert fair_shares({0: 2, 1: 100, 2: 100}, 12) == {0: 2, 1: 5, 2: 5}
    assert fair_shares({0: 5}, 12) == {0: 5}


# --- faults


def test_a_leader_that_moves_is_followed(kafka: Kafka) -> None:
    group = kafka.group("billing")
    others = [node.node_id for node in kafka.nodes if node.node_id != group.node_id]
    expected = read(source_of(kafka))
    source = source_of(kafka)
    splits = source.splits({}, source.ends())
    for node_id in others:
        with during_fetch(kafka, splits, source) as rows:
            group.move_to(node_id)
        assert pa.Table.from_batches(rows, SOURCE).equals(expected)


@contextmanager
def during_fetch(kafka: Kafka, splits: list, source: WireSource) -> Iterator[list]:
    """Run the body while the reader, which has found the leader, waits for a fetch."""
    rows: list[pa.RecordBatch] = []
    fault = kafka.faults.delay("Fetch", ms=300)
    thread = threading.Thread(
        target=lambda: rows.extend(each for split in splits for each in source.read(split))
    )
    thread.start()
    fault.wait()
    yield rows
    thread.join(20)


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR", "UNKNOWN_TOPIC_OR_PARTITION"]
)
def test_transient_errors_are_retried(kafka: Kafka, error: str) -> None:
    kafka.faults.answer("Fetch", error=error, times=2)
    kafka.faults.answer("ListOffsets", error=error)
    assert committed(read(source_of(kafka))) == list(range(1, 40))
    kafka.faults.check()


@pytest.mark.parametrize("fault", ["drop", "lose_answer", "close_mid_frame", "trickle"])
@pytest.mark.parametrize("api", ["Fetch", "ListOffsets"])
def test_a_lost_connection_is_reopened(kafka: Kafka, fault: str, api: str) -> None:
    getattr(kafka.faults, fault)(api)
    assert committed(read(source_of(kafka))) == list(range(1, 40))
    kafka.faults.check()


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets"])
def test_a_request_without_a_response_is_retried(kafka: Kafka, api: str) -> None:
    expected = read(source_of(kafka))
    kafka.faults.never_answer(api)
    assert read(source_of(kafka, retry_seconds=1)).equals(expected)
    kafka.faults.check()


# None of these seeds turns one error code into another, which would not be detected.
@pytest.mark.parametrize("seed", range(8))
def test_a_corrupted_response_gives_no_wrong_rows(kafka: Kafka, seed: int) -> None:
    expected = read(source_of(kafka))
    kafka.faults.corrupt("Fetch", seed=seed)
    assert read(source_of(kafka)).equals(expected)
    kafka.faults.check()


def test_after_a_node_stops_the_new_leader_is_read() -> None:
    with Kafka(nodes=2) as kafka:
        commit(kafka, range(5))
        kafka.stop_node(kafka.group("billing").node_id)
        assert committed(read(source_of(kafka))) == list(range(5))


def test_retries_end_after_retry_seconds(kafka: Kafka) -> None:
    kafka.faults.answer("ListOffsets", error="NOT_LEADER_OR_FOLLOWER", times=None)
    try:
        with pytest.raises(SourceError, match=r"is unavailable: NOT_LEADER.*retried for 0.2 s"):
            source_of(kafka, retry_seconds=0.2).ends()
    finally:
        kafka.faults.clear()


# --- errors for the user


def test_a_refused_connection_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*free.getsockname())
        with pytest.raises(SourceError, match=f"connection to {address} refused"):
            open_source({"bootstrapServers": address}).ends()


@pytest.mark.parametrize("address", ["", "localhost:x", "localhost:0", ","])
def test_an_invalid_address_is_an_error(address: str) -> None:
    with pytest.raises(SourceError, match="HOST:PORT"):
        open_source({"bootstrapServers": address}).ends()


def test_a_broker_without_an_offsets_topic_is_an_error() -> None:
    with Kafka() as kafka, pytest.raises(SourceError, match="has no topic __consumer_offsets yet"):
        source_of(kafka).ends()


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets"])
def test_missing_authorization_is_an_error(kafka: Kafka, api: str) -> None:
    kafka.faults.answer(api, error="TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(
        SourceError, match=r"no permission to (describe|read) topic __consumer_offsets"
    ):
        read(source_of(kafka))


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b"", "TLS"),
        (bytes.fromhex("15030300020246"), "TLS"),  # an alert
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Kafka's protocol"),
    ],
)
def test_a_listener_of_another_protocol_is_an_error(response: bytes, message: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(response)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(SourceError, match=message):
            WireSource("{}:{}".format(*listener.getsockname())).ends()
        thread.join()


def test_a_broker_that_requires_authentication_is_an_error(kafka: Kafka) -> None:
    kafka.faults.drop("Metadata", times=3)
    with pytest.raises(SourceError, match="SASL"):
        source_of(kafka).ends()


# --- batches written by Kafka


@pytest.fixture
def served_data(kafka_data: Path) -> Path:
    # Otherwise the broker would abort the open transactions.
    shutil.rmtree(kafka_data / "__transaction_state-0")
    return kafka_data


def test_batches_of_kafka_give_the_same_rows_from_broker_and_folder(served_data: Path) -> None:
    """All codecs, transactions and types of groups."""
    with BrokerThread({}, data_dir=served_data, durability="os") as broker:
        from_broker = read(WireSource(broker.bootstrap))
    from_folder = read(FolderSource(served_data))
    assert set(from_folder["kind"].to_pylist()) == {"commit", "group", "other"}
    assert from_broker.equals(from_folder)


def test_a_split_may_start_and_end_within_a_batch(served_data: Path) -> None:
    with BrokerThread({}, data_dir=served_data, durability="os") as broker:
        source = WireSource(broker.bootstrap)
        whole = read(source)
        for partition, end in source.ends().items():
            rows = whole.filter(pc.equal(whole["offsets_partition"], partition))
            for start in range(end - 1):
                (split,) = source.splits({partition: start}, {partition: end - 1})
                found = pa.Table.from_batches(source.read(split), SOURCE)
                offsets = rows["log_offset"]
                inside = pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end - 1))
                # The first row only counts records missing since the start of the split.
                assert found.slice(1).equals(rows.filter(inside).slice(1))
                assert found["log_offset"].to_pylist()[:1] == [
                    start + missing for missing in found["missing_before"].to_pylist()[:1]
                ]
