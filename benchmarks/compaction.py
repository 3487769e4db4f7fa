"""What compaction costs: the latency of commits while one is always under way beside what it is
without, how much is written anew for each byte that came in, and how fast one goes by itself.
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

from . import filling, servers
from .machine import Setting

# By itself: one log, whose keys are committed again and again.
GROUPS = 2_000
COMMITS = 20
ALONE_SEGMENT_BYTES = 512 * 1024
DAY_MS = 24 * 3600 * 1000
POLICY = CompactionPolicy(
    min_cleanable_dirty_ratio=0.5, min_compaction_lag_ms=0, max_compaction_lag_ms=DAY_MS
)

# Serving: half a million live offsets and twice as many dead ones are there to begin with, so that
# the cleaner has work until the load is over.
SERVED_GROUPS = 50_000
SERVED_COMMITS = 3
SEGMENT_BYTES = 1024 * 1024
BACKOFF_MS = 20
CONNECTIONS = 50
GROUPS_EACH = 100
# Loads are longer here, as one log takes the cleaner some tenths of a second.
SECONDS_FACTOR = 3

# Only what the cleaner does is told, not each request.
TELLING = (
    "import logging, sys; logging.getLogger('kohort.cleaner').setLevel(logging.DEBUG); "
    "from kohort.cli.main import main; sys.exit(main(sys.argv[1:]))"
)
COMPACTED = re.compile(
    r"^\[(\S+ \S+)\].* Compacted \S+ up to offset \d+: (\d+) of (\d+) records are left, "
    r"(\d+) of (\d+) bytes",
    re.MULTILINE,
)


def measure(setting: Setting) -> dict[str, Any]:
    return {"alone": alone(setting), "serving": serving(setting)}


# --- by itself


class Alone:
    """A log that is compacted as soon as a broker would do it, and what that came to."""

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
        found = cleanable_range(log, self.cleaned_offset, log.end_offset, POLICY, now_ms)
        if found.is_cleanable:
            self._compact(found, now_ms)

    def _compact(self, found: CleanableRange, now_ms: int) -> None:
        terms = CleanerConfig(
            now_ms=now_ms,
            delete_retention_ms=DAY_MS,
            segment_bytes=self.log.config.segment_bytes,
            dedupe_buffer_bytes=128 * 1024 * 1024,
            producer_expiration_ms=DAY_MS,
        )
        began, cpu_began = time.perf_counter(), time.process_time()
        done = run_synchronously(clean(self.log, found.first_dirty, found.first_uncleanable, terms))
        self.seconds += time.perf_counter() - began
        self.cpu_seconds += time.process_time() - cpu_began
        self.cleaned_offset = done.end_offset
        self.records += done.records_before
        self.read_bytes += done.bytes_before
        self.written_bytes += done.bytes_after


def alone(setting: Setting) -> dict[str, float]:
    keys = filling.keys_of(filling.group_names(setting.scaled(GROUPS), "compacted"))
    with servers.data_dir(setting.folder) as data:
        config = LogConfig(segment_bytes=setting.scaled(ALONE_SEGMENT_BYTES))
        log = Log.open(data / "log", DiskFiles(), config)
        of = Alone(log)
        for batch in filling.batches(log, keys, COMMITS):
            of.append(batch)
        log.sync()
        copied_bytes = log.size
        copy_seconds = seconds_to_copy(data / "log", data / "copy")
        log.close()
    if not of.records:
        raise SystemExit("nothing was compacted")
    return {
        "records": of.records,
        "records_s": of.records / of.seconds,
        "records_cpu_s": of.records / of.cpu_seconds,
        "megabytes_s": of.read_bytes / of.seconds / 1e6,
        "copied_megabytes_s": copied_bytes / copy_seconds / 1e6,
        "written_per_appended": of.written_bytes / of.appended_bytes,
        # One commit of each key is what lives.
        "on_disk_per_live": statistics.mean(of.sizes[-len(of.sizes) // 2 :])
        / (of.appended_bytes / COMMITS),
    }


def seconds_to_copy(folder: Path, target: Path) -> float:
    """The same bytes read, written and synced, and nothing else."""
    began = time.perf_counter()
    shutil.copytree(folder, target)
    for path in target.iterdir():
        file = os.open(path, os.O_RDWR)
        os.fdatasync(file)
        os.close(file)
    return time.perf_counter() - began


# --- while commits come


def serving(setting: Setting) -> dict[str, dict[str, dict[str, float]]]:
    """Of each round the figures without and with, one after the other; then their medians."""
    ways = {
        "without": ["log.cleaner.enable=false"],
        "with": [f"log.cleaner.backoff.ms={BACKOFF_MS}"],
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    with servers.data_dir(setting.folder) as data:
        filling.prepare(data, setting.client)
        groups = filling.group_names(setting.scaled(SERVED_GROUPS), "bench")
        filling.fill(data, groups, SERVED_COMMITS, setting.scaled(SEGMENT_BYTES))
        for durability in ("os", "fsync"):
            rounds = [
                {name: one_round(setting, data, durability, way) for name, way in ways.items()}
                for _ in range(setting.rounds)
            ]
            found[durability] = {
                name: {
                    what: statistics.median(each[name][what] for each in rounds)
                    for what in rounds[0][name]
                }
                for name in ways
            }
    return found


def one_round(
    setting: Setting, filled: Path, durability: str, options: list[str]
) -> dict[str, float]:
    options = [*options, f"offsets.topic.segment.bytes={setting.scaled(SEGMENT_BYTES)}"]
    with servers.data_dir(setting.folder) as folder:
        data, told = folder / "data", folder / "told"
        shutil.copytree(filled, data)
        command = servers.kohort_command(durability, data, program=("-c", TELLING), options=options)
        with servers.running("kohort", command, told=told) as server:
            load = setting.client.run(
                server,
                "commit",
                conns=CONNECTIONS,
                depth=1,
                spread=setting.scaled(GROUPS_EACH),
                seconds=setting.seconds * SECONDS_FACTOR,
            )
        on_disk = filling.size_of(data)
        runs = COMPACTED.findall(told.read_text())
        live = live_bytes(data)
    return {
        **{key: load[key] for key in ("requests_s", "p50_ms", "p99_ms", "max_ms")},
        "compactions": len(runs),
        "compacted_records_s": records_per_second(runs),
        "on_disk_per_live": on_disk / live,
    }


def records_per_second(runs: list[tuple[str, ...]]) -> float:
    """From the end of the first to the end of the last."""
    ends = [datetime.strptime(run[0], "%Y-%m-%d %H:%M:%S,%f") for run in runs]
    if len(runs) < 2:
        return 0.0
    return sum(int(run[2]) for run in runs[1:]) / (ends[-1] - ends[0]).total_seconds()


def live_bytes(data: Path) -> int:
    """What a compaction of everything leaves."""
    command = [sys.executable, "-m", "kohort", "log", "compact", str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"kohort log compact failed:\n{done.stderr.strip()}")
    return filling.size_of(data)
