"""All that is told of commits one by one: silver_commit, what it adds up to, and the state of it.

A partition of the offsets topic has all there is of its groups, so each is told by itself, in tasks
of Spark that read what the lake has of it and write what they make of it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..session import FEW_RECORDS
from ..tables import TABLES
from . import jumps, log_ends, places
from .activity import silver_activity
from .minutes import partition_minutes
from .ordering import Runs, bools, ints, keys
from .sharing import Files, tasks_of, write_by_tasks, write_here
from .silver import Before, silver_commit
from .windows import windows

if TYPE_CHECKING:
    from ..lake.reader import Lake
    from .batch import Batch

__all__ = ["tables"]

TABLES_MADE: Final = (
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
_RECORDS: Final = ("bronze_commit", "bronze_group", "bronze_other")
_PLACE: Final = ["offsets_partition", "log_offset", "missing_before"]
_COMMIT: Final = [
    *("group", "topic", "partition", "offset", "leader_epoch", "tombstone", "producer_id"),
    *("commit_ts", "append_ts"),
]
# Of members, who may be many, what tells owners: no more of them is read.
_MEMBER_LISTS: Final = [
    *("offsets_partition", "log_offset"),
    *(
        f"member_list.list.element.{name}"
        for name in ("member_id", "instance_id", "client_id", "client_host", "assigned")
    ),
]
_ACTIVITY: Final = ["group", "topic", "partition", "generation_log_offset", "commits"]
_GENERATION: Final = [
    *("offsets_partition", "log_offset", "group", "generation", "record_kind", "members"),
]


def tables(batch: "Batch") -> dict[str, pa.Table]:
    """Only state_log_end, which is no partition's: the tasks have written TABLES_MADE."""
    found = {}
    if batch.rows("bronze_log_end"):
        found["state_log_end"] = log_ends.remembered(_samples(batch.lake, batch.written), batch.now)
    if not any(map(batch.rows, _RECORDS)):
        return found
    work = partial(_tell_partitions, batch.lake, batch.written, batch.cluster)
    sizes = _sizes(batch)
    if sum(sizes.values()) <= FEW_RECORDS:
        batch.broken += write_here(batch.writer, TABLES_MADE, list(sizes), work)
    else:
        shares = tasks_of(batch.spark, [(size, number) for number, size in sizes.items()])
        batch.broken += write_by_tasks(batch.writer, batch.spark, TABLES_MADE, shares, work)
    return found


def _sizes(batch: "Batch") -> dict[int, int]:
    """Partition of the offsets topic -> how many rows are to be read for it."""
    sizes: dict[int, int] = {}
    for lake, tables in ((batch.written, _RECORDS), (batch.lake, ("state_commit", "state_place"))):
        for table in tables:
            counted = pc.value_counts(lake.read(table, [_PLACE[0]])[_PLACE[0]])
            for each in counted.to_pylist():
                sizes[each["values"]] = sizes.get(each["values"], 0) + each["counts"]
    return sizes


class _Partitions(NamedTuple):
    """Some partitions of the offsets topic: what the lake has of them, from `before` this batch and
    `written` by it."""

    before: "Lake"
    written: "Lake"
    numbers: Sequence[int]

    def old(self, table: str, columns: list[str] | None = None) -> pa.Table:
        return self.before.read(table, columns, self._which)

    def new(self, table: str, columns: list[str] | None = None) -> pa.Table:
        return self.written.read(table, columns, self._which)

    def generations(self) -> pa.Table:
        before = _newest(self.old("state_generation", _GENERATION))
        return pa.concat_tables([before, self.new("silver_generation", _GENERATION)])

    def member_lists(self, places: pa.Array) -> Iterator[pa.RecordBatch]:
        there = self._which & pc.field("log_offset").isin(places)
        lakes = ((self.before, "state_generation"), (self.written, "silver_generation"))
        for lake, table in lakes:
            for rows in lake.pieces(table, _MEMBER_LISTS):
                yield from pa.Table.from_batches([rows]).filter(there).to_batches()

    def samples(self, *commits: pa.Table) -> pa.Table:
        """Of the logs that these commits are of."""
        found = {topic for rows in commits for topic in rows["topic"].unique().to_pylist()}
        topics = pa.array(sorted(found), pa.string())
        return _samples(self.before, self.written, pc.field("topic").isin(topics))

    @property
    def _which(self) -> pc.Expression:
        return pc.field("offsets_partition").isin(list(self.numbers))


def _tell_partitions(
    before: "Lake", written: "Lake", cluster: str, numbers: Sequence[int], files: Files
) -> None:
    """Tells all that there is to tell of the commits of these partitions of the offsets topic."""
    given = _Partitions(before, written, numbers)
    commits = given.new("bronze_commit", [*_PLACE, *_COMMIT])
    others = given.new("bronze_other", [*_PLACE, "producer_id", "control", "key_version"])
    known, pending = given.old("state_place"), given.old("state_open_txn")
    gaps = places.gaps_of([commits, given.new("bronze_group", _PLACE), others], known)
    samples = given.samples(commits, pending)
    told = silver_commit(
        commits,
        Before(
            others,
            gaps,
            given.generations(),
            given.member_lists,
            given.old("state_commit"),
            pending,
            samples,
        ),
        cluster,
    )
    silver = told.silver
    usual = jumps.deltas(silver, given.old("state_delta"))
    moved = jumps.candidates(silver, usual)
    # Commits that were removed are no commits.
    is_live = bools(pc.not_equal(silver["kind"], "TOMBSTONE"))
    live, key = silver.filter(is_live), told.key[is_live]
    made = {
        "silver_commit": silver,
        "silver_activity": silver_activity(live, key),
        "gold_partition_minute": partition_minutes(live, key),
        "state_commit": told.state_commit,
        "state_open_txn": told.state_open_txn,
        "state_place": places.remembered(cluster, gaps, known),
        "state_window": windows(given.old("state_window"), silver),
        "state_delta": usual,
    }
    if moved.any():
        groups = pc.field("group").isin(silver.filter(moved)["group"].unique())
        activity = before.read("state_activity", _ACTIVITY, groups)
        made["gold_offset_jump"] = jumps.offset_jumps(silver, moved, activity, samples)
    for table, rows in made.items():
        files.write(table, rows)


def _newest(generations: pa.Table) -> pa.Table:
    """Each group's last."""
    (group,) = keys(["offsets_partition", "group"], generations)
    order = np.lexsort((ints(generations["log_offset"]), group))
    return generations.take(order[Runs(group[order]).last])


def _samples(before: "Lake", written: "Lake", which: pc.Expression | None = None) -> pa.Table:
    names = TABLES["bronze_log_end"].schema.names
    both = ((before, "state_log_end"), (written, "bronze_log_end"))
    return pa.concat_tables([lake.read(table, names, which) for lake, table in both])
