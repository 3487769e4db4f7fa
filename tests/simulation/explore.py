"""Run many seeds on all cores: simulations of groups, then of transactions. For each that fails,
print the seed and, for groups, the end of the shortest run found that violates the same invariant.

    make soak SEEDS=10000 [FIRST=0]
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor

from simulation.models import Violation
from simulation.simulation import Simulation
from simulation.transactions import run_history

TRACE_LINES = 30
REPORTS_MAX = 5  # a bug that one seed finds is usually found by hundreds


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


def is_group_violated(seed: int) -> tuple[int, bool]:
    logging.disable(logging.CRITICAL)  # the broker logs every failed disk operation
    return seed, run_seed(seed)[1] is not None


def report_group(seed: int) -> str:
    violation = run_seed(seed)[1]
    assert violation is not None
    return report(seed, violation)


def transaction_failure(seed: int) -> str | None:
    """Return the traceback of a violated invariant or of a defect."""
    try:
        run_history(seed)
    except Exception:
        return traceback.format_exc()
    return None


def is_transaction_violated(seed: int) -> tuple[int, bool]:
    logging.disable(logging.CRITICAL)
    return seed, transaction_failure(seed) is not None


def report_transaction(seed: int) -> str:
    return f"seed {seed}: {transaction_failure(seed)}"


def explore(
    name: str,
    is_violated: Callable[[int], tuple[int, bool]],
    report_seed: Callable[[int], str],
    seeds: range,
    processes: Executor,
) -> bool:
    """Return whether no seed violates an invariant."""
    started = time.perf_counter()
    failed: list[int] = []
    for seed, has_failed in processes.map(is_violated, seeds, chunksize=20):
        if has_failed:
            failed.append(seed)
            if len(failed) <= REPORTS_MAX:
                print(report_seed(seed), end="\n\n", flush=True)
    seconds = time.perf_counter() - started
    rate = f"{len(seeds)} seeds of {name} in {seconds:.1f} s, {len(seeds) / seconds:.0f} seeds/s"
    print(f"{rate}: {f'failed: {failed}' if failed else 'no violation'}", flush=True)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run many simulations.")
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    logging.disable(logging.CRITICAL)
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        is_clean = [
            explore("groups", is_group_violated, report_group, seeds, processes),
            explore("transactions", is_transaction_violated, report_transaction, seeds, processes),
        ]
    return 0 if all(is_clean) else 1


if __name__ == "__main__":
    sys.exit(main())
