"""Many seeds over all cores, and what is told of one that fails: the seed, the shortest story found
in which the same promise is still broken, its last lines.

    make soak SEEDS=10000 [FIRST=0]
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from simulation.outsiders import OUTSIDERS
from simulation.violation import Violation
from simulation.world import World

LAST_LINES = 30
FAILURES_MAX = 5  # told of in full; a fault that breaks one seed mostly breaks a hundred


def story_of(
    seed: int, without: frozenset[str] = frozenset(), chaos_ms: int | None = None
) -> tuple[World, Violation | None]:
    world = World(seed, without=without, chaos_ms=chaos_ms)
    try:
        world.run()
    except Violation as violation:
        return world, violation
    return world, None


def shrink(seed: int, promise: str) -> tuple[World, Violation]:
    """Leave out actors and end chaos earlier, as long as the same promise is broken."""
    world, violation = story_of(seed)
    assert violation is not None
    without: frozenset[str] = frozenset()
    for name in [*OUTSIDERS, *(seat.name for seat in world.setting.seats)]:
        shorter, found = story_of(seed, without | {name}, world.chaos_ms)
        if found is not None and found.promise == promise:
            world, violation, without = shorter, found, without | {name}
    for parts in (8, 4, 2, 2, 2):
        shorter, found = story_of(seed, without, world.chaos_ms - world.chaos_ms // parts)
        if found is not None and found.promise == promise:
            world, violation = shorter, found
    return world, violation


def report(seed: int, violation: Violation) -> str:
    world, shortest = shrink(seed, violation.promise)
    lines = world.story()
    return "\n".join(
        [
            f"seed {seed}: {violation}",
            f"shortest story found ({len(lines)} lines, {world.chaos_ms} ms of chaos): {shortest}",
            f"actors: {', '.join(world.actors)}",
            *lines[-LAST_LINES:],
        ]
    )


def failure_of(seed: int) -> tuple[int, Violation | None]:
    logging.disable(logging.CRITICAL)  # a disk that fails is no news here
    return seed, story_of(seed)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate many worlds.")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    started = time.perf_counter()
    failures: list[int] = []
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        seeds = range(asked.first, asked.first + asked.seeds)
        for seed, violation in processes.map(failure_of, seeds, chunksize=20):
            if violation is not None:
                failures.append(seed)
                if len(failures) <= FAILURES_MAX:
                    print(report(seed, violation), end="\n\n", flush=True)
    seconds = time.perf_counter() - started
    print(
        f"{asked.seeds} seeds in {seconds:.1f} s, {asked.seeds / seconds:.0f} seeds/s: "
        + (f"broken by {failures}" if failures else "no promise was broken")
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
