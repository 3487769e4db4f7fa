"""A world through the whole of it: log, samples and events into a lake, and the same judge."""

from dataclasses import replace
from pathlib import Path

import pytest
from kohort.pipeline.lake.reader import Lake
from truth.commands import kohort
from truth.judge import Matrix, Verdict, read_stories, truths
from truth.setting import draw
from truth.world import World

SEED = 5


@pytest.mark.spark
@pytest.mark.slow
def test_what_the_lake_says_of_a_world_is_true(tmp_path: Path) -> None:
    data, lake = tmp_path / "data", tmp_path / "lake"
    # Without the week at its end, of which the log's ends would be sampled, too.
    with World(SEED, data, replace(draw(SEED), has_night=False)) as world:
        world.run()
    kohort("pipeline", "run", "--log", data, "--lake", lake)
    said = {
        (row["group"], row["log_offset"]): row
        for row in Lake(lake).read("gold_rebalance").to_pylist()
    }
    matrix = Matrix()
    for story in read_stories(data, world.now_ms(), with_events=False):
        for at, causes in truths(story, world.ledger(story.group)).items():
            row = said.pop((story.group, at))
            verdict = Verdict(
                story.group, at, row["generation"], causes, row["cause"], row["evidence"]
            )
            matrix.add(verdict)
    assert not said, "rows of records that are not in the log"
    assert matrix.total >= 30
    assert matrix.share >= 0.99, "\n".join(matrix.lines())
