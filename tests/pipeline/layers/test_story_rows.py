"""A group's parts in Arrow, as Spark hands them over, and the rows that the rules make of them."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from kohort.pipeline.diagnosis.rows import Storm
from kohort.pipeline.layers import status_rows, story_rows
from kohort.pipeline.tables import TABLES

T0 = 1_800_000_000_000
MINUTE = 60_000
NAMES = (
    *("generation", "last_with_members", "activity", "removal", "log_end", "event", "window"),
    "consumer",
    *(name for name in TABLES if name.startswith("gold_")),
)


def parts(**of: list[dict[str, Any]]) -> pa.Table:
    rows = [{"cluster": "c", "group": "g", name: part} for name in of for part in of[name]]
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
        "converted": False,
        "generation": log_offset,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m1",
        "state_ms": at_ms - 20,
        "append_ms": at_ms,
        "members": list(members),
        "history_complete": True,
        "last_gap": None,
        "is_first": log_offset == 1,
        "remembered": False,
    }


def in_ms(row: dict[str, Any]) -> dict[str, Any]:
    """A row of gold as it comes back with the next batch."""
    return {
        name: int(value.timestamp() * 1000) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def test_a_group_has_expired_or_was_deleted_by_what_its_cluster_keeps() -> None:
    gone = record(3, T0 + 5 * MINUTE) | {"tombstone": True, "generation": None, "state_ms": None}
    records = [record(1, T0, member(1, 0)), record(2, T0 + MINUTE), gone]
    removal = {"topic": "t", "partition": 0, "log_offset": 2, "append_ms": T0 + 5 * MINUTE}
    given = parts(generation=records, removal=[removal])
    for retention_ms, cause, end_kind in (
        (4 * MINUTE, "GROUP_EXPIRED", "EXPIRED"),
        (5 * MINUTE, "GROUP_DELETED", "DELETED"),
    ):
        told = story_rows.told(given, T0 + 9 * MINUTE, retention_ms).to_pylist()[0]
        assert told["gold_rebalance"][-1]["cause"] == cause
        assert told["gold_group_lifecycle"][0]["end_kind"] == end_kind


def test_rows_that_are_settled_are_not_told_again_but_count_in_storms() -> None:
    records = [record(n, T0 + n * MINUTE, member(1, 0), member(n + 1, 1)) for n in range(1, 6)]
    whole = story_rows.told(parts(generation=records), T0 + 9 * MINUTE).to_pylist()[0]
    assert [row["log_offset"] for row in whole["gold_rebalance"]] == [1, 2, 3, 4, 5]
    assert [row["rebalances"] for row in whole["gold_rebalance_storm"]] == [4]

    # The next batch remembers the last three, the first of which is settled.
    life = whole["gold_group_lifecycle"][0]
    later = story_rows.told(
        parts(
            generation=[
                *(r | {"remembered": True} for r in records[2:]),
                record(6, T0 + 6 * MINUTE, member(1, 0, 1)),
            ],
            gold_rebalance=[in_ms(row) for row in whole["gold_rebalance"][:3]],
            gold_member_exit=[in_ms(row) for row in whole["gold_member_exit"][:2]],
            gold_group_lifecycle=[in_ms(life) | {"last_commit": T0}],
        ),
        T0 + 9 * MINUTE,
    ).to_pylist()[0]
    assert [row["log_offset"] for row in later["gold_rebalance"]] == [4, 5, 6]
    assert [row["log_offset"] for row in later["gold_skew"]] == [4, 4, 5, 5, 6, 6]
    (storm,) = later["gold_rebalance_storm"]
    assert storm["rebalances"] == 5
    assert storm["from_ts"] == whole["gold_rebalance_storm"][0]["from_ts"]
    assert later["storms_since"] <= storm["from_ts"]
    (later_life,) = later["gold_group_lifecycle"]
    assert later_life["first_seen"] == life["first_seen"]
    assert later_life["last_commit"] == datetime.fromtimestamp(T0 / 1000, UTC)


def window(ends: list[int], last_ms: int, **more: Any) -> dict[str, Any]:
    """Commits of ten seconds on end, and samples of the log's end, the newest one at `last_ms`."""
    seconds = range(10)
    return {
        "topic": "t",
        "partition": 0,
        "offsets": [100 + second for second in seconds],
        # The first ones of each second, at times less than a second apart.
        "at_ms": [T0 + 1000 * second + (900 if second == 0 else 0) for second in seconds],
        "lags": [10] * 10,
        "last_ms": T0 + 9_700,
        "sampled_ms": [last_ms - 30_000 * step for step in reversed(range(len(ends)))],
        "log_ends": ends,
        "log_starts": [0] * len(ends),
    } | more


def status(now_ms: int, *windows: dict[str, Any]) -> dict[str, Any]:
    table = parts(window=list(windows), generation=[record(1, T0, member(1, 0))])
    return status_rows.told(table, now_ms).to_pylist()[0]  # type: ignore[no-any-return]


def test_a_status_rests_on_ten_seconds_of_commits_and_on_samples_of_now() -> None:
    now_ms = T0 + 15_000
    told = status(now_ms, window([80, 110, 140], now_ms))
    (partition,) = told["gold_partition_status"]
    assert (partition["complete"], partition["committed"], partition["lag"]) == (1.0, 109, 31)
    assert partition["owner_member_id"] == "m1"
    assert told["gold_group_status"][0]["total_lag"] == 31
    assert len(told["gold_diagnosis"]) == 1

    # Two periods after the newest sample, and a minute, nobody knows where the log ends.
    assert (
        status(now_ms + 60_000, window([80, 110, 140], now_ms))["gold_partition_status"][0]["lag"]
        == 31
    )
    (unknown,) = status(now_ms + 60_001, window([80, 110, 140], now_ms))["gold_partition_status"]
    assert (unknown["status"], unknown["lag"]) == ("UNKNOWN", None)


def test_after_an_outage_advice_goes_by_the_last_members() -> None:
    static = record(1, T0, member(1, 0) | {"instance_id": "i1"})
    storm = Storm("c", "g", T0, T0 + MINUTE, 5, 3, None, "SESSION_TIMEOUT")._asdict()
    of_group = {"generation": [record(2, T0 + MINUTE)], "gold_rebalance_storm": [storm]}
    table = parts(**of_group, last_with_members=[static])
    (row,) = status_rows.told(table, T0 + 2 * MINUTE).to_pylist()
    (told,) = row["gold_diagnosis"]
    assert told["verdict"] == "REBALANCE_STORM"
    assert any(line.startswith("All members are static") for line in told["advice"])


def test_of_a_group_that_only_gold_remembers_nothing_is_told() -> None:
    gone = parts(gold_group_lifecycle=[{"cluster": "c", "group": "g", "first_seen": T0}])
    assert status_rows.told(gone, T0).num_rows == 0
