"""The layer of single commits: silver_commit, its aggregates, jumps, and their state.

A partition of the offsets topic contains everything about its groups, so partitions are processed
independently, in Spark tasks that read from the lake and write to it, or in this process.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lake.reader import Lake
from ..session import FEW_RECORDS
from ..tables import TABLES
from . import jumps
from .aggregates import activity_by_generation, commits_by_minute, last_commits
from .batch import RECORD_TABLES, Batch
from .lag import thin_out
from .ordering import Runs, bools, ints, keys
from .parquet_tasks import PartFiles, split_for_tasks, write_in_process, write_in_tasks
from .silver_commit import CommitContext, gap_state, log_gaps, silver_commit

WRITTEN: Final = (
    "silver_commit",
    "silver_activity",
    "gold_partition_minute",
    "state_commit",
    "state_open_txn",
    "state_place",
    "state_delta",
    "state_window",
    "gold_offset_jump",
)
_POSITION: Final = ["offsets_partition", "log_offset", "missing_before"]
_COMMIT: Final = [
    *("group", "topic", "partition", "offset", "leader_epoch", "tombstone", "producer_id"),
    *("commit_ts", "append_ts"),
]
# Only these leaves of member_list, which identify owners, are read, because there may be many
# members.
_MEMBER_LISTS: Final = [
    *("offsets_partition", "log_offset"),
    *(
        f"member_list.list.element.{name}"
        for name in ("member_id", "instance_id", "client_id", "client_host", "assigned")
    ),
]
_ACTIVITY: Final = ["group", "topic", "partition", "generation_log_offset", "commits"]
_GENERATION: Final = [
    "offsets_partition",
    "log_offset",
    "group",
    "generation",
    "record_kind",
    "members",
]


def tables(batch: Batch) -> dict[str, pa.Table]:
    """Return state_log_end, which does not belong to a partition of the offsets topic; the tasks
    write the tables in WRITTEN."""
    found = {}
    if batch.rows("bronze_log_end"):
        found["state_log_end"] = thin_out(_samples(batch.lake, batch.written), batch.now)
    if not any(map(batch.rows, RECORD_TABLES)):
        return found
    work = partial(_process, batch.lake, batch.written, batch.cluster)
    sizes = _sizes(batch)
    if sum(sizes.values()) <= FEW_RECORDS:
        batch.violations += write_in_process(batch.writer, WRITTEN, list(sizes), work)
    else:
        shares = split_for_tasks(batch.spark, [(size, number) for number, size in sizes.items()])
        batch.violations += write_in_tasks(batch, WRITTEN, shares, work)
    return found


def _sizes(batch: Batch) -> dict[int, int]:
    """Return the number of rows to read for each offsets partition."""
    sizes: dict[int, int] = {}
    state = ("state_commit", "state_place")
    for lake, names in ((batch.written, RECORD_TABLES), (batch.lake, state)):
        for table in names:
            column = lake.read(table, ["offsets_partition"])["offsets_partition"]
            for each in pc.value_counts(column).to_pylist():
                sizes[each["values"]] = sizes.get(each["values"], 0) + each["counts"]
    return sizes


class _Partitions(NamedTuple):
    """Rows of some partitions of the offsets topic: from before this batch, and written by this
    batch."""

    before: Lake
    written: Lake
    numbers: Sequence[int]

    def old(self, table: str, columns: list[str] | None = None) -> pa.Table:
        return self.before.read(table, columns, self._filter)

    def new(self, table: str, columns: list[str] | None = None) -> pa.Table:
        return self.written.read(table, columns, self._filter)

    def generations(self) -> pa.Table:
        """Return the records of this batch, and the newest earlier record of each group."""
        before = self.old("state_generation", _GENERATION)
        (group,) = keys(["offsets_partition", "group"], before)
        order = np.lexsort((ints(before["log_offset"]), group))
        before = before.take(order[Runs(group[order]).last])
        return pa.concat_tables([before, self.new("silver_generation", _GENERATION)])

    def member_lists(self, log_offsets: pa.Array) -> Iterator[pa.RecordBatch]:
        wanted = self._filter & pc.field("log_offset").isin(log_offsets)
        lakes = ((self.before, "state_generation"), (self.written, "silver_generation"))
        for lake, table in lakes:
            for rows in lake.pieces(table, _MEMBER_LISTS):
                yield from pa.Table.from_batches([rows]).filter(wanted).to_batches()

    def samples(self, *commits: pa.Table) -> pa.Table:
        """Return the samples of the topics of these commits."""
        found = {topic for rows in commits for topic in rows["topic"].unique().to_pylist()}
        topics = pa.array(sorted(found), pa.string())
        return _samples(self.before, self.written, pc.field("topic").isin(topics))

    @property
    def _filter(self) -> pc.Expression:
        return pc.field("offsets_partition").isin(list(self.numbers))


def _process(
    before: Lake, written: Lake, cluster: str, numbers: Sequence[int], files: PartFiles
) -> None:
    """Write the tables in WRITTEN for some partitions of the offsets topic."""
    partitions = _Partitions(before, written, numbers)
    commits = partitions.new("bronze_commit", [*_POSITION, *_COMMIT])
    others = partitions.new("bronze_other", [*_POSITION, "producer_id", "control", "key_version"])
    known, pending = partitions.old("state_place"), partitions.old("state_open_txn")
    gaps = log_gaps([commits, partitions.new("bronze_group", _POSITION), others], known)
    samples = partitions.samples(commits, pending)
    context = CommitContext(
        others,
        gaps,
        partitions.generations(),
        partitions.member_lists,
        partitions.old("state_commit"),
        pending,
        samples,
    )
    silver, key, state_commit, state_open_txn = silver_commit(commits, context, cluster)
    deltas = jumps.count_deltas(silver, partitions.old("state_delta"))
    moved = jumps.candidates(silver, deltas)
    is_live = bools(pc.not_equal(silver["kind"], "TOMBSTONE"))
    live, live_key = silver.filter(is_live), key[is_live]
    rows = {
        "silver_commit": silver,
        "silver_activity": activity_by_generation(live, live_key),
        "gold_partition_minute": commits_by_minute(live, live_key),
        "state_commit": state_commit,
        "state_open_txn": state_open_txn,
        "state_place": gap_state(cluster, gaps, known),
        "state_window": last_commits(partitions.old("state_window"), silver),
        "state_delta": deltas,
    }
    if moved.any():
        groups = pc.field("group").isin(silver.filter(moved)["group"].unique())
        activity = before.read("state_activity", _ACTIVITY, groups)
        rows["gold_offset_jump"] = jumps.offset_jumps(silver, moved, activity, samples)
    for table, found in rows.items():
        files.write(table, found)


def _samples(before: Lake, written: Lake, wanted: pc.Expression | None = None) -> pa.Table:
    names = TABLES["bronze_log_end"].schema.names
    both = ((before, "state_log_end"), (written, "bronze_log_end"))
    return pa.concat_tables([lake.read(table, names, wanted) for lake, table in both])
