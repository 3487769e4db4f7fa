"""What the pipeline reads: the offsets log, the ends of topics' logs, and the coordinator's events.

Everything is planned here, on the driver; many records are then read by Spark's tasks, while few of
them, samples and events are read right here.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from .diagnosis.story import OFFSETS_RETENTION_MS
from .lake.errors import LakeError
from .lake.manifest import Manifest
from .source.ends import Span, log_ends
from .source.events import event_ends, read_events
from .source.source import Split, cluster_id, open_source
from .tables import TABLES

__all__ = ["Inputs", "OtherLog", "Plan"]

_SAMPLES: Final = TABLES["bronze_log_end"].schema


class OtherLog(LakeError):
    """The lake was made of another log, or of this one before it was made anew or lost its end."""


class Plan(NamedTuple):
    """`end`: of the partitions that a batch reads; `records` of them at most (compaction may have
    taken some), and so many are `left` behind it."""

    start: dict[int, int]
    end: dict[int, int]
    records: int
    left: int
    log_id: str | None = None

    @property
    def caught_up(self) -> bool:
        return self.left == 0


def shared(waiting: Mapping[int, tuple[int, int]], records_max: int) -> Plan:
    """As much of each partition as its share of what waits in all of them is, so that they come to
    the same time together. `waiting`: from which offset, up to which."""
    total = sum(end - begin for begin, end in waiting.values())
    taken = {}
    for partition, (begin, end) in waiting.items():
        share = end - begin
        if total > records_max:
            share = -(-share * records_max // total)
        if share > 0:
            taken[partition] = begin + share
    start = {partition: begin for partition, (begin, _) in waiting.items()}
    records = sum(end - start[partition] for partition, end in taken.items())
    return Plan(start, taken, records, total - records)


class Inputs:
    """`options`: those of the data source, `path` or `bootstrapServers`. `cluster`: the name that
    rows get; null: the id that the log itself has. `events`: the data folder whose event log is
    read; null: `path`, if it has one. `offsets_retention_ms`: of the cluster.

    Raises SourceError, OSError.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        cluster: str | None = None,
        events: Path | None = None,
        *,
        offsets_retention_ms: int = OFFSETS_RETENTION_MS,
    ) -> None:
        self.options = dict(options)
        self.origin = options.get("path") or options["bootstrapServers"]
        self.offsets_retention_ms = offsets_retention_ms
        self.source = open_source(self.options)
        self.cluster = cluster or cluster_id(self.options)
        path = options.get("path")
        self._events = events or (Path(path) if path else None)

    def plan(self, lake: Manifest, records_max: int) -> Plan:
        """The next batch. Raises OtherLog, SourceError, OSError."""
        if lake.cluster not in {"", self.cluster}:
            raise OtherLog(
                f"the lake is of cluster {lake.cluster}, and this is {self.cluster}: choose "
                f"another --lake, or say --cluster {lake.cluster} if they are one."
            )
        known = lake.inputs.get("log")
        log_id = self.source.log_id() or known
        if known is not None and log_id != known:
            raise OtherLog(
                f"the lake is of a log whose topic has the id {known}, and this one's is {log_id}: "
                "it was made anew; choose another --lake."
            )
        starts, ends = self.source.starts(), self.source.ends()
        for partition, position in lake.positions.items():
            if position > ends.get(partition, 0):
                raise OtherLog(
                    f"the lake has read partition {partition} up to offset {position}, and this "
                    f"log ends at {ends.get(partition, 0)}: it is another log, was made anew, or "
                    "lost its end; choose another --lake."
                )
        # A log whose beginning was deleted goes on at its start.
        start = {at: max(lake.positions.get(at, 0), starts.get(at, 0)) for at in ends}
        plan = shared({at: (start[at], end) for at, end in ends.items()}, records_max)
        # What compaction took from the end of the batch before, after that was planned, is missing
        # before the records of this one.
        read_to = lake.inputs.get("read_to", {})
        for at, begin in start.items():
            plan.start[at] = min(begin, max(read_to.get(str(at), begin), starts.get(at, 0)))
        return plan._replace(log_id=log_id)

    def splits(self, plan: Plan) -> list[Split]:
        """What is planned, in pieces for tasks. Raises SourceError, OSError."""
        return self.source.splits(plan.start, plan.end)

    def records(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        """What is planned, of schema columns.SOURCE. Raises SourceError, OSError."""
        for split in self.splits(plan):
            yield from self.source.read(split)

    def samples(self, topics: Collection[str] | None, past: Span | None) -> pa.Table:
        """Of the ends of these topics' logs (None: of all): of the present, and of the ticks in
        `past`; as rows of bronze_log_end. Raises SourceError, OSError."""
        if topics is not None and not topics:
            return _SAMPLES.empty_table()
        found = log_ends(self.options, topics, self.cluster, past)
        return pa.Table.from_batches(found, schema=_SAMPLES)

    def event_ends(self) -> dict[str, int]:
        """How far the event log goes, by file; nothing where there is none. Raises OSError."""
        return event_ends(self._events) if self._events else {}

    def events(self, start: Mapping[str, int], end: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """As rows of bronze_event. Raises OSError."""
        if self._events is not None:
            yield from read_events(self._events, start, end, self.cluster)
