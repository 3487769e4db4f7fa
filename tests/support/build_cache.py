"""Things that are built or fetched once per machine and outlive the test run: `~/.cache/kohort`."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kohort"


def shared_folder(name: str) -> Path:
    """A folder in which a build tool keeps what later builds can use."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached(name: str, key: Iterable[bytes | str], build: Callable[[Path], None]) -> Path:
    """Return the folder `name-HASH`, HASH being that of `key`. If it is missing, `build(folder)`
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
