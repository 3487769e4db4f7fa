"""The inputs of the pipeline: the offsets log, samples of the topics' log ends, the event log.

Everything is planned here, on the driver. Large numbers of records are then read in Spark tasks;
small numbers, samples and events are read here.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .diagnosis.group_history import OFFSETS_RETENTION_MS
from .lake.manifest import Manifest
from .lake.reader import Lake
from .lake.schema import LakeError
from .layers.batch import Batch
from .source.events import event_ends, read_events
from .source.factory import open_source
from .source.log_ends import to_arrow
from .source.source import Split, TimeSpan
from .tables import TABLES

_SAMPLES: Final = TABLES["bronze_log_end"].schema

TIMEOUT_SECONDS: Final = 10.0


class LogMismatch(LakeError):
    """The lake belongs to a different log, or to this log before it was recreated or truncated."""


class Plan(NamedTuple):
    """`end`: end offsets of the partitions that a batch reads; `records`: the maximum number of
    records in the batch, because compaction may have removed some; `left`: the maximum number of
    records after the batch."""

    start: dict[int, int]
    end: dict[int, int]
    records: int
    left: int
    log_id: str | None = None

    @property
    def caught_up(self) -> bool:
        return self.left == 0


def share_records(pending: Mapping[int, tuple[int, int]], records_max: int) -> Plan:
    """Take records from each partition in proportion to its pending records, so that all partitions
    advance to about the same point in time. `pending`: (start offset, end offset)."""
    total = sum(end - begin for begin, end in pending.values())
    ends = {}
    for partition, (begin, end) in pending.items():
        share = end - begin
        if total > records_max:
            share = -(-share * records_max // total)
        if share > 0:
            ends[partition] = begin + share
    start = {partition: begin for partition, (begin, _) in pending.items()}
    records = sum(end - start[partition] for partition, end in ends.items())
    return Plan(start, ends, records, total - records)


class Inputs:
    """`options`: `path` or `bootstrapServers` of the data source. `cluster`: the name in the rows;
    None: the cluster's own id. `events`: the data folder with the event log; None: `path`, if
    given. `offsets_retention_ms`: the cluster's setting. `timeout_seconds`: how long to wait for
    the first response of a broker. Raises ClusterUnreachable, SourceError and OSError."""

    def __init__(
        self,
        options: Mapping[str, str],
        cluster: str | None = None,
        events: Path | None = None,
        *,
        offsets_retention_ms: int = OFFSETS_RETENTION_MS,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self.options = dict(options)
        self.origin = options.get("path") or options["bootstrapServers"]
        self.offsets_retention_ms = offsets_retention_ms
        self.source = open_source(self.options)
        found = self.source.cluster_id(timeout_seconds)
        self.cluster = cluster or found
        path = options.get("path")
        self._events = events or (Path(path) if path else None)

    def plan(self, lake: Manifest, records_max: int) -> Plan:
        """Plan the next batch. Raises LogMismatch, SourceError and OSError."""
        if lake.cluster not in {"", self.cluster}:
            raise LogMismatch(
                f"the lake belongs to cluster {lake.cluster}, not {self.cluster}: choose another "
                f"--lake, or pass --cluster {lake.cluster} if the clusters are the same."
            )
        known = lake.inputs.get("log")
        log_id = self.source.log_id() or known
        if known is not None and log_id != known:
            raise LogMismatch(
                f"the lake was read from an offsets topic with id {known}, and this one has id "
                f"{log_id}: the topic was recreated; choose another --lake."
            )
        starts, ends = self.source.starts(), self.source.ends()
        for partition, position in lake.positions.items():
            if position > ends.get(partition, 0):
                raise LogMismatch(
                    f"the lake has read partition {partition} up to offset {position}, but this "
                    f"log ends at {ends.get(partition, 0)}: it is another log, or was recreated or "
                    "truncated; choose another --lake."
                )
        # If the beginning of the log was deleted, continue where the log now starts.
        start = {at: max(lake.positions.get(at, 0), starts.get(at, 0)) for at in ends}
        plan = share_records({at: (start[at], end) for at, end in ends.items()}, records_max)
        # After the previous batch was planned, compaction may have removed records at its end. They
        # are counted as missing before the first record of this batch.
        read_to = lake.inputs.get("read_to", {})
        for at, begin in start.items():
            plan.start[at] = min(begin, max(read_to.get(str(at), begin), starts.get(at, 0)))
        return plan._replace(log_id=log_id)

    def splits(self, plan: Plan) -> list[Split]:
        """Split the plan into tasks. Raises SourceError and OSError."""
        return self.source.splits(plan.start, plan.end)

    def records(self, plan: Plan) -> Iterator[pa.RecordBatch]:
        """Yield the planned records, with schema columns.SOURCE. Raises SourceError and OSError."""
        for split in self.splits(plan):
            yield from self.source.read(split)

    def samples(self, topics: Collection[str] | None, past: TimeSpan | None) -> pa.Table:
        """Return current samples of the log ends of these topics (None: all), and samples at
        regular intervals within `past`, as rows of bronze_log_end. Raises SourceError and
        OSError."""
        if topics is not None and not topics:
            return _SAMPLES.empty_table()
        found = to_arrow(self.source.log_ends(topics, past), self.cluster)
        return pa.Table.from_batches(found, schema=_SAMPLES)

    def event_ends(self) -> dict[str, int]:
        """Return the length of the event log by file; empty if there is none. Raises OSError."""
        return event_ends(self._events) if self._events else {}

    def events(self, start: Mapping[str, int], end: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        """Yield rows of bronze_event. Raises OSError."""
        if self._events is not None:
            yield from read_events(self._events, start, end, self.cluster)


# The first batch's samples start this long before its first record, so that its first commits have
# an earlier sample.
LOOK_BACK: Final = timedelta(minutes=1)


class Samples:
    """The samples of one batch: samples for the time of its records, and current samples once the
    log has been read to its end. `lake`: the lake before the batch.

    Current samples are taken before the log is read. Later samples would include records whose
    commits arrive only with the next batch, and would count them as lag. Raises SourceError and
    OSError.
    """

    def __init__(self, inputs: Inputs, lake: Lake) -> None:
        self._inputs = inputs
        positions = lake.manifest.inputs.get("samples", {})
        self._sampled_to = _parse_time(positions.get("looked_to"))
        self._newest = _parse_time(positions.get("newest"))
        self._known = set(lake.read("state_commit", ["topic"])["topic"].unique().to_pylist())
        # Before the first batch, it is unknown which topics have commits.
        self._current = inputs.samples(None if lake.batch_id < 0 else self._known, None)

    @property
    def has_news(self) -> bool:
        """Whether a topic with committed offsets has a newer sample, as is usual with a broker."""
        return bool(self._new(_of_topics(self._current, self._known)).num_rows)

    def of(self, batch: Batch) -> pa.Table:
        """Return rows of bronze_log_end. Call this after the batch's records have been written to
        bronze. Raises SourceError and OSError."""
        topics = self._known | batch.topics()
        found = _of_topics(self._current, topics)
        span = batch.span()
        if span is not None:
            since = self._sampled_to or span[0] - LOOK_BACK
            self._sampled_to = max(span[1], since)
            past = TimeSpan(_ms(since), _ms(self._sampled_to))
            found = self._with_past(found, self._inputs.samples(topics, past))
        found = self._new(found)
        if not batch.caught_up and self._sampled_to is not None:
            found = found.filter(pc.less_equal(found["sampled_at"], pa.scalar(self._sampled_to)))
        if found.num_rows:
            self._newest = pc.max(found["sampled_at"]).as_py()
        return found

    def positions(self) -> dict[str, str]:
        """Return the positions for the manifest. Call this after `of`."""
        times = {"looked_to": self._sampled_to, "newest": self._newest}
        return {name: time.isoformat() for name, time in times.items() if time is not None}

    def _with_past(self, current: pa.Table, found: pa.Table) -> pa.Table:
        """Combine `current` with the past samples in `found`. Current samples in `found` are kept
        only for topics that `current` lacks. The samples in `current` get at least the time of the
        batch's last record."""
        is_past = pc.is_null(found["log_start"])
        is_new = pc.invert(pc.is_in(found["topic"], pc.unique(current["topic"])))
        position = current.schema.get_field_index("sampled_at")
        field = current.schema.field(position)
        earliest = pa.scalar(self._sampled_to, field.type)
        times = current["sampled_at"]
        times = pc.if_else(pc.less(times, earliest), earliest, times)
        kept = found.filter(pc.or_(is_past, is_new))
        return pa.concat_tables([kept, current.set_column(position, field, times)])

    def _new(self, found: pa.Table) -> pa.Table:
        if self._newest is None:
            return found
        is_later = pc.greater(found["sampled_at"], pa.scalar(self._newest))
        is_known = pc.is_in(found["topic"], pa.array(sorted(self._known), pa.string()))
        return found.filter(pc.or_(is_later, pc.invert(is_known)))


def _of_topics(found: pa.Table, topics: set[str]) -> pa.Table:
    return found.filter(pc.is_in(found["topic"], pa.array(sorted(topics), pa.string())))


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _ms(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
