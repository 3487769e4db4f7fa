"""Groups of the consumer protocol (KIP-848), from a real Kafka's records to what is told."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hand_made_log import HandMadeLog
from kohort.pipeline.lake import Lake
from lake_by_hand import make_lake
from real_consumer_groups import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_converted_group_lives_and_one_without_members_is_missed(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = HandMadeLog(topic="orders")
    records = [record for record in RECORDS if record.group != "kip-g"]
    for record in records:
        log.stored(record.at_ms, record.key, record.value)
    # Deleted, and made anew with the consumer protocol an hour later: that is no conversion.
    again = records[-1].at_ms + 3_600_000
    log.stored(again - 3_600_000, b"\x00\x02\x00\x01d", bytes.fromhex(CREATED))
    log.stored(again - 3_599_000, b"\x00\x02\x00\x01d", None)
    log.stored(again, b"\x00\x03\x00\x01d", bytes.fromhex("00000000000100"))
    ends = {"log_start": 0, "log_end": 125, "sampled_at": datetime.fromtimestamp(again / 1000, UTC)}
    for partition in range(4):
        place = {"cluster": log.cluster, "topic": "orders", "partition": partition}
        log.ends.append(place | ends)

    # Cut behind the conversion, and before the last member went over.
    make_lake(spark, tmp_path, log, [15])
    lake = Lake(tmp_path)
    told = {row["group"]: row for row in lake.read("gold_group_status").to_pylist()}
    assert {
        name: (row["state_inferred"], row["members"], row["protocol"], row["status"])
        for name, row in told.items()
    } == {
        "up-g": ("Stable", 2, "consumer", "OK"),
        "new-h": ("Empty", 0, "consumer", "NO_OWNER"),
        "d": ("Empty", 0, "consumer", "OK"),
    }
    assert (told["up-g"]["total_lag"], told["up-g"]["unassigned"]) == (0, None)
    changes = [
        (row["group"], row["cause"], row["is_rebalance"])
        for row in lake.read("gold_rebalance").sort_by("log_offset").to_pylist()
    ]
    assert changes == [
        ("up-g", "GROUP_CREATED", False),
        ("up-g", "MEMBER_JOINED", True),
        ("up-g", "PROTOCOL_CHANGED", False),
        ("d", "GROUP_CREATED", False),
        ("d", "GROUP_DELETED_OR_EXPIRED", False),
    ]
    said = {row["group"]: row for row in lake.read("gold_diagnosis").to_pylist()}
    assert {name: row["verdict"] for name, row in said.items()} == {
        "up-g": "HEALTHY",
        "new-h": "NO_MEMBERS",
        "d": "NO_MEMBERS",
    }
    assert "reads well: 2 members, lag 0" in said["up-g"]["text"]
    ends_of = {r["group"]: r["end_kind"] for r in lake.read("gold_group_lifecycle").to_pylist()}
    assert ends_of["up-g"] is None


# Generation 0 of a group, without members.
CREATED = next(r.value for r in RECORDS if r.type == 2 and r.value is not None).hex()
