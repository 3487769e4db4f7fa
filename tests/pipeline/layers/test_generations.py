"""GroupMetadata records compared with their predecessors, and ownership intervals."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from kohort.pipeline.tables import TABLES
from log_builder import LogBuilder, M

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Before all records: no group is dropped as gone.
NOW = datetime(1970, 1, 2, tzinfo=UTC)


def frame(spark: "SparkSession", name: str, rows: list[dict[str, Any]]) -> "DataFrame":
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=TABLES[name].schema))


def log_of_many_kinds() -> LogBuilder:
    log = LogBuilder()
    log.generation("new", 0, 0)
    log.generation("new", 3, 1, M(1, [0, 1]))
    log.generation("new", 60, 2, M(1, [0]), M(2, [1]))
    log.generation("new", 90, 5, M(2, [0, 1]))
    log.generation("new", 95, 6)
    log.tombstone("new", 100)
    log.generation("new", 200, 2, M(3, [0, 1]))
    log.generation("static", 0, 1, M(1, [0], static=True), M(2, [1]))
    log.generation("static", 9, 1, M(1, [0], static=True, incarnation=2), M(2, [1]))
    log.generation("static", 20, 2, M(1, [0], static=True, incarnation=2), M(2, [1], incarnation=2))
    log.generation("holes", 300, 1, M(1, [0]))
    log.commit("holes", 301, {0: 1})
    log.commits[-1]["missing_before"] = 1
    log.generation("holes", 310, 4, M(1, [0]))
    log.generation("holes", 320, 6, M(1, [0]))
    return log


def run_batches(spark: "SparkSession", log: LogBuilder, cuts: list[int]) -> dict[str, "DataFrame"]:
    """Process the log in batches that end at `cuts`."""
    from kohort.pipeline.layers.generations import (
        generations,
        newest_generations,
        records_after_gaps,
    )
    from kohort.pipeline.layers.ownership import ownership

    state, owned = (frame(spark, name, []) for name in ("silver_generation", "silver_ownership"))
    parts = []
    for start, end in zip([0, *cuts], [*cuts, log.next_offset], strict=True):
        bronze = log.bronze(start, end)
        records = frame(spark, "bronze_group", bronze["bronze_group"])
        so_far = log.bronze(0, end)["bronze_commit"]
        gaps = records_after_gaps(records, frame(spark, "bronze_commit", so_far))
        new = generations(records, state, gaps).localCheckpoint()
        owned = ownership(new, state, owned).localCheckpoint()
        state = newest_generations(state, new, NOW).localCheckpoint()
        parts.append(new)
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return {"silver_generation": whole, "silver_ownership": owned, "state_generation": state}


def rows(table: "DataFrame", *order: str) -> list[dict[str, Any]]:
    return table.orderBy(*order).toArrow().to_pylist()  # type: ignore[no-any-return]


EXPECTED = [
    # group, kind, generation, previous one; joined, left, replaced, kept; lost generations
    ("new", "FIRST_SEEN", 0, None, [], [], [], [], 0),
    ("new", "GENERATION", 1, 0, ["m1-1"], [], [], [], 0),
    ("new", "GENERATION", 2, 1, ["m2-1"], [], [], ["m1-1"], 0),
    ("new", "GENERATION", 5, 2, [], ["m1-1"], [], ["m2-1"], 2),
    ("new", "EMPTY", 6, 5, [], ["m2-1"], [], [], 0),
    ("new", "TOMBSTONE", None, 6, [], [], [], [], None),
    ("new", "GENERATION", 2, None, ["m3-1"], [], [], [], 1),
    ("static", "GENERATION", 1, None, ["m1-1", "m2-1"], [], [], [], 0),
    ("static", "STATIC_REPLACED", 1, 1, [], [], ["m1-2"], ["m2-1"], 0),
    ("static", "GENERATION", 2, 1, ["m2-2"], ["m2-1"], [], ["m1-2"], 0),
    ("holes", "GENERATION", 1, None, ["m1-1"], [], [], [], 0),
    ("holes", "GENERATION", 4, 1, [], [], [], ["m1-1"], None),  # a gap: lost or compacted
    ("holes", "GENERATION", 6, 4, [], [], [], ["m1-1"], 1),
]


def test_records_have_the_changes_since_the_previous_one(spark: "SparkSession") -> None:
    log = log_of_many_kinds()
    tables = run_batches(spark, log, [])
    changes = [
        (
            *(r["group"], r["record_kind"], r["generation"], r["prev_generation"]),
            *(r["joined"], r["left"], r["replaced"], r["kept"], r["lost_generations"]),
        )
        for r in rows(tables["silver_generation"], "log_offset")
    ]
    assert changes == EXPECTED
    complete = {
        r["log_offset"]: r["history_complete"]
        for r in rows(tables["silver_generation"], "log_offset")
    }
    assert [log_offset for log_offset, is_complete in complete.items() if not is_complete] == [12]
    gaps = [r["last_gap"] for r in rows(tables["silver_generation"], "log_offset")]
    assert gaps == [None] * (len(gaps) - 2) + [11, 11]
    owned = [
        (r["group"], r["partition"], r["member_id"], r["from_log_offset"], r["to_log_offset"])
        for r in rows(tables["silver_ownership"], "group", "partition", "from_log_offset")
    ]
    assert owned == [
        ("holes", 0, "m1-1", 10, None),
        ("new", 0, "m1-1", 1, 3),
        ("new", 0, "m2-1", 3, 4),
        ("new", 0, "m3-1", 6, None),
        ("new", 1, "m1-1", 1, 2),
        ("new", 1, "m2-1", 2, 4),
        ("new", 1, "m3-1", 6, None),
        ("static", 0, "m1-1", 7, None),  # the same instance id
        ("static", 1, "m2-1", 7, None),  # the same client id and host: restarted
    ]

    # Several batches give the same rows.
    cut = run_batches(spark, log, [3, 8, 12])
    for name, order in (
        ("silver_generation", ["log_offset"]),
        ("silver_ownership", ["group", "partition", "from_log_offset"]),
    ):
        names = TABLES[name].schema.names
        assert rows(cut[name].select(*names), *order) == rows(tables[name].select(*names), *order)


def test_kept_generations_are_those_of_the_last_hour_and_at_least_three(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    from kohort.pipeline.layers import generations

    monkeypatch.setattr(generations, "KEPT_MAX", 20)
    monkeypatch.setattr(generations, "KEPT_MEMBERS_MAX", 40)
    log = LogBuilder()
    for number in range(1, 6):  # a rebalance every two hours
        log.generation("calm", number * 7200, number, M(1, [0]))
    for number in range(1, 31):  # one every ten seconds
        log.generation("storm", number * 10, number, M(number, [0]))
    for number in range(1, 31):  # one every minute, with ten members
        log.generation("large", number * 60, number, *(M(client) for client in range(10)))
    kept = run_batches(spark, log, [])["state_generation"]
    assert {
        row["group"]: (row["count"], row["oldest"])
        for row in rows(
            kept.groupBy("group")
            .agg({"generation": "min", "*": "count"})
            .toDF("group", "oldest", "count"),
            "group",
        )
    } == {"calm": (3, 3), "large": (4, 27), "storm": (20, 11)}
