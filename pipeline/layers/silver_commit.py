"""silver_commit: each commit compared with the previous one, with its generation and owner.

The commits of a batch, the last commits before it (`state_commit`), and the commits of open
transactions (`state_open_txn`) form one table, sorted by partition and log offset. Generations,
owners and samples are looked up by the commit's position in the log.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns import INT, LONG, STRING
from ..tables import STATE_TABLES, TABLES
from .lag import lags
from .ordering import NEVER, Bools, Ints, Runs, bools, ints, keys, newest_before, previous_row

_KEY: Final = ["offsets_partition", "group", "topic", "partition"]
_GROUP: Final = ["offsets_partition", "group"]
# Column of a commit -> column of its owner.
_OWNER: Final = {
    "owner_member_id": "member_id",
    "owner_instance_id": "instance_id",
    "client_id": "client_id",
    "client_host": "client_host",
}
_ASSIGNED: Final = ["offsets_partition", "generation_log_offset", "topic", "partition"]
_NOTHING_ASSIGNED: Final = pa.schema(
    [*zip(_ASSIGNED, (INT, LONG, STRING, INT), strict=True), *[(name, STRING) for name in _OWNER]]
).empty_table()
KINDS: Final = ("TOMBSTONE", "FIRST", "ADVANCE", "REPEAT", "REWIND")


class CommitContext(NamedTuple):
    """The context of the commits of some partitions of the offsets topic.

    `others`: bronze_other; `gaps`: log_gaps; `generations`: silver_generation of this batch and the
    last row of each group before it, without member_list; `member_lists`: by the log offset of the
    generation; `samples`: bronze_log_end.
    """

    others: pa.Table
    gaps: pa.Table
    generations: pa.Table
    member_lists: Callable[[pa.Array], Iterable[pa.RecordBatch]]
    state_commit: pa.Table
    state_open_txn: pa.Table
    samples: pa.Table


def silver_commit(
    commits: pa.Table, context: CommitContext, cluster: str
) -> tuple[pa.Table, Ints, pa.Table, pa.Table]:
    """Return silver_commit (sorted by key and log offset), the key of each row (a number for its
    group and partition), state_commit, and state_open_txn. `commits`: bronze_commit without cluster
    and source."""
    rows = _entries(_with_last_gap(commits, context.gaps), context)
    (key,) = keys(_KEY, rows)
    order = np.lexsort((ints(rows["log_offset"]), key))
    rows, key = rows.take(order), key[order]
    rows = rows.append_column("cluster", pa.repeat(cluster, rows.num_rows))
    still_open = rows.slice(0, 0)
    if bools(pc.greater_equal(rows["producer_id"], 0)).any():
        effective = _effective_from(rows, key, context.others)
        is_open = effective == OPEN
        still_open = _last_of_each_producer(rows.filter(is_open), key[is_open])
        counts = ~is_open & (effective != NEVER)
        rows, key = rows.filter(counts), key[counts]
    last = rows.take(Runs(key).last)
    state_commit = last.filter(pc.invert(last["tombstone"]))
    rows, key = _with_previous(rows, key)
    lag, lag_ms = lags(rows, context.samples)
    rows = rows.append_column("lag", lag).append_column("lag_ms", lag_ms)
    silver, state_open_txn = (
        _with_generation(part, context).select(table.schema.names)
        for part, table in (
            (rows, TABLES["silver_commit"]),
            (still_open, STATE_TABLES["state_open_txn"]),
        )
    )
    names = STATE_TABLES["state_commit"].schema.names
    return silver, key, state_commit.select(names), state_open_txn


def _entries(commits: pa.Table, context: CommitContext) -> pa.Table:
    """Return the commits of the batch and of both state tables. `is_new`: not in silver_commit yet;
    `held`: the row in state_open_txn, if the commit is from there."""
    names = [*_KEY, "log_offset", "commit_ts", "offset"]
    # Tombstones have no commit time; an invalid one is null.
    new = commits.append_column("at", pc.coalesce(commits["commit_ts"], commits["append_ts"]))
    new = new.drop_columns(["commit_ts", "append_ts", "missing_before"])
    new = new.rename_columns({"at": "commit_ts"})
    old = context.state_commit.select(names)
    old = old.append_column("producer_id", pa.repeat(pa.scalar(-1, pa.int64()), old.num_rows))
    held = context.state_open_txn.select([*names, "producer_id", "leader_epoch", "last_gap"])
    held = held.append_column("held", pa.array(np.arange(held.num_rows)))
    parts = [
        part.append_column("is_new", pa.repeat(is_new, part.num_rows))
        for part, is_new in ((new, True), (old, False), (held, True))
    ]
    rows = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    position = rows.schema.get_field_index("tombstone")
    return rows.set_column(position, "tombstone", pc.fill_null(rows["tombstone"], False))


def _with_previous(rows: pa.Table, key: Ints) -> tuple[pa.Table, Ints]:
    """Return each new commit with the previous commit, unless a tombstone precedes it."""
    is_new = rows["is_new"]
    found = previous_row(key).filter(is_new)
    found = pc.if_else(pc.fill_null(rows["tombstone"].take(found), True), None, found)
    prev = rows.select(["log_offset", "offset", "commit_ts"]).take(found)
    rows, key = rows.filter(is_new), key[bools(is_new)]
    offset, prev_offset = ints(rows["offset"]), ints(prev["offset"])
    tombstone = rows["tombstone"]
    gap_ms = pc.subtract(_ms(rows["commit_ts"]), _ms(prev["commit_ts"]))
    conditions = [
        bools(tombstone),
        ints(found) == NEVER,
        offset > prev_offset,
        offset == prev_offset,
    ]
    columns = {
        "prev_offset": prev["offset"],
        "prev_commit_ts": prev["commit_ts"],
        "delta": _difference(rows["offset"], prev["offset"]),
        "gap_ms": pc.if_else(tombstone, None, gap_ms),
        "kind": pa.array(KINDS).take(pa.array(np.select(conditions, range(4), 4))),
        "history_complete": pc.greater_equal(
            pc.fill_null(prev["log_offset"], NO_GAP), rows["last_gap"]
        ),
    }
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    return rows, key


def _ms(times: pa.ChunkedArray) -> pa.Array:
    return pa.array(ints(times) // 1000, mask=np.asarray(times.is_null()))


def _difference(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.Array:
    """Subtract. The result is null on overflow: an offset in the log may be any 64-bit number."""
    a, b = ints(one), ints(other)
    found = a - b
    overflow = ((a ^ b) & (a ^ found)) < 0
    valid = np.asarray(pc.and_(one.is_valid(), other.is_valid()))
    return pa.array(found, mask=~valid | overflow)


# --- generations and owners


def _with_generation(rows: pa.Table, context: CommitContext) -> pa.Table:
    """Add the generation in force (the group's newest before the commit), whether the group was
    empty in it, and the owner."""
    generations, pending = context.generations, context.state_open_txn
    generation_key, key = keys(_GROUP, generations, rows)
    in_force = newest_before(
        (generation_key, ints(generations["log_offset"])), (key, ints(rows["log_offset"]))
    )
    empty = pc.equal(generations["members"], 0)
    generation_log_offset = generations["log_offset"].take(in_force)
    columns = {
        "generation": generations["generation"].take(in_force),
        "generation_log_offset": generation_log_offset,
        "group_empty": pc.fill_null(empty.take(in_force), False),
        **_owners(
            rows.append_column("generation_log_offset", generation_log_offset), context.member_lists
        ),
    }
    held = rows["held"]
    for name, column in columns.items():
        # For the commits of earlier batches, the values were determined in those batches.
        if held.null_count < len(held):
            column = pc.if_else(held.is_valid(), pending[name].take(held), column)
        rows = rows.append_column(name, column)
    return rows


def _owners(
    rows: pa.Table, member_lists: Callable[[pa.Array], Iterable[pa.RecordBatch]]
) -> dict[str, pa.ChunkedArray]:
    """Return the member to which the generation in force assigned each row's partition. Owners in
    earlier generations do not matter."""
    offsets = pc.unique(rows["generation_log_offset"]).drop_null()
    assigned = pa.concat_tables([_NOTHING_ASSIGNED, *map(_assigned, member_lists(offsets))])
    # A custom assignor may assign a partition twice. The first member by id is then used.
    assigned = assigned.sort_by([("owner_member_id", "descending")])
    assigned_key, key = keys(_ASSIGNED, assigned, rows)
    found = np.full(1 + max(assigned_key.max(initial=0), key.max(initial=0)), NEVER)
    found[assigned_key] = np.arange(len(assigned_key))
    owner = pa.array(found[key], mask=found[key] == NEVER)
    return {name: assigned[name].take(owner) for name in _OWNER}


def _assigned(generations: pa.RecordBatch) -> pa.Table:
    """Return one row for each assigned partition."""
    members = generations["member_list"]
    parent, member = pc.list_parent_indices(members), pc.list_flatten(members)
    assigned = member.field("assigned")
    owner, partition = pc.list_parent_indices(assigned), pc.list_flatten(assigned)
    row = parent.take(owner)
    columns = [
        generations["offsets_partition"].take(row),
        generations["log_offset"].take(row),
        partition.field("topic"),
        partition.field("partition"),
        *[member.field(name).take(owner) for name in _OWNER.values()],
    ]
    return pa.table(columns, schema=_NOTHING_ASSIGNED.schema)


# --- transactions: the rules of offsets/pending.py, on columns
#
# A commit takes effect at the marker of its transaction, unless a newer record of its partition has
# already taken effect. Every commit is therefore the newest of its partition when it takes effect,
# and the commits that take effect remain in log order.

# The position of a marker that has not been written yet: after all others.
OPEN: Final = (1 << 63) - 1
_PRODUCER: Final = ["offsets_partition", "producer_id"]


def _effective_from(rows: pa.Table, key: Ints, others: pa.Table) -> Ints:
    """Return the position from which each row is in effect: its own, its marker's, or OPEN; NEVER
    if it is aborted or overtaken. `others`: bronze_other with the control records."""
    pending = bools(pc.and_(pc.greater_equal(rows["producer_id"], 0), pc.invert(rows["tombstone"])))
    at = np.where(pending, _markers(rows, others), ints(rows["log_offset"]))
    return np.where(_is_overtaken(ints(rows["log_offset"]), key, at), NEVER, at)


def _markers(rows: pa.Table, others: pa.Table) -> Ints:
    """Return the position of each row's COMMIT marker; NEVER for ABORT, OPEN without a marker."""
    ends = pc.and_(others["control"], pc.is_in(others["key_version"], pa.array([0, 1], pa.int16())))
    markers = others.filter(ends)
    marker_key, key = keys(_PRODUCER, markers, rows)
    # In reversed order, the first marker after a row is the newest marker before it.
    found = newest_before(
        (marker_key[::-1], -ints(markers["log_offset"])[::-1]), (key, -ints(rows["log_offset"]))
    )
    marker = markers.take(pc.subtract(markers.num_rows - 1, found))
    position = ints(marker["log_offset"], OPEN)
    return np.where(ints(marker["key_version"], 1) == 1, position, NEVER)


def _is_overtaken(log_offset: Ints, key: Ints, at: Ints) -> Bools:
    """Whether a newer record of the partition takes effect earlier, or at the same marker (only the
    last commit of a partition in a transaction takes effect)."""
    order = np.lexsort((log_offset, at, key))
    key, at, log_offset = key[order], at[order], log_offset[order]
    # Ranks, unlike log offsets, are small enough for one running maximum over all keys.
    ranks = np.searchsorted(np.unique(log_offset), log_offset) + 1
    counts = (at != OPEN) & (at != NEVER)
    floor = key * (len(key) + 2)
    newest = np.maximum.accumulate(floor + np.where(counts, ranks, 0))
    # All rows of one marker are compared with the newest of them.
    peers = Runs(key, at)
    newest = peers.spread(newest[peers.last])
    found = np.empty(len(key), np.bool_)
    found[order] = newest > floor + ranks
    return found


def _last_of_each_producer(rows: pa.Table, key: Ints) -> pa.Table:
    """Return each producer's last commit of each partition; `rows` in log order."""
    producer = ints(rows["producer_id"])
    order = np.lexsort((ints(rows["log_offset"]), producer, key))
    last = order[Runs(key[order], producer[order]).last]
    return rows.take(np.sort(last))


# --- gaps in the log of the offsets topic
#
# Compaction leaves gaps, and a log that starts above offset 0 has lost its beginning. Counts and
# times across a gap are unknown, so the last gap of each partition is kept (`state_place`). A
# commit's history is complete if the previous commit comes after the gap.

NO_GAP: Final = -1
_BEFORE_ALL: Final = -1  # a log offset
_PARTITION: Final = ["offsets_partition"]
_GAP: Final = ("offsets_partition", "log_offset", "last_gap")
_STATE: Final = ["offsets_partition", "last_gap"]


def log_gaps(records: list[pa.Table], known: pa.Table) -> pa.Table:
    """Return (offsets_partition, log_offset, last_gap): from that log offset on, `last_gap` is the
    most recent gap. Each partition with `records` (bronze, of any kind) has a row that applies from
    its beginning. `known`: state_place."""
    names = ["offsets_partition", "log_offset", "missing_before"]
    rows = pa.concat_tables([table.select(names) for table in records])
    first = rows.group_by(_PARTITION).aggregate([("log_offset", "min")])
    before: dict[int, int] = dict(zip(*(known[name].to_pylist() for name in _STATE), strict=True))
    pairs: Any = zip(
        first["offsets_partition"].to_pylist(), first["log_offset_min"].to_pylist(), strict=True
    )
    initial = [before.get(at, lowest if lowest > 0 else NO_GAP) for at, lowest in pairs]
    beginnings = pa.table(
        [first["offsets_partition"], pa.repeat(_BEFORE_ALL, len(initial)), pa.array(initial, LONG)],
        names=_GAP,
    )
    gaps = rows.filter(pc.greater(rows["missing_before"], 0))
    found = pa.table(
        [gaps[name] for name in ("offsets_partition", *2 * ["log_offset"])], names=_GAP
    )
    return pa.concat_tables([beginnings, found], promote_options="permissive")


def _with_last_gap(rows: pa.Table, gaps: pa.Table) -> pa.Table:
    gap_key, key = keys(_PARTITION, gaps, rows)
    found = newest_before(
        (gap_key, ints(gaps["log_offset"])), (key, ints(rows["log_offset"])), inclusive=True
    )
    return rows.append_column("last_gap", gaps["last_gap"].take(found))


def gap_state(cluster: str, gaps: pa.Table, known: pa.Table) -> pa.Table:
    """Return state_place after the batch."""
    newest = gaps.group_by(_PARTITION).aggregate([("last_gap", "max")])
    partitions = newest["offsets_partition"].combine_chunks()
    untouched = known.filter(pc.invert(pc.is_in(known["offsets_partition"], partitions)))
    newest = newest.select(["offsets_partition", "last_gap_max"]).rename_columns(_STATE)
    rows = pa.concat_tables([untouched.select(_STATE), newest], promote_options="permissive")
    return rows.append_column("cluster", pa.repeat(cluster, rows.num_rows))
