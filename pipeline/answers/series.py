"""A group's lag over time: at each moment what its logs hold beyond what was committed by then.

Commits alone would tell of lag only when somebody commits; a group that stands still commits
nothing. So both sides are carried on: the last commit, and the last sample of the log's end.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import repeat
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..lake import Lake

__all__ = ["Point", "lag_series"]

Place = tuple[str, int]
# By place and slot: an offset, and the lag that is told with it.
Slots = Mapping[Place, Mapping[int, tuple[int, int | None]]]


class Commits(NamedTuple):
    """A table that tells of commits, and how closely."""

    name: str
    time: str
    columns: list[str]
    step: timedelta


_PLACE = ["topic", "partition"]
LONG: Final = Commits(
    "gold_partition_minute",
    "minute",
    [*_PLACE, "last_commit_ts", "last_offset", "end_lag"],
    timedelta(minutes=1),
)
# Minutes say too little of a short time, and each commit of it is soon read.
SHORT: Final = Commits(
    "silver_commit", "commit_ts", [*_PLACE, "commit_ts", "offset", "lag"], timedelta(seconds=5)
)
SHORT_SPAN: Final = timedelta(minutes=20)

# What a log held so long before the first point still counts: samples are taken each 30 s or so.
SAMPLE_AGE: Final = timedelta(minutes=10)


class Point(NamedTuple):
    """`lag`: of all partitions; None: of none it is known."""

    at: datetime
    lag: int | None


def lag_series(lake: Lake, group: str, begin: datetime, end: datetime, points: int) -> list[Point]:
    """So many points at most, at even distances, the last one at the end."""
    span = end - begin
    table = SHORT if span <= SHORT_SPAN else LONG
    points = min(points, max(span // table.step, 1))
    slot_ms = span / timedelta(milliseconds=1) / points
    of_group = pc.field("group") == group
    since = pc.field(table.time) >= pa.scalar(begin)
    commits = lake.read(table.name, table.columns, of_group & since)
    places = lake.read("gold_partition_status", ["topic", "partition", "committed"], of_group)
    columns = ["topic", "partition", "sampled_at", "log_end"]
    since = pc.field("sampled_at") >= pa.scalar(begin - SAMPLE_AGE)
    of_topics = pc.field("topic").isin(pc.unique(places.column("topic")))
    ends = lake.read("bronze_log_end", columns, of_topics & since)
    committed = dict(_by_slot(commits, begin, slot_ms, points))
    for row in places.to_pylist():
        # Who has not committed in all this time stands where the newest commit, an older one, is.
        if row["committed"] is not None:
            standing = {-1: (row["committed"], None)}
            committed.setdefault((row["topic"], row["partition"]), standing)
    lags = _lags(committed, _by_slot(ends, begin, slot_ms, points), points)
    step = timedelta(milliseconds=slot_ms)
    return [Point(begin + (slot + 1) * step, lag) for slot, lag in enumerate(lags)]


def _lags(committed: Slots, ended: Slots, points: int) -> list[int | None]:
    """A commit tells its lag itself; without one the log's end goes on alone."""
    lags: list[int | None] = [None] * points
    for place, commits in committed.items():
        offset = end = None
        ends = ended.get(place, {})
        for slot in range(-1, points):
            offset, told = commits.get(slot, (offset, None))
            end, _ = ends.get(slot, (end, None))
            if told is None and offset is not None and end is not None:
                told = max(end - offset, 0)
            if slot >= 0 and told is not None:
                lags[slot] = (lags[slot] or 0) + told
    return lags


def _by_slot(table: pa.Table, begin: datetime, slot_ms: float, points: int) -> Slots:
    """By place what the last row of each slot says; of all that lies before the first one, slot -1.

    The columns: topic, partition, time, offset, and perhaps a lag.
    """
    topic, partition, time, *told = table.column_names
    since = pc.cast(pc.subtract(table.column(time), pa.scalar(begin)), pa.int64())
    slot = pc.floor(pc.divide(pc.cast(since, pa.float64()), slot_ms * 1000))
    slot = pc.min_element_wise(pc.max_element_wise(slot, -1), points - 1)
    ordered = table.append_column("slot", pc.cast(slot, pa.int64())).sort_by(time)
    # Only one thread keeps the order that `last` goes by.
    grouped = ordered.group_by([topic, partition, "slot"], use_threads=False)
    thinned = grouped.aggregate([(name, "last") for name in told])
    found: dict[Place, dict[int, tuple[int, int | None]]] = defaultdict(dict)
    columns = (thinned.column(name).to_pylist() for name in (topic, partition, "slot"))
    offsets, *lags = (thinned.column(f"{name}_last").to_pylist() for name in told)
    rows = zip(*columns, offsets, lags[0] if lags else repeat(None), strict=False)
    for name, number, place, offset, lag in rows:
        if offset is not None:
            found[name, number][place] = offset, lag
    return found
