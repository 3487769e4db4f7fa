"""Where the log of the offsets topic has gaps.

Compaction leaves gaps, and a log that begins beyond offset 0 has lost its beginning. Whatever is
counted or timed across a gap is not known: of each partition the last gap is remembered
(`state_place`), and a commit's history is complete if the commit before it comes after the gap.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ..columns import LONG
from .ordering import ints, keys, newest_before

__all__ = ["NO_GAP", "beside_gaps", "gaps_of", "remembered"]

NO_GAP: Final = -1  # for the place of one
_BEFORE_ALL: Final = -1  # a place of the log
_OF: Final = ["offsets_partition"]
_GAP: Final = ("offsets_partition", "log_offset", "last_gap")
_PLACE: Final = ("offsets_partition", "log_offset", "missing_before")


def gaps_of(records: list[pa.Table], known: pa.Table) -> pa.Table:
    """(offsets_partition, log_offset, last_gap): from that place on it is the last gap; of each
    partition that has `records` (bronze, of any kind) one row is from its beginning on.

    `known`: state_place.
    """
    placed = pa.concat_tables([table.select(_PLACE) for table in records])
    first = placed.group_by(_OF).aggregate([("log_offset", "min")])
    before = dict(
        zip(known["offsets_partition"].to_pylist(), known["last_gap"].to_pylist(), strict=True)
    )
    began = [
        before.get(number, lowest if lowest > 0 else NO_GAP)
        for number, lowest in zip(
            first["offsets_partition"].to_pylist(), first["log_offset_min"].to_pylist(), strict=True
        )
    ]
    beginnings = pa.table(
        [first["offsets_partition"], pa.repeat(_BEFORE_ALL, len(began)), pa.array(began, LONG)],
        names=_GAP,
    )
    gaps = placed.filter(pc.greater(placed["missing_before"], 0))
    found = pa.table(
        [gaps["offsets_partition"], gaps["log_offset"], gaps["log_offset"]], names=_GAP
    )
    return pa.concat_tables([beginnings, found], promote_options="permissive")


def beside_gaps(rows: pa.Table, gaps: pa.Table) -> pa.Table:
    """`rows` with `last_gap`, the last gap at or before each."""
    of, key = keys(_OF, gaps, rows)
    found = newest_before(
        (of, ints(gaps["log_offset"])), (key, ints(rows["log_offset"])), inclusive=True
    )
    return rows.append_column("last_gap", gaps["last_gap"].take(found))


def remembered(cluster: str, gaps: pa.Table, known: pa.Table) -> pa.Table:
    """state_place after the batch."""
    newest = gaps.group_by(_OF).aggregate([("last_gap", "max")])
    untouched = known.filter(
        pc.invert(
            pc.is_in(known["offsets_partition"], newest["offsets_partition"].combine_chunks())
        )
    )
    newest = newest.select(["offsets_partition", "last_gap_max"]).rename_columns(_GAP[::2])
    rows = pa.concat_tables([untouched.select(_GAP[::2]), newest], promote_options="permissive")
    return rows.append_column("cluster", pa.repeat(cluster, rows.num_rows))
