"""Files beside a log that are made from its records, to save the reading of them: `*.derived`.

They may be thrown away at any time, and are before records go that they rest on: what a tombstone
took back would come again with a file that is older than the tombstone, once that is gone.
"""

from pathlib import Path

from .files import Files
from .work import Work

SUFFIX = ".derived"


def remove_derived(folder: Path, files: Files) -> Work[None]:
    """Durably, before anything else is done. Raises OSError."""
    names = [name for name in files.list(folder) if name.endswith(SUFFIX)]
    for name in names:
        files.remove(folder / name)
    if names:
        yield lambda: files.sync_folder(folder)
