"""gold_partition_minute: a partition's commits of one minute of the broker's clock."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .ordering import NEVER, Ints, Runs, bools, ints

__all__ = ["partition_minutes"]

_KEY: Final = ["cluster", "group", "topic", "partition"]
_MINUTE_US: Final = 60_000_000
_LAST: Final = {
    "last_offset": "offset",
    "last_commit_ts": "commit_ts",
    "end_lag": "lag",
    "lag_ms": "lag_ms",
    "owner_client_id": "client_id",
}


def partition_minutes(commits: pa.Table, key: Ints) -> pa.Table:
    """Of silver_commit without tombstones; `key`: of its partition. Both sorted by it, and then
    by the log."""
    minute = ints(commits["commit_ts"]) // _MINUTE_US
    # A clock that is set back comes to a minute again.
    order = np.lexsort((minute, key))
    minute = minute[order]
    runs = Runs(key[order], minute)
    known = bools(commits["history_complete"])
    delta = ints(commits["delta"], 0)
    last = commits.take(order[runs.last])
    told = {
        "minute": pa.array(minute[runs.first] * _MINUTE_US).cast(commits["commit_ts"].type),
        "commits": runs.lengths,
        **{
            name: runs.sum(bools(pc.equal(commits["kind"], kind))[order])
            for kind, name in (
                ("ADVANCE", "advanced"),
                ("REPEAT", "repeats"),
                ("REWIND", "rewinds"),
            )
        },
        "consumed": runs.sum(np.maximum(delta, 0)[order]),
        "max_gap_ms": runs.most(np.where(known, ints(commits["gap_ms"]), NEVER)[order]),
        "max_lag": runs.most(ints(commits["lag"])[order]),
        **{name: last[of] for name, of in _LAST.items()},
    }
    return pa.table({**{name: last[name] for name in _KEY}, **told})
