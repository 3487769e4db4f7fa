"""The load client: the Go program in load/ if Go is installed, else load_python.py."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .servers import HERE, Server, go_build

# The modes of the Python client, which is slower than the servers and limits the figures.
PYTHON_MODES = ("apiversions", "commit", "fetch")


@dataclass(frozen=True)
class LoadClient:
    name: str
    command: tuple[str, ...]
    modes: tuple[str, ...] | None = None

    def supports(self, mode: str) -> bool:
        return self.modes is None or mode in self.modes

    def run(self, server: Server, mode: str, **options: object) -> dict[str, Any]:
        """Run one load and return its figures; raise SystemExit if any request failed."""
        command = [*self.command, "-addr", server.address, "-mode", mode]
        command += server.load_options
        if server.echoes:
            command.append("-echo")
        for name, value in options.items():
            command += [f"-{name}", str(value)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{mode} against {server.name} failed:\n{done.stderr.strip()}")
        figures: dict[str, Any] = json.loads(done.stdout)
        if figures["errors"]:
            raise SystemExit(f"{figures['errors']} {mode} requests to {server.name} failed")
        return figures


def build_load(folder: Path, *, without_go: bool) -> LoadClient:
    program = None if without_go else go_build(HERE / "load", folder / "load")
    if program is not None:
        return LoadClient("Go", (str(program),))
    return LoadClient("Python", (sys.executable, str(HERE / "load_python.py")), PYTHON_MODES)
