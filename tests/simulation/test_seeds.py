"""Simulations of a hundred seeds. `make soak` runs more."""

import logging
import os

import pytest
from simulation.config import draw
from simulation.simulation import Simulation, report, run_seed
from simulation.transactions import run_history

FIRST = int(os.environ.get("KOHORT_FIRST_SEED", "0"))
SEEDS = int(os.environ.get("KOHORT_SEEDS", "100"))
TRANSACTION_SEEDS = int(os.environ.get("KOHORT_SEEDS", "30"))
SEEDS_PER_TEST = 25


@pytest.fixture(autouse=True)
def _no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="kohort")  # every disk fault is logged


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, SEEDS_PER_TEST))
def test_no_invariant_is_violated(first: int) -> None:
    for seed in range(first, min(first + SEEDS_PER_TEST, FIRST + SEEDS)):
        _trace(seed)


@pytest.mark.parametrize("first", range(FIRST, FIRST + TRANSACTION_SEEDS, 10))
def test_random_transactions_are_atomic(first: int) -> None:
    for seed in range(first, first + 10):
        run_history(seed)


def test_the_same_seed_gives_the_same_run() -> None:
    assert _trace(7) == _trace(7)


def test_actors_can_be_left_out() -> None:
    slot = draw(7).slots[0].name
    simulation = Simulation(7, without=frozenset({slot, "cutter"}))
    simulation.run()
    lines = simulation.trace_lines()
    assert not any(f" {slot}." in line or " network: " in line for line in lines)


def test_every_kind_of_event_and_fault_occurs() -> None:
    seeds = *range(15), 58  # the last one has a commit of an older generation
    lines = [line for seed in seeds for line in _trace(seed)]
    for text in (
        "broker: power failure",
        "broker: killed",
        "disk: ",
        "network: closes",
        "network: drops",
        "stalls for",
        "is fenced",
        "leaves",
        "rebalance_in_progress",
        "illegal_generation",
        "unknown_member_id",
        "member_id_required",
        "not_coordinator",
        "DeleteGroupResult(error_code=<ErrorCode.none",
        "DeleteOffsetsResult(error_code=<ErrorCode.none",
        " leads __consumer_offsets-",
        ": stops",
        ": starts again",
        "u is deleted",
        "expires: [OffsetTombstone",
        "GroupTombstone",
    ):
        assert any(text in line for line in lines), text


def test_both_protocols_meet_in_every_third_seed() -> None:
    lines = [line for seed in (0, 6, 9, 24, 78, 192) for line in _trace(seed)]
    for text in (
        "JoinGroup(group_id='mixed-",
        "member_epoch=-1",
        "member_epoch=-2",
        "subscribed_topic_regex='t|u'",
        "stale_member_epoch",
        "ends with unreleased_instance_id",
        "ends with fenced_instance_id",
        "ends with unknown_server_error",
    ):
        assert any(text in line for line in lines), text


def _trace(seed: int) -> list[str]:
    simulation, violation = run_seed(seed)
    if violation is not None:
        pytest.fail(report(seed, violation), pytrace=False)
    return simulation.trace_lines()
