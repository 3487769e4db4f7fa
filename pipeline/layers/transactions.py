"""Commits of transactions: held back until the producer's marker comes, dropped if it aborts.

The rules are offsets/transactions.py's, for rows instead of one record after the other: a commit
counts where its marker stands, unless a newer record of its partition has counted before. So it is
the newest of its partition then, and the order of those that count is again that of the log.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .ordering import NEVER, Bools, Ints, Runs, bools, ints, keys, newest_before

__all__ = ["OPEN", "latest_of_each", "settled"]

# Where a transaction's end stands that has not come yet: behind everything.
OPEN: Final = (1 << 63) - 1
_PRODUCER: Final = ["offsets_partition", "producer_id"]


def settled(rows: pa.Table, key: Ints, others: pa.Table) -> Ints:
    """From which place on each row counts: its own, its marker's, OPEN; NEVER if it will not.

    `key`: of its partition; `others`: bronze_other, with the control records that end transactions.
    """
    pending = bools(pc.and_(pc.greater_equal(rows["producer_id"], 0), pc.invert(rows["tombstone"])))
    at = np.where(pending, _ends(rows, others), ints(rows["log_offset"]))
    return np.where(_overtaken(ints(rows["log_offset"]), key, at), NEVER, at)


def _ends(rows: pa.Table, others: pa.Table) -> Ints:
    """Where each row's producer ends its transaction; NEVER: it aborts it."""
    ends = pc.and_(others["control"], pc.is_in(others["key_version"], pa.array([0, 1], pa.int16())))
    markers = others.filter(ends)
    of, producer = keys(_PRODUCER, markers, rows)
    # What ends a transaction is the first marker after it: the newest one, if time runs backwards.
    found = newest_before(
        (of[::-1], -ints(markers["log_offset"])[::-1]), (producer, -ints(rows["log_offset"]))
    )
    marker = markers.take(pc.subtract(markers.num_rows - 1, found))
    place = ints(marker["log_offset"], OPEN)
    return np.where(ints(marker["key_version"], 1) == 1, place, NEVER)


def _overtaken(log_offset: Ints, key: Ints, at: Ints) -> Bools:
    """Whether a newer record of the partition has counted before, or together with it: of a
    producer's two commits of a partition the later one counts."""
    order = np.lexsort((log_offset, at, key))
    key, at, log_offset = key[order], at[order], log_offset[order]
    # By rank, so that a key's newest is found by one running maximum over all keys.
    ranks = np.searchsorted(np.unique(log_offset), log_offset) + 1
    counts = (at != OPEN) & (at != NEVER)
    floor = key * (len(key) + 2)
    newest = np.maximum.accumulate(floor + np.where(counts, ranks, 0))
    # Those that count at one place are peers: each is held against the newest of them.
    peers = Runs(key, at)
    newest = peers.spread(newest[peers.last])
    found = np.empty(len(key), np.bool_)
    found[order] = newest > floor + ranks
    return found


def latest_of_each(rows: pa.Table, key: Ints) -> pa.Table:
    """Of a producer's commits of a partition the last one; `rows` in the order of the log."""
    producer = ints(rows["producer_id"])
    order = np.lexsort((ints(rows["log_offset"]), producer, key))
    last = order[Runs(key[order], producer[order]).last]
    return rows.take(np.sort(last))
