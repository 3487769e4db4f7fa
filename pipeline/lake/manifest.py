"""The manifest: which folders of a lake count, and how far the log has been read.

To rename a new one into place is the commit: before it nothing of a batch is seen, after it all.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...log.files import LOCK_NAME
from .errors import LakeError, LakeTooNew, NoLake

__all__ = ["MANIFEST", "VERSION", "Live", "Manifest", "Retired", "load", "save"]

MANIFEST: Final = "_manifest.json"
VERSION: Final = 1


class Live(NamedTuple):
    """A folder `batch_id=<batch_id>` of a table, and how many rows are in it."""

    batch_id: int
    rows: int


class Retired(NamedTuple):
    """A folder that no longer counts, but that a reader may still have open.

    `at`: seconds since 1970 when it ceased to count.
    """

    table: str
    batch_id: int
    at: float


@dataclass(frozen=True)
class Manifest:
    """`positions`: offsets partition -> the log offset that is read next. `inputs`: how far the
    other inputs have been read, in their own words (JSON). `as_of`: the newest time that any input
    has told of. `batch_id`: of the last batch or compaction, -1 before the first.
    """

    batch_id: int = -1
    cluster: str = ""
    as_of: datetime | None = None
    tables: dict[str, tuple[Live, ...]] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    retired: tuple[Retired, ...] = ()


def load(folder: Path) -> Manifest:
    """Raises NoLake, LakeTooNew, LakeError (it cannot be read), OSError."""
    try:
        text = (folder / MANIFEST).read_text()
    except FileNotFoundError:
        if (folder / LOCK_NAME).exists():
            raise NoLake(
                f"{folder} holds no batch yet: wait for the first one of `kohort pipeline run`, or "
                "start it again if it was ended."
            ) from None
        what = "holds no lake" if folder.is_dir() else "does not exist"
        raise NoLake(
            f"{folder} {what}: make one with `kohort pipeline run --log DIR --lake {folder}`."
        ) from None
    except NotADirectoryError:
        raise NoLake(f"{folder} is a file: give the folder of a lake.") from None
    try:
        return _of_json(json.loads(text), folder)
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(
            f"{folder / MANIFEST} cannot be read ({error}): give another --lake, or remove this "
            "one and run the pipeline again."
        ) from error


def save(folder: Path, manifest: Manifest) -> None:
    """Durable once it returns. Raises OSError; then the earlier one is still whole and counts."""
    temporary = folder / f"{MANIFEST}.new"
    with temporary.open("w") as file:
        json.dump(_to_json(manifest), file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / MANIFEST)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "version": VERSION,
        **asdict(manifest),
        "as_of": manifest.as_of and manifest.as_of.isoformat(),
        "tables": {
            name: {
                "batches": [one.batch_id for one in live],
                "rows": {one.batch_id: one.rows for one in live},
            }
            for name, live in manifest.tables.items()
        },
        "retired": [one._asdict() for one in manifest.retired],
    }


def _of_json(told: dict[str, Any], folder: Path) -> Manifest:
    if told["version"] > VERSION:
        raise LakeTooNew(
            f"{folder} is a lake of version {told['version']} and this kohort knows {VERSION}: "
            "use a newer kohort."
        )
    return Manifest(
        batch_id=told["batch_id"],
        cluster=told["cluster"],
        as_of=datetime.fromisoformat(told["as_of"]) if told["as_of"] else None,
        tables={
            name: tuple(Live(id_, table["rows"][str(id_)]) for id_ in table["batches"])
            for name, table in told["tables"].items()
        },
        positions={int(partition): offset for partition, offset in told["positions"].items()},
        inputs=told["inputs"],
        retired=tuple(Retired(**one) for one in told["retired"]),
    )
