"""Consumer groups (KIP-848): from records written by Kafka 4.3 to gold tables."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kohort.pipeline.lake.reader import Lake
from log_builder import LogBuilder, make_lake
from offset_logs import RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_states_of_converted_empty_and_recreated_consumer_groups(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = LogBuilder(topic="orders")
    records = [record for record in RECORDS if record.group != "kip-g"]
    for record in records:
        log.raw_record(record.at_ms, record.key, record.value)
    # Deleted, and created as a consumer group an hour later: not a conversion.
    again = records[-1].at_ms + 3_600_000
    log.raw_record(again - 3_600_000, b"\x00\x02\x00\x01d", bytes.fromhex(CREATED))
    log.raw_record(again - 3_599_000, b"\x00\x02\x00\x01d", None)
    log.raw_record(again, b"\x00\x03\x00\x01d", bytes.fromhex("00000000000100"))
    ends = {"log_start": 0, "log_end": 125, "sampled_at": datetime.fromtimestamp(again / 1000, UTC)}
    for partition in range(4):
        tp = {"cluster": log.cluster, "topic": "orders", "partition": partition}
        log.ends.append(tp | ends)

    # The first batch ends after the conversion, before the last member was converted.
    make_lake(spark, tmp_path, log, [15])
    lake = Lake(tmp_path)
    status = {row["group"]: row for row in lake.read("gold_group_status").to_pylist()}
    assert {
        name: (row["state_inferred"], row["members"], row["protocol"], row["status"])
        for name, row in status.items()
    } == {
        "up-g": ("Stable", 2, "consumer", "OK"),
        "new-h": ("Empty", 0, "consumer", "NO_OWNER"),
        "d": ("Empty", 0, "consumer", "OK"),
    }
    assert (status["up-g"]["total_lag"], status["up-g"]["unassigned"]) == (0, 0)
    _check_histories(lake)
    diagnoses = {row["group"]: row for row in lake.read("gold_diagnosis").to_pylist()}
    assert {name: row["verdict"] for name, row in diagnoses.items()} == {
        "up-g": "REBALANCE_STORM",
        "new-h": "NO_MEMBERS",
        "d": "NO_MEMBERS",
    }
    assert diagnoses["up-g"]["severity"] == 1  # info: members were started and stopped
    assert "consumer group (KIP-848), Stable with 2 members." in diagnoses["up-g"]["text"]
    ends_of = {r["group"]: r["end_kind"] for r in lake.read("gold_group_lifecycle").to_pylist()}
    assert ends_of["up-g"] is None


def _check_histories(lake: Lake) -> None:
    changes = [
        (row["group"], row["generation"], row["cause"], row["is_rebalance"])
        for row in lake.read("gold_rebalance").sort_by("log_offset").to_pylist()
    ]
    assert changes == [
        ("new-h", 2, "GROUP_CREATED", False),
        ("up-g", 0, "GROUP_CREATED", False),
        ("up-g", 1, "MEMBER_JOINED", True),
        ("up-g", 2, "PROTOCOL_CHANGED", True),
        # It left 3 ms before its session of 6 s would have expired: the log does not show why.
        ("up-g", 3, "LEFT_UNKNOWN", True),
        ("up-g", 4, "MEMBER_JOINED", True),
        ("new-h", 3, "GROUP_EMPTIED", True),
        ("d", 0, "GROUP_CREATED", False),
        ("d", None, "GROUP_DELETED_OR_EXPIRED", False),
        ("d", 1, "GROUP_CREATED", False),
    ]
    owners = [
        (row["client_id"], row["partition"], row["to_ts"] is None)
        for row in lake.read("silver_ownership").to_pylist()
        if row["group"] == "up-g"
    ]
    assert sorted(owners) == [
        *(("u0", partition, False) for partition in (0, 1)),
        *(("u0b", partition, True) for partition in (0, 1)),
        # The first batch has no commit with the topic's id: after the conversion, its name is
        # unknown until the second batch, and a new interval begins.
        *(("u1", partition, False) for partition in (2, 2, 3, 3)),
        *(("u1b", partition, True) for partition in (2, 3)),
    ]
    # The owner of a commit, in the second batch too.
    commits = lake.read("silver_commit").to_pylist()
    assert {(row["client_id"], row["partition"]) for row in commits if row["group"] == "up-g"} == {
        ("u0b", 0),
        ("u0b", 1),
        ("u1b", 2),
        ("u1b", 3),
    }


# A GroupMetadata value: generation 0, without members.
CREATED = next(r.value for r in RECORDS if r.type == 2 and r.value is not None).hex()
