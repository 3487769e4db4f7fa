"""Two hundred worlds, each drawn by its seed. `make soak` explores more of them."""

import logging

import pytest
from simulation.explore import report, story_of
from simulation.setting import draw
from simulation.world import World

SEEDS = 200
SEEDS_PER_TEST = 25


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="kohort")  # disks fail by the thousand


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_whatever_happens_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        _, violation = story_of(seed)
        if violation is not None:
            pytest.fail(report(seed, violation), pytrace=False)


def test_the_same_seed_tells_the_same_story() -> None:
    first, second = World(7), World(7)
    first.run()
    second.run()
    assert first.story() == second.story()


def test_a_story_goes_on_without_one_of_its_actors() -> None:
    seat = draw(7).seats[0].name
    world = World(7, without=frozenset({seat, "cutter"}))
    world.run()
    assert not any(f" {seat}." in line or " network: " in line for line in world.story())


def test_the_worlds_are_as_rough_as_they_are_meant_to_be() -> None:
    """A world in which nothing happens proves nothing."""
    stories = [line for seed in range(15) for line in _story(seed)]
    for happened in (
        "broker: dies, with the power",
        "broker: is killed",
        "disk: fails",
        "network: cuts",
        "fall silent",
        "stalls for",
        "is fenced",
        "leaves",
        "rebalance_in_progress",
        "illegal_generation",
        "unknown_member_id",
        "member_id_required",
        "not_coordinator",
        "DeleteGroupResult(error=<ErrorCode.none",
        "DeleteOffsetsResult(error=<ErrorCode.none",
        " is to lead __consumer_offsets-",
        ": stops",
        ": is back",
        "owner: deletes",
        "sweeps: [OffsetTombstone",
        "GroupTombstone",
    ):
        assert any(happened in line for line in stories), happened


def _story(seed: int) -> list[str]:
    world, violation = story_of(seed)
    assert violation is None, report(seed, violation)
    return world.story()
