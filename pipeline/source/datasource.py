"""The Spark format `kohort`: `spark.read.format("kohort")` and `spark.readStream.format("kohort")`.

There is a row of columns.SOURCE for each record, and a task for each range of an offsets partition.
Options besides `path`, `bootstrapServers` and `commandConfig` (factory.py):

table                  log; or, without streams, ends (samples as in bronze_log_end) or events (the
                       event log as in bronze_event)

startingOffsets        JSON {"12": 345}; other partitions start at the log start. Events: JSON
                       {"00000000000000000000.jsonl": 4711}, in bytes
endingOffsets          only these partitions, up to these offsets; default: all, to their ends
pushFilters            true: filters on offsets_partition, kind and group are applied before rows
                       reach Spark. Only for a DataFrame with a single query: Spark 4.3 applies the
                       pushed filters of one query to all queries of the DataFrame
splitBytes             approximate size of a task (64 MiB)
maxRecordsPerTrigger   approximate size of a stream's batch; at least one record batch per partition
maxBytesPerTrigger

cluster                ends, events: the name in the rows (default: the cluster's id; for events,
                       the name in each line)
topics                 ends: names, separated by commas
sinceTimestamp         ends: milliseconds; past times are also sampled, from this time on
untilTimestamp         ends: milliseconds; the end of this time span (default: now)

A stream's offsets, including those in its checkpoint, use the format of startingOffsets. They do
not identify the log: after the topic has been recreated, start with a new checkpoint.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ..columns import SOURCE
from ..tables import TABLES
from .events import event_ends, read_events
from .factory import open_source
from .log_ends import to_arrow
from .source import NO_LIMIT, SPLIT_BYTES, Positions, Source, SourceError, TimeSpan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMAS: Final = {
    "log": SOURCE,
    "ends": TABLES["bronze_log_end"].schema,
    "events": TABLES["bronze_event"].schema,
}
# Columns whose filters can be pushed down.
FILTERED: Final = ("offsets_partition", "kind", "group")


def register(spark: "SparkSession") -> None:
    """Register the format `kohort` in this session."""
    # Otherwise Spark rejects sources that have pushFilters.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KohortSource)


class KohortSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kohort"

    def schema(self) -> StructType:
        return from_arrow_schema(_SCHEMAS[self._table()])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - always our own
        match self._table():
            case "ends":
                return EndsReader(self.options)
            case "events":
                return EventsReader(self.options)
        return Reader(self.options)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: ARG002, N802 - Spark's name
        if self._table() != "log":
            raise SourceError("Streams only support table log: use spark.read for ends and events.")
        return StreamReader(self.options)

    def _table(self) -> str:
        table: str = self.options.get("table", "log")
        if table not in _SCHEMAS:
            raise SourceError(f"invalid table {table!r}: expected log, ends or events.")
        return table


# --- the log


class _LogReader:
    """The part that both readers share. They are pickled for tasks, which open the source
    themselves."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._split_bytes = _positive(options, "splitBytes", SPLIT_BYTES)
        self._start = _parse_json(options, "startingOffsets", int) or {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "source"}

    @cached_property
    def source(self) -> Source:
        return open_source(self._options)

    def splits(self, start: Positions, end: Positions) -> list[InputPartition]:
        return list(map(InputPartition, self.source.splits(start, end, self._split_bytes)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # if there are no partitions, Spark passes one of its own
            yield from self.source.read(partition.value)


class Reader(_LogReader, DataSourceReader):
    """A batch read, up to the ends at planning time."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._end = _parse_json(options, "endingOffsets", int)
        self._pushes = options.get("pushFilters", "false").lower() == "true"
        self._wanted: dict[str, set[Any]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for each in filters:
            match each:
                case EqualTo((name,), value) if self._pushes and name in FILTERED:
                    self._restrict(name, {value})
                case In((name,), values) if self._pushes and name in FILTERED:
                    self._restrict(name, set(values))
                case _:
                    yield each

    def _restrict(self, name: str, values: set[Any]) -> None:
        self._wanted[name] = self._wanted.get(name, values) & values

    def partitions(self) -> Sequence[InputPartition]:
        end = self.source.ends() if self._end is None else self._end
        wanted = self._wanted.get("offsets_partition")
        if wanted is not None:
            end = {partition: upto for partition, upto in end.items() if partition in wanted}
        return self.splits(self._start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for rows in super().read(partition):
            for name, values in self._wanted.items():
                type_ = rows.schema.field(name).type
                # In SQL, no row equals null, but is_in would match null with null.
                wanted = pa.array(values - {None}, type_)
                rows = rows.filter(pc.is_in(rows[name], wanted))
            yield rows


class StreamReader(_LogReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A partition that is new, or was empty, is read from its log start."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if "endingOffsets" in options:
            raise SourceError("Streams do not support endingOffsets: remove it or use spark.read.")
        super().__init__(options)
        self._records_max = _positive(options, "maxRecordsPerTrigger", NO_LIMIT)
        self._bytes_max = _positive(options, "maxBytesPerTrigger", NO_LIMIT)
        self._last: Positions | None = None  # set by the trigger availableNow

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return _to_json({**self.source.starts(), **self._start})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._bytes_max < NO_LIMIT:
            return ReadMaxBytes(self._bytes_max)
        if self._records_max < NO_LIMIT:
            return ReadMaxRows(self._records_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        begin = _from_json(start)
        end = self.source.ends() if self._last is None else self._last
        end = {partition: max(upto, begin.get(partition, 0)) for partition, upto in end.items()}
        if not isinstance(limit, ReadAllAvailable):
            end = self.source.limited(
                begin, end, records_max=self._records_max, bytes_max=self._bytes_max
            )
        return _to_json({**begin, **end})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self.source.ends()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return _to_json(self.source.ends())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self.splits(_from_json(start), _from_json(end))


# --- ends and events


class EndsReader(DataSourceReader):
    """Uses one task, Spark's default, because one request lists the offsets of all partitions."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._topics = set(filter(None, map(str.strip, options.get("topics", "").split(","))))
        if not self._topics:
            raise SourceError("Set the option topics: names of topics, separated by commas.")
        self._options = options
        self._past = _time_span(options)
        self._cluster = options.get("cluster") or open_source(options).cluster_id()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - only one
        samples = open_source(self._options).log_ends(self._topics, self._past)
        return to_arrow(samples, self._cluster)


class EventsReader(DataSourceReader):
    """One task per file."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if "path" not in options:
            raise SourceError("Set the option path: the data folder with the event log.")
        self._folder = Path(options["path"])
        self._cluster = options.get("cluster")
        self._start = _parse_json(options, "startingOffsets", str) or {}

    def partitions(self) -> Sequence[InputPartition]:
        ends = event_ends(self._folder)
        return [InputPartition((name, end)) for name, end in sorted(ends.items())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            name, end = partition.value
            yield from read_events(self._folder, self._start, {name: end}, self._cluster)


# --- options


def _parse_json(options: Mapping[str, str], name: str, key: Any) -> dict[Any, int] | None:
    """Parse an option. `key`: int for partitions, str for files. Raises SourceError."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return {key(each): int(offset) for each, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        example = '{"12": 345}' if key is int else f'{{"{0:020}.jsonl": 4711}}'
        raise SourceError(f"invalid {name} {text!r}: expected JSON as {example}.") from None


def _positive(options: Mapping[str, str], name: str, default: int) -> int:
    """Return a positive integer option. Raises SourceError."""
    text = options.get(name, str(default))
    if not text.isdecimal() or not int(text):
        raise SourceError(f"invalid {name} {text!r}: expected a positive integer.")
    return int(text)


def _time_span(options: Mapping[str, str]) -> TimeSpan | None:
    if "sinceTimestamp" not in options:
        return None
    now_ms = time.time_ns() // 1_000_000
    try:
        return TimeSpan(int(options["sinceTimestamp"]), int(options.get("untilTimestamp", now_ms)))
    except ValueError:
        text = "invalid sinceTimestamp or untilTimestamp: expected milliseconds."
        raise SourceError(text) from None


def _from_json(positions: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in positions.items()}


def _to_json(positions: Positions) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(positions.items())}
