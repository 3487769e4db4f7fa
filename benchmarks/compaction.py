"""The cost of log compaction: its speed, its write amplification, and the latency of commits with
and without continuous compaction.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from kohort.log.cleaner import CleanerConfig, clean
from kohort.log.cleanup import CleanableRange, CompactionPolicy, cleanable_range
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.tasks import run_synchronously

from . import fill, servers
from .machine import Setting

# The offline measurement, without a server, uses one log with many commits of the same keys.
GROUPS = 2_000
COMMITS = 20
OFFLINE_SEGMENT_BYTES = 512 * 1024
DAY_MS = 24 * 3600 * 1000
POLICY = CompactionPolicy(
    min_cleanable_dirty_ratio=0.5, min_compaction_lag_ms=0, max_compaction_lag_ms=DAY_MS
)

# A server starts with half a million current offsets and a million superseded ones, so that
# the cleaner is busy during the whole load.
SERVER_GROUPS = 50_000
SERVER_COMMITS = 3
SEGMENT_BYTES = 1024 * 1024
BACKOFF_MS = 20
CONNECTIONS = 50
GROUPS_EACH = 100
# These loads are longer, because the cleaner needs a few tenths of a second per log.
SECONDS_FACTOR = 3

# Enables debug messages of the cleaner only.
CLEANER_LOGGING = (
    "import logging, sys; logging.getLogger('kohort.cleaner').setLevel(logging.DEBUG); "
    "from kohort.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
COMPACTED = re.compile(
    r"^\[(\S+ \S+)\].* Compacted \S+ up to offset \d+: kept (\d+) of (\d+) records, "
    r"(\d+) of (\d+) bytes",
    re.MULTILINE,
)


def measure(setting: Setting) -> dict[str, Any]:
    return {"offline": offline(setting), "server": with_commits(setting)}


# --- offline


class CompactedLog:
    """A log that is compacted whenever a broker would compact it, with the totals."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.cleaned_offset = 0
        self.appended_bytes = self.written_bytes = self.read_bytes = self.records = 0
        self.seconds = self.cpu_seconds = 0.0
        self.sizes: list[int] = []

    def append(self, batch: bytes) -> None:
        log = self.log
        log.append(batch)
        self.appended_bytes += len(batch)
        self.sizes.append(log.size)
        now_ms = int(time.time() * 1000)
        cleanable = cleanable_range(log, self.cleaned_offset, log.end_offset, POLICY, now_ms)
        if cleanable.is_cleanable:
            self._compact(cleanable, now_ms)

    def _compact(self, cleanable: CleanableRange, now_ms: int) -> None:
        config = CleanerConfig(
            now_ms=now_ms,
            delete_retention_ms=DAY_MS,
            segment_bytes=self.log.config.segment_bytes,
            dedupe_buffer_bytes=128 * 1024 * 1024,
            producer_expiration_ms=DAY_MS,
        )
        started, cpu_started = time.perf_counter(), time.process_time()
        done = run_synchronously(
            clean(self.log, cleanable.first_dirty, cleanable.first_uncleanable, config)
        )
        self.seconds += time.perf_counter() - started
        self.cpu_seconds += time.process_time() - cpu_started
        self.cleaned_offset = done.end_offset
        self.records += done.records_before
        self.read_bytes += done.bytes_before
        self.written_bytes += done.bytes_after


