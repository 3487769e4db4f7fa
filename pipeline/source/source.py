"""What can be read: an offsets log, wherever it lies. All of it works without Spark.

Positions are log offsets, by offsets partition. A source opens nothing before it is asked, so that
each worker makes one of its own from the same options.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

__all__ = [
    "SPLIT_BYTES",
    "Positions",
    "Source",
    "SourceError",
    "Split",
    "cluster_id",
    "open_source",
    "shares",
]

Positions = Mapping[int, int]

SPLIT_BYTES: Final = 64 * 1024 * 1024
"""What one task reads at most, about: some 0.8 M records, a second of work."""


class SourceError(Exception):
    """The options name nothing that can be read; says what to give instead."""


class Split(NamedTuple):
    """What one task reads: records from offset `start` up to `end`, which is not in it. `hint`:
    where a source finds `start` quickly; it may have become wrong meanwhile."""

    offsets_partition: int
    start: int
    end: int
    hint: Any = None


class Source(Protocol):
    """Only committed facts come out: sound, whole batches. Raises OSError, SourceError."""

    def log_id(self) -> str | None:
        """The offsets topic's id, which another log under the same name has not; None: not told."""

    def starts(self) -> dict[int, int]:
        """Where each partition's log begins."""

    def ends(self) -> dict[int, int]:
        """The offset behind each partition's last whole batch; a partition without one is left
        out."""

    def limited(
        self, start: Positions, end: Positions, *, records_max: int | None, bytes_max: int | None
    ) -> dict[int, int]:
        """As much of `start` to `end` as a batch may have: each partition gets its share, and at
        least one batch of records, so that a batch larger than the limit is read at last."""

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        """`start` to `end` in pieces; a partition that `start` lacks is read from its beginning,
        one that `end` lacks not at all. They pickle."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Its records in order, of schema columns.SOURCE. What is not there any more is told by
        `missing_before` of the record that follows."""


def open_source(options: Mapping[str, str]) -> Source:
    """By `path` a folder of segments, by `bootstrapServers` any Kafka. Raises SourceError."""
    path, bootstrap = options.get("path"), options.get("bootstrapServers")
    if (path is None) == (bootstrap is None):
        raise SourceError(
            "Give the option path: a data folder with an offsets log; or bootstrapServers:"
            " HOST:PORT of a broker; not both."
        )
    if bootstrap is not None:
        from .wire import WireSource

        return WireSource(bootstrap)
    assert path is not None
    from .folder import FolderSource

    return FolderSource(Path(path))


def cluster_id(options: Mapping[str, str]) -> str:
    """Of what the options name: as brokers tell it, or as Kafka's own file in a data folder; a copy
    of some partitions has none, and is called as its folder is. Raises SourceError, OSError."""
    path, bootstrap = options.get("path"), options.get("bootstrapServers")
    if bootstrap is not None:
        from .wire_cluster import Cluster

        with Cluster(bootstrap) as cluster:
            return cluster.cluster_id
    folder = Path(path or ".").resolve()
    with suppress(FileNotFoundError):
        for line in (folder / "meta.properties").read_text(errors="replace").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "cluster.id" and value.strip():
                return value.strip()
    return folder.name


def shares(waiting: Mapping[int, int], limit: int) -> dict[int, int]:
    """What each partition may have of `limit`: small ones all they want, the others as much as
    each other."""
    found = {}
    for count, partition in enumerate(sorted(waiting, key=lambda each: waiting[each])):
        found[partition] = min(waiting[partition], limit // (len(waiting) - count))
        limit -= found[partition]
    return found
