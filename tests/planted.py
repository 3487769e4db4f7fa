"""Faults that somebody could make in one line, and which layer of tests finds each: the measure of
all the rest. Each is planted in a copy of the tree, and the layers are run until one fails: first
the one that is nearest to the fault, then from the cheapest on.

    make planted                          the table; fails if a fault survives
    make planted ONLY=generation          only the faults whose names contain that
    make planted LAYER=simulation         only by that layer
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from planted_faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]
LEFT_BEHIND = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "results")

# A fault may make a layer run in circles, or eat all memory there is. The longest layer takes some
# 20 s of a processor and 300 MiB; a busy machine makes it last, so time is counted both ways.
CPU_SECONDS_MAX = 60
SECONDS_MAX = 300
MEMORY_BYTES_MAX = 3 * 1024**3

BOUNDED = f"""
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
    "upkeep": [
        "tests/broker/test_cache.py",
        "tests/broker/test_expiring.py",
        "tests/broker/test_offset_cleanup.py",
        "tests/broker/test_forgotten_names.py",
        "tests/broker/test_snapshots.py",
        "tests/broker/test_maintenance.py",
    ],
    "nodes": ["tests/broker/test_cluster.py"],
    "simulation": ["tests/simulation/test_seeds.py"],
    "parity": ["tests/parity"],
    "log": ["tests/log"],
    "kafka's folder": ["tests/kafka_folder"],
}
# By the beginning of a fault's path, the longest that fits.
NEAREST = {
    "broker/": "runtime",
    "broker/cluster": "nodes",
    "coordinator/": "states",
    "broker/loader": "nodes",
    "broker/snapshots": "upkeep",
    "log/": "log",
    "offsets/": "offsets",
    "offsets/store": "runtime",
    "topics/": "topics",
    "topics/kafka_import": "kafka's folder",
}


class Killer(NamedTuple):
    layer: str
    how: str
    """The first test that failed, or why there is none."""


def in_order(fault: Fault) -> list[str]:
    fitting = [start for start in NEAREST if fault.path.startswith(start)]
    first = NEAREST[max(fitting, key=len)] if fitting else "states"
    return sorted(LAYERS, key=lambda layer: layer != first)


def copied(folder: Path, fault: Fault | None = None) -> Path:
    copy = folder / "kohort"
    shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND)
    if fault is not None:
        place = copy / fault.path
        place.write_text(place.read_text().replace(fault.right, fault.wrong))
    return copy


def failure(layer: str, copy: Path) -> str | None:
    """What fails of `layer`; None if nothing does."""
    environment = {
        **os.environ,
        "KOHORT_HYPOTHESIS_PROFILE": "unshrunk",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(copy.parent),
    }
    command = [sys.executable, "-c", BOUNDED, "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-p", "no:randomly"]  # one order, so that a table can be compared with the last
    # A test that needs a tool or a server says nothing of a fault.
    command += ["-m", "not java and not clients and not parity", *LAYERS[layer]]
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
        said, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return f"waits for ever: not ended after {SECONDS_MAX} s"
    finally:
        end(process)
    if process.returncode == 0:
        return None
    if process.returncode == 5:
        raise RuntimeError(f"{layer} has no tests:\n{said}")
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"runs in circles: more than {CPU_SECONDS_MAX} s of a processor"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {process.returncode}: {said[-500:]}"


def end(process: subprocess.Popen[str]) -> None:
    """With all that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def killer_of(fault: Fault, layers: list[str]) -> tuple[Killer | None, float]:
    """The first of `layers` that fails, None if none does; and in how many seconds."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kohort-planted-") as folder:
        copy = copied(Path(folder), fault)
        for layer in layers:
            how = failure(layer, copy)
            if how is not None:
                return Killer(layer, how), time.perf_counter() - began
    return None, time.perf_counter() - began


def check_without_fault(layers: list[str]) -> None:
    """A layer that fails on the code as it is would kill anything."""
    with tempfile.TemporaryDirectory(prefix="kohort-planted-") as folder:
        copy = copied(Path(folder))
        failures = {layer: how for layer in layers if (how := failure(layer, copy)) is not None}
    if failures:
        raise SystemExit(f"These fail with no fault planted: {failures}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant faults, and see which tests find them.")
    parser.add_argument("--only", default="")
    parser.add_argument("--layer", choices=["", *LAYERS], default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="faults side by side")
    asked = parser.parse_args()
    faults = [fault for fault in FAULTS if asked.only in fault.name]
    began, survivors = time.perf_counter(), 0
    check_without_fault([asked.layer] if asked.layer else list(LAYERS))

    def tried(fault: Fault) -> tuple[Killer | None, float]:
        return killer_of(fault, [asked.layer] if asked.layer else in_order(fault))

    with ThreadPoolExecutor(asked.jobs) as threads:
        for fault, (killer, seconds) in zip(faults, threads.map(tried, faults), strict=True):
            survivors += killer is None
            layer, how = killer or ("SURVIVES", "")
            print(f"{fault.name:<79} {layer:<14} {seconds:4.0f} s  {how}", flush=True)
    print(f"{len(faults)} faults, {survivors} survive; {time.perf_counter() - began:.0f} s")
    return 1 if survivors or not faults else 0


if __name__ == "__main__":
    sys.exit(main())
