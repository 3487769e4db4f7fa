"""The project as a wheel: what users install, and what a cluster of Spark's is handed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """What it prints; it has to succeed."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built_wheel(folder: Path, **env: str) -> Path:
    return _built(folder, "wheel", **env)


def built_sdist(folder: Path) -> Path:
    return _built(folder, "sdist")


def _built(folder: Path, kind: str, **env: str) -> Path:
    """Built from a copy, so that the tree that is tested stays as it is."""
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "results")
    source = shutil.copytree(ROOT, folder / "source", ignore=ignored)
    earlier = source / "build" / "lib" / "kohort"  # as where an older version was installed from
    earlier.mkdir(parents=True)
    (earlier / "gone_since.py").touch()
    made = folder / kind
    build = (sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", made)
    run(*build, cwd=source, PYTHONWARNINGS="ignore", **env)
    (built,) = made.iterdir()
    return built
