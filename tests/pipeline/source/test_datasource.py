"""The Spark data source: batches, streams, filters."""

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kohort.pipeline.source.datasource import Reader, StreamReader, register
from kohort.pipeline.source.source import SourceError
from offset_logs import batch_of, commit, write
from pyspark.sql.datasource import EqualTo, GreaterThan, In, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def extend(folder: Path, partition: int, batches: int) -> None:
    """Append batches with two commits each; each partition has its own group."""
    log = write(folder / f"__consumer_offsets-{partition}")
    for _ in range(batches):
        end = log.end_offset
        log.append(batch_of(end, *(commit(end + n, f"group-{partition}") for n in range(2))))
    log.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for partition in (3, 12):
        extend(tmp_path, partition, 4)
    return tmp_path


def offsets(reader: Any, pieces: Any) -> list[tuple[int, int]]:
    return [
        position
        for piece in pieces
        for rows in reader.read(piece)
        for position in zip(
            rows["offsets_partition"].to_pylist(), rows["log_offset"].to_pylist(), strict=True
        )
    ]


def test_a_batch_reads_from_starting_to_ending_offsets(data: Path) -> None:
    options = {
        "path": str(data),
        "startingOffsets": '{"3": 5}',
        "endingOffsets": '{"3": 8, "12": 2}',
    }
    reader = Reader(options)
    assert offsets(reader, reader.partitions()) == [(3, 5), (3, 6), (3, 7), (12, 0), (12, 1)]


def test_supported_filters_are_applied_and_others_are_left_to_spark(data: Path) -> None:
    options = {"path": str(data), "pushFilters": "true"}
    reader = Reader(options)
    unsupported = GreaterThan(("log_offset",), 3)
    supported = [EqualTo(("offsets_partition",), 12), In(("kind",), ("commit", "group"))]
    assert list(reader.pushFilters([*supported, unsupported])) == [unsupported]
    (piece,) = reader.partitions()
    assert offsets(reader, [piece]) == [(12, number) for number in range(8)]
    reader = Reader(options)
    assert (
        list(reader.pushFilters([EqualTo(("group",), "group-3"), EqualTo(("kind",), "commit")]))
        == []
    )
    assert {partition for partition, _ in offsets(reader, reader.partitions())} == {3}
    reader = Reader(options)
    assert not list(reader.pushFilters([In(("group",), ("group-3", None))]))
    assert {partition for partition, _ in offsets(reader, reader.partitions())} == {3}


def test_without_push_filters_all_filters_are_left_to_spark(data: Path) -> None:
    """All queries of a DataFrame share one reader, with the filters that one of them pushed."""
    reader = Reader({"path": str(data)})
    supported = [EqualTo(("offsets_partition",), 12)]
    assert list(reader.pushFilters(supported)) == supported
    assert len(offsets(reader, reader.partitions())) == 16


def test_readers_and_partitions_can_be_pickled(data: Path) -> None:
    reader = Reader({"path": str(data)})
    pieces = reader.partitions()
    copies = pickle.loads(pickle.dumps((reader, pieces)))
    assert offsets(*copies) == offsets(reader, pieces)
    assert list(reader.read(InputPartition(None))) == []


def test_a_stream_reads_limited_batches_up_to_the_end_when_it_was_prepared(data: Path) -> None:
    reader = StreamReader({"path": str(data), "maxRecordsPerTrigger": "8"})
    reader.prepareForTriggerAvailableNow()
    extend(data, 12, 1)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    position = reader.initialOffset()
    assert position == {"12": 0, "3": 0}
    read = []
    while (end := reader.latestOffset(position, limit)) != position:
        found = offsets(reader, reader.partitions(position, end))
        assert 0 < len(found) <= 8
        read += found
        position = end
    assert sorted(read) == [(partition, n) for partition in (3, 12) for n in range(8)]
    assert reader.reportLatestOffset() == {"12": 10, "3": 8}
    later = StreamReader({"path": str(data)})
    end = later.latestOffset(position, ReadAllAvailable())
    assert offsets(later, later.partitions(position, end)) == [(12, 8), (12, 9)]


def test_a_new_partition_is_read_from_its_start(data: Path) -> None:
    reader = StreamReader({"path": str(data)})
    position = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    extend(data, 40, 1)
    end = reader.latestOffset(position, ReadAllAvailable())
    assert offsets(reader, reader.partitions(position, end)) == [(40, 0), (40, 1)]


@pytest.mark.parametrize(
    "option",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": "[1]"},
        {"splitBytes": "-1"},
        {"splitBytes": "x"},
        {"splitBytes": "²"},
    ],
)
def test_an_invalid_option_is_an_error_with_its_name(option: dict[str, str]) -> None:
    with pytest.raises(SourceError, match=next(iter(option))):
        Reader({"path": "/", **option})


@pytest.mark.spark
def test_spark_reads_batches_and_streams_with_filters_and_a_checkpoint(
    spark: "SparkSession", data: Path, tmp_path: Path
) -> None:
    register(spark)
    everything = spark.read.format("kohort").option("path", str(data)).load()
    parts = [everything.where(f"offsets_partition = {number}") for number in (3, 12)]
    assert parts[0].union(parts[1]).count() == everything.count() == 16
    assert everything.where("offsets_partition = 99").count() == 0
    wanted = spark.read.format("kohort").option("path", str(data)).option("pushFilters", "true")
    one = wanted.load().where("offsets_partition = 12 and kind = 'commit' and log_offset > 5")
    assert one.rdd.getNumPartitions() == 1
    rows = one.select("group", "topic", "offset", "members", "commit_ts").collect()
    assert [row["offset"] for row in rows] == [6, 7]

    def run() -> list[int]:
        stream = spark.readStream.format("kohort").option("path", str(data))
        query = (
            stream.option("maxRecordsPerTrigger", "8")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()
        return [progress["numInputRows"] for progress in query.recentProgress]

    assert run() == [8, 8]
    extend(data, 12, 1)
    assert run() == [2]
    read = spark.read.parquet(str(tmp_path / "out"))
    assert read.count() == read.distinct().count() == 18
    offsets_of = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))[-1].read_text()
    assert json.loads(offsets_of.splitlines()[-1]) == {"12": 10, "3": 8}
