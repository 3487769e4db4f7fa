"""Each commit beside the one before it, the generation in force and the owner: silver_commit.

What counts at a place of the log is decided by that place alone. So the commits of a batch, the
last ones before it (`state_commit`) and those whose transactions were open (`state_open_txn`) are
rows of one table, sorted once by partition and place; whatever else bears on them is looked up.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columns import INT, LONG, STRING
from ..state_tables import STATE
from ..tables import TABLES
from . import activity, log_ends, places, transactions
from .ordering import NEVER, Ints, bools, ints, keys, newest_before, row_before

__all__ = ["Before", "Told", "silver_commit"]

_KEY: Final = ["offsets_partition", "group", "topic", "partition"]
_GROUP: Final = ["offsets_partition", "group"]
# A commit's column -> a member's
_OWNER: Final = {
    "owner_member_id": "member_id",
    "owner_instance_id": "instance_id",
    "client_id": "client_id",
    "client_host": "client_host",
}
_GIVEN: Final = ["offsets_partition", "generation_log_offset", "topic", "partition"]
_NOTHING_GIVEN: Final = pa.schema(
    [
        *zip(_GIVEN, (INT, LONG, STRING, INT), strict=True),
        *[(name, STRING) for name in _OWNER],
    ]
).empty_table()
KINDS: Final = ("TOMBSTONE", "FIRST", "ADVANCE", "REPEAT", "REWIND")


class Before(NamedTuple):
    """What bears on a batch's commits. Each of some partitions of the offsets topic, but the last.

    `others`: bronze_other; `gaps`: places.gaps_of; `generations`: of silver_generation, the
    batch's, and each group's last one before it, without their member_list; `member_lists`: those
    of the generations at some places of the log; `samples`: of bronze_log_end.
    """

    others: pa.Table
    gaps: pa.Table
    generations: pa.Table
    member_lists: Callable[[pa.Array], Iterable[pa.RecordBatch]]
    state_commit: pa.Table
    state_open_txn: pa.Table
    samples: pa.Table


class Told(NamedTuple):
    """`silver` is sorted by partition and place; `key`: its partitions, by number."""

    silver: pa.Table
    key: Ints
    state_commit: pa.Table
    state_open_txn: pa.Table


def silver_commit(commits: pa.Table, before: Before, cluster: str) -> Told:
    """`commits`: of bronze_commit what the log says, without cluster and source."""
    rows = _entries(places.beside_gaps(commits, before.gaps), before)
    (key,) = keys(_KEY, rows)
    order = np.lexsort((ints(rows["log_offset"]), key))
    rows, key = rows.take(order), key[order]
    rows = rows.append_column("cluster", pa.repeat(cluster, rows.num_rows))
    still_open = rows.slice(0, 0)
    if bools(pc.greater_equal(rows["producer_id"], 0)).any():
        at = transactions.settled(rows, key, before.others)
        is_open = at == transactions.OPEN
        still_open = transactions.latest_of_each(rows.filter(is_open), key[is_open])
        counts = ~is_open & (at != NEVER)
        rows, key = rows.filter(counts), key[counts]
    latest = activity.latest(rows, key)
    rows, key = _beside_previous(rows, key)
    lag, lag_ms = log_ends.lags(rows, before.samples)
    rows = rows.append_column("lag", lag).append_column("lag_ms", lag_ms)
    told = [
        _under_generations(part, before).select(columns.schema.names)
        for part, columns in (
            (rows, TABLES["silver_commit"]),
            (still_open, STATE["state_open_txn"]),
        )
    ]
    return Told(told[0], key, latest.select(STATE["state_commit"].schema.names), told[1])


def _entries(commits: pa.Table, before: Before) -> pa.Table:
    """`is_new`: not written down before; `held`: the row of state_open_txn that it is."""
    names = [*_KEY, "log_offset", "commit_ts", "offset"]
    # A tombstone has no time of its own, and values of version 0 and 2 need not have one.
    new = commits.append_column("at", pc.coalesce(commits["commit_ts"], commits["append_ts"]))
    new = new.drop_columns(["commit_ts", "append_ts", "missing_before"]).rename_columns(
        {"at": "commit_ts"}
    )
    old = before.state_commit.select(names)
    old = old.append_column("producer_id", pa.repeat(pa.scalar(-1, pa.int64()), old.num_rows))
    held = before.state_open_txn.select([*names, "producer_id", "leader_epoch", "last_gap"])
    held = held.append_column("held", pa.array(np.arange(held.num_rows)))
    parts = [
        part.append_column("is_new", pa.repeat(is_new, part.num_rows))
        for part, is_new in ((new, True), (old, False), (held, True))
    ]
    rows = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    place = rows.schema.get_field_index("tombstone")
    return rows.set_column(place, "tombstone", pc.fill_null(rows["tombstone"], False))


def _beside_previous(rows: pa.Table, key: Ints) -> tuple[pa.Table, Ints]:
    """New commits beside the one that each followed; none after a tombstone."""
    is_new = rows["is_new"]
    found = row_before(key).filter(is_new)
    found = pc.if_else(pc.fill_null(rows["tombstone"].take(found), True), None, found)
    prev = rows.select(["log_offset", "offset", "commit_ts"]).take(found)
    rows, key = rows.filter(is_new), key[bools(is_new)]
    offset, offset_before = ints(rows["offset"]), ints(prev["offset"])
    tombstone = rows["tombstone"]
    gap_ms = pc.subtract(_ms(rows["commit_ts"]), _ms(prev["commit_ts"]))
    kind = np.select(
        [
            bools(tombstone),
            ints(found) == NEVER,
            offset > offset_before,
            offset == offset_before,
        ],
        range(4),
        4,
    )
    columns = {
        "prev_offset": prev["offset"],
        "prev_commit_ts": prev["commit_ts"],
        "delta": _difference(rows["offset"], prev["offset"]),
        "gap_ms": pc.if_else(tombstone, None, gap_ms),
        "kind": pa.array(KINDS).take(pa.array(kind)),
        "history_complete": pc.greater_equal(
            pc.fill_null(prev["log_offset"], places.NO_GAP), rows["last_gap"]
        ),
    }
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    return rows, key


def _ms(times: pa.ChunkedArray) -> pa.Array:
    return pa.array(ints(times) // 1000, mask=np.asarray(times.is_null()))


def _difference(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.Array:
    """Null as well where it is no number of 64 bits: from an offset that is no offset."""
    a, b = ints(one), ints(other)
    found = a - b
    absurd = ((a ^ b) & (a ^ found)) < 0
    there = np.asarray(pc.and_(one.is_valid(), other.is_valid()))
    return pa.array(found, mask=~there | absurd)


def _under_generations(rows: pa.Table, before: Before) -> pa.Table:
    """`rows` with the generation in force, whether its group was empty, and the owner."""
    generations, pending = before.generations, before.state_open_txn
    of, group = keys(_GROUP, generations, rows)
    under = newest_before((of, ints(generations["log_offset"])), (group, ints(rows["log_offset"])))
    empty = pc.and_(
        pc.equal(generations["members"], 0), pc.not_equal(generations["record_kind"], "CONVERTED")
    )
    place = generations["log_offset"].take(under)
    told = {
        "generation": generations["generation"].take(under),
        "generation_log_offset": place,
        "group_empty": pc.fill_null(empty.take(under), False),
        **_owners(rows.append_column("generation_log_offset", place), before.member_lists),
    }
    held = rows["held"]
    for name, here in told.items():
        # What was in force at a commit of an earlier batch was written down with it.
        if held.null_count < len(held):
            here = pc.if_else(held.is_valid(), pending[name].take(held), here)
        rows = rows.append_column(name, here)
    return rows


def _owners(
    rows: pa.Table, member_lists: Callable[[pa.Array], Iterable[pa.RecordBatch]]
) -> dict[str, pa.ChunkedArray]:
    """To whom the generation in force gave each row's partition. Who owned it in an older one says
    nothing, if this one gave it to nobody."""
    places = pc.unique(rows["generation_log_offset"]).drop_null()
    given = pa.concat_tables([_NOTHING_GIVEN, *map(_given, member_lists(places))])
    # A custom assignor may give one partition to two members: the first by id counts.
    given = given.sort_by([("owner_member_id", "descending")])
    of, key = keys(_GIVEN, given, rows)
    found = np.full(1 + max(of.max(initial=0), key.max(initial=0)), NEVER)
    found[of] = np.arange(len(of))
    mine = pa.array(found[key], mask=found[key] == NEVER)
    return {name: given[name].take(mine) for name in _OWNER}


def _given(generations: pa.RecordBatch) -> pa.Table:
    """A row for each partition that one of them gave to a member."""
    members = generations["member_list"]
    parent, member = pc.list_parent_indices(members), pc.list_flatten(members)
    assigned = member.field("assigned")
    owner, share = pc.list_parent_indices(assigned), pc.list_flatten(assigned)
    row = parent.take(owner)
    columns = [
        generations["offsets_partition"].take(row),
        generations["log_offset"].take(row),
        share.field("topic"),
        share.field("partition"),
        *[member.field(name).take(owner) for name in _OWNER.values()],
    ]
    return pa.table(columns, schema=_NOTHING_GIVEN.schema)
