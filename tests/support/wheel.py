"""The project as a wheel and as a source distribution."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command that must succeed, and return its output."""
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
    """Build in a copy, so that the working tree does not change."""
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "results")
    source = shutil.copytree(ROOT, folder / "source", ignore=ignored)
    earlier = source / "build" / "lib" / "kohort"  # left by the build of an older version
    earlier.mkdir(parents=True)
    (earlier / "gone_since.py").touch()
    made = folder / kind
    build = (sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", made)
    run(*build, cwd=source, PYTHONWARNINGS="ignore", **env)
    (built,) = made.iterdir()
    return built
