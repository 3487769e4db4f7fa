"""The loop: what is read once is read once, whatever strikes in between."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from kohort.offsets.commit_value import encode_commit_value
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    OffsetCommitRecord,
)
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake import Lake
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import LAYERS, Done, layers, run
from kohort.pipeline.state_tables import STATE
from kohort.pipeline.tables import TABLES
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)

NOON_MS = 1_700_000_000_000
GROUPS = {"orders": 3, "billing": 7}
# What the loop does is the same for every layer; these are quick, and of all kinds of tables.
FEW = ("bronze", "generations", "ownership")


class Killed(BaseException):
    """Nothing of ours catches it."""


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


def tell_more(log: Any, number: int) -> None:
    """A generation of each group, and what is committed under it."""
    for group, partition in GROUPS.items():
        at_ms = NOON_MS + number * 60_000
        log.append(partition, generation(group, number, 1 + number % 2), at_ms=at_ms)
        for step in range(5):
            then_ms = at_ms + 1000 * step
            commit = encode_commit_value(100 * number + step, -1, "", then_ms)
            log.append(partition, OffsetCommitRecord(group, "clicks", 0, commit), at_ms=then_ms)


def pipeline(
    spark: Any,
    log: Path,
    lake: Path,
    *,
    passing: Callable[[str], None] = lambda _point: None,
    records_max: int = 1_000,
    names: Collection[str] = FEW,
) -> list[Done]:
    done: list[Done] = []
    with Writer(lake, passing=passing) as writer:
        inputs = Inputs({"path": str(log)}, cluster="east")
        run(
            lambda: spark,
            writer,
            inputs,
            records_max=records_max,
            tell=lambda told: done.append(told) if isinstance(told, Done) else None,
            through=layers(*names),
        )
    return done


def contents(path: Path) -> dict[str, list[str]]:
    lake = Lake(path)
    return {name: sorted(map(repr, lake.read(name).to_pylist())) for name in [*TABLES, *STATE]}


def killing_at(wanted: str) -> Callable[[str], None]:
    def passing(point: str) -> None:
        if point == wanted:
            raise Killed(point)

    return passing


@pytest.mark.spark
def test_a_second_run_reads_only_what_is_new(spark: Any, offsets_log: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    tell_more(offsets_log, 1)
    assert [one.records for one in pipeline(spark, offsets_log.path, lake)] == [12]
    assert pipeline(spark, offsets_log.path, lake) == []
    tell_more(offsets_log, 2)
    # Two batches, since seven records are the most that one may have.
    done = pipeline(spark, offsets_log.path, lake, records_max=7)
    assert [(one.batch_id, one.records, one.left) for one in done] == [(1, 8, 4), (2, 4, 0)]
    read_to = {str(at): end for at, end in Lake(lake).positions.items()}
    assert Lake(lake).manifest.inputs["read_to"] == read_to
    rows = Lake(lake).read("bronze_commit")
    assert sorted(rows["offset"].to_pylist()) == sorted(
        100 * number + step for number in (1, 2) for step in range(5) for _ in GROUPS
    )
    generations = Lake(lake).read("silver_generation").to_pylist()
    assert [(row["generation"], row["prev_generation"]) for row in generations].count((2, 1)) == 2


@pytest.mark.spark
def test_runs_that_are_killed_leave_the_lake_that_one_leaves_that_is_not(
    spark: Any, offsets_log: Any, tmp_path: Path
) -> None:
    tell_more(offsets_log, 1)
    for lake in ("whole", "struck"):
        pipeline(spark, offsets_log.path, tmp_path / lake)
    tell_more(offsets_log, 2)
    pipeline(spark, offsets_log.path, tmp_path / "whole")
    for point in (
        "before bronze_commit",
        "after bronze_log_end",
        "after silver_generation",
        "before the manifest",
        "after the manifest",
    ):
        with pytest.raises(Killed, match=point):
            pipeline(spark, offsets_log.path, tmp_path / "struck", passing=killing_at(point))
    assert pipeline(spark, offsets_log.path, tmp_path / "struck") == []
    assert contents(tmp_path / "struck") == contents(tmp_path / "whole")


KILLED = """\
import os, signal, sys
from pathlib import Path
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import layers, run
from kohort.pipeline.session import new_session

log, lake, wanted, *names = sys.argv[1:]

def passing(point):
    if point == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

with Writer(lake, passing=passing) as writer:
    inputs = Inputs({"path": log}, cluster="east")
    session = new_session("local[1]", log=Path(lake) / "_spark.log")
    run(lambda: session, writer, inputs, through=layers(*names))
"""


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.parametrize(
    ("point", "names"),
    [
        ("after bronze_commit", FEW),
        # Every layer makes the same of the same records.
        ("before the manifest", LAYERS),
        ("after the manifest", FEW),
    ],
)
def test_a_process_that_is_killed_leaves_a_lake_that_the_next_one_completes(
    point: str, names: Collection[str], spark: Any, offsets_log: Any, tmp_path: Path
) -> None:
    tell_more(offsets_log, 1)
    log, struck, whole = offsets_log.path, tmp_path / "struck", tmp_path / "whole"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(log), str(struck), point, *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=900,  # half a minute where the machine has nothing else to do
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    done = pipeline(spark, log, struck, names=names)
    assert [one.records for one in done] == ([] if point == "after the manifest" else [12])
    pipeline(spark, log, whole, names=names)
    assert contents(struck) == contents(whole)
