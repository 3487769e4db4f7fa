"""Files beside a log that are made from its records, to save the reading of them: `*.derived`.

They may be thrown away at any time, and are before bytes go that they rest on: what a tombstone
took back would come again with a file that is older than the tombstone, once that is gone.
"""

from pathlib import Path

from .files import Files
from .tasks import CooperativeTask

SUFFIX = ".derived"


def remove_derived(folder: Path, files: Files) -> CooperativeTask[None]:
    """Durably, before anything else is done; what is written meanwhile goes too. Raises OSError."""
    while names := derived_in(folder, files):
        for name in names:
            files.remove(folder / name)
        yield lambda: files.sync_folder(folder)


def derived_in(folder: Path, files: Files) -> list[str]:
    return [name for name in files.list(folder) if name.endswith(SUFFIX)]
