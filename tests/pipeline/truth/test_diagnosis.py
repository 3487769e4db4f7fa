"""The share of correct causes, diagnosed from the log alone and with the event log.

`make truth` does the same for any number of worlds.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kohort.offsets.causes import Cause
from truth.actions import run_world
from truth.compare import Matrix, compare
from truth.oracle import REASONS
from truth.world import World

# About four hundred records of all kinds of groups.
SEEDS = range(1_000, 1_014)

# The hard cases: a member has left, and the log does not contain the reason.
EXITS = {Cause.SLOW_POLL, Cause.SESSION_TIMEOUT, Cause.LEFT_CLEANLY, Cause.RESTARTED}


DOCS = Path(__file__).parents[3] / "docs" / "diagnosis.md"


@cache
def matrices() -> dict[bool, Matrix]:
    found = {False: Matrix(), True: Matrix()}
    for seed in SEEDS:
        with TemporaryDirectory() as folder, World(seed, Path(folder)) as world:
            run_world(world)
            for with_events, verdict in compare(world):
                found[with_events].add(verdict)
    return found


@pytest.mark.parametrize(("with_events", "least"), [(False, 0.9), (True, 0.99)])
def test_most_causes_are_diagnosed_correctly(with_events: bool, least: float) -> None:
    matrix = matrices()[with_events]
    assert matrix.total >= 300
    assert matrix.share >= least, "\n".join(matrix.lines())


@pytest.mark.parametrize(("with_events", "least"), [(False, 0.85), (True, 0.98)])
def test_causes_of_exits_are_diagnosed_correctly(with_events: bool, least: float) -> None:
    """Without creations, joins and empty groups, which are more frequent and easy to diagnose."""
    matrix = matrices()[with_events].only({cause.name for cause in EXITS})
    assert matrix.total >= 80
    assert matrix.share >= least, "\n".join(matrix.lines())


def test_every_ambiguity_is_documented() -> None:
    table = DOCS.read_text().split("## What the log does not show")[1].split("\n## ")[0]
    named = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert set(REASONS) <= set(named)
