"""Aggregates of silver_commit: by generation (silver_activity), by minute (gold_partition_minute),
and the last ten commits of each partition (state_window).

Unless noted, `commits` excludes tombstones. `key` is the partition of each commit, as a number.
Both are sorted by partition, then by log offset.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..diagnosis.burrow import INTERVALS
from .ordering import NEVER, Ints, Runs, bools, ints, keys

_KEY: Final = ["cluster", "group", "topic", "partition"]
_MINUTE_US: Final = 60_000_000


def activity_by_generation(commits: pa.Table, key: Ints) -> pa.Table:
    """Return rows of silver_activity."""
    runs = Runs(key, ints(commits["generation_log_offset"]))
    advanced = bools(pc.equal(commits["kind"], "ADVANCE"))
    at = ints(commits["commit_ts"])
    complete = bools(commits["history_complete"])
    time = commits["commit_ts"].type
    first, last = commits.take(runs.first), commits.take(runs.last)
    columns = {
        "generation": first["generation"],
        "generation_log_offset": first["generation_log_offset"],
        "commits": runs.lengths,
        "repeats": runs.sum(bools(pc.equal(commits["kind"], "REPEAT"))),
        "first_commit_ts": pa.array(runs.min(at)).cast(time),
        "last_commit_ts": runs.max(at).cast(time),
        "last_advance_ts": runs.max(np.where(advanced, at, NEVER)).cast(time),
        "first_offset": first["offset"],
        "last_offset": last["offset"],
        "last_log_offset": last["log_offset"],
        "median_gap_ms": runs.median(np.where(complete, ints(commits["gap_ms"]), NEVER)),
        "history_complete": runs.all(complete),
    }
    return pa.table({**{name: first[name] for name in _KEY}, **columns})


def commits_by_minute(commits: pa.Table, key: Ints) -> pa.Table:
    """Return rows of gold_partition_minute, by the minutes of the broker's clock."""
    minute = ints(commits["commit_ts"]) // _MINUTE_US
    # If the clock is set back, the same minute occurs again.
    order = np.lexsort((minute, key))
    minute = minute[order]
    runs = Runs(key[order], minute)
    complete = bools(commits["history_complete"])
    kind, delta = commits["kind"], ints(commits["delta"], 0)
    last = commits.take(order[runs.last])
    columns = {
        "minute": pa.array(minute[runs.first] * _MINUTE_US).cast(commits["commit_ts"].type),
        "commits": runs.lengths,
        "advanced": runs.sum(bools(pc.equal(kind, "ADVANCE"))[order]),
        "repeats": runs.sum(bools(pc.equal(kind, "REPEAT"))[order]),
        "rewinds": runs.sum(bools(pc.equal(kind, "REWIND"))[order]),
        "consumed": runs.sum(np.maximum(delta, 0)[order]),
        "max_gap_ms": runs.max(np.where(complete, ints(commits["gap_ms"]), NEVER)[order]),
        "max_lag": runs.max(ints(commits["lag"])[order]),
        "last_offset": last["offset"],
        "last_commit_ts": last["commit_ts"],
        "end_lag": last["lag"],
        "lag_ms": last["lag_ms"],
        "owner_client_id": last["client_id"],
    }
    return pa.table({**{name: last[name] for name in _KEY}, **columns})


# --- the last ten commits (Burrow's `intervals`)

_WINDOW_KEY: Final = ["cluster", "offsets_partition", "group", "topic", "partition"]
_POINT: Final = ["log_offset", "second", "at_ms", "offset", "lag", "last_ms"]


def last_commits(old: pa.Table, commits: pa.Table) -> pa.Table:
    """Return state_window after `commits`, rows of silver_commit including tombstones. Adjacent
    commits within the same second of the clock are treated as one with the time of the first, as in
    Burrow. Clock seconds, unlike intervals, do not depend on where batches begin."""
    rows = pa.concat_tables([_points(old), _as_points(commits)], promote_options="permissive")
    (key,) = keys(_WINDOW_KEY, rows)
    rows, key = _without_removed(rows, key)
    order = np.lexsort((ints(rows["log_offset"]), key))
    rows, key = rows.take(order), key[order]
    seconds = Runs(key, ints(rows["second"]))
    second_key = key[seconds.first]
    partitions = Runs(second_key)
    from_end = partitions.spread(partitions.last) - np.arange(len(second_key))
    kept = from_end < INTERVALS
    points = rows.take(seconds.last[kept])
    fields = {
        "at_ms": pa.array(seconds.min(ints(rows["at_ms"]))[kept]),
        "last_ms": seconds.max(ints(rows["last_ms"])).filter(pa.array(kept)),
    }
    struct = pa.StructArray.from_arrays(
        [fields.get(name, points[name].combine_chunks()) for name in _POINT], _POINT
    )
    ends = np.cumsum(np.append(0, np.minimum(partitions.lengths, INTERVALS)))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), struct)
    found = rows.select(_WINDOW_KEY).take(seconds.first[partitions.first])
    return found.append_column("points", lists)


def _points(old: pa.Table) -> pa.Table:
    """Return the points of state_window, one per row of the result."""
    points = old["points"].combine_chunks()
    rows = old.select(_WINDOW_KEY).take(pc.list_parent_indices(points))
    point = pc.list_flatten(points)
    for name in _POINT:
        rows = rows.append_column(name, point.field(name))
    return rows.append_column("kind", pa.nulls(rows.num_rows, pa.string()))


def _as_points(commits: pa.Table) -> pa.Table:
    at_ms = pa.array(ints(commits["commit_ts"]) // 1000)
    rows = commits.select([*_WINDOW_KEY, "log_offset", "offset", "lag", "kind"])
    second = pa.array(np.asarray(at_ms) // 1000)
    for name, column in (("at_ms", at_ms), ("last_ms", at_ms), ("second", second)):
        rows = rows.append_column(name, column)
    return rows


def _without_removed(rows: pa.Table, key: Ints) -> tuple[pa.Table, Ints]:
    """Drop tombstones and the commits before them."""
    is_tombstone = bools(pc.equal(rows["kind"], "TOMBSTONE"))
    if not is_tombstone.any():
        return rows, key
    log_offset = ints(rows["log_offset"])
    removed = np.full(1 + key.max(initial=0), NEVER)
    np.maximum.at(removed, key[is_tombstone], log_offset[is_tombstone])
    kept = log_offset > removed[key]
    return rows.filter(pa.array(kept)), key[kept]
