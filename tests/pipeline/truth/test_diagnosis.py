"""The share of correct causes, diagnosed from the log alone and with the event log. `make truth`
shows the causes of any number of worlds: -rP prints the matrices."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kohort.offsets.causes import Cause
from truth.actions import run_world
from truth.compare import Matrix, Verdict, compare, matrices
from truth.oracle import REASONS
from truth.world import World

# About four hundred records of all kinds of groups.
FIRST = int(os.environ.get("KOHORT_TRUTH_FIRST", "1000"))
WORLDS = int(os.environ.get("KOHORT_TRUTH_WORLDS", "14"))

# The hard cases: a member has left, and the log does not contain the reason.
EXITS = {Cause.SLOW_POLL, Cause.SESSION_TIMEOUT, Cause.LEFT_CLEANLY, Cause.RESTARTED}
DOCS = Path(__file__).parents[3] / "docs" / "diagnosis.md"


def verdicts() -> Iterator[tuple[bool, Verdict]]:
    for seed in range(FIRST, FIRST + WORLDS):
        with TemporaryDirectory() as folder, World(seed, Path(folder)) as world:
            run_world(world)
            yield from compare(world)


@cache
def compared() -> dict[bool, Matrix]:
    return matrices(verdicts())


@pytest.mark.parametrize(("with_events", "least"), [(False, 0.9), (True, 0.99)])
def test_most_causes_are_diagnosed_correctly(with_events: bool, least: float) -> None:
    matrix = compared()[with_events]
    print("\n".join(matrix.lines()))
    assert matrix.total >= 20 * WORLDS
    assert matrix.share >= least


@pytest.mark.parametrize(("with_events", "least"), [(False, 0.85), (True, 0.98)])
def test_causes_of_exits_are_diagnosed_correctly(with_events: bool, least: float) -> None:
    """Creations, joins and empty groups are left out, because they are frequent and easy to
    diagnose."""
    matrix = compared()[with_events].only({cause.name for cause in EXITS})
    assert matrix.total >= 5 * WORLDS
    assert matrix.share >= least, "\n".join(matrix.lines())


def test_every_ambiguity_is_documented() -> None:
    table = DOCS.read_text().split("## What the log does not show")[1].split("\n## ")[0]
    named = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert set(REASONS) <= set(named)
