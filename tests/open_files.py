"""Which files of a folder this process has open (Linux), and a disk that refuses some things."""

import errno
from pathlib import Path
from typing import Any

from kohort.log.files import DiskFiles, Files


def open_below(folder: Path) -> list[str]:
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            path = link.readlink()
        except FileNotFoundError:
            continue  # that of the listing itself
        if path.is_relative_to(folder):
            found.append(path.name)
    return sorted(found)


class Refusing:
    """Real files, whose methods of these names fail; a file's own as `file.truncate`."""

    def __init__(self, *names: str, of: Any = None) -> None:
        self._of: Files | Any = DiskFiles() if of is None else of
        self._names = names

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            return _refuse
        return getattr(self._of, name)

    def open(self, path: Path, **how: bool) -> Any:
        own = [name.removeprefix("file.") for name in self._names if name.startswith("file.")]
        return Refusing(*own, of=self._of.open(path, **how)) if own else self._of.open(path, **how)


def _refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "refused")
