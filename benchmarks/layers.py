"""What the pipeline's tables of commits cost per million records, and how that grows.

`python -m benchmarks.layers [MILLIONS …]` (1 and 10): bronze, silver_commit, minutes and the latest
state, batch after batch of a million as `kohort pipeline run` makes them. Wall seconds are this
machine's at this hour; CPU seconds are those of Spark's JVM and its Python workers.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.layers import activity, bronze, commits, generations, jumps, minutes
from kohort.pipeline.layers.batch import Batch
from kohort.pipeline.session import new_session
from kohort.pipeline.source.source import open_source

from .offset_logs import write_offsets_log

RECORDS_MAX = 1_000_000
LAYERS = (generations, commits, activity, minutes, jumps)
ORIGIN = bronze.Origin("bench", "log")
TICKS_S = os.sysconf("SC_CLK_TCK")


Spent = dict[str, tuple[float, float]]
"""Wall and CPU seconds by layer."""


def spent_on(batch: Batch, read: Callable[[], object], jvm: int) -> Spent:
    steps: dict[str, Callable[[], object]] = {"bronze": read}
    for layer in LAYERS:
        name = layer.__name__.rpartition(".")[2]
        steps[name] = partial(lambda layer: batch.write(layer.tables(batch)), layer)
    spent = {}
    for name, step in steps.items():
        wall, cpu = time.monotonic(), cpu_s(jvm)
        step()
        spent[name] = (time.monotonic() - wall, cpu_s(jvm) - cpu)
    return spent


def per_batch(batches: list[Spent]) -> dict[str, dict[str, float]]:
    """The mean of some batches."""
    return {
        layer: {
            "wall_s": sum(spent[layer][0] for spent in batches) / len(batches),
            "cpu_s": sum(spent[layer][1] for spent in batches) / len(batches),
        }
        for layer in batches[0]
    }


def cpu_s(process: int) -> float:
    """Of a process and all that it started and that are still there."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    children = Path(f"/proc/{process}/task").glob("*/children")
    own = ticks / TICKS_S
    for file in children:
        for child in file.read_text().split():
            try:
                own += cpu_s(int(child))
            except OSError:
                continue  # it has just ended
    return own


def peak_mib(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    raise LookupError("no VmHWM in status")


def measure(records: int, folder: Path) -> dict[str, Any]:
    log, lake = folder / "log", folder / "lake"
    written = write_offsets_log(log, records=records)
    spark = new_session("local[2]", {"spark.driver.memory": "3g"})
    jvm = spark.sparkContext._gateway.proc.pid
    options = {"path": str(log)}
    source = open_source(options)
    start, ends = source.starts(), source.ends()
    batches: list[Spent] = []
    with Writer(lake) as writer:
        while start != ends:
            upto = source.limited(start, ends, records_max=RECORDS_MAX, bytes_max=None)
            writer.begin()
            batch = Batch(spark, writer, "bench")
            splits = source.splits(start, upto)
            read = partial(bronze.write_by_tasks, writer, spark, options, splits, ORIGIN)
            batches.append(spent_on(batch, read, jvm))
            writer.commit(cluster="bench", positions=upto, inputs={}, as_of=batch.now)
            start = {**start, **upto}
    found = {
        "records": written,
        "batches": len(batches),
        # Java compiles what it runs in the first one.
        "first_batch": per_batch(batches[:1]),
        "later_batches": per_batch(batches[1:]) if batches[1:] else None,
        "jvm_peak_mib": peak_mib(jvm),
        "lake_bytes": sum(file.stat().st_size for file in lake.rglob("*") if file.is_file()),
    }
    spark.stop()
    return found


def main() -> None:
    for millions in [float(given) for given in sys.argv[1:]] or [1, 10]:
        with tempfile.TemporaryDirectory(prefix="kohort-layers-") as folder:
            found = measure(int(millions * 1_000_000), Path(folder))
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
