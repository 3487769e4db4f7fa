"""The whole pipeline on the log of a simulated world: the lake contains the expected causes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kohort.pipeline.lake.reader import Lake
from log_builder import run_pipeline
from truth.actions import run_world
from truth.compare import Matrix, Verdict, expected_causes
from truth.histories import read_histories
from truth.world import World, draw

SEED = 5


@pytest.mark.spark
@pytest.mark.slow
def test_causes_in_the_lake_match_the_oracle(spark: Any, tmp_path: Path) -> None:
    data, lake = tmp_path / "data", tmp_path / "lake"
    # Without the idle week at the end, in which log ends would be sampled too.
    with World(SEED, data, replace(draw(SEED), has_idle_end=False)) as world:
        run_world(world)
    run_pipeline(spark, data, lake)
    reported = {
        (row["group"], row["log_offset"]): row
        for row in Lake(lake).read("gold_rebalance").to_pylist()
    }
    matrix = Matrix()
    for history in read_histories(data, world.now_ms(), with_events=False):
        for at, causes in expected_causes(history, world.oracle(history.group)).items():
            row = reported.pop((history.group, at))
            verdict = Verdict(
                history.group, at, row["generation"], causes, row["cause"], row["evidence"]
            )
            matrix.add(verdict)
    assert not reported, "rows of records that are not in the log"
    assert matrix.total >= 30
    assert matrix.share >= 0.99, "\n".join(matrix.lines())
