"""silver_commit in one batch and in several, compared with a log read record by record."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from commits_oracle import CLUSTER, TOPIC, World, draw, read
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.layers import bronze, commits
from kohort.pipeline.layers.batch import Batch
from kohort.pipeline.tables import TABLES

Row = dict[str, Any]
SEEDS = (7, 8, 9)


@pytest.fixture(scope="module", params=SEEDS)
def world(request: pytest.FixtureRequest) -> World:
    return draw(request.param, offsets_partitions=40, records=60)


@pytest.fixture(scope="module")
def in_one(world: World, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of(tmp_path_factory.mktemp("in_one"), world, [world.records])


@pytest.fixture(scope="module")
def in_batches(world: World, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of(tmp_path_factory.mktemp("in_batches"), world, cut_at_random(world))


def cut_at_random(world: World) -> list[list[Row]]:
    """Two batches; each partition of the offsets topic is cut elsewhere."""
    rng = random.Random(1)
    numbers = {row["offsets_partition"] for row in world.records}
    logs = [
        [row for row in world.records if row["offsets_partition"] == number] for number in numbers
    ]
    cuts = [rng.randrange(len(log) + 1) for log in logs]
    first = [row for log, cut in zip(logs, cuts, strict=True) for row in log[:cut]]
    then = [row for log, cut in zip(logs, cuts, strict=True) for row in log[cut:]]
    return [first, then]


def lake_of(path: Path, world: World, batches: list[list[Row]], spark: Any = None) -> Lake:
    samples = [
        {"cluster": CLUSTER, "topic": TOPIC, "partition": of, "log_end": end, "sampled_at": time}
        for of, each in world.samples.items()
        for time, end in each
    ]
    kept: list[Row] = []
    with Writer(path) as writer:
        for number, records in enumerate(batches):
            rows = pa.Table.from_pylist(records, schema=SOURCE).to_batches()
            assert bronze.write_records(writer, rows, bronze.Origin(CLUSTER, "here")) == []
            batch = Batch(spark, writer, CLUSTER)
            if not number:
                writer.write("bronze_log_end", pa.Table.from_pylist(samples))
            generations = [generation(row) for row in records if row["kind"] == "group"]
            write_rows(writer, "silver_generation", generations)
            batch.write(commits.tables(batch))
            assert batch.violations == []
            kept += generations
            write_rows(writer, "state_generation", kept)
            writer.commit(cluster=CLUSTER, positions={}, inputs={}, as_of=batch.now)
    return Lake(path)


def generation(row: Row) -> Row:
    """The row of silver_generation for a group record, with the columns that commits need."""
    members = row.get("members") or []
    return {
        "cluster": CLUSTER,
        "group": row["group"],
        "offsets_partition": row["offsets_partition"],
        "log_offset": row["log_offset"],
        "record_kind": "TOMBSTONE" if row["tombstone"] else "GENERATION" if members else "EMPTY",
        "generation": row.get("generation"),
        "members": len(members),
        "static_members": 0,
        "member_list": members,
        "history_complete": True,
    }


def write_rows(writer: Writer, table: str, rows: list[Row]) -> None:
    """Missing columns are null."""
    fields = [field.with_nullable(True) for field in TABLES["silver_generation"].schema]
    writer.write(table, pa.Table.from_pylist(rows, schema=pa.schema(fields)))


def rows_of(lake: Lake, table: str, *, by: tuple[str, ...]) -> dict[tuple[Any, ...], Row]:
    rows = lake.read(table).to_pylist()
    found = {tuple(row[name] for name in by): row for row in rows}
    assert len(found) == len(rows)
    return found


POSITION = ("offsets_partition", "log_offset")


def test_commits_equal_those_of_reading_record_by_record(world: World, in_one: Lake) -> None:
    assert_silver(world, in_one)


def test_commits_do_not_depend_on_batches(world: World, in_batches: Lake) -> None:
    assert_silver(world, in_batches)


def assert_silver(world: World, lake: Lake) -> None:
    expected_log = read(world)
    found = rows_of(lake, "silver_commit", by=POSITION)
    expected = {(row["offsets_partition"], row["log_offset"]): row for row in expected_log.silver}
    assert len(expected) > 1_000
    assert found.keys() == expected.keys()
    for position, row in expected.items():
        lag_ms, want_ms = found[position].pop("lag_ms"), row.pop("lag_ms")
        assert (lag_ms is None) == (want_ms is None), position
        assert abs((lag_ms or 0) - (want_ms or 0)) <= 1, position  # rounded twice
        assert {name: found[position][name] for name in row} == row, position

    latest = rows_of(lake, "state_commit", by=("offsets_partition", "group", "partition"))
    assert {key: row["offset"] for key, row in latest.items()} == expected_log.latest
    assert lake.read("state_open_txn").num_rows == expected_log.open_transactions


def test_minutes_and_activities_do_not_depend_on_batches(
    world: World, in_one: Lake, in_batches: Lake
) -> None:
    rows = [row for row in read(world).silver if row["kind"] != "TOMBSTONE"]
    totals = {
        "commits": len(rows),
        "advanced": sum(row["kind"] == "ADVANCE" for row in rows),
        "repeats": sum(row["kind"] == "REPEAT" for row in rows),
        "rewinds": sum(row["kind"] == "REWIND" for row in rows),
        "consumed": sum(max(row["delta"] or 0, 0) for row in rows),
    }
    for lake in (in_one, in_batches):
        found = lake.read("gold_partition_minute")
        assert {name: pc.sum(found[name]).as_py() for name in totals} == totals
        found = lake.read("silver_activity")
        assert {n: pc.sum(found[n]).as_py() for n in ("commits", "repeats")} == {
            name: totals[name] for name in ("commits", "repeats")
        }
        for row in found.to_pylist():
            assert row["first_commit_ts"] <= row["last_commit_ts"]

    one = rows_of(in_one, "gold_partition_minute", by=("group", "partition", "minute"))
    last: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: (row["offsets_partition"], row["log_offset"])):
        last[row["group"], row["partition"], row["commit_ts"].replace(second=0, microsecond=0)] = (
            row
        )
    assert one.keys() == last.keys()
    for key, row in last.items():
        last_commit = (row["offset"], row["lag"], row["commit_ts"])
        assert (
            one[key]["last_offset"],
            one[key]["end_lag"],
            one[key]["last_commit_ts"],
        ) == last_commit


@pytest.mark.spark
def test_spark_tasks_write_the_rows_of_this_process(
    spark: Any, world: World, in_batches: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "FEW_RECORDS", 0)
    lake = lake_of(tmp_path / "tasks", world, cut_at_random(world), spark)
    for table in commits.WRITTEN:
        here, tasks = (sorted(map(str, one.read(table).to_pylist())) for one in (in_batches, lake))
        assert here == tasks, table
    files = list((tmp_path / "tasks" / "silver_commit").glob("*/*.parquet"))
    assert len(files) > 2, "each batch is written by several tasks"
