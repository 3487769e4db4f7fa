"""The other end of the socket: our Go program where Go is installed, else Python processes."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .servers import HERE, Server, go_build

# What the Python client knows; it is slower than the servers, so its figures are of itself.
PYTHON_MODES = ("apiversions", "commit", "fetch")


@dataclass(frozen=True)
class LoadClient:
    name: str
    command: tuple[str, ...]
    modes: tuple[str, ...] | None = None

    def can(self, mode: str) -> bool:
        return self.modes is None or mode in self.modes

    def run(self, server: Server, mode: str, **options: object) -> dict[str, Any]:
        """One load, told by the client; raises SystemExit when a single request went wrong."""
        command = [*self.command, "-addr", server.address, "-mode", mode]
        if server.echoes:
            command.append("-echo")
        for name, value in options.items():
            command += [f"-{name}", str(value)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{mode} against {server.name} failed:\n{done.stderr.strip()}")
        told: dict[str, Any] = json.loads(done.stdout)
        if told["errors"]:
            raise SystemExit(f"{server.name} refused {told['errors']} requests of {mode}")
        return told


def build_load(folder: Path, *, without_go: bool) -> LoadClient:
    program = None if without_go else go_build(HERE / "load", folder / "load")
    if program is not None:
        return LoadClient("Go", (str(program),))
    return LoadClient("Python", (sys.executable, str(HERE / "load_python.py")), PYTHON_MODES)
