"""The manifest: which folders of a lake are live, and how far the log has been read.

Renaming a new manifest over the old one commits a batch, which is visible completely or not at all.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...log.files import LOCK_NAME
from .schema import LakeError, LakeNotFound, LakeTooNew

MANIFEST: Final = "_manifest.json"
VERSION: Final = 1


class LiveFolder(NamedTuple):
    """A folder `batch_id=<batch_id>` of a table, and its number of rows."""

    batch_id: int
    rows: int


class RetiredFolder(NamedTuple):
    """A folder that is no longer live but may still be open in a reader. `at`: when it was
    replaced, in seconds since the epoch."""

    table: str
    batch_id: int
    at: float


@dataclass(frozen=True)
class Manifest:
    """`positions`: offsets partition -> next log offset to read. `inputs`: the log's id and the
    positions in the other inputs, as JSON values. `as_of`: the newest time in any input.
    `batch_id`: the id of the last batch or compaction; -1 before the first."""

    batch_id: int = -1
    cluster: str = ""
    as_of: datetime | None = None
    tables: dict[str, tuple[LiveFolder, ...]] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    retired: tuple[RetiredFolder, ...] = ()


def load(folder: Path) -> Manifest:
    """Load the manifest. Raises LakeNotFound, LakeTooNew, LakeError (unreadable) and OSError."""
    try:
        text = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        if (folder / LOCK_NAME).exists():
            raise LakeNotFound(
                f"{folder} has no complete batch yet: wait for the first one of `kohort pipeline "
                "run`, or start it again if it was stopped."
            ) from None
        problem = "is not a lake" if folder.is_dir() else "does not exist"
        raise LakeNotFound(
            f"{folder} {problem}: create one with `kohort pipeline run --log DIR --lake {folder}`."
        ) from None
    except NotADirectoryError:
        raise LakeNotFound(f"{folder} is a file: pass the folder of a lake.") from None
    try:
        return _from_json(json.loads(text), folder)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeError(
            f"{folder / MANIFEST} is corrupted ({error}): pass another --lake, or remove this one "
            "and run the pipeline again."
        ) from error


def save(folder: Path, manifest: Manifest) -> None:
    """Save the manifest durably. Raises OSError."""
    temporary = folder / f"{MANIFEST}.new"
    with temporary.open("w") as file:
        json.dump(_to_json(manifest), file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / MANIFEST)
    sync(folder)


def sync(path: Path) -> None:
    """Make a file or a folder durable."""
    fd = os.open(path, os.O_RDONLY)
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
                "batches": [folder.batch_id for folder in live],
                "rows": {folder.batch_id: folder.rows for folder in live},
            }
            for name, live in manifest.tables.items()
        },
        "retired": [folder._asdict() for folder in manifest.retired],
    }


def _from_json(content: dict[str, Any], folder: Path) -> Manifest:
    if content["version"] > VERSION:
        raise LakeTooNew(
            f"{folder} is a lake of version {content['version']}; this kohort supports {VERSION}: "
            "use a newer kohort."
        )
    return Manifest(
        batch_id=content["batch_id"],
        cluster=content["cluster"],
        as_of=datetime.fromisoformat(content["as_of"]) if content["as_of"] else None,
        tables={
            name: tuple(LiveFolder(id_, table["rows"][str(id_)]) for id_ in table["batches"])
            for name, table in content["tables"].items()
        },
        positions={int(partition): offset for partition, offset in content["positions"].items()},
        inputs=content["inputs"],
        retired=tuple(RetiredFolder(**folder) for folder in content["retired"]),
    )
