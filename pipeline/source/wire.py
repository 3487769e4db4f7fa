"""An offsets log behind a broker: of any Kafka since 0.11, or of kohort.

Partitions are read from their leaders as consumers do it, but raw: whole batches, those of open
and aborted transactions too. Nothing is joined and nothing committed; the broker sees a reader.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ...topics.names import OFFSETS_TOPIC
from .decoding import decode_chunks, within
from .source import SPLIT_BYTES, Positions, SourceError, Split, shares
from .wire_batches import behind, chunks_of
from .wire_cluster import EARLIEST, LATEST, PATIENCE_SECONDS, Cluster

__all__ = ["WireSource"]

# A record of a commit with its share of a batch, as measured; brokers tell offsets, not bytes.
RECORD_BYTES: Final = 87


class WireSource:
    """`bootstrap`: HOST:PORT of some brokers, parted by commas."""

    def __init__(self, bootstrap: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._bootstrap = bootstrap
        self._patience_seconds = patience_seconds

    def log_id(self) -> str | None:
        with self._cluster() as cluster:
            return cluster.topic_id(OFFSETS_TOPIC)

    def starts(self) -> dict[int, int]:
        return self._offsets(EARLIEST)

    def ends(self) -> dict[int, int]:
        return {partition: end for partition, end in self._offsets(LATEST).items() if end > 0}

    def limited(
        self, start: Positions, end: Positions, *, records_max: int | None, bytes_max: int | None
    ) -> dict[int, int]:
        begins = {**self.starts(), **start}
        waiting = {
            partition: upto - begins[partition]
            for partition, upto in end.items()
            if upto > begins.get(partition, upto)
        }
        limits = [records_max, None if bytes_max is None else bytes_max // RECORD_BYTES]
        records = min((each for each in limits if each is not None), default=None)
        if records is None or records >= sum(waiting.values()):
            return dict(end)
        found = {partition: upto for partition, upto in end.items() if partition not in waiting}
        with self._cluster() as cluster:
            for partition, share in shares(waiting, records).items():
                last = begins[partition] + max(share, 1) - 1
                found[partition] = min(behind(cluster, partition, last), end[partition])
        return found

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        begins = {**self.starts(), **start}
        records = max(split_bytes // RECORD_BYTES, 1)
        found = []
        with self._cluster() as cluster:
            for partition, upto in end.items():
                begin = begins.get(partition, upto)
                while upto - begin > records:
                    border = min(behind(cluster, partition, begin + records - 1), upto)
                    found.append(Split(partition, begin, border))
                    begin = border
                if begin < upto:
                    found.append(Split(partition, begin, upto))
        return found

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        with self._cluster() as cluster:
            chunks = chunks_of(cluster, split, self._patience_seconds)
            for rows in decode_chunks(chunks, split.offsets_partition, split.start):
                yield within(rows, split.start, split.end)

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, patience_seconds=self._patience_seconds)

    def _offsets(self, when: int) -> dict[int, int]:
        with self._cluster() as cluster:
            partitions = cluster.topics([OFFSETS_TOPIC]).get(OFFSETS_TOPIC)
            if partitions is None:
                raise SourceError(
                    f"{self._bootstrap} has no {OFFSETS_TOPIC} yet: no group was ever there; start"
                    " a consumer with a group id first."
                )
            found = cluster.offsets({(OFFSETS_TOPIC, index): when for index in partitions})
        return {index: offset for (_, index), offset in sorted(found.items()) if offset is not None}
