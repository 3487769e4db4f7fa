"""silver_commit in one batch and in several, compared with an oracle that reads random logs record
by record."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.layers import bronze, commits
from kohort.pipeline.layers.batch import Batch
from kohort.pipeline.tables import TABLES

SEEDS = (7, 8, 9)
CLUSTER = "c"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOPIC = "t"
SAMPLE_S = 30
TOLERANCE_S = 60
LAG_MS_MAX = 7 * 24 * 3_600_000

Row = dict[str, Any]
Sample = tuple[datetime, int]
Key = tuple[str, int]  # group, partition


# --- random logs


class World(NamedTuple):
    """`records`: of all partitions of the offsets topic, as rows of bronze with their `kind`;
    `samples`: (time, log end) by partition of the topic."""

    records: list[Row]
    samples: dict[int, list[Sample]]


def draw(seed: int, *, offsets_partitions: int, records: int) -> World:
    rng = random.Random(seed)
    samples = {partition: list(_samples(rng)) for partition in range(3)}
    rows = [
        row for number in range(offsets_partitions) for row in _log(rng, number, records, samples)
    ]
    return World(rows, samples)


def _samples(rng: random.Random) -> Iterator[Sample]:
    end, grows = rng.randrange(50), rng.choice((0, 3, 40))
    # Ten minutes: of older samples only some are kept.
    for number in range(20):
        if rng.random() < 0.8:  # some samples are missing
            yield NOON + timedelta(seconds=SAMPLE_S * number), end
        end += grows * rng.randrange(4)


def _log(
    rng: random.Random, number: int, records: int, samples: dict[int, list[Sample]]
) -> Iterator[Row]:
    log_offset = rng.choice((0, 0, 0, 17))
    now = NOON
    groups = [f"g{number}-{of}" for of in range(2)]
    gappy = rng.random() < 0.3
    for _ in range(records):
        missing = rng.randrange(1, 4) if gappy and rng.random() < 0.1 else 0
        log_offset += missing
        now += timedelta(milliseconds=rng.randrange(9_000))
        row: Row = {
            "offsets_partition": number,
            "log_offset": log_offset,
            "append_ts": now,
            "leader_epoch_batch": 0,
            "producer_id": -1,
            "txn": False,
            "missing_before": missing,
            "tombstone": False,
            "control": False,
            **_record(rng, groups, now, samples),
        }
        yield row
        log_offset += 1


def _record(
    rng: random.Random, groups: list[str], now: datetime, samples: dict[int, list[Sample]]
) -> Row:
    kind = rng.random()
    group, partition = rng.choice(groups), rng.randrange(3)
    key = {"group": group, "topic": TOPIC, "partition": partition, "kind": "commit"}
    if kind < 0.08:
        return {**key, "tombstone": True}
    if kind < 0.2:
        return {"kind": "group", "group": group, **_generation(rng)}
    if kind < 0.3:
        ends = rng.randrange(2)
        return {
            "kind": "other",
            "producer_id": rng.randrange(2),
            "control": True,
            "key_version": ends,
        }
    lag = rng.choice((0, 0, 1, 30, 200))
    ends_before = [end for time, end in samples[partition] if time <= now]
    offset = max(0, (ends_before[-1] if ends_before else 0) + rng.randrange(3) - lag)
    commit = {**key, "tombstone": False, "offset": offset, "commit_ts": now}
    return {**commit, "producer_id": rng.randrange(2), "txn": True} if kind > 0.7 else commit


def _generation(rng: random.Random) -> Row:
    if rng.random() < 0.1:
        return {"tombstone": True, "members": []}
    partitions = [partition for partition in range(3) if rng.random() < 0.8]
    owners = [rng.choice("ab") for _ in partitions] if rng.random() < 0.9 else []
    members = [
        {
            "member_id": member,
            "instance_id": None,
            "client_id": f"client-{member}",
            "client_host": "/h",
            "rebalance_timeout_ms": 1,
            "session_timeout_ms": 1,
            "assigned": [
                {"topic": TOPIC, "partition": partition}
                for partition, owner in zip(partitions, owners, strict=False)
                if owner == member
            ],
        }
        for member in sorted(set(owners))
    ]
    return {"tombstone": False, "generation": rng.randrange(1, 90), "members": members}


# --- the oracle


class _Reader:
    """Reads one partition of the offsets topic record by record."""

    def __init__(self, samples: dict[int, list[Sample]]) -> None:
        self.samples = samples
        self.last_gap = -1
        self.generations: dict[str, Row] = {}
        self.latest: dict[Key, Row] = {}
        # Producer -> key -> (row of silver, whether it is in effect if committed).
        self.open: dict[int, dict[Key, tuple[Row, bool]]] = {}

    def read(self, row: Row) -> Iterator[Row]:
        if row["missing_before"]:
            self.last_gap = row["log_offset"]
        if row["kind"] == "group":
            self.generations[row["group"]] = row
        elif row["kind"] == "other":
            for key, (commit, counts) in self.open.pop(row["producer_id"], {}).items():
                if counts and row["key_version"] == 1:
                    yield self._commit_effective(key, commit)
        else:
            yield from self._commit(row)

    def _commit(self, row: Row) -> Iterator[Row]:
        key = (row["group"], row["partition"])
        commit = {**self._in_context(row), "last_gap": self.last_gap}
        if row["tombstone"]:
            for pending in self.open.values():
                pending.pop(key, None)
            prev = self.latest.pop(key, None)
            yield self._silver(commit, prev, "TOMBSTONE")
        elif row["producer_id"] >= 0:
            self.open.setdefault(row["producer_id"], {})[key] = (commit, True)
        else:
            yield self._commit_effective(key, commit)

    def _commit_effective(self, key: Key, commit: Row) -> Row:
        for pending in self.open.values():
            if key in pending and pending[key][0]["log_offset"] < commit["log_offset"]:
                pending[key] = (pending[key][0], False)
        prev = self.latest.get(key)
        self.latest[key] = commit
        if prev is None:
            return self._silver(commit, None, "FIRST")
        delta = commit["offset"] - prev["offset"]
        kind = "ADVANCE" if delta > 0 else "REWIND" if delta < 0 else "REPEAT"
        return self._silver(commit, prev, kind)

    def _in_context(self, row: Row) -> Row:
        generation = self.generations.get(row["group"], {"members": [None]})
        owners = [
            member["member_id"]
            for member in generation["members"]
            if member and {"topic": TOPIC, "partition": row["partition"]} in member["assigned"]
        ]
        lag, lag_ms = self._lag(row)
        return {
            "offsets_partition": row["offsets_partition"],
            "log_offset": row["log_offset"],
            "group": row["group"],
            "partition": row["partition"],
            "commit_ts": row["append_ts"],
            "offset": row.get("offset"),
            "generation": generation.get("generation"),
            "generation_log_offset": generation.get("log_offset"),
            "group_empty": not generation["members"],
            "owner_member_id": owners[-1] if owners else None,
            "lag": lag,
            "lag_ms": lag_ms,
        }

    def _lag(self, row: Row) -> tuple[int | None, int | None]:
        samples, offset, now = self.samples[row["partition"]], row.get("offset"), row["append_ts"]
        seen = [sample for sample in samples if sample[0] <= now]
        if offset is None or not seen or now - seen[-1][0] > timedelta(seconds=TOLERANCE_S):
            return None, None
        lag = max(0, seen[-1][1] - offset)
        if not lag:
            return 0, 0
        ends = sorted({end for _, end in samples})
        first_of = {end: min(time for time, of in samples if of == end) for end in ends}
        last_of = {end: max(time for time, of in samples if of == end) for end in ends}
        above = min(end for end in ends if end > offset)
        if ends[0] <= offset:
            below = max(end for end in ends if end <= offset)
        elif len(ends) > 1:
            below, above = ends[0], ends[1]
        else:
            return lag, None
        pace_ms = _ms(first_of[above] - last_of[below]) / (above - below)
        behind_ms = _ms(now - last_of[below]) - (offset - below) * pace_ms
        return lag, round(min(max(behind_ms, 0), LAG_MS_MAX))

    def _silver(self, commit: Row, prev: Row | None, kind: str) -> Row:
        row = {name: value for name, value in commit.items() if name != "last_gap"}
        tombstone = kind == "TOMBSTONE"
        return {
            **row,
            "kind": kind,
            "prev_offset": prev and prev["offset"],
            "prev_commit_ts": prev and prev["commit_ts"],
            "delta": None if prev is None or tombstone else commit["offset"] - prev["offset"],
            "gap_ms": None
            if prev is None or tombstone
            else _ms(commit["commit_ts"] - prev["commit_ts"]),
            "history_complete": (prev["log_offset"] if prev else -1) >= commit["last_gap"],
        }


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


class Expected(NamedTuple):
    silver: list[Row]
    latest: dict[tuple[int, str, int], int]
    open_transactions: int


def read(world: World) -> Expected:
    logs: dict[int, _Reader] = {}
    silver: list[Row] = []
    for row in world.records:
        number = row["offsets_partition"]
        if number not in logs:
            logs[number] = _Reader(world.samples)
            if row["log_offset"] > 0:
                logs[number].last_gap = row["log_offset"]
        silver.extend(logs[number].read(row))
    latest = {
        (number, *key): commit["offset"]
        for number, log in logs.items()
        for key, commit in log.latest.items()
    }
    open_transactions = sum(
        counts for log in logs.values() for each in log.open.values() for _, counts in each.values()
    )
    return Expected(silver, latest, open_transactions)


# --- lakes of the logs


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
            assert not bronze.write_records(writer, rows, bronze.Origin(CLUSTER, "here"))
            batch = Batch(spark, writer, CLUSTER)
            if not number:
                writer.write("bronze_log_end", pa.Table.from_pylist(samples))
            generations = [generation(row) for row in records if row["kind"] == "group"]
            write_rows(writer, "silver_generation", generations)
            batch.write(commits.tables(batch))
            assert not batch.violations
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
