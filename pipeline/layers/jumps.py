"""gold_offset_jump: offsets that went back or far ahead, and the cause.

An offset goes far ahead if its pace (records per second since the previous commit) is more than ten
times the 99th percentile for the group and topic. `state_delta` counts paces by powers of two. The
pace is per second, because one commit of a member that takes over a partition, or returns, may
cover all records since the previous commit.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns import INT
from .lag import TOLERANCE_MS
from .ordering import NEVER, Bools, Ints, Runs, bools, ints, keys, newest_before

FAR: Final = 10
# With fewer than a hundred known paces, the 90th percentile is used instead of the 99th. With fewer
# than ten, no commit goes far ahead.
DELTAS_MIN: Final = 10
DELTAS_MANY: Final = 100
# An offset that goes back in these first commits of a generation is attributed to the takeover.
FIRST_COMMITS: Final = 2

_TOPIC: Final = ["offsets_partition", "group", "topic"]
_LOG: Final = ["topic", "partition"]
_IN_GENERATION: Final = ["group", "topic", "partition", "generation_log_offset"]
_KINDS: Final = (
    "ADMIN_RESET",
    "TO_EARLIEST",
    "TO_LATEST",
    "SKIP_AHEAD",
    "DUPLICATE_AFTER_REBALANCE",
    "SEEK_BACK",
)


def _pace(commits: pa.Table) -> Any:
    """Return the records per second since the previous commit, but at least 1. Times below a second
    count as a second. The results are floats, so that a huge offset cannot overflow."""
    delta = np.maximum(ints(commits["delta"], 0), 0).astype(np.float64)
    return np.maximum(np.floor(delta * 1000 / np.maximum(ints(commits["gap_ms"], 0), 1000)), 1)


def count_deltas(commits: pa.Table, before: pa.Table) -> pa.Table:
    """Return state_delta, updated from `commits` (rows of silver_commit). `deltas` is the number of
    paces in [2^(magnitude-1), 2^magnitude)."""
    grown = commits.filter(pc.greater(commits["delta"], 0))
    magnitude = pa.array(np.frexp(_pace(grown))[1], INT)
    names = ["cluster", *_TOPIC]
    new = grown.select(names).append_column("magnitude", magnitude)
    new = new.append_column("deltas", pa.repeat(pa.scalar(1, pa.int64()), new.num_rows))
    by = [*names, "magnitude"]
    both = pa.concat_tables([before.select([*by, "deltas"]), new], promote_options="permissive")
    return both.group_by(by).aggregate([("deltas", "sum")]).rename_columns([*by, "deltas"])


def candidates(commits: pa.Table, usual: pa.Table) -> Bools:
    """Return which commits moved an offset in a way that consuming records cannot explain. `usual`:
    the rows of state_delta."""
    delta = ints(commits["delta"], 0)
    # The offsets of an empty group that had members are moved by a tool. A group that never had
    # members (custom assignment, offsets of Connect and Flink) commits regularly.
    by_tool = (
        bools(commits["group_empty"])
        & (ints(commits["generation"]) > 0)
        & bools(pc.is_null(commits["leader_epoch"]))
    )
    far = _pace(commits) > _far(commits, usual)
    found: Bools = (delta < 0) | ((delta > 0) & (far | by_tool))
    return found


def _far(commits: pa.Table, usual: pa.Table) -> Any:
    """Return, for each row, the pace of its group and topic above which a commit is a jump;
    infinite if too few paces are known."""
    usual_key, key = keys(_TOPIC, usual, commits)
    order = np.lexsort((ints(usual["magnitude"]), usual_key))
    usual_key, counts = usual_key[order], ints(usual["deltas"])[order]
    runs = Runs(usual_key)
    total = runs.spread(runs.sum(counts))
    reached = runs.running_sum(counts) >= total * np.where(total < DELTAS_MANY, 0.9, 0.99)
    magnitude = np.where(reached & (total >= DELTAS_MIN), ints(usual["magnitude"])[order], np.inf)
    far = np.full(1 + max(usual_key.max(initial=0), key.max(initial=0)), np.inf)
    np.minimum.at(far, usual_key, np.exp2(magnitude) * FAR)
    return far[key]


def offset_jumps(
    commits: pa.Table, moved: Bools, activity: pa.Table, samples: pa.Table
) -> pa.Table:
    """Return rows of gold_offset_jump. `commits`: rows of silver_commit, sorted by partition and
    log offset; `moved`: which of them are `candidates`; `activity`: state_activity before this
    batch; `samples`: log start and end offsets."""
    number = _numbers_in_generation(commits, moved, activity)
    rows = commits.filter(pa.array(moved))
    log_start, log_end = _log_bounds(rows, samples)
    delta, offset = ints(rows["delta"]), ints(rows["offset"])
    is_reset = bools(rows["group_empty"]) & bools(pc.is_null(rows["leader_epoch"]))
    has_generation = bools(pc.is_valid(rows["generation_log_offset"]))
    kind = np.select(
        [
            is_reset,
            (delta < 0) & (log_start != NEVER) & (abs(offset - log_start) <= 1),
            (delta > 0) & (log_end != NEVER) & (abs(offset - log_end) <= 1),
            delta > 0,
            has_generation & (number <= FIRST_COMMITS),
        ],
        range(5),
        5,
    )
    names = ["cluster", "group", "topic", "partition", "log_offset"]
    return pa.table(
        {
            **{name: rows[name] for name in names},
            "ts": rows["commit_ts"],
            "from_offset": rows["prev_offset"],
            "to_offset": rows["offset"],
            "jump": rows["delta"],
            "kind": pa.array(_KINDS).take(pa.array(kind)),
            "by": pc.if_else(pa.array(is_reset), "administrator", rows["client_id"]),
        }
    )


def _numbers_in_generation(commits: pa.Table, moved: Bools, activity: pa.Table) -> Ints:
    """Return for each candidate its number among the commits of its partition and generation."""
    activity_key, key = keys(_IN_GENERATION, activity, commits)
    live = bools(pc.not_equal(commits["kind"], "TOMBSTONE"))
    number = Runs(key).running_sum(live)
    earlier = np.zeros(1 + max(activity_key.max(initial=0), key.max(initial=0)), np.int64)
    np.add.at(earlier, activity_key, ints(activity["commits"]))
    return (number + earlier[key])[moved]


def _log_bounds(rows: pa.Table, samples: pa.Table) -> tuple[Ints, Ints]:
    """Return log_start and log_end of the last sample before each row, unless it is too old."""
    log, key = keys(_LOG, samples, rows)
    at, time = ints(samples["sampled_at"]), ints(rows["commit_ts"])
    found = newest_before((log, at), (key, time), inclusive=True)
    seen = samples.select(["log_start", "log_end", "sampled_at"]).take(found)
    is_recent = time // 1000 - ints(seen["sampled_at"], 0) // 1000 <= TOLERANCE_MS
    starts, ends = ints(seen["log_start"]), ints(seen["log_end"])
    return np.where(is_recent, starts, NEVER), np.where(is_recent, ends, NEVER)
