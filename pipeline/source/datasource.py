"""`spark.read.format("kohort")` and `spark.readStream.format("kohort")`: a row of columns.SOURCE of
each record, one task for each offsets partition and range of its log.

Options are those of `open_source`, and

table                  log, or what side_tables.py has: ends, events (no streams of them)

startingOffsets        JSON {"12": 345}; partitions that are left out begin where their logs do
endingOffsets          the same; only these partitions, up to there. Without it all, to their ends
pushFilters            true: rows that a query does not want are left out before they go to Spark,
                       if it says so of offsets_partition, kind or group. For a DataFrame of which
                       only one query is made: Spark 4.3 answers all those of one DataFrame by the
                       filters of one of them, without a word
splitBytes             what one task reads, about (64 MiB)
maxRecordsPerTrigger   what a batch of a stream has, about; one batch of each log it has at least
maxBytesPerTrigger

A stream's offsets are those of `startingOffsets`, and its checkpoint says {"12": 345} as well.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
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
from .side_tables import SCHEMAS, reader_of
from .source import SPLIT_BYTES, Positions, Source, SourceError, Split, open_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KohortSource", "register"]

LOG: Final = "log"
# By these columns rows are left out before they go to Spark.
FILTERED: Final = ("offsets_partition", "kind", "group")


def register(spark: "SparkSession") -> None:
    """Makes the format `kohort` known to this session."""
    # A source that takes filters is refused without it.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KohortSource)


class KohortSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "kohort"

    def schema(self) -> StructType:
        table = self._table()
        return from_arrow_schema(SOURCE if table == LOG else SCHEMAS[table])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is ours
        table = self._table()
        return Reader(self.options) if table == LOG else reader_of(table, self.options)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: ARG002, N802 - as Spark has it
        if self._table() != LOG:
            raise SourceError(
                "A stream has the log alone: read table ends or events by spark.read."
            )
        return StreamReader(self.options)

    def _table(self) -> str:
        table: str = self.options.get("table", LOG)
        if table not in {LOG, *SCHEMAS}:
            raise SourceError(f"table is log, ends or events, not {table!r}.")
        return table


class Piece(InputPartition):
    """What a task reads."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class _Options:
    """What both readers go by. They travel to tasks, which open the source for themselves."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options
        self.split_bytes = _number(options, "splitBytes") or SPLIT_BYTES

    def __getstate__(self) -> dict[str, Any]:
        return {name: of for name, of in vars(self).items() if name != "source"}

    @cached_property
    def source(self) -> Source:
        return open_source(self.options)

    def pieces(self, start: Positions, end: Positions) -> list[InputPartition]:
        return [Piece(split) for split in self.source.splits(start, end, self.split_bytes)]


class Reader(DataSourceReader):
    """A batch read: all there is when it is planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = _Options(options)
        self._start = _positions(options, "startingOffsets") or {}
        self._end = _positions(options, "endingOffsets")
        self._pushes = options.get("pushFilters", "false").lower() == "true"
        self._wanted: dict[str, set[Any]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for each in filters:
            if not self._pushes:
                yield each
                continue
            match each:
                case EqualTo((name,), value) if name in FILTERED:
                    self._want(name, {value})
                case In((name,), values) if name in FILTERED:
                    self._want(name, set(values))
                case _:
                    yield each

    def _want(self, name: str, values: set[Any]) -> None:
        self._wanted[name] = self._wanted.get(name, values) & values

    def partitions(self) -> Sequence[InputPartition]:
        end = self._options.source.ends() if self._end is None else self._end
        wanted = self._wanted.get("offsets_partition")
        if wanted is not None:
            end = {partition: upto for partition, upto in end.items() if partition in wanted}
        return self._options.pieces(self._start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands out one of its own when there is none.
        if isinstance(partition, Piece):
            for rows in self._options.source.read(partition.split):
                yield self._filtered(rows)

    def _filtered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for name, values in self._wanted.items():
            kind = rows.schema.field(name).type
            rows = rows.filter(pc.is_in(rows[name], pa.array(sorted(values), kind)))
        return rows


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream's read. A partition that is new, or was empty until now, begins at its start."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if "endingOffsets" in options:
            raise SourceError("A stream has no endingOffsets: leave it out, or use spark.read.")
        self._options = _Options(options)
        self._start = _positions(options, "startingOffsets") or {}
        self._records_max = _number(options, "maxRecordsPerTrigger")
        self._bytes_max = _number(options, "maxBytesPerTrigger")
        self._last: Positions | None = None  # of trigger availableNow

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return _json({**self._options.source.starts(), **self._start})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._bytes_max is not None:
            return ReadMaxBytes(self._bytes_max)
        if self._records_max is not None:
            return ReadMaxRows(self._records_max)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        begin = _read(start)
        end = self._options.source.ends() if self._last is None else self._last
        end = {partition: max(upto, begin.get(partition, 0)) for partition, upto in end.items()}
        records_max, bytes_max = self._records_max, self._bytes_max
        if isinstance(limit, ReadAllAvailable):
            records_max = bytes_max = None
        limited = self._options.source.limited(
            begin, end, records_max=records_max, bytes_max=bytes_max
        )
        return _json({**begin, **limited})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._options.source.ends()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return _json(self._options.source.ends())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self._options.pieces(_read(start), _read(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        return self._options.source.read(partition.split)


def _positions(options: Mapping[str, str], name: str) -> dict[int, int] | None:
    """Raises SourceError."""
    text = options.get(name)
    if text is None:
        return None
    try:
        return _read(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise SourceError(f'{name} is JSON as {{"12": 345}}, not {text!r}.') from None


def _number(options: Mapping[str, str], name: str) -> int | None:
    """Raises SourceError."""
    text = options.get(name)
    if text is None:
        return None
    if not text.isdigit() or not int(text):
        raise SourceError(f"{name} is a whole number above 0, not {text!r}.")
    return int(text)


def _read(positions: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in positions.items()}


def _json(positions: Positions) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(positions.items())}