def offline(setting: Setting) -> dict[str, float]:
    keys = fill.keys_of(fill.group_names(setting.scaled(GROUPS), "compacted"))
    with servers.data_dir(setting.folder) as data:
        config = LogConfig(segment_bytes=setting.scaled(OFFLINE_SEGMENT_BYTES))
        log = Log.open(data / "log", DiskFiles(), config)
        compacted = CompactedLog(log)
        for batch in fill.batches(log, keys, COMMITS):
            compacted.append(batch)
        log.sync()
        copied_bytes = log.size
        copy_seconds = seconds_to_copy(data / "log", data / "copy")
        log.close()
    if not compacted.records:
        raise SystemExit("no log was compacted; use a larger --scale")
    return {
        "records": compacted.records,
        "records_s": compacted.records / compacted.seconds,
        "records_cpu_s": compacted.records / compacted.cpu_seconds,
        "megabytes_s": compacted.read_bytes / compacted.seconds / 1e6,
        "copied_megabytes_s": copied_bytes / copy_seconds / 1e6,
        "written_per_appended": compacted.written_bytes / compacted.appended_bytes,
        # One commit of each key is current.
        "on_disk_per_current": statistics.mean(compacted.sizes[-len(compacted.sizes) // 2 :])
        / (compacted.appended_bytes / COMMITS),
    }


def seconds_to_copy(folder: Path, target: Path) -> float:
    """Measure the baseline: read, write and sync the same bytes."""
    started = time.perf_counter()
    shutil.copytree(folder, target)
    for path in target.iterdir():
        file = os.open(path, os.O_RDWR)
        os.fdatasync(file)
        os.close(file)
    return time.perf_counter() - started


# --- in a server


def with_commits(setting: Setting) -> dict[str, dict[str, dict[str, float]]]:
    """Return medians over several rounds. A round measures without and then with compaction."""
    variants = {
        "without": ["log.cleaner.enable=false"],
        "with": [f"log.cleaner.backoff.ms={BACKOFF_MS}"],
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    with servers.data_dir(setting.folder) as data:
        fill.prepare(data, setting.client)
        groups = fill.group_names(setting.scaled(SERVER_GROUPS), "bench")
        fill.fill(data, groups, SERVER_COMMITS, setting.scaled(SEGMENT_BYTES))
        for durability in ("os", "fsync"):
            rounds = [
                {
                    name: one_round(setting, data, durability, options)
                    for name, options in variants.items()
                }
                for _ in range(setting.rounds)
            ]
            found[durability] = {
                name: {
                    figure: statistics.median(each[name][figure] for each in rounds)
                    for figure in rounds[0][name]
                }
                for name in variants
            }
    return found


def one_round(
    setting: Setting, filled: Path, durability: str, options: list[str]
) -> dict[str, float]:
    options = [*options, f"offsets.topic.segment.bytes={setting.scaled(SEGMENT_BYTES)}"]
    with servers.data_dir(setting.folder) as folder:
        data, stderr = folder / "data", folder / "stderr"
        shutil.copytree(filled, data)
        command = servers.kohort_command(
            durability, data, program=("-c", CLEANER_LOGGING), options=options
        )
        with servers.running("kohort", command, stderr=stderr) as server:
            load = setting.client.run(
                server,
                "commit",
                conns=CONNECTIONS,
                depth=1,
                spread=setting.scaled(GROUPS_EACH),
                seconds=setting.seconds * SECONDS_FACTOR,
            )
        on_disk = fill.size_bytes(data)
        runs = COMPACTED.findall(stderr.read_text())
        current = compacted_bytes(data)
    return {
        **{key: load[key] for key in ("requests_s", "p50_ms", "p99_ms", "max_ms")},
        "compactions": len(runs),
        "compacted_records_s": records_per_second(runs),
        "on_disk_per_current": on_disk / current,
    }


def records_per_second(runs: list[tuple[str, ...]]) -> float:
    """Return the rate between the end of the first and the end of the last compaction."""
    ends = [datetime.strptime(run[0], "%Y-%m-%d %H:%M:%S,%f") for run in runs]
    if len(runs) < 2:
        return 0.0
    return sum(int(run[2]) for run in runs[1:]) / (ends[-1] - ends[0]).total_seconds()


def compacted_bytes(data: Path) -> int:
    """Compact the data folder completely, and return its size."""
    command = [sys.executable, "-m", "kohort", "log", "compact", str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kohort log compact failed:\n{done.stderr.strip()}")
    return fill.size_bytes(data)
