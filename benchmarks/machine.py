"""What all measurements share, and what machine they were made on."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kohort import is_compiled

from .clients import LoadClient


@dataclass(frozen=True)
class Setting:
    folder: Path
    """For data and built programs; removed at the end."""
    client: LoadClient
    kfake: Path | None
    seconds: float
    rounds: int
    scale: float
    """What all sizes are multiplied with: groups, records, megabytes."""

    def scaled(self, size: int) -> int:
        return max(1, round(size * self.scale))


def told(setting: Setting) -> dict[str, object]:
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
        "load average": _load_average(),
        "kfake": setting.kfake is not None,
    }


def _load_average() -> str:
    """How many processes wanted a core in the last minutes: whether others were at work."""
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return told.stdout.strip()
