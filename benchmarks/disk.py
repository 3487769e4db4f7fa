"""What the disk can do: one append of a commit's batch and one fdatasync, again and again."""

import os
import statistics
import time
from pathlib import Path

from .machine import Setting

# A batch with one committed offset in it has about this size.
APPEND_BYTES = 180
APPENDS = 2_000


def append_and_sync_ms(folder: Path) -> list[float]:
    path = folder / "appended"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    data = bytes(APPEND_BYTES)
    times = []
    try:
        for _ in range(APPENDS):
            began = time.perf_counter()
            os.write(file, data)
            os.fdatasync(file)
            times.append((time.perf_counter() - began) * 1e3)
    finally:
        os.close(file)
        path.unlink()
    return times


def measure(setting: Setting) -> dict[str, float]:
    times = append_and_sync_ms(setting.folder)
    return {
        "p50_ms": statistics.median(times),
        "p99_ms": statistics.quantiles(times, n=100)[98],
    }
