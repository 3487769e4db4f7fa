"""The data source's other tables: `table=ends`, samples of where topics' logs end, and
`table=events`, the coordinator's event log. Rows are those of bronze_log_end and bronze_event.

Options beside `path` and `bootstrapServers`:

cluster              what the rows call it (default: the cluster's own id; events: what each says)
topics               of ends: their names, parted by commas
sinceTimestamp       of ends: milliseconds; the past is sampled from then on, up to
untilTimestamp       milliseconds (default: now)
startingOffsets      of events: JSON {"00000000000000000000.jsonl": 4711}, in bytes; a file that is
                     left out is read from its beginning
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..tables import TABLES
from .ends import Span, log_ends
from .events import event_ends, read_events
from .source import SourceError, cluster_id

__all__ = ["SCHEMAS", "reader_of"]

SCHEMAS: Final = {
    "ends": TABLES["bronze_log_end"].schema,
    "events": TABLES["bronze_event"].schema,
}


def reader_of(table: str, options: Mapping[str, str]) -> DataSourceReader:
    """Raises SourceError, OSError."""
    return EndsReader(options) if table == "ends" else EventsReader(options)


class EndsReader(DataSourceReader):
    """One task: a broker is asked for all partitions at once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._topics = [
            name for name in map(str.strip, options.get("topics", "").split(",")) if name
        ]
        if not self._topics:
            raise SourceError("Give the option topics: names of topics, parted by commas.")
        places = ("path", "bootstrapServers")
        self._place = {name: options[name] for name in places if name in options}
        self._past = _span(options)
        self._cluster = options.get("cluster") or cluster_id(self._place)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - the one
        return log_ends(self._place, self._topics, self._cluster, self._past)


class EventsReader(DataSourceReader):
    """A task for each file."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if "path" not in options:
            raise SourceError("Give the option path: the data folder that has the event log.")
        self._folder = Path(options["path"])
        self._cluster = options.get("cluster")
        self._start = _bytes(options)

    def partitions(self) -> Sequence[InputPartition]:
        ends = event_ends(self._folder)
        return [InputPartition((name, end)) for name, end in sorted(ends.items())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:  # Spark hands out one of its own when there is none
            name, end = partition.value
            yield from read_events(self._folder, self._start, {name: end}, self._cluster)


def _span(options: Mapping[str, str]) -> Span | None:
    since, until = options.get("sinceTimestamp"), options.get("untilTimestamp")
    if since is None:
        return None
    try:
        now_ms = time.time_ns() // 1_000_000
        return Span(int(since), now_ms if until is None else int(until))
    except ValueError:
        raise SourceError("sinceTimestamp and untilTimestamp are milliseconds.") from None


def _bytes(options: Mapping[str, str]) -> dict[str, int]:
    text = options.get("startingOffsets", "{}")
    try:
        return {str(name): int(at) for name, at in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise SourceError(
            f'startingOffsets is JSON as {{"{0:020}.jsonl": 4711}}, not {text!r}.'
        ) from None
