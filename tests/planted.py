"""Faults that somebody could make in one line, and which layer of tests finds each: the measure of
all the rest. Each is planted in a copy of the tree, and the layers are run from the cheapest on
until one fails.

    make planted                          the table; fails if a fault survives
    make planted ONLY=generation          only the faults whose names contain that
    make planted LAYER=simulation         only by that layer
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from planted_faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]
LEFT_BEHIND = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
SECONDS_MAX = 600  # for a layer: a fault may make it run in circles

LAYERS = {
    "states": ["tests/broker/groups"],
    "runtime": ["tests/broker/test_runtime.py", "tests/broker/test_failing_disks.py"],
    "simulation": ["tests/simulation/test_seeds.py"],
    "parity": ["tests/parity"],
    "offsets": ["tests/offsets"],
    "log": ["tests/log"],
    "nodes": ["tests/broker/test_cluster.py"],
    "kafka's folder": ["tests/kafka_folder"],
}


def copy_with(fault: Fault, folder: Path) -> Path:
    copy = folder / "kohort"
    shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND)
    place = copy / fault.path
    place.write_text(place.read_text().replace(fault.right, fault.wrong))
    return copy


def killer_of(fault: Fault, layers: list[str]) -> str | None:
    """The first of `layers` that fails; None if none does."""
    with tempfile.TemporaryDirectory(prefix="kohort-planted-") as folder:
        copy = copy_with(fault, Path(folder))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        for layer in layers:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
            # A test that needs a tool or a server says nothing of a fault.
            command += ["-m", "not java and not clients and not parity", *LAYERS[layer]]
            try:
                done = subprocess.run(
                    command, cwd=copy, env=environment, capture_output=True, timeout=SECONDS_MAX
                )
            except subprocess.TimeoutExpired:
                return f"{layer} (never ends)"
            if done.returncode == 1:
                return layer
            if done.returncode != 0:
                raise RuntimeError(f"{layer} could not be run:\n{done.stdout.decode()[-2_000:]}")
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant faults, and see which tests find them.")
    parser.add_argument("--only", default="")
    parser.add_argument("--layer", choices=["", *LAYERS], default="")
    asked = parser.parse_args()
    faults = [fault for fault in FAULTS if asked.only in fault.name]
    layers = [asked.layer] if asked.layer else list(LAYERS)
    started, survivors = time.perf_counter(), 0
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(lambda fault: killer_of(fault, layers), faults)
        for fault, killer in zip(faults, found, strict=True):
            survivors += killer is None
            print(f"{fault.name:<45} {killer or 'SURVIVES'}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{len(faults)} faults, {survivors} survive; {seconds:.0f} s")
    return 1 if survivors or not faults else 0


if __name__ == "__main__":
    sys.exit(main())
