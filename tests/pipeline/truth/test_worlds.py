"""The simulated worlds are reproducible."""

from dataclasses import replace
from pathlib import Path

from truth.actions import run_world
from truth.histories import read_histories
from truth.world import World, draw


def test_the_same_seed_yields_the_same_history(tmp_path: Path) -> None:
    histories = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        with World(3, folder) as world:
            run_world(world)
        # The cluster id does not depend on the seed.
        histories.append(
            [
                history._replace(events=())
                for history in read_histories(folder, world.now_ms(), with_events=True)
            ]
        )
    assert histories[0] == histories[1]


def test_moving_the_coordinator_causes_no_rebalance(tmp_path: Path) -> None:
    setting = draw(4)
    group = replace(setting.groups[0], plan=("move", "move"), size=3)
    with World(
        4, tmp_path, replace(setting, nodes=2, groups=(group,), has_idle_end=False)
    ) as world:
        run_world(world)
        before = len(world.oracle(group.group_id).generations)
    (history,) = read_histories(tmp_path, world.now_ms(), with_events=True)
    assert "group_unloaded" in {event.type for event in history.events}
    joins = [each for each in history.generations if each.members]
    assert len(joins) == before <= group.size  # the members that joined one by one
