"""Run many seeds on all cores. For each that fails, print the seed and the end of the shortest run
found that violates the same invariant.

    make soak SEEDS=10000 [FIRST=0]
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from simulation.models import Violation
from simulation.simulation import Simulation

TRACE_LINES = 30
REPORTS_MAX = 5  # a bug that breaks one seed mostly breaks hundreds


def run_seed(
    seed: int, without: frozenset[str] = frozenset(), chaos_ms: int | None = None
) -> tuple[Simulation, Violation | None]:
    simulation = Simulation(seed, without=without, chaos_ms=chaos_ms)
    try:
        simulation.run()
    except Violation as violation:
        return simulation, violation
    return simulation, None


def shrink(seed: int, invariant: str) -> tuple[Simulation, Violation]:
    """Leave out actors and stop faults earlier as long as the same invariant is violated."""
    simulation, violation = run_seed(seed)
    assert violation is not None
    without: frozenset[str] = frozenset()
    for name in simulation.actors:
        shorter, found = run_seed(seed, without | {name}, simulation.chaos_ms)
        if found is not None and found.invariant == invariant:
            simulation, violation, without = shorter, found, without | {name}
    for divisor in (8, 4, 2, 2, 2):
        chaos_ms = simulation.chaos_ms - simulation.chaos_ms // divisor
        shorter, found = run_seed(seed, without, chaos_ms)
        if found is not None and found.invariant == invariant:
            simulation, violation = shorter, found
    return simulation, violation


def report(seed: int, violation: Violation) -> str:
    simulation, shortest = shrink(seed, violation.invariant)
    lines = simulation.trace_lines()
    return "\n".join(
        [
            f"seed {seed}: {violation}",
            f"shortest run: {len(lines)} lines, {simulation.chaos_ms} ms of faults: {shortest}",
            f"actors: {', '.join(simulation.actors)}",
            *lines[-TRACE_LINES:],
        ]
    )


def violation_of(seed: int) -> tuple[int, Violation | None]:
    logging.disable(logging.CRITICAL)  # the broker logs every failed disk operation
    return seed, run_seed(seed)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run many simulations.")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    started = time.perf_counter()
    failed: list[int] = []
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        for seed, violation in processes.map(violation_of, seeds, chunksize=20):
            if violation is not None:
                failed.append(seed)
                if len(failed) <= REPORTS_MAX:
                    print(report(seed, violation), end="\n\n", flush=True)
    seconds = time.perf_counter() - started
    summary = f"failed: {failed}" if failed else "no violation"
    print(f"{len(seeds)} seeds in {seconds:.1f} s, {len(seeds) / seconds:.0f} seeds/s: {summary}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
