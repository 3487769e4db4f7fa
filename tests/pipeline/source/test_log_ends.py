"""Samples of log ends, current and past."""

import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from kohort.log.checkpoint import START_OFFSETS_FILE
from kohort.pipeline.source.factory import open_source
from kohort.pipeline.source.log_ends import SAMPLES_MAX, TICKS_MAX, Ticks, ends_at, to_arrow
from kohort.pipeline.source.source import TimeSpan
from kohort.pipeline.source.wire_cluster import TopicPartition
from kohort.pipeline.tables import TABLES
from kohort.testing import Kafka
from offset_logs import write_at
from support.running_broker import BrokerThread

HOUR_MS = 3_600_000
# A multiple of both periods.
NOON_MS = 472_222 * HOUR_MS


def rows(options: dict[str, str], *topics: str, past: TimeSpan | None = None) -> list[tuple]:
    """(topic, partition, log start, log end, seconds after noon)"""
    schema = TABLES["bronze_log_end"].schema
    samples = open_source(options).log_ends(topics, past)
    table = pa.Table.from_batches(to_arrow(samples, "here"), schema)
    assert set(table["cluster"].to_pylist()) <= {"here"}
    seconds = [(at.timestamp() * 1000 - NOON_MS) / 1000 for at in table["sampled_at"].to_pylist()]
    columns = [table[name].to_pylist() for name in table.column_names[1:5]]
    return sorted(zip(*columns, seconds, strict=True), key=lambda row: (row[0], row[1], row[4]))


def write(folder: Path, *times_s: float, **options: int) -> None:
    """Append a record at each of these seconds after noon."""
    write_at(folder, *(NOON_MS + int(second * 1000) for second in times_s), **options)


def seconds(since: int, until: int) -> TimeSpan:
    return TimeSpan(NOON_MS + since * 1000, NOON_MS + until * 1000)


# --- the ticks


def test_ticks_are_the_multiples_of_their_period() -> None:
    ticks = Ticks.between(NOON_MS, NOON_MS + 70_000, 15_000, 1)
    assert [ticks.at(number) - NOON_MS for number in range(ticks.total)] == [
        15_000,
        30_000,
        45_000,
        60_000,
    ]
    assert Ticks.between(NOON_MS, NOON_MS, 15_000, 1).total == 0
    assert Ticks.between(NOON_MS, NOON_MS - HOUR_MS, 15_000, 1).total == 0


@given(st.integers(0, 10**12), st.lists(st.integers(0, 10**11), max_size=4), st.integers(0, 10_000))
def test_the_number_of_ticks_is_limited(since: int, steps: list[int], partitions: int) -> None:
    for step in steps:
        ticks = Ticks.between(since, since + step, 15_000, partitions)
        assert ticks.total <= TICKS_MAX
        assert ticks.total * partitions <= SAMPLES_MAX
        assert all(at % 15_000 == 0 for at in (ticks.first_ms, ticks.period_ms))
        if ticks.total:
            assert since < ticks.first_ms
            assert ticks.at(ticks.total - 1) <= since + step
            assert ticks.at(ticks.total) > since + step


# --- a folder


def test_the_current_log_ends_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 1, 2, 3)
    write(tmp_path / "orders-1", 4)
    write(tmp_path / "orders-eu-0", 5)
    write(tmp_path / "other-0", 6)
    options = {"path": str(tmp_path)}
    assert rows(options, "orders", "gone") == [("orders", 0, 0, 3, 3), ("orders", 1, 0, 1, 4)]


def test_timestamps_in_the_future_are_ignored(tmp_path: Path) -> None:
    ahead = time.time() + HOUR_MS / 1000 - NOON_MS / 1000
    write(tmp_path / "orders-0", 1, ahead, 16)
    write(tmp_path / "orders-1", ahead)
    found = rows({"path": str(tmp_path)}, "orders", past=seconds(0, 35))
    assert [(index, end, at) for _, index, _, end, at in found] == [
        (0, 2, 15),
        (0, 3, 30),
        (0, 3, 35),
        (1, 1, 15),
        (1, 1, 30),
        (1, 1, 35),
    ]
    assert [row[3:] for row in rows({"path": str(tmp_path)}, "orders")] == [(3, 16)]


def test_past_log_ends_of_a_folder_follow_from_batch_timestamps(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 1, 15, 16, 29, 61)
    found = rows({"path": str(tmp_path)}, "orders", past=seconds(0, 100))
    assert [(end, at) for *_, end, at in found] == [
        (1, 15),  # a record of that very moment does not count
        (4, 30),
        (4, 45),
        (4, 60),
        (5, 75),
        (5, 90),
        (5, 100),
    ]
    assert [start for _, _, start, _, _ in found] == [None] * 6 + [0]


