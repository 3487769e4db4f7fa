"""Worlds are what they say: each rebalance in their logs has a cause that was brought about."""

from dataclasses import replace
from pathlib import Path

import pytest
from truth.judge import read_stories, truths
from truth.setting import draw
from truth.world import World


@pytest.mark.parametrize("seed", range(4))
def test_every_record_of_a_group_has_a_cause_that_somebody_brought_about(
    seed: int, tmp_path: Path
) -> None:
    with World(seed, tmp_path) as world:
        world.run()
    found = read_stories(tmp_path, world.now_ms(), with_events=False)
    assert {story.group for story in found} == set(world.ledgers)
    for story in found:
        causes = truths(story, world.ledger(story.group))
        assert [at for at, of in causes.items() if not of] == []


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    told = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        with World(3, folder) as world:
            world.run()
        # The cluster's id is no matter of the seed.
        told.append(
            [
                story._replace(events=())
                for story in read_stories(folder, world.now_ms(), with_events=True)
            ]
        )
    assert told[0] == told[1]


def test_a_coordinator_that_moves_brings_no_rebalance_about(tmp_path: Path) -> None:
    setting = draw(4)
    group = replace(setting.groups[0], plan=("move", "move"), size=3)
    with World(4, tmp_path, replace(setting, nodes=2, groups=(group,), has_night=False)) as world:
        world.run()
        before = len(world.ledger(group.group_id).generations)
    (story,) = read_stories(tmp_path, world.now_ms(), with_events=True)
    assert "group_unloaded" in {event.type for event in story.events}
    joins = [each for each in story.generations if each.members]
    assert len(joins) == before <= group.size  # of those who came one by one
