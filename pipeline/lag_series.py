"""A group's lag over time, as points at equal intervals.

Between commits, the lag is derived from the last commit and the last sample of the log end, because
a stuck group does not commit.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import repeat
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .columns import TIME
from .lake.reader import Lake

Partition = tuple[str, int]
# Partition and slot -> an offset (None: unknown or removed), and the lag stored with it.
Slots = dict[Partition, dict[int, tuple[int | None, int | None]]]


class CommitTable(NamedTuple):
    """A table with commits, and its resolution."""

    name: str
    time: str
    columns: list[str]
    before: list[str]  # from which _first_offsets computes the offset before a row
    step_ms: int


_PARTITION: Final = ["topic", "partition"]
_WITH_NULLS: Final = pc.ScalarAggregateOptions(skip_nulls=False)
MINUTES: Final = CommitTable(
    "gold_partition_minute",
    "minute",
    [*_PARTITION, "last_commit_ts", "last_offset", "end_lag"],
    ["consumed", "commits", "advanced", "repeats"],
    60_000,
)
COMMITS: Final = CommitTable(
    "silver_commit",
    "commit_ts",
    [*_PARTITION, "commit_ts", "offset", "lag"],
    ["prev_offset"],
    1_000,
)
# For spans up to this length, individual commits are read, because minutes are too coarse and there
# are few commits.
COMMITS_SPAN_MAX_MS: Final = 20 * 60_000

# Samples are read that were taken at most this long before the first point. Usually they are 15 or
# 30 s apart.
SAMPLE_AGE_MAX_MS: Final = 10 * 60_000


class LagPoint(NamedTuple):
    """`lag`: the sum over all partitions; None if unknown for all of them."""

    at_ms: int
    lag: int | None


def lag_series(lake: Lake, group: str, begin_ms: int, end_ms: int, points: int) -> list[LagPoint]:
    """Return at most `points` points; the last one is at `end_ms`."""
    span_ms = end_ms - begin_ms
    table = COMMITS if span_ms <= COMMITS_SPAN_MAX_MS else MINUTES
    points = min(points, max(span_ms // table.step_ms, 1))
    slot_ms = span_ms / points
    of_group = pc.field("group") == group
    since = pc.field(table.time) >= _time(begin_ms)
    commits = lake.read(table.name, [*table.columns, *table.before], of_group & since)
    partitions = lake.read("gold_partition_status", [*_PARTITION, "committed"], of_group)
    since = pc.field("sampled_at") >= _time(begin_ms - SAMPLE_AGE_MAX_MS)
    of_topics = pc.field("topic").isin(pc.unique(partitions.column("topic")))
    ends = lake.read("bronze_log_end", [*_PARTITION, "sampled_at", "log_end"], of_topics & since)
    committed = _by_slot(commits.select(table.columns), begin_ms, slot_ms, points)
    for topic, partition, offset in _first_offsets(commits, table):
        committed[topic, partition][-1] = offset, None
    for row in partitions.to_pylist():
        # Without a commit in this span, the last commit before it applies throughout.
        committed.setdefault((row["topic"], row["partition"]), {-1: (row["committed"], None)})
    lags = _lags(committed, _by_slot(ends, begin_ms, slot_ms, points), points)
    times = (round(begin_ms + (slot + 1) * slot_ms) for slot in range(points))
    return [LagPoint(at_ms, lag) for at_ms, lag in zip(times, lags, strict=True)]


def _time(ms: int) -> pa.Scalar:
    return pa.scalar(ms * 1000, TIME)


def _first_offsets(commits: pa.Table, table: CommitTable) -> Iterator[tuple[str, int, int | None]]:
    """Yield (topic, partition, offset): the offset before the first of `commits`, if known."""
    if table is COMMITS:
        before = commits["prev_offset"]
    else:
        # `consumed` includes neither rewinds nor a partition's first commit.
        known = pc.equal(commits["commits"], pc.add(commits["advanced"], commits["repeats"]))
        before = pc.subtract(commits["last_offset"], commits["consumed"])
        before = pc.if_else(known, before, None)
    time = table.columns[2]
    rows = commits.select([*_PARTITION, time]).append_column("before", before).sort_by(time)
    grouped = rows.group_by(_PARTITION, use_threads=False)
    first = grouped.aggregate([("before", "first", _WITH_NULLS)])
    names = [*_PARTITION, "before_first"]
    return zip(*(first[name].to_pylist() for name in names), strict=True)


def _lags(committed: Slots, ended: Slots, points: int) -> list[int | None]:
    """Return the lag of each slot. A commit stores its lag; after it, the lag grows with the log
    end."""
    lags: list[int | None] = [None] * points
    for partition, commits in committed.items():
        offset = end = None
        ends = ended.get(partition, {})
        for slot in range(-1, points):
            offset, lag = commits.get(slot, (offset, None))
            end, _ = ends.get(slot, (end, None))
            if lag is None and offset is not None and end is not None:
                lag = max(end - offset, 0)
            if slot >= 0 and lag is not None:
                lags[slot] = (lags[slot] or 0) + lag
    return lags


def _by_slot(table: pa.Table, begin_ms: int, slot_ms: float, points: int) -> Slots:
    """Return the last row of each slot by partition; everything before the first slot is in slot
    -1. Columns of `table`: topic, partition, time, offset, and optionally a lag."""
    topic, partition, time, *values = table.column_names
    since = pc.cast(pc.subtract(table.column(time), _time(begin_ms)), pa.int64())
    slot = pc.floor(pc.divide(pc.cast(since, pa.float64()), slot_ms * 1000))
    slot = pc.min_element_wise(pc.max_element_wise(slot, -1), points - 1)
    ordered = table.append_column("slot", pc.cast(slot, pa.int64())).sort_by(time)
    # `last` depends on the order, which only a single thread preserves.
    grouped = ordered.group_by([topic, partition, "slot"], use_threads=False)
    thinned = grouped.aggregate([(name, "last", _WITH_NULLS) for name in values])
    found: Slots = defaultdict(dict)
    keys = (thinned.column(name).to_pylist() for name in (topic, partition, "slot"))
    offsets, *lags = (thinned.column(f"{name}_last").to_pylist() for name in values)
    rows = zip(*keys, offsets, lags[0] if lags else repeat(None), strict=False)
    for name, number, place, offset, lag in rows:
        found[name, number][place] = offset, lag
    return found
