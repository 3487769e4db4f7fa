"""What each partition's commits of a generation add up to, and which one was the last."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .ordering import NEVER, Ints, Runs, bools, ints

__all__ = ["latest", "silver_activity"]

_KEY: Final = ["cluster", "group", "topic", "partition"]


def silver_activity(commits: pa.Table, key: Ints) -> pa.Table:
    """Of silver_commit without tombstones; `key`: of its partition. Both sorted by it, and then
    by the log."""
    runs = Runs(key, ints(commits["generation_log_offset"]))
    advanced = bools(pc.equal(commits["kind"], "ADVANCE"))
    at = ints(commits["commit_ts"])
    known = bools(commits["history_complete"])
    time = commits["commit_ts"].type
    first, last = commits.take(runs.first), commits.take(runs.last)
    told = {
        "generation": first["generation"],
        "generation_log_offset": first["generation_log_offset"],
        "commits": runs.lengths,
        "repeats": runs.sum(bools(pc.equal(commits["kind"], "REPEAT"))),
        "first_commit_ts": pa.array(runs.least(at)).cast(time),
        "last_commit_ts": runs.most(at).cast(time),
        "last_advance_ts": runs.most(np.where(advanced, at, NEVER)).cast(time),
        "first_offset": first["offset"],
        "last_offset": last["offset"],
        "last_log_offset": last["log_offset"],
        "median_gap_ms": runs.middle(np.where(known, ints(commits["gap_ms"]), NEVER)),
        "history_complete": runs.all(known),
    }
    return pa.table({**{name: first[name] for name in _KEY}, **told})


def latest(rows: pa.Table, key: Ints) -> pa.Table:
    """state_commit after `rows`, commits of this batch and the last ones before it, sorted as
    those: each partition's last one; none where that is a tombstone."""
    found = rows.take(Runs(key).last)
    return found.filter(pc.invert(found["tombstone"]))
