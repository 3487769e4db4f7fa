"""The loop: each record is read once, also after a kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    OffsetCommitRecord,
)
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.run import BatchDone
from kohort.pipeline.tables import STATE_TABLES, TABLES
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from log_builder import Killed, kill_at, run_pipeline

NOON_MS = 1_700_000_000_000
GROUPS = {"orders": 3, "billing": 7}
# The loop is the same for every layer; these are fast and have tables of all kinds.
# test_gold_tables.py has a kill after the tables of all layers.
FEW = ("generations", "ownership", "commits")


def generation(group: str, number: int, members: int) -> GroupMetadataRecord:
    subscription = encode_subscription(Subscription(topics=("clicks",)))
    return GroupMetadataRecord(
        group,
        GroupMetadata(
            "consumer",
            number,
            "range",
            "m-0",
            NOON_MS + number * 60_000,
            tuple(
                MemberMetadata(
                    f"m-{member}",
                    None,
                    f"client-{member}",
                    "/10.0.0.1",
                    300_000,
                    45_000,
                    subscription,
                    encode_assignment(Assignment((TopicPartitions("clicks", (member,)),))),
                )
                for member in range(members)
            ),
        ),
    )


def append_records(log: Any, number: int) -> None:
    """Append a generation of each group, and commits of its members."""
    for group, partition in GROUPS.items():
        at_ms = NOON_MS + number * 60_000
        log.append(partition, generation(group, number, 1 + number % 2), at_ms=at_ms)
        for step in range(5):
            commit_ms = at_ms + 1000 * step
            commit = encode_commit_value(100 * number + step, -1, "", commit_ms)
            log.append(partition, OffsetCommitRecord(group, "clicks", 0, commit), at_ms=commit_ms)


def run_few(*args: Any, **settings: Any) -> list[BatchDone]:
    return run_pipeline(*args, layers=FEW, **settings)


def contents(path: Path) -> dict[str, list[str]]:
    lake = Lake(path)
    return {
        name: sorted(map(repr, lake.read(name).to_pylist())) for name in [*TABLES, *STATE_TABLES]
    }


@pytest.mark.spark
def test_a_second_run_reads_only_new_records(spark: Any, offsets_log: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    append_records(offsets_log, 1)
    assert [batch.records for batch in run_few(spark, offsets_log.path, lake)] == [12]
    assert run_few(spark, offsets_log.path, lake) == []
    append_records(offsets_log, 2)
    # Two batches, because each may have at most seven records.
    done = run_few(spark, offsets_log.path, lake, records_max=7)
    assert [(batch.batch_id, batch.records, batch.left) for batch in done] == [(1, 8, 4), (2, 4, 0)]
    read_to = {str(at): end for at, end in Lake(lake).positions.items()}
    assert Lake(lake).manifest.inputs["read_to"] == read_to
    rows = Lake(lake).read("bronze_commit")
    assert sorted(rows["offset"].to_pylist()) == sorted(
        100 * number + step for number in (1, 2) for step in range(5) for _ in GROUPS
    )
    generations = Lake(lake).read("silver_generation").to_pylist()
    assert [(row["generation"], row["prev_generation"]) for row in generations].count((2, 1)) == 2


@pytest.mark.spark
def test_killed_runs_lead_to_the_same_lake_as_an_uninterrupted_one(
    spark: Any, offsets_log: Any, tmp_path: Path
) -> None:
    append_records(offsets_log, 1)
    for lake in ("complete", "killed"):
        run_few(spark, offsets_log.path, tmp_path / lake)
    append_records(offsets_log, 2)
    run_few(spark, offsets_log.path, tmp_path / "complete")
    for step in (
        "after bronze_commit",
        "after silver_generation",
        "before the manifest",
        "after the manifest",
    ):
        with pytest.raises(Killed, match=step):
            run_few(spark, offsets_log.path, tmp_path / "killed", failpoint=kill_at(step))
    assert run_few(spark, offsets_log.path, tmp_path / "killed") == []
    assert contents(tmp_path / "killed") == contents(tmp_path / "complete")


KILLED = """\
import os, signal, sys
from pathlib import Path
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import load_layers, run
from kohort.pipeline.session import new_session

log, lake, wanted, *names = sys.argv[1:]

def failpoint(step):
    if step == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

with Writer(lake, failpoint=failpoint) as writer:
    inputs = Inputs({"path": log}, cluster="east")
    session = new_session("local[1]", log=Path(lake) / "_spark.log")
    layers = {name: layer for name, layer in load_layers().items() if name in names}
    run(lambda: session, writer, inputs, layers=layers)
"""


@pytest.mark.spark
@pytest.mark.crash
def test_the_run_after_a_killed_process_completes_the_lake(
    spark: Any, offsets_log: Any, tmp_path: Path
) -> None:
    append_records(offsets_log, 1)
    log, killed, complete = offsets_log.path, tmp_path / "killed", tmp_path / "complete"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(log), str(killed), "before the manifest", *FEW],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=900,  # half a minute on an idle machine
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert [batch.records for batch in run_few(spark, log, killed)] == [12]
    run_few(spark, log, complete)
    assert contents(killed) == contents(complete)
