"""`python -m benchmarks`: kohort beside a bare echo, a bare disk and kfake, in one run.

Absolute figures of a shared machine mean little from one hour to the next; the ratios between
what was measured side by side do. So every row of the table has its yardsticks beside it.
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
    disk,
    harness,
    loads,
    machine,
    memory,
    pipeline,
    starts,
    table,
    transfers,
    wake,
)
from .clients import LoadClient, build_load
from .servers import build_kfake

RESULTS = Path(__file__).parent / "results"
PARTS = {
    "disk": disk.measure,
    "starts": starts.measure,
    "loads": loads.measure,
    "transfers": transfers.measure,
    "memory": memory.measure,
    "assignors": assignors.measure,
    "harness": harness.measure,
    "wake": wake.measure,
    "compaction": compaction.measure,
    "pipeline": pipeline.measure,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each load (default 1.5)")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many (default 3)")
    parser.add_argument(
        "--scale", type=float, default=1, help="sizes are multiplied with it (default 1)"
    )
    parser.add_argument("--json", type=Path, help="where to write (default benchmarks/results/)")
    parser.add_argument("--python-client", action="store_true", help="do without Go")
    given = parser.parse_args()
    unknown = set(given.parts) - PARTS.keys()
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    return given


def main() -> None:
    given = arguments()
    # Whoever ends us ends the servers too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    # Every connection of a thousand members is a file, here and in the servers started here.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8_192)), hard))
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as name:
        folder = Path(name)
        client: LoadClient = build_load(folder, without_go=given.python_client)
        kfake = build_kfake(folder)
        setting = machine.Setting(
            folder=folder,
            client=client,
            kfake=kfake,
            seconds=given.seconds,
            rounds=given.rounds,
            scale=given.scale,
        )
        table.heading(setting)
        results: dict[str, object] = {"machine": machine.told(setting)}
        for part in given.parts or PARTS:
            results[part] = PARTS[part](setting)
            table.show(part, results)
    path = given.json
    if path is None:
        RESULTS.mkdir(exist_ok=True)
        now = datetime.datetime.now(datetime.UTC)
        path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nWritten to {path}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
