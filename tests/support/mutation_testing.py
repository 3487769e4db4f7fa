"""Mutation testing: apply each mutant of tests/mutants.toml to a copy of the tree and run the
layers of tests until one fails, beginning with the test that killed it before, and then with the
layer nearest to the mutant.

    make mutants                          print the table; fail if a mutant survives
    make mutants ONLY=generation          only the mutants whose names contain `generation`
    make mutants LAYER=simulation         only that layer
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
MUTANTS_FILE = ROOT / "tests" / "mutants.toml"
NOT_COPIED = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "results")

# A mutant may loop or allocate without end. The longest layer, parity, takes about 60 s of CPU and
# 300 MiB; wall-clock time is limited as well because a layer may wait forever.
CPU_SECONDS_MAX = 120
SECONDS_MAX = 300
MEMORY_BYTES_MAX = 3 * 1024**3

LIMITED_PYTEST = f"""
import os, resource, sys, pytest
os.nice(10)
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS_MAX}, {CPU_SECONDS_MAX}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_BYTES_MAX}, {MEMORY_BYTES_MAX}))
sys.exit(pytest.main(sys.argv[1:]))
"""

LAYERS = {
    "states": ["tests/coordinator"],
    "offsets": ["tests/offsets"],
    "topics": ["tests/topics"],
    "runtime": ["tests/broker/test_runtime.py", "tests/broker/test_failing_disks.py"],
    "model": ["tests/broker/test_offsets_model.py"],
    "maintenance": [
        "tests/broker/test_cache.py",
        "tests/broker/test_expiring.py",
        "tests/broker/test_offset_cleanup.py",
        "tests/broker/test_snapshots.py",
        "tests/broker/test_maintenance.py",
    ],
    "nodes": ["tests/broker/test_cluster.py"],
    "simulation": ["tests/simulation/test_seeds.py"],
    "parity": ["tests/parity"],
    "log": ["tests/log"],
    "kafka's folder": ["tests/kafka_folder"],
}
# By the prefix of a mutant's path; the longest prefix wins.
NEAREST = {
    "broker/": "runtime",
    "broker/cluster": "nodes",
    "coordinator/": "states",
    "broker/runtime/loader": "nodes",
    "broker/runtime/snapshots": "maintenance",
    "log/": "log",
    "offsets/": "offsets",
    "offsets/store": "runtime",
    "topics/": "topics",
    "topics/kafka_import": "kafka's folder",
    "topics/kafka_metadata": "kafka's folder",
}


class Mutant(NamedTuple):
    """A replacement in one place of a file."""

    name: str
    path: str
    original: str  # must occur exactly once in the file
    mutated: str
    killed_by: str = ""
    """The test module that killed it before; it runs first."""

    def applied(self) -> str:
        """The mutated text of the file."""
        return (ROOT / self.path).read_text().replace(self.original, self.mutated)


MUTANTS = [Mutant(**each) for each in tomllib.loads(MUTANTS_FILE.read_text())["mutants"]]


class Killer(NamedTuple):
    layer: str
    failure: str
    """Return the first test that failed, or the limit that was exceeded."""


def parts_of(mutant: Mutant) -> dict[str, list[str]]:
    """The test module that killed it before, then all layers, the nearest first."""
    prefixes = [prefix for prefix in NEAREST if mutant.path.startswith(prefix)]
    nearest = NEAREST[max(prefixes, key=len)] if prefixes else "states"
    before = {"as before": [mutant.killed_by]} if mutant.killed_by else {}
    return {**before, nearest: LAYERS[nearest], **LAYERS}


def copy_tree(folder: Path, mutant: Mutant | None = None) -> Path:
    copy = folder / "kohort"
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    if mutant is not None:
        (copy / mutant.path).write_text(mutant.applied())
    return copy


def failure_of(tests: list[str], copy: Path) -> str | None:
    """The first failure of the tests in a copy of the tree."""
    environment = {
        **os.environ,
        "KOHORT_HYPOTHESIS_PROFILE": "unshrunk",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(copy.parent),
    }
    command = [sys.executable, "-c", LIMITED_PYTEST, "-q", "-x", "--tb=no"]
    # A fixed order, so that tables of two runs are comparable.
    command += ["-p", "no:cacheprovider", "-p", "no:randomly"]
    # Tests that need a tool or a server may fail for other reasons.
    command += ["-m", "not java and not clients and not parity", *tests]
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return f"still running after {SECONDS_MAX} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with its child processes
            process.communicate()
    if process.returncode == 0:
        return None
    if process.returncode in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"no tests in {tests}:\n{output}")
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"more than {CPU_SECONDS_MAX} s of CPU"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return failed[1] if failed else f"pytest exited with {process.returncode}: {output[-500:]}"


def killer_of(mutant: Mutant, parts: dict[str, list[str]]) -> tuple[Killer | None, float]:
    """Return the first part of the tests that fails, and the seconds until then."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kohort-mutants-") as folder:
        copy = copy_tree(Path(folder), mutant)
        for layer, tests in parts.items():
            failure = failure_of(tests, copy)
            if failure is not None:
                return Killer(layer, failure), time.perf_counter() - started
    return None, time.perf_counter() - started


def check_without_mutant(layers: list[str]) -> None:
    """Check that all layers pass without a mutant; one that fails would kill every mutant."""
    with tempfile.TemporaryDirectory(prefix="kohort-mutants-") as folder:
        copy = copy_tree(Path(folder))
        found = {layer: failure_of(LAYERS[layer], copy) for layer in layers}
    failures = {layer: failure for layer, failure in found.items() if failure}
    if failures:
        raise SystemExit(f"these layers fail without a mutant: {failures}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Apply mutants, and show which tests kill them.")
    parser.add_argument("--only", default="")
    parser.add_argument("--layer", choices=["", *LAYERS], default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants in parallel")
    args = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS if args.only in mutant.name]
    started, survivors = time.perf_counter(), 0
    chosen = {args.layer: LAYERS[args.layer]} if args.layer else {}
    check_without_mutant(list(chosen or LAYERS))

    def run(mutant: Mutant) -> tuple[Killer | None, float]:
        return killer_of(mutant, chosen or parts_of(mutant))

    with ThreadPoolExecutor(args.jobs) as threads:
        for mutant, (killer, seconds) in zip(mutants, threads.map(run, mutants), strict=True):
            survivors += killer is None
            layer, failure = killer or ("SURVIVES", "")
            print(f"{mutant.name:<73} {layer:<14} {seconds:4.0f} s  {failure}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{len(mutants)} mutants, {survivors} survived, {seconds:.0f} s")
    return 1 if survivors or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
