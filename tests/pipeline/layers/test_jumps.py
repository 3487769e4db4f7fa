"""Offset jumps, and violations of expectations."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from kohort.pipeline.layers import expectations, jumps
from kohort.pipeline.tables import STATE_TABLES, TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Row = dict[str, Any]


def table(name: str, rows: list[Row]) -> pa.Table:
    """Missing columns are null."""
    schema = (STATE_TABLES if name in STATE_TABLES else TABLES)[name].schema
    return pa.Table.from_pylist(rows, pa.schema([field.with_nullable(True) for field in schema]))


def commits(group: str, *changes: Row) -> list[Row]:
    """Commits of one partition, which advance by ten unless `changes` has another offset."""
    rows: list[Row] = []
    offset = 1_000
    for number, change in enumerate(({}, *changes)):
        before, offset = offset, change.get("offset", offset + 10)
        rows.append(
            {
                "cluster": "c",
                "group": group,
                "topic": "t",
                "partition": 0,
                "offsets_partition": 0,
                "log_offset": number,
                "commit_ts": NOON + timedelta(seconds=number),
                "leader_epoch": 3,
                "generation": 5,
                "generation_log_offset": 0,
                "client_id": "mine",
                "group_empty": False,
                "history_complete": True,
                "gap_ms": 1_000 if number else None,
                **change,
                "offset": offset,
                "prev_offset": before if number else None,
                "delta": offset - before if number else None,
                "kind": "FIRST" if not number else "ADVANCE" if offset > before else "REWIND",
            }
        )
    return rows


# A reset by kafka-consumer-groups has no leader epoch, and the group has no members.
RESET: Row = {"group_empty": True, "leader_epoch": None, "client_id": None}
USUAL: list[Row] = [{}] * 20
CASES: dict[str, tuple[list[Row], tuple[str, str | None] | None]] = {
    "advances": (USUAL, None),
    "seeks back": ([*USUAL, {"offset": 700}], ("SEEK_BACK", "mine")),
    "is reset back": ([*USUAL, {**RESET, "offset": 700}], ("ADMIN_RESET", "administrator")),
    "is reset ahead": ([*USUAL, {**RESET, "offset": 1_300}], ("ADMIN_RESET", "administrator")),
    "never had members": ([*USUAL, {**RESET, "generation": 0, "offset": 1_300}], None),
    "skips ahead": ([*USUAL, {"offset": 9_000}], ("SKIP_AHEAD", "mine")),
    "goes to the start": ([*USUAL, {"offset": 101}], ("TO_EARLIEST", "mine")),
    "goes to the end": ([*USUAL, {"offset": 20_000}], ("TO_LATEST", "mine")),
    "takes over": (
        [*USUAL, {"generation_log_offset": 21, "offset": 1_150}],
        ("DUPLICATE_AFTER_REBALANCE", "mine"),
    ),
    "catches up": ([*USUAL, {"offset": 3_000, "gap_ms": 60_000}], None),
    # With so few commits no distance is unusual.
    "has just begun": ([{}, {"offset": 9_000}], None),
}


def test_jumps_have_a_kind_and_the_client_that_moved_the_offset() -> None:
    all_commits = [row for name, (changes, _) in CASES.items() for row in commits(name, *changes)]
    rows = table("silver_commit", all_commits)
    usual = jumps.count_deltas(rows, table("state_delta", []))
    log_end = {"topic": "t", "partition": 0, "log_start": 100, "log_end": 20_001}
    found = jumps.offset_jumps(
        rows,
        jumps.candidates(rows, usual),
        table("state_activity", [{**row, "commits": 7} for row in commits("seeks back")]),
        table("bronze_log_end", [{"cluster": "c", **log_end, "sampled_at": NOON}]),
    ).to_pylist()
    expected = {name: jump for name, (_, jump) in CASES.items() if jump}
    assert {row["group"]: (row["kind"], row["by"]) for row in found} == expected
    assert len(found) == len(expected)
    back = next(row for row in found if row["group"] == "seeks back")
    assert (back["from_offset"], back["to_offset"], back["jump"]) == (1_210, 700, -510)


def test_counts_of_deltas_add_up_across_batches() -> None:
    changes = [{"offset": 1_000 + 2**power, "gap_ms": 10} for power in range(12)]
    rows = table("silver_commit", commits("g", *changes))
    in_one = jumps.count_deltas(rows, table("state_delta", []))
    first = jumps.count_deltas(rows.slice(0, 5), table("state_delta", []))
    by = [("magnitude", "ascending")]
    assert jumps.count_deltas(rows.slice(5), first).sort_by(by).equals(in_one.sort_by(by))
    # The first one goes back to 1,001; the next ones advance by 1, 2, 4.
    counts = dict(zip(*in_one.select(["magnitude", "deltas"]).to_pydict().values(), strict=True))
    assert counts == dict.fromkeys(range(1, 12), 1)


def test_an_absurd_offset_is_a_jump() -> None:
    rows = table("silver_commit", commits("g", *USUAL, {"offset": 2**63 - 1}, {"offset": 1_200}))
    moved = jumps.candidates(rows, jumps.count_deltas(rows, table("state_delta", [])))
    assert list(np.flatnonzero(moved)) == [21, 22]


def test_violations_are_counted() -> None:
    good: Row = {
        "cluster": "c",
        "group": "g",
        "topic": "t",
        "partition": 0,
        "offsets_partition": 0,
        "log_offset": 1,
        "commit_ts": NOON,
        "kind": "ADVANCE",
        "offset": 7,
        "prev_offset": 5,
        "delta": 2,
        "gap_ms": 1,
        "group_empty": False,
        "history_complete": True,
    }
    rows = table(
        "silver_commit",
        [
            good,
            {**good, "delta": 3},
            {**good, "gap_ms": -1},
            {**good, "delta": None},
            {**good, "kind": "FIRST", "prev_offset": None, "delta": None},
            {**good, "prev_offset": None, "delta": None},
            {**good, "owner_member_id": "m"},
            {**good, "owner_member_id": "m", "generation": 1, "group_empty": True},
        ],
    )
    found = expectations.Violations()
    assert expectations.enforce("silver_commit", rows, found) is rows
    assert found == {
        ("silver_commit", "delta is the offset minus the previous one"): 2,
        ("silver_commit", "commit times do not decrease"): 1,
        ("silver_commit", "only a first commit or a tombstone has no predecessor"): 1,
        ("silver_commit", "a commit with an owner has a generation"): 1,
        ("silver_commit", "an empty group owns no partition"): 1,
    }
    assert expectations.enforce("gold_skew", rows, found) is rows
