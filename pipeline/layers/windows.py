"""The last commits of every partition: what a status rests on.

Of each partition the last ten commits are remembered (Burrow's `intervals`), those of one second
that stand side by side as one. A second is one of the clock here, not one since the commit before:
so it does not matter where batches begin.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..diagnosis.burrow import INTERVALS
from .ordering import NEVER, Ints, Runs, bools, ints, keys

__all__ = ["windows"]

_KEY: Final = ["cluster", "offsets_partition", "group", "topic", "partition"]
_POINT: Final = ["log_offset", "second", "at_ms", "offset", "lag", "last_ms"]


def windows(old: pa.Table, commits: pa.Table) -> pa.Table:
    """state_window after the rows `commits` of silver_commit."""
    rows = pa.concat_tables([_points(old), _commits(commits)], promote_options="permissive")
    (key,) = keys(_KEY, rows)
    rows, key = _after_removals(rows, key)
    place = ints(rows["log_offset"])
    order = np.lexsort((place, key))
    rows, key = rows.take(order), key[order]
    seconds = Runs(key, ints(rows["second"]))
    of = key[seconds.first]
    partitions = Runs(of)
    from_end = partitions.spread(partitions.last) - np.arange(len(of))
    kept = from_end < INTERVALS
    # The commits of one second: the first one's time, as Burrow keeps it, and what the last says.
    points = rows.take(seconds.last[kept])
    at_ms = seconds.least(ints(rows["at_ms"]))[kept]
    last_ms = seconds.most(ints(rows["last_ms"])).filter(pa.array(kept))
    fields = {"at_ms": pa.array(at_ms), "last_ms": last_ms}
    struct = pa.StructArray.from_arrays(
        [fields.get(name, points[name].combine_chunks()) for name in _POINT], _POINT
    )
    ends = np.cumsum(np.append(0, np.minimum(partitions.lengths, INTERVALS)))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), struct)
    told = rows.select(_KEY).take(seconds.first[partitions.first])
    return told.append_column("points", lists)


def _points(old: pa.Table) -> pa.Table:
    """Of state_window, each in a row."""
    points = old["points"].combine_chunks()
    rows = old.select(_KEY).take(pc.list_parent_indices(points))
    point = pc.list_flatten(points)
    for name in _POINT:
        rows = rows.append_column(name, point.field(name))
    return rows.append_column("kind", pa.nulls(rows.num_rows, pa.string()))


def _commits(commits: pa.Table) -> pa.Table:
    """Of silver_commit, as points of their own."""
    at_ms = pa.array(ints(commits["commit_ts"]) // 1000)
    rows = commits.select([*_KEY, "log_offset", "offset", "lag", "kind"])
    for name, column in (
        ("at_ms", at_ms),
        ("last_ms", at_ms),
        ("second", pa.array(np.asarray(at_ms) // 1000)),
    ):
        rows = rows.append_column(name, column)
    return rows


def _after_removals(rows: pa.Table, key: Ints) -> tuple[pa.Table, Ints]:
    """What was committed before a tombstone is gone with it, and so is that."""
    is_tombstone = bools(pc.equal(rows["kind"], "TOMBSTONE"))
    if not is_tombstone.any():
        return rows, key
    place = ints(rows["log_offset"])
    removed = np.full(1 + key.max(initial=0), NEVER)
    np.maximum.at(removed, key[is_tombstone], place[is_tombstone])
    left = place > removed[key]
    return rows.filter(pa.array(left)), key[left]
