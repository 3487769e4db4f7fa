"""gold_offset_jump: offsets that went back, or far ahead, and who moved them.

What is far is told by what is usual: of each group and topic `state_delta` counts by how much
offsets have grown in a second, by powers of two. Ten times what all but one in a hundred stay below
is far. By the second, because who takes a partition over, or comes back, commits at once what was
read since the commit before.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns import INT
from .log_ends import TOLERANCE_MS
from .ordering import NEVER, Bools, Ints, Runs, bools, ints, keys, newest_before

__all__ = ["candidates", "deltas", "offset_jumps"]

FAR: Final = 10
# Of fewer than a hundred the hundredth part is none: then one in ten is left out. Of fewer than
# ten nothing is usual.
DELTAS_MIN: Final = 10
DELTAS_MANY: Final = 100
# A commit of what the owner before had read, and the one that follows it.
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
    """Records in a second since the commit before; of commits that are nearer, since a second
    before. 1 where an offset has not grown. Not in whole numbers: an absurd offset is one too."""
    delta = np.maximum(ints(commits["delta"], 0), 0).astype(np.float64)
    return np.maximum(np.floor(delta * 1000 / np.maximum(ints(commits["gap_ms"], 0), 1000)), 1)


def deltas(commits: pa.Table, before: pa.Table) -> pa.Table:
    """state_delta after the rows `commits` of silver_commit: how many paces are below
    2 ** magnitude, and not below half."""
    grown = commits.filter(pc.greater(commits["delta"], 0))
    magnitude = pa.array(np.frexp(_pace(grown))[1], INT)
    names = ["cluster", *_TOPIC]
    new = grown.select(names).append_column("magnitude", magnitude)
    new = new.append_column("deltas", pa.repeat(pa.scalar(1, pa.int64()), new.num_rows))
    by = [*names, "magnitude"]
    both = pa.concat_tables([before.select([*by, "deltas"]), new], promote_options="permissive")
    found = both.group_by(by).aggregate([("deltas", "sum")])
    return found.rename_columns([*by, "deltas"])


def candidates(commits: pa.Table, usual: pa.Table) -> Bools:
    """Which commits moved as no reading moves them; `usual`: state_delta."""
    delta = ints(commits["delta"], 0)
    # A group that has had members, and is empty: none of them commits. One that never had any
    # (an assignor of its own, Connect's and Flink's offsets) commits all the time.
    by_nobody = (
        bools(commits["group_empty"])
        & (ints(commits["generation"]) > 0)
        & bools(pc.is_null(commits["leader_epoch"]))
    )
    far = _pace(commits) > _far(commits, usual)
    found: Bools = (delta < 0) | ((delta > 0) & (far | by_nobody))
    return found


def _far(commits: pa.Table, usual: pa.Table) -> Any:
    """From which pace on an offset of a group and topic has jumped; infinite where too few are
    known."""
    of, key = keys(_TOPIC, usual, commits)
    order = np.lexsort((ints(usual["magnitude"]), of))
    of, counts = of[order], ints(usual["deltas"])[order]
    runs = Runs(of)
    total = runs.spread(runs.sum(counts))
    reached = runs.so_far(counts) >= total * np.where(total < DELTAS_MANY, 0.9, 0.99)
    magnitude = np.where(reached & (total >= DELTAS_MIN), ints(usual["magnitude"])[order], np.inf)
    far = np.full(1 + max(of.max(initial=0), key.max(initial=0)), np.inf)
    np.minimum.at(far, of, np.exp2(magnitude) * FAR)
    return far[key]


def offset_jumps(
    commits: pa.Table, moved: Bools, activity: pa.Table, samples: pa.Table
) -> pa.Table:
    """`commits`: silver_commit, by partition and then as in the log; `moved`: its candidates;
    `activity`: what earlier batches had of them (state_activity); `samples`: of the logs'
    beginnings and ends."""
    number = _numbers(commits, moved, activity)
    rows = commits.filter(pa.array(moved))
    log_start, log_end = _beside_samples(rows, samples)
    delta, offset = ints(rows["delta"]), ints(rows["offset"])
    reset = bools(rows["group_empty"]) & bools(pc.is_null(rows["leader_epoch"]))
    known = bools(pc.is_valid(rows["generation_log_offset"]))
    kind = np.select(
        [
            reset,
            (delta < 0) & (log_start != NEVER) & (abs(offset - log_start) <= 1),
            (delta > 0) & (log_end != NEVER) & (abs(offset - log_end) <= 1),
            delta > 0,
            known & (number <= FIRST_COMMITS),
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
            "by": pc.if_else(pa.array(reset), "administrator", rows["client_id"]),
        }
    )


def _numbers(commits: pa.Table, moved: Bools, activity: pa.Table) -> Ints:
    """Of each that has moved, the how manieth of its partition in its generation it is."""
    before, key = keys(_IN_GENERATION, activity, commits)
    live = bools(pc.not_equal(commits["kind"], "TOMBSTONE"))
    number = Runs(key).so_far(live)
    earlier = np.zeros(1 + max(before.max(initial=0), key.max(initial=0)), np.int64)
    np.add.at(earlier, before, ints(activity["commits"]))
    found: Ints = (number + earlier[key])[moved]
    return found


def _beside_samples(rows: pa.Table, samples: pa.Table) -> tuple[Ints, Ints]:
    """log_start and log_end of the last sample before each, if it is young enough."""
    of, key = keys(_LOG, samples, rows)
    at, time = ints(samples["sampled_at"]), ints(rows["commit_ts"])
    found = newest_before((of, at), (key, time), inclusive=True)
    seen = samples.select(["log_start", "log_end", "sampled_at"]).take(found)
    young = time // 1000 - ints(seen["sampled_at"], 0) // 1000 <= TOLERANCE_MS
    log_start, log_end = (
        np.where(young, ints(seen[name]), NEVER) for name in ("log_start", "log_end")
    )
    return log_start, log_end
