"""The interface of a source: an offsets log, wherever it is stored. Works without Spark.

Positions are log offsets by offsets partition. A source opens nothing until it is used, so that
every worker can create its own from the same options.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from ..diagnosis.group_history import LogEnd

Positions = Mapping[int, int]

SPLIT_BYTES: Final = 64 * 1024 * 1024
"""The approximate maximum size of a task: about 0.8 million records, a second of work."""

NO_LIMIT: Final = 1 << 62


class SourceError(Exception):
    """The source cannot be read; the message states the remedy."""


class ClusterUnreachable(SourceError):
    """No broker responded; the message contains the brokers' addresses."""


class Split(NamedTuple):
    """The input of one task: the records from offset `start` up to `end`, exclusive. `hint`: a
    source's shortcut to `start`, which may be outdated."""

    offsets_partition: int
    start: int
    end: int
    hint: Any = None


class TimeSpan(NamedTuple):
    """The span from `since_ms`, exclusive, to `until_ms`, inclusive."""

    since_ms: int
    until_ms: int


class Source(Protocol):
    """Skips incomplete and corrupted batches. Raises OSError and SourceError."""

    def cluster_id(self, timeout_seconds: float | None = None) -> str:
        """Return the cluster id from the brokers, or from Kafka's meta.properties in a data folder;
        a copy of some partitions has none, so its folder's name is used. `timeout_seconds`: how
        long to wait for the first response. Also raises ClusterUnreachable."""

    def topic_ids(self) -> dict[str, str]:
        """Return the names of the topics that exist, by id as Kafka prints it. For a copy of some
        partitions, only the topics of these partitions are known."""

    def log_ends(self, topics: Collection[str] | None, past: TimeSpan | None) -> Iterator[LogEnd]:
        """Yield samples of all partitions of these topics (None: all). Topics that do not exist are
        omitted.

        Each partition's newest sample is current. From a broker, it has the time of the local
        clock; from a folder, which may be old, it has the time of the last batch or the end of
        `past`, whichever is later. The ticks in `past` are sampled as well."""

    def log_id(self) -> str | None:
        """The offsets topic's id, which changes if the topic is recreated; None: unknown."""

    def starts(self) -> dict[int, int]:
        """The log start offset of each partition."""

    def ends(self) -> dict[int, int]:
        """The end offset of each partition; partitions that never had a record are omitted."""

    def limited(
        self, start: Positions, end: Positions, *, records_max: int, bytes_max: int
    ) -> dict[int, int]:
        """Return the end offsets of a batch within the limits, at most `end`. Each partition gets a
        fair share, but at least one record batch, which may be larger than the limit."""

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        """Split the range from `start` to `end` into picklable pieces. A partition that is missing
        in `start` is read from its beginning; one that is missing in `end` is not read."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the records of a split in log order, with schema columns.SOURCE. Removed records
        are counted in `missing_before` of the next record."""


def unread(start: Positions, end: Positions) -> dict[int, int]:
    """Return the number of unread offsets of each partition that has any."""
    return {at: upto - start[at] for at, upto in end.items() if upto > start.get(at, upto)}


def fair_shares(pending: Mapping[int, int], limit: int) -> dict[int, int]:
    """Share `limit` among partitions. Partitions with few pending offsets get all of them, and the
    others get equal shares."""
    shares = {}
    for count, partition in enumerate(sorted(pending, key=lambda each: pending[each])):
        shares[partition] = min(pending[partition], limit // (len(pending) - count))
        limit -= shares[partition]
    return shares
