"""Compare kohort with an echo server, raw disk syncs, kfake and Kafka in one run.

Absolute figures on a shared machine vary from hour to hour, but the ratios between figures of one
run are comparable. Therefore, every row of the tables contains its baselines.
"""

import argparse
import contextlib
import datetime
import json
import resource
import signal
import sys
import tempfile
from pathlib import Path

from . import (
    assignors,
    compaction,
    harness,
    loads,
    machine,
    memory,
    pipeline,
    recovery,
    security,
    starts,
    table,
    transfers,
)
from .clients import LoadClient, build_load
from .servers import build_kfake

RESULTS = Path(__file__).parent / "results"


PARTS = {
    "disk": machine.measure_disk,
    "starts": starts.measure,
    "loads": loads.measure,
    "security": security.measure,
    "transfers": transfers.measure,
    "memory": memory.measure,
    "assignors": assignors.measure,
    "harness": harness.measure,
    "recovery": recovery.measure,
    "compaction": compaction.measure,
    "pipeline": pipeline.measure,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"what to measure: {', '.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--seconds", type=float, default=1.5, help="duration of each load (default 1.5)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="repetitions of each measurement (default 3)"
    )
    parser.add_argument("--scale", type=float, default=1, help="factor for all sizes (default 1)")
    parser.add_argument(
        "--json", type=Path, help="output file (default: a new one in benchmarks/results/)"
    )
    parser.add_argument(
        "--python-client",
        action="store_true",
        help="use the Python load client even if Go is installed",
    )
    options = parser.parse_args()
    unknown = set(options.parts) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}: expected {', '.join(PARTS)}")
    return options


def main() -> None:
    options = arguments()
    # SystemExit unwinds the context managers, which stop the servers.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    # A thousand members need a thousand sockets in the load client and in each server. Both inherit
    # this limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8_192)), hard))
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as name:
        folder = Path(name)
        client: LoadClient = build_load(folder, without_go=options.python_client)
        kfake = build_kfake(folder)
        setting = machine.Setting(
            folder=folder,
            client=client,
            kfake=kfake,
            seconds=options.seconds,
            rounds=options.rounds,
            scale=options.scale,
        )
        table.heading(setting)
        results: dict[str, object] = {"machine": machine.describe(setting)}
        for part in options.parts or PARTS:
            results[part] = PARTS[part](setting)
            table.SHOWN[part](results)
    path = options.json
    if path is None:
        RESULTS.mkdir(exist_ok=True)
        now = datetime.datetime.now(datetime.UTC)
        path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nWritten to {path}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
