"""What `kohort pipeline run` takes per million records, layer by layer, and how that grows.

`python -m benchmarks.batches [MILLIONS …]` (10): an offsets log into a new lake by the loop itself,
a million records a batch, Spark's start left out. Wall seconds are this machine's at this hour; CPU
seconds are those of Spark's JVM, of its Python workers and of this process. The log has no topics
beside it, so no lag is reckoned.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import Done, Entered, Told, run
from kohort.pipeline.session import new_session

from .offset_logs import write_offsets_log

TICKS_S: Final = os.sysconf("SC_CLK_TCK")
# What performance aims name: from the log to silver_commit, minutes and the latest state.
AIMED_AT: Final = ("bronze", "commits")

Spent = dict[str, tuple[float, float]]
"""Wall and CPU seconds by layer."""


class Stopwatch:
    """Told what the loop tells."""

    def __init__(self, jvm: int) -> None:
        self.batches: list[tuple[int, Spent]] = []  # with their records
        self.workers_mib = 0.0
        self._jvm = jvm
        self._spent: Spent = {}
        self._layer: str | None = None
        self._begun = (0.0, 0.0)

    def __call__(self, told: Told) -> None:
        if not isinstance(told, Entered | Done):
            return
        now = time.monotonic(), cpu_s(self._jvm) + time.process_time()
        if self._layer is not None:
            self._spent[self._layer] = now[0] - self._begun[0], now[1] - self._begun[1]
        self._layer, self._begun = (told.layer if isinstance(told, Entered) else None), now
        if isinstance(told, Done):
            self.workers_mib = max(self.workers_mib, workers_mib(self._jvm))
            self.batches.append((told.records, self._spent))
            self._spent = {}


def per_million(batches: list[tuple[int, Spent]]) -> dict[str, dict[str, float]]:
    """The mean of some batches."""
    millions = sum(records for records, _ in batches) / 1e6
    return {
        layer: {
            "wall_s": sum(spent[layer][0] for _, spent in batches) / millions,
            "cpu_s": sum(spent[layer][1] for _, spent in batches) / millions,
        }
        for layer in batches[0][1]
    }


def cpu_s(process: int) -> float:
    """Of a process and all that it started and that are still there."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_S + of_children(process, cpu_s)


def of_children(process: int, what: Callable[[int], float]) -> float:
    total = 0.0
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in file.read_text().split():
            try:
                total += what(int(child))
            except OSError:
                continue  # it has just ended
    return total


def workers_mib(process: int) -> float:
    """What those that it started had at most, each at its time, pages that they share counted for
    each."""
    return of_children(process, lambda child: peak_mib(child) + workers_mib(child))


def peak_mib(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0  # it has ended, and nobody has asked how


def measure(records: int, folder: Path) -> dict[str, Any]:
    log, lake = folder / "log", folder / "lake"
    written = write_offsets_log(log, records=records)
    spark = new_session("local[2]")
    try:
        jvm = spark.sparkContext._gateway.proc.pid
        watch = Stopwatch(jvm)
        with Writer(lake) as writer:
            run(lambda: spark, writer, Inputs({"path": str(log)}, "bench"), tell=watch)
        # Java compiles what it runs in the first one; a last one that is small pays for little.
        full = [batch for batch in watch.batches if batch[0] > 500_000] or watch.batches
        later = full[len(full) // 2 :]
        return {
            "records": written,
            "batches": len(watch.batches),
            "first_batch_per_million": per_million(full[:1]),
            "later_half_per_million": per_million(later),
            "jvm_peak_mib": peak_mib(jvm),
            "workers_peak_mib": round(watch.workers_mib),
            "lake_bytes": sum(file.stat().st_size for file in lake.rglob("*") if file.is_file()),
        }
    finally:
        spark.stop()


def main() -> None:
    for millions in [float(given) for given in sys.argv[1:]] or [10]:
        with tempfile.TemporaryDirectory(prefix="kohort-batches-") as folder:
            found = measure(round(millions * 1_000_000), Path(folder))
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
