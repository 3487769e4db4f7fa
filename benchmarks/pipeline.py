"""The pipeline: decoding an offsets log to Arrow, and whole batches of `kohort pipeline run`.

`python -m benchmarks.pipeline [MILLIONS …]` (default 10) runs only the batches: it loads an
offsets log into a new lake, a million records per batch; Spark's startup is excluded. CPU time
includes Spark's JVM, its Python workers and this process. The folder contains only
__consumer_offsets, so no lag is computed.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import BatchDone, Progress, StageStarted, run
from kohort.pipeline.session import SparkUnavailable, new_session
from kohort.pipeline.source.batches import walk
from kohort.pipeline.source.folder import FolderSource

from .machine import Setting
from .offset_logs import write_offsets_log
from .servers import memory_kib, with_children

RECORDS = 1_000_000
# Three batches, the first as a warm-up of the JVM.
RUN_RECORDS = 3_000_000
# Records per batch, from a consumer of one partition to a group that commits 1,200 partitions in
# one request.
PER_BATCH = (1, 6, 12, 1_200)
TICKS_S: Final = os.sysconf("SC_CLK_TCK")
# The layers of the performance target: from the log to silver_commit, gold_partition_minute and the
# latest state.
TARGET_LAYERS: Final = ("bronze", "commits")

Times = dict[str, tuple[float, float]]
"""Wall and CPU seconds of a batch, by layer."""


def measure(setting: Setting) -> dict[str, Any]:
    return {
        "source": {str(count): source(setting, count) for count in PER_BATCH},
        "batches": run_batches(setting),
    }


def run_batches(setting: Setting) -> dict[str, Any] | None:
    try:
        return measure_batches(setting.scaled(RUN_RECORDS), setting.folder / "batches")
    except SparkUnavailable as error:
        print(f"The batches of the pipeline are skipped: {error}")
        return None


def source(setting: Setting, per_batch: int) -> dict[str, float]:
    """Return the throughput, computed from the minimum CPU time of several repetitions. The
    baseline `walk` reads the same bytes, finds every batch and verifies its checksum."""
    folder = setting.folder / f"offsets-{per_batch}"
    records = write_offsets_log(folder, records=setting.scaled(RECORDS), per_batch=per_batch)
    size = sum(path.stat().st_size for path in folder.glob("*/*.log"))
    walked, decoded = [], []
    for _ in range(setting.rounds):
        started = time.process_time()
        for path in folder.glob("*/*.log"):
            walk(path.read_bytes())
        walked.append(time.process_time() - started)
        started = time.process_time()
        found = FolderSource(folder)
        rows = sum(
            len(rows) for split in found.splits({}, found.ends()) for rows in found.read(split)
        )
        decoded.append(time.process_time() - started)
        assert rows == records, (rows, records)
    shutil.rmtree(folder)
    return {
        "records": records,
        "bytes_per_record": size / records,
        "walk_records_s": records / min(walked),
        "records_s": records / min(decoded),
        "megabytes_s": size / min(decoded) / 1e6,
    }


# --- batches


class Stopwatch:
    """Measures the time of each layer, from the events of a run."""

    def __init__(self, jvm: int) -> None:
        self.batches: list[tuple[int, Times]] = []  # (records, times)
        self.workers_mib = 0
        self._jvm = jvm
        self._times: Times = {}
        self._layer: str | None = None
        self._started = (0.0, 0.0)

    def __call__(self, event: Progress) -> None:
        if not isinstance(event, StageStarted | BatchDone):
            return
        now = time.monotonic(), cpu_s(self._jvm) + time.process_time()
        if self._layer is not None:
            self._times[self._layer] = now[0] - self._started[0], now[1] - self._started[1]
        self._layer, self._started = (event.stage if isinstance(event, StageStarted) else None), now
        if isinstance(event, BatchDone):
            self.workers_mib = max(self.workers_mib, workers_mib(self._jvm))
            self.batches.append((event.records, self._times))
            self._times = {}


def per_million(batches: list[tuple[int, Times]]) -> dict[str, dict[str, float]]:
    """Return wall and CPU seconds per million records by layer, averaged over the batches."""
    millions = sum(records for records, _ in batches) / 1e6
    return {
        layer: {
            "wall_s": sum(times[layer][0] for _, times in batches) / millions,
            "cpu_s": sum(times[layer][1] for _, times in batches) / millions,
        }
        for layer in batches[0][1]
    }


def cpu_s(process: int) -> float:
    """Return the CPU seconds of a process and its running children."""
    ticks = 0
    for each in with_children(process):
        with contextlib.suppress(OSError):  # the child has ended
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_S


def workers_mib(process: int) -> int:
    """Return the sum of the children's peak memory. Shared pages are counted once per process."""
    return sum(peak_mib(child) for child in with_children(process) if child != process)


def peak_mib(process: int) -> int:
    return memory_kib(process, "VmHWM") // 1024


def measure_batches(records: int, folder: Path) -> dict[str, Any]:
    log, lake = folder / "log", folder / "lake"
    written = write_offsets_log(log, records=records)
    spark = new_session("local[2]")
    try:
        jvm = spark.sparkContext._gateway.proc.pid
        stopwatch = Stopwatch(jvm)
        with Writer(lake) as writer:
            run(lambda: spark, writer, Inputs({"path": str(log)}, "bench"), report=stopwatch)
        # The first batch includes JIT compilation; a small last batch has high fixed costs.
        full = [batch for batch in stopwatch.batches if batch[0] > 500_000] or stopwatch.batches
        later = full[len(full) // 2 :]
        return {
            "records": written,
            "batches": len(stopwatch.batches),
            "first_batch_per_million": per_million(full[:1]),
            "later_half_per_million": per_million(later),
            "jvm_peak_mib": peak_mib(jvm),
            "workers_peak_mib": stopwatch.workers_mib,
            "lake_bytes": sum(file.stat().st_size for file in lake.rglob("*") if file.is_file()),
        }
    finally:
        spark.stop()


def main() -> None:
    for millions in [float(text) for text in sys.argv[1:]] or [10]:
        with tempfile.TemporaryDirectory(prefix="kohort-batches-") as folder:
            found = measure_batches(round(millions * 1_000_000), Path(folder))
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
