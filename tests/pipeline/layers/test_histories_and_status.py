"""From the parts of a group, as Arrow structs, to rows of gold tables."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from kohort.pipeline.diagnosis.rows import Storm
from kohort.pipeline.layers import histories
from kohort.pipeline.layers.status import status_of_group
from kohort.pipeline.tables import TABLES

T0 = 1_800_000_000_000
MINUTE = 60_000
NAMES = (
    *("generation", "last_with_members", "activity", "removal", "log_end", "event", "window"),
    "consumer",
    *(name for name in TABLES if name.startswith("gold_")),
)


def parts(**names: list[dict[str, Any]]) -> pa.Table:
    rows = [{"cluster": "c", "group": "g", name: part} for name in names for part in names[name]]
    return pa.Table.from_pylist([dict.fromkeys(NAMES) | row for row in rows])


def member(number: int, *assigned: int) -> dict[str, Any]:
    return {
        "member_id": f"m{number}",
        "instance_id": None,
        "client_id": f"c{number}",
        "client_host": f"/10.0.0.{number}",
        "rebalance_timeout_ms": 300_000,
        "session_timeout_ms": 10_000,
        "topics": ["t"],
        "owned": None,
        "assigned": [{"topic": "t", "partition": partition} for partition in assigned],
    }


def record(log_offset: int, at_ms: int, *members: dict[str, Any]) -> dict[str, Any]:
    return {
        "log_offset": log_offset,
        "offsets_partition": 0,
        "tombstone": False,
        "generation": log_offset,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m1",
        "state_ms": at_ms - 20,
        "append_ms": at_ms,
        "members": list(members),
        "history_complete": True,
        "last_gap": None,
        "metadata_hash": None,
        "is_first": log_offset == 1,
        "from_state": False,
    }


def in_ms(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a gold table as the next batch reads it."""
    return {
        name: int(value.timestamp() * 1000) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def test_expiration_is_distinguished_by_the_offsets_retention_of_the_cluster() -> None:
    tombstone = record(3, T0 + 5 * MINUTE) | {
        "tombstone": True,
        "generation": None,
        "state_ms": None,
    }
    records = [record(1, T0, member(1, 0)), record(2, T0 + MINUTE), tombstone]
    removal = {"topic": "t", "partition": 0, "log_offset": 2, "append_ms": T0 + 5 * MINUTE}
    group = parts(generation=records, removal=[removal])
    for retention_ms, cause, end_kind in (
        (4 * MINUTE, "GROUP_EXPIRED", "EXPIRED"),
        (5 * MINUTE, "GROUP_DELETED", "DELETED"),
    ):
        row = histories.explain_group(group, T0 + 9 * MINUTE, T0, retention_ms).to_pylist()[0]
        assert row["gold_rebalance"][-1]["cause"] == cause
        assert row["gold_group_lifecycle"][0]["end_kind"] == end_kind


def test_settled_rows_are_not_written_again_but_count_in_storms() -> None:
    records = [record(n, T0 + n * MINUTE, member(1, 0), member(n + 1, 1)) for n in range(1, 6)]
    whole = histories.explain_group(parts(generation=records), T0 + 9 * MINUTE, T0).to_pylist()[0]
    assert [row["log_offset"] for row in whole["gold_rebalance"]] == [1, 2, 3, 4, 5]
    assert [row["rebalances"] for row in whole["gold_rebalance_storm"]] == [4]

    # The next batch has the last three records from state; the first of them is final.
    life = whole["gold_group_lifecycle"][0]
    later = histories.explain_group(
        parts(
            generation=[
                *(r | {"from_state": True} for r in records[2:]),
                record(6, T0 + 6 * MINUTE, member(1, 0, 1)),
            ],
            gold_rebalance=[in_ms(row) for row in whole["gold_rebalance"]],
            gold_member_exit=[in_ms(row) for row in whole["gold_member_exit"]],
            gold_rebalance_storm=[in_ms(row) for row in whole["gold_rebalance_storm"]],
            gold_group_lifecycle=[in_ms(life) | {"last_commit": T0}],
        ),
        T0 + 9 * MINUTE,
        T0 + 6 * MINUTE,
    ).to_pylist()[0]
    assert [row["log_offset"] for row in later["gold_rebalance"]] == [4, 5, 6]
    assert [row["log_offset"] for row in later["gold_skew"]] == [4, 4, 5, 5, 6, 6]
    (storm,) = later["gold_rebalance_storm"]
    assert storm["rebalances"] == 5
    assert storm["from_ts"] == whole["gold_rebalance_storm"][0]["from_ts"]
    assert later["storms_since"] == storm["from_ts"]
    (later_life,) = later["gold_group_lifecycle"]
    assert later_life["first_seen"] == life["first_seen"]
    assert later_life["last_commit"] == datetime.fromtimestamp(T0 / 1000, UTC)


def test_an_old_record_keeps_its_cause_but_its_pause_ends_with_the_first_commits() -> None:
    records = [
        record(1, T0, member(1, 0), member(2, 1)),
        record(2, T0 + MINUTE, member(1, 0, 1)),
    ]
    exited = {"cause": "SESSION_TIMEOUT"}
    left = {"ts_ms": T0 + MINUTE, "seq": 1, "type": "member_expired", "member_id": "m2"}
    nothing = dict.fromkeys(("generation", "error_code", "reason", "duration_ms"))
    commits = {"topic": "t", "partition": 0, "commits": 2, "repeats": 2, "last_log_offset": 1}
    commits |= dict.fromkeys(("last_advance_ms", "last_offset", "median_gap_ms"))

    def activity(log_offset: int, at_ms: int) -> dict[str, Any]:
        times = {"first_commit_ms": at_ms, "last_commit_ms": at_ms}
        of_generation = {"generation_log_offset": log_offset, "history_complete": True}
        return commits | times | of_generation

    old = [activity(1, T0 + 50_000)]
    event = nothing | left | {"detail": list(exited.items())}
    first = histories.explain_group(
        parts(generation=records, activity=old, event=[event]), T0 + 2 * MINUTE, T0
    ).to_pylist()[0]
    assert [row["cause"] for row in first["gold_member_exit"]] == ["SESSION_TIMEOUT"]
    assert first["gold_rebalance"][1]["pause_ms"] is None

    # Three hours later, the event is no longer collected.
    later_ms = T0 + 180 * MINUTE
    found = parts(
        generation=[
            *(r | {"from_state": True} for r in records),
            record(3, later_ms, member(1, 0), member(3, 1)),
        ],
        activity=[*old, activity(2, T0 + 90 * MINUTE)],
        **{name: [in_ms(row) for row in first[name]] for name in first if name in TABLES},
    )
    later = histories.explain_group(found, later_ms, later_ms).to_pylist()[0]
    causes = [(row["cause"], row["confidence"]) for row in later["gold_rebalance"]]
    assert causes[:2] == [(row["cause"], row["confidence"]) for row in first["gold_rebalance"]]
    assert later["gold_member_exit"] == first["gold_member_exit"]
    assert later["gold_rebalance"][1]["pause_ms"] == 90 * MINUTE - 50_000


def window(ends: list[int], last_ms: int, **more: Any) -> dict[str, Any]:
    """Commits of ten successive seconds, and log-end samples, the newest one at `last_ms`."""
    seconds = range(10)
    return {
        "topic": "t",
        "partition": 0,
        "offsets": [100 + second for second in seconds],
        # The first commits of each second, some of them less than a second apart.
        "at_ms": [T0 + 1000 * second + (900 if second == 0 else 0) for second in seconds],
        "lags": [10] * 10,
        "last_ms": T0 + 9_700,
        "sampled_ms": [last_ms - 30_000 * step for step in reversed(range(len(ends)))],
        "log_ends": ends,
        "log_starts": [0] * len(ends),
    } | more


def status_at(now_ms: int, *windows: dict[str, Any]) -> dict[str, Any]:
    table = parts(window=list(windows), generation=[record(1, T0, member(1, 0))])
    return status_of_group(table, now_ms).to_pylist()[0]  # type: ignore[no-any-return]


def test_a_status_needs_the_last_ten_commits_and_recent_samples() -> None:
    now_ms = T0 + 15_000
    row = status_at(now_ms, window([80, 110, 140], now_ms))
    (partition,) = row["gold_partition_status"]
    assert (partition["complete"], partition["committed"], partition["lag"]) == (1.0, 109, 31)
    assert partition["owner_member_id"] == "m1"
    assert row["gold_group_status"][0]["total_lag"] == 31
    assert len(row["gold_diagnosis"]) == 1

    # More than a minute and two periods after the newest sample, the log end is unknown.
    assert (
        status_at(now_ms + 60_000, window([80, 110, 140], now_ms))["gold_partition_status"][0][
            "lag"
        ]
        == 31
    )
    (unknown,) = status_at(now_ms + 60_001, window([80, 110, 140], now_ms))["gold_partition_status"]
    assert (unknown["status"], unknown["lag"]) == ("UNKNOWN", None)


def test_advice_for_an_empty_group_considers_its_last_members() -> None:
    static = record(1, T0, member(1, 0) | {"instance_id": "i1"})
    storm = Storm("c", "g", T0, T0 + MINUTE, 5, 3, None, "SESSION_TIMEOUT")._asdict()
    of_group = {"generation": [record(2, T0 + MINUTE)], "gold_rebalance_storm": [storm]}
    table = parts(**of_group, last_with_members=[static])
    (row,) = status_of_group(table, T0 + 2 * MINUTE).to_pylist()
    (diagnosis,) = row["gold_diagnosis"]
    assert diagnosis["verdict"] == "REBALANCE_STORM"
    assert any(line.startswith("All members are static") for line in diagnosis["advice"])


def test_a_group_that_is_only_in_gold_tables_has_no_status() -> None:
    group = parts(gold_group_lifecycle=[{"cluster": "c", "group": "g", "first_seen": T0}])
    assert status_of_group(group, T0).num_rows == 0
