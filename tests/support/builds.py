"""Builds that tests need: the project's wheel and source distribution, and builds that outlive the
test run (`~/.cache/kohort`)."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kohort"


def shared_folder(name: str) -> Path:
    """A folder in which a build tool keeps what later builds can use."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached(name: str, key: Iterable[bytes | str], build: Callable[[Path], None]) -> Path:
    """Return the folder `name-HASH`, with the hash of `key`. If it is missing, `build(folder)`
    fills a new one, which gets its name when it is complete; parallel test processes wait."""
    digest = hashlib.sha256()
    for part in key:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    folder = CACHE / f"{name}-{digest.hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    import fcntl  # not on Windows, where no test needs it

    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            build(partial)
            partial.rename(folder)
    return folder


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