def test_consecutive_time_spans_give_the_samples_of_one(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", *range(0, 600, 7), segment_bytes=500)
    options = {"path": str(tmp_path)}
    whole = rows(options, "orders", past=seconds(0, 600))
    parts = [
        row
        for since in range(0, 600, 100)
        for row in rows(options, "orders", past=seconds(since, since + 100))
        if row[2] is None
    ]
    assert len(list((tmp_path / "orders-0").glob("*.log"))) > 10
    assert parts == whole[:-1]


def test_log_ends_before_the_log_start_offset_are_unknown(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 40, 50, 70)
    (tmp_path / START_OFFSETS_FILE).write_text("0\n1\norders 0 2\n")
    found = rows({"path": str(tmp_path)}, "orders", past=seconds(0, 90))
    assert found == [
        ("orders", 0, None, 3, 75),
        ("orders", 0, None, 3, 90),
        ("orders", 0, 2, 3, 90),
    ]


def test_an_incomplete_batch_does_not_count(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 1, 2)
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    whole = segment.read_bytes()
    for tail in (whole[:30], whole[: len(whole) // 2 - 1], bytes(500)):
        segment.write_bytes(whole + tail)
        assert rows({"path": str(tmp_path)}, "orders") == [("orders", 0, 0, 2, 2)]


def test_an_empty_log_is_sampled_when_a_time_is_given(tmp_path: Path) -> None:
    write(tmp_path / "orders-0")
    options = {"path": str(tmp_path)}
    assert rows(options, "orders") == []
    assert rows(options, "orders", past=seconds(0, 20)) == [
        ("orders", 0, None, 0, 15),
        ("orders", 0, 0, 0, 20),
    ]


# --- a broker


class BrokerStub:
    """A broker with partitions whose records have these times."""

    def __init__(self, times: dict[TopicPartition, list[int]]) -> None:
        self.times = times
        self.requests = 0

    def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.requests += 1
        found: dict[TopicPartition, int | None] = {}
        for tp, at_ms in wanted.items():
            offset = bisect_left(self.times[tp], at_ms)
            found[tp] = offset if offset < len(self.times[tp]) else None
        return found


@given(st.lists(st.lists(st.integers(0, 5000)), max_size=4), st.integers(0, 60))
def test_past_log_ends_of_a_broker_equal_a_lookup_at_every_tick(
    times: list[list[int]], total: int
) -> None:
    logs = {("orders", index): sorted(each) for index, each in enumerate(times)}
    ticks = Ticks(100, 50, total)
    found = ends_at(BrokerStub(logs).offsets, ticks, {tp: len(times) for tp, times in logs.items()})
    assert found == {
        tp: [bisect_left(each, ticks.at(number)) for number in range(total)]
        for tp, each in logs.items()
    }


def test_an_idle_topic_needs_few_requests() -> None:
    broker = BrokerStub({("orders", 0): [30, 31, 32, 90_000]})
    ends_at(broker.offsets, Ticks(0, 15, 10_000), {("orders", 0): 4})
    assert broker.requests < 40


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread({}, data_dir=tmp_path / "data", durability="os") as broker:
        yield broker


@pytest.mark.clients
def test_a_broker_and_its_folder_give_the_same_samples(
    tmp_path: Path, broker: BrokerThread
) -> None:
    broker.call(lambda each: each.node.topics.create("orders", 2, {}))
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0})
    for second in (1, 20, 100, 110, 170):
        producer.produce("orders", b"v", partition=0, timestamp=NOON_MS + second * 1000)
        producer.flush()
    past = seconds(0, 240)
    folder = rows({"path": str(tmp_path / "data")}, "orders", past=past)
    wire = rows({"bootstrapServers": broker.bootstrap}, "orders", past=past)
    # The period of a folder is half as long; the last sample has another time. A partition without
    # records has no folder.
    assert [row[3] for row in wire if row[1] == 1] == [0] * 9
    wire = [row for row in wire if row[1] == 0]
    assert [row for row in folder if row[2] is None and row[4] % 30 == 0] == [
        row for row in wire if row[2] is None
    ]
    assert [row[:4] for row in wire if row[2] is not None] == [
        row[:4] for row in folder if row[2] is not None
    ]
    assert [row[3] for row in wire] == [2, 2, 2, 4, 4, 5, 5, 5, 5]


def test_topics_on_several_nodes_are_sampled_and_missing_ones_omitted() -> None:
    with Kafka(nodes=3) as kafka:
        kafka.topic("orders", partitions=6).produce([b"v"] * 12)
        found = rows({"bootstrapServers": kafka.bootstrap_servers}, "orders", "gone")
        assert [row[:2] for row in found] == [("orders", index) for index in range(6)]
        assert sum(row[3] for row in found) == 12
        assert {row[2] for row in found} == {0}
