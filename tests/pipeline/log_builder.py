"""Builds an offsets log of one partition, as rows of bronze, and lakes from it or from a
data folder."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from kohort.log.records import Record
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import LAYERS, RECORDS_MAX, BatchDone, load_layers, run
from kohort.pipeline.source.records import content_of
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOST = "/10.0.0.{}"
RATE = 10


class M(NamedTuple):
    """A member: `client` gives its client id and host; `incarnation` makes member ids differ."""

    client: int
    partitions: Sequence[int] = ()
    incarnation: int = 1
    static: bool = False
    session_ms: int = 10_000
    rebalance_ms: int = 300_000
    owned: Sequence[int] | None = None

    @property
    def id(self) -> str:
        return f"m{self.client}-{self.incarnation}"

    def row(self, topic: str) -> dict[str, Any]:
        return {
            "member_id": self.id,
            "instance_id": f"i{self.client}" if self.static else None,
            "client_id": f"c{self.client}",
            "client_host": HOST.format(self.client),
            "rebalance_timeout_ms": self.rebalance_ms,
            "session_timeout_ms": self.session_ms,
            "topics": [topic],
            "owned": None
            if self.owned is None
            else [{"topic": topic, "partition": number} for number in self.owned],
            "assigned": [{"topic": topic, "partition": number} for number in self.partitions],
        }


class LogBuilder:
    """Records are in the order of calls; `at` is in seconds since START."""

    def __init__(self, topic: str = "t") -> None:
        self.topic, self.cluster = topic, "c"
        self.groups: list[dict[str, Any]] = []
        self.commits: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.next_offset = 0

    def _position(self, at: float) -> dict[str, Any]:
        self.next_offset += 1
        return {
            "cluster": self.cluster,
            "source": "test",
            "offsets_partition": 0,
            "log_offset": self.next_offset - 1,
            "append_ts": START + timedelta(seconds=at),
            "leader_epoch_batch": 0,
            "producer_id": -1,
            "txn": False,
            "missing_before": 0,
            "tombstone": False,
        }

    def generation(
        self,
        group: str,
        at: float,
        number: int,
        *members: M,
        protocol: str = "range",
        **more: Any,
    ) -> int:
        """Add a group record; returns its log offset. Without members the group is Empty."""
        row = self._position(at) | {
            "group": group,
            "generation": number,
            "protocol_type": "consumer" if number else "",
            "protocol": protocol if members else None,
            "leader": members[0].id if members else None,
            "state_ts": START + timedelta(seconds=at - 0.02),
            "members": [member.row(self.topic) for member in members],
            "value_version": 3,
        }
        self.groups.append(row | more)
        return int(row["log_offset"])

    def tombstone(self, group: str, at: float) -> None:
        """Delete the group."""
        self.groups.append(self._position(at) | {"group": group, "tombstone": True})

    def raw_record(self, at_ms: int, key: bytes, value: bytes | None) -> None:
        """Add a record of any kind; `at_ms` counts from 1970."""
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        row = self._position(0) | {"append_ts": at}
        content = content_of(Record(row["log_offset"], at_ms, key, value), control=False)
        of_kind = {"group": self.groups, "commit": self.commits, "other": self.others}
        of_kind[content.pop("kind")].append(row | content)

    def commit(self, group: str, at: float, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            self.commits.append(
                self._position(at)
                | {
                    "group": group,
                    "topic": self.topic,
                    "partition": partition,
                    "offset": offset,
                    "commit_ts": START + timedelta(seconds=at),
                    "value_version": 3,
                }
            )

    def remove_offsets(self, group: str, at: float, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.commits.append(
                self._position(at)
                | {"group": group, "topic": self.topic, "partition": partition, "tombstone": True}
            )

    def consume(self, group: str, partitions: Sequence[int], start: float, end: float) -> None:
        """Commit all partitions every 5 seconds; offsets grow by RATE per second."""
        at = start
        while at <= end:
            self.commit(group, at, {number: int(at * RATE) for number in partitions})
            at += 5

    def produce(self, partitions: Sequence[int], start: float, end: float) -> None:
        """Sample log ends, which grow by RATE per second, every 10 seconds."""
        at = start
        while at <= end:
            for partition in partitions:
                self.ends.append(
                    {
                        "cluster": self.cluster,
                        "topic": self.topic,
                        "partition": partition,
                        "log_start": 0,
                        "log_end": int(at * RATE),
                        "sampled_at": START + timedelta(seconds=at),
                    }
                )
            at += 10

    def event(self, group: str, at: float, type_: str, **fields: Any) -> None:
        """Add a line of the event log."""
        time = {"ts": START + timedelta(seconds=at), "seq": len(self.events), "node": 0}
        of_group = {"cluster": self.cluster, "group": group, "type": type_}
        self.events.append(of_group | time | fields)

    def sorted_by_time(self) -> "LogBuilder":
        """Order the records of all groups by time, as a broker would have written them."""
        records = sorted(self._records(), key=lambda row: row["append_ts"])
        for log_offset, row in enumerate(records):
            row["log_offset"] = log_offset
        for rows in (self.groups, self.commits, self.others):
            rows.sort(key=lambda row: row["log_offset"])
        return self

    def _records(self) -> list[dict[str, Any]]:
        return [*self.groups, *self.commits, *self.others]

    def log_offset_at(self, at: float) -> int:
        """Return the offset of the first record at that time or later."""
        time = START + timedelta(seconds=at)
        return min(row["log_offset"] for row in self._records() if row["append_ts"] >= time)

    def bronze(self, from_offset: int, end: int) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of bronze between two log offsets, and what belongs to that time."""

        def within(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [row for row in rows if from_offset <= row["log_offset"] < end]

        def time_of(offset: int) -> datetime:
            times = (row["append_ts"] for row in self._records() if row["log_offset"] < offset)
            return max(times, default=START)

        since, until = time_of(from_offset), time_of(end)

        def in_time(rows: list[dict[str, Any]], time: str) -> list[dict[str, Any]]:
            return [
                row
                for row in rows
                if (row[time] > since or not from_offset)
                and (row[time] <= until or end == self.next_offset)
            ]

        return {
            "bronze_group": within(self.groups),
            "bronze_commit": within(self.commits),
            "bronze_other": within(self.others),
            "bronze_log_end": in_time(self.ends, "sampled_at"),
            "bronze_event": in_time(self.events, "ts"),
        }


# --- lakes


class Killed(BaseException):
    """Not caught by product code."""


def kill_at(wanted: str) -> Callable[[str], None]:
    def failpoint(step: str) -> None:
        if step == wanted:
            raise Killed(step)

    return failpoint


def make_lake(
    spark: "SparkSession",
    path: Path,
    log: LogBuilder,
    cuts: Sequence[int] = (),
    failpoint: Callable[[str], None] = lambda _step: None,
) -> None:
    """Run the layers over `log` in batches that end at the log offsets `cuts` and at its end. An
    interrupted lake is continued."""
    from kohort.pipeline.layers.batch import Batch

    modules = [import_module(f"kohort.pipeline.layers.{name}") for name in LAYERS]
    with Writer(path, failpoint=failpoint) as writer:
        done = writer.manifest.positions.get(0, 0)
        for start, end in zip([0, *cuts], [*cuts, log.next_offset], strict=True):
            if end <= done:
                continue
            for table, rows in log.bronze(start, end).items():
                writer.write(table, pa.Table.from_pylist(rows, schema=TABLES[table].schema))
            batch = Batch(spark, writer, log.cluster, caught_up=end == log.next_offset)
            for module in modules:
                batch.write(module.tables(batch))
            writer.commit(cluster=log.cluster, positions={0: end}, inputs={}, as_of=batch.now)


def run_pipeline(
    spark: "SparkSession",
    data: Path,
    lake: Path,
    *,
    failpoint: Callable[[str], None] = lambda _step: None,
    records_max: int = RECORDS_MAX,
    layers: Collection[str] = LAYERS,
) -> list[BatchDone]:
    """Process the log of a data folder as `kohort pipeline run` does; return its batches."""
    done: list[BatchDone] = []
    with Writer(lake, failpoint=failpoint) as writer:
        run(
            lambda: spark,
            writer,
            Inputs({"path": str(data)}, cluster="east"),
            records_max=records_max,
            report=lambda each: done.append(each) if isinstance(each, BatchDone) else None,
            layers={name: layer for name, layer in load_layers().items() if name in layers},
        )
    return done
