"""Samples of where topics' logs end: without them nobody knows how far behind a commit is.

A sample of a time in the past has the offset of the first record since then, as ListOffsets means
it: so many records were there before. Ticks lie on multiples of their period, so that those of one
call follow on those of the call before.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from ..tables import TABLES
from .source import SourceError

__all__ = ["Sample", "Span", "Ticks", "log_ends"]

SCHEMA: Final = TABLES["bronze_log_end"].schema
# Burrow's offset-refresh and kminion's scrape have 30 s; a folder costs no broker anything.
WIRE_PERIOD_MS: Final = 30_000
FOLDER_PERIOD_MS: Final = 15_000
# Two days of the finer grid: a broker answers that many questions in some ten seconds, and a chart
# has not as many pixels.
TICKS_MAX: Final = 11_520
# Of all partitions; a row has some 50 bytes in memory, and next to nothing in Parquet.
SAMPLES_MAX: Final = 500_000
# Rows of one Arrow batch.
BATCH_ROWS: Final = 65_536


class Sample(NamedTuple):
    topic: str
    partition: int
    log_start: int | None  # None: of the past, nobody knows
    log_end: int
    at_ms: int


class Span(NamedTuple):
    """`since_ms` is not in it, `until_ms` is."""

    since_ms: int
    until_ms: int


class Ticks(NamedTuple):
    """The times from `first_ms` on, `total` of them, `period_ms` apart."""

    first_ms: int
    period_ms: int
    total: int

    @classmethod
    def between(cls, since_ms: int, until_ms: int, period_ms: int, partitions: int) -> "Ticks":
        """The multiples of a period after `since_ms` and up to `until_ms`: of `period_ms`, or of
        its double, its fourfold … until they are few enough for so many partitions."""
        most = max(min(TICKS_MAX, SAMPLES_MAX // max(partitions, 1)), 1)
        while True:
            first = since_ms // period_ms + 1
            count = max(until_ms // period_ms - first + 1, 0)
            if count <= most:
                return cls(first * period_ms, period_ms, count)
            period_ms *= 2

    def at(self, number: int) -> int:
        return self.first_ms + number * self.period_ms


def log_ends(
    options: Mapping[str, str],
    topics: Iterable[str] | None,
    cluster: str,
    past: Span | None = None,
) -> Iterator[pa.RecordBatch]:
    """Samples of all partitions of these topics (None: of all), as bronze_log_end; topics that are
    gone have none.

    Each partition's newest sample is of the present: of now by this machine's clock where a broker
    was asked; of its last batch or the end of `past`, whichever is later, in a folder, which may
    have been at rest for a year. With `past` the ticks in it are sampled as well.

    `options`: `path` of a data folder, or `bootstrapServers`. Raises SourceError, OSError.
    """
    path, bootstrap = options.get("path"), options.get("bootstrapServers")
    wanted = None if topics is None else sorted(set(topics))
    if bootstrap is not None:
        from .ends_wire import samples_of_broker

        samples = samples_of_broker(bootstrap, wanted, past)
    elif path is not None:
        from .ends_folder import samples_of_folder

        samples = samples_of_folder(Path(path), wanted, past)
    else:
        raise SourceError("Give the option path: a data folder; or bootstrapServers: HOST:PORT.")
    return _batches(samples, cluster)


def _batches(samples: Iterator[Sample], cluster: str) -> Iterator[pa.RecordBatch]:
    rows: list[Sample] = []
    for sample in samples:
        rows.append(sample)
        if len(rows) == BATCH_ROWS:
            yield _batch(rows, cluster)
            rows = []
    if rows:
        yield _batch(rows, cluster)


def _batch(rows: list[Sample], cluster: str) -> pa.RecordBatch:
    topics, partitions, starts, ends, times = zip(*rows, strict=True)
    sampled_at = pa.array(times, pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    columns = [
        pa.array([cluster] * len(rows), pa.string()),
        pa.array(topics, pa.string()),
        pa.array(partitions, pa.int32()),
        pa.array(starts, pa.int64()),
        pa.array(ends, pa.int64()),
        sampled_at.cast(SCHEMA.field("sampled_at").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
