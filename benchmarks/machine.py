"""The settings of a run, the description of the machine, and the speed of its disk."""

import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kohort import is_compiled

from .clients import LoadClient

# The approximate size of a batch with one committed offset.
APPEND_BYTES = 180
APPENDS = 2_000


@dataclass(frozen=True)
class Setting:
    folder: Path
    """The folder for data and compiled programs, which is removed at the end."""
    client: LoadClient
    kfake: Path | None
    seconds: float
    rounds: int
    scale: float
    """The factor for all sizes: groups, records, megabytes."""

    def scaled(self, size: int) -> int:
        return max(1, round(size * self.scale))


def describe(setting: Setting) -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": sys.version.split()[0],
        "kohort": f"{_version('kohort')} {_commit()}".strip(),
        "compiled": is_compiled(),
        "uvloop": _version("uvloop"),
        "kio": _version("kio"),
        "load client": setting.client.name,
        "scale": setting.scale,
        # Before the run: figures from a busy machine are not comparable.
        "load average": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "kfake": setting.kfake is not None,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


# --- disk


def measure_disk(setting: Setting) -> dict[str, float]:
    """Return the milliseconds to append the batch of a commit and call fdatasync."""
    path = setting.folder / "appended"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    data = bytes(APPEND_BYTES)
    times = []
    try:
        for _ in range(APPENDS):
            started = time.perf_counter()
            os.write(file, data)
            os.fdatasync(file)
            times.append((time.perf_counter() - started) * 1e3)
    finally:
        os.close(file)
        path.unlink()
    return {
        "p50_ms": statistics.median(times),
        "p99_ms": statistics.quantiles(times, n=100)[98],
    }
