"""The gold tables of seven groups, in one batch and in two."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.tables import TABLES
from log_builder import Killed, LogBuilder, M, kill_at, make_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def a_storm(log: LogBuilder) -> None:
    log.generation("storm", 0, 1, M(1, [0, 1]), M(2, [2, 3]))
    log.consume("storm", [0, 1, 2, 3], 5, 100)
    for step in range(1, 5):  # every second generation never reached a SyncGroup
        log.generation("storm", 100 + 30 * step, 1 + 2 * step, M(1, [0, 1]), M(2 + step, [2, 3]))
    log.generation("storm", 300, 10)
    log.remove_offsets("storm", 900, [0, 1, 2, 3])
    log.tombstone("storm", 900)


def seven_groups() -> LogBuilder:
    log = LogBuilder()
    log.produce([0, 1, 2, 3], 0, 1000)

    # The second member takes longer than five minutes for a poll, and rejoins.
    log.generation("slow poll", 0, 1, M(1, [0, 1]), M(2, [2, 3]))
    log.consume("slow poll", [0, 1], 5, 355)
    log.consume("slow poll", [2, 3], 5, 50)
    log.generation("slow poll", 360, 2, M(1, [0, 1, 2, 3]))
    log.consume("slow poll", [0, 1, 2, 3], 365, 395)
    log.generation("slow poll", 400, 3, M(1, [0, 1]), M(2, [2, 3], incarnation=2))
    log.consume("slow poll", [0, 1, 2, 3], 405, 500)

    log.generation("crash", 0, 1, M(1, [0, 1]), M(2, [2, 3]))
    log.consume("crash", [0, 1], 5, 112)
    log.consume("crash", [2, 3], 5, 100)
    log.generation("crash", 112.5, 2, M(1, [0, 1, 2, 3]))
    log.consume("crash", [0, 1, 2, 3], 117, 200)

    log.generation("clean leave", 0, 1, M(1, [0, 1]), M(2, [2, 3]))
    log.consume("clean leave", [0, 1, 2, 3], 5, 100)
    log.generation("clean leave", 101, 2, M(1, [0, 1, 2, 3]))
    log.consume("clean leave", [0, 1, 2, 3], 105, 200)

    log.generation("bounce", 0, 1, M(1, [0, 1]), M(2, [2, 3]))
    log.consume("bounce", [0, 1, 2, 3], 5, 100)
    log.generation("bounce", 102, 2, M(1, [0, 1]), M(2, [2, 3], incarnation=2))
    log.consume("bounce", [0, 1, 2, 3], 105, 200)

    log.generation("static", 0, 1, M(1, [0, 1], static=True), M(2, [2, 3], static=True))
    log.consume("static", [0, 1, 2, 3], 5, 100)
    log.generation(
        "static", 103, 1, M(1, [0, 1], static=True), M(2, [2, 3], static=True, incarnation=2)
    )
    log.consume("static", [0, 1, 2, 3], 105, 200)

    cooperative = {"protocol": "cooperative-sticky"}
    log.generation("cooperative", 0, 1, M(1, [0, 1, 2, 3]), **cooperative)
    log.consume("cooperative", [0, 1, 2, 3], 5, 100)
    log.generation(
        "cooperative", 101, 2, M(1, [0, 1], owned=[0, 1, 2, 3]), M(2, [], owned=[]), **cooperative
    )
    log.generation(
        "cooperative", 102, 3, M(1, [0, 1], owned=[0, 1]), M(2, [2, 3], owned=[]), **cooperative
    )
    log.consume("cooperative", [0, 1, 2, 3], 105, 200)

    a_storm(log)
    return log.sorted_by_time()


GOLD = [
    *("gold_rebalance", "gold_rebalance_storm", "gold_member_exit", "gold_skew"),
    *("gold_group_lifecycle", "gold_partition_status", "gold_group_status"),
    "gold_diagnosis",
]
KEYS = ("group", "log_offset", "topic", "partition", "member_id", "from_ts")
# Group -> causes of its records, causes of its exits.
CAUSES = {
    "slow poll": (["GROUP_CREATED", "SLOW_POLL", "MEMBER_JOINED"], ["SLOW_POLL"]),
    "crash": (["GROUP_CREATED", "SESSION_TIMEOUT"], ["SESSION_TIMEOUT"]),
    "clean leave": (["GROUP_CREATED", "LEFT_CLEANLY"], ["LEFT_CLEANLY"]),
    "bounce": (["GROUP_CREATED", "RESTARTED"], ["RESTARTED"]),
    "static": (["GROUP_CREATED", "STATIC_REPLACED"], []),
    "cooperative": (["GROUP_CREATED", "MEMBER_JOINED", "COOPERATIVE_FOLLOWUP"], []),
    "storm": (
        ["GROUP_CREATED", *4 * ["SESSION_TIMEOUT"], "GROUP_EMPTIED", "GROUP_DELETED"],
        6 * ["SESSION_TIMEOUT"],
    ),
}


def rows(lake: Lake, table: str) -> list[dict[str, Any]]:
    found = lake.read(table, columns=TABLES[table].schema.names).to_pylist()
    return sorted(found, key=lambda row: [f"{row.get(name)!s:>30}" for name in KEYS])


@pytest.mark.spark
def test_gold_tables_do_not_depend_on_batches_and_interruptions(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = seven_groups()
    make_lake(spark, tmp_path / "whole", log)
    lake = Lake(tmp_path / "whole")
    causes = {
        group: (
            [row["cause"] for row in rows(lake, "gold_rebalance") if row["group"] == group],
            [row["cause"] for row in rows(lake, "gold_member_exit") if row["group"] == group],
        )
        for group in CAUSES
    }
    assert causes == CAUSES
    (storm,) = rows(lake, "gold_rebalance_storm")
    assert (storm["group"], storm["rebalances"], storm["distinct_members"]) == ("storm", 9, 6)
    ends = {row["group"]: row["end_kind"] for row in rows(lake, "gold_group_lifecycle")}
    assert {group for group in ends if ends[group]} == {"storm"}
    status = {row["group"]: row for row in rows(lake, "gold_group_status")}
    assert status["storm"]["state_inferred"] == "Dead"
    assert status["clean leave"]["total_lag"] == 4 * (10_000 - 2_000)
    assert status["clean leave"]["status_burrow"] == "ERR"  # no commit for minutes
    assert {row["group"] for row in rows(lake, "gold_diagnosis")} == set(CAUSES)

    # The first batch ends between the exit and the rejoin of the slow member. The second one is
    # interrupted when all layers have written their tables, and repeated.
    cuts = [log.log_offset_at(370)]
    with pytest.raises(Killed):  # after the last table; the first batch has not caught up
        make_lake(spark, tmp_path / "cut", log, cuts, kill_at("after gold_diagnosis"))
    cut = Lake(tmp_path / "cut")
    assert cut.positions == {0: cuts[0]}
    assert (tmp_path / "cut" / "gold_diagnosis" / "batch_id=1").exists()
    make_lake(spark, tmp_path / "cut", log, cuts)
    cut = Lake(tmp_path / "cut")
    for table in GOLD:
        assert rows(cut, table) == rows(lake, table)


def a_long_storm_and_an_old_exit() -> LogBuilder:
    log = LogBuilder()
    minute, hour = 60, 3600
    log.generation("exit", 0, 1, M(1, [0]), M(2, [1]))
    log.consume("exit", [0, 1], 5, 100)
    log.event("exit", 101, "leave_received", member_id=M(2).id, detail={"cause": "LEFT_CLEANLY"})
    log.generation("exit", 102, 2, M(1, [0, 1]))
    log.consume("exit", [0, 1], 105, 200)
    log.generation("exit", 7.6 * hour, 3, M(1, [0]), M(3, [1]))
    joined = {"cause": "MEMBER_JOINED", "triggered_by": M(3).id}
    log.event("exit", 7.6 * hour, "join_completed", generation=3, detail=joined)
    for number in range(8 * 30):
        members = [M(1, [0, 1]), *[M(2)] * (number % 2)]
        log.generation("storm", 2 * minute * number, 1 + number, *members)
    return log.sorted_by_time()


@pytest.mark.spark
def test_hours_later_storms_are_extended_and_exact_causes_kept(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = a_long_storm_and_an_old_exit()
    make_lake(spark, tmp_path / "whole", log)
    whole = Lake(tmp_path / "whole")
    (exit_,) = (row for row in rows(whole, "gold_member_exit") if row["group"] == "exit")
    assert (exit_["cause"], exit_["confidence"]) == ("LEFT_CLEANLY", "exact")
    (storm,) = rows(whole, "gold_rebalance_storm")
    assert storm["rebalances"] == 239
    make_lake(spark, tmp_path / "cut", log, [log.log_offset_at(7 * 3600)])
    for table in GOLD:
        assert rows(Lake(tmp_path / "cut"), table) == rows(whole, table)
