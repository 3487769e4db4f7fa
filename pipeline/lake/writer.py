"""Writing a lake: first the folders of a batch, then the manifest that makes them live.

One writer at a time holds the lake's lock. Live folders are never modified, so that readers are not
disturbed; a replaced folder is kept for `GRACE_S` and then removed. Folders of an interrupted run
are removed when the lake is opened for writing.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...log.errors import FolderInUse
from ...log.files import DISK, LOCK_NAME, lock_folder
from ..tables import STATE_TABLES, TABLES
from .manifest import LiveFolder, Manifest, RetiredFolder, load, save, sync
from .reader import Lake, batch_folder
from .schema import LakeError, conform, table_of, verified_rows

COMPRESSION: Final = "zstd"  # as in Spark's configuration, session.py

# A report on a large lake takes seconds; a reader that holds a folder for more than five minutes is
# most likely a notebook and can reopen the lake.
GRACE_S: Final = 300.0

# A folder of a million rows takes about ten megabytes, so opening it is fast compared with reading
# it.
SMALL_ROWS: Final = 1_000_000
# If every n folders are merged, each row is copied once per n batches. With 32, a day of batches
# every half minute leaves at most 32 folders per table; merging takes about one percent of the
# time.
COMPACT_AT_FOLDERS: Final = 32


class Writer:
    """Writes successive batches. `failpoint` is called with the name of each step, so that tests
    can stop there. Raises LakeError (in use, not a lake), LakeTooNew and OSError."""

    def __init__(
        self,
        path: Path | str,
        *,
        failpoint: Callable[[str], None] = lambda _step: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._failpoint = failpoint
        self._now = now
        self.path.mkdir(parents=True, exist_ok=True)
        if not Lake.exists(self.path) and _has_foreign_files(self.path):
            raise LakeError(f"{self.path} is not empty and not a lake: choose another --lake.")
        try:
            self._lock = lock_folder(
                self.path, DISK, program="kohort pipeline", remedy="Stop it, or wait for it."
            )
        except FolderInUse as error:
            raise LakeError(str(error)) from error
        try:
            self.manifest = load(self.path) if Lake.exists(self.path) else Manifest()
            # The tables completed in this batch.
            self.written: dict[str, LiveFolder] = {}
            self._remove_unused()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def lake(self) -> Lake:
        """The committed state of the lake."""
        return Lake(self.path, self.manifest)

    @property
    def batch_id(self) -> int:
        """The id of the batch being written."""
        return self.manifest.batch_id + 1

    def begin(self) -> None:
        """Start a batch, without the tables that an interrupted attempt has written."""
        self.written = {}

    def folder(self, table: str) -> Path:
        """Return the batch's folder for a table; the caller overwrites existing content."""
        table_of(table)
        self._failpoint(f"before {table}")
        return batch_folder(self.path, table, self.batch_id)

    def empty_folder(self, table: str) -> Path:
        folder = self.folder(table)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def finish(self, table: str) -> int:
        """Verify and sync the files in `folder(table)`; return the number of rows. Raises
        SchemaMismatch."""
        rows = 0
        folder = batch_folder(self.path, table, self.batch_id)
        for file in folder.glob("*.parquet"):
            rows += verified_rows(table, file)
            sync(file)
        sync(folder)
        sync(folder.parent)
        self.written[table] = LiveFolder(self.batch_id, rows)
        self._failpoint(f"after {table}")
        return rows

    def write(self, table: str, rows: pa.Table | Iterable[pa.RecordBatch]) -> int:
        """Write rows in this process; return their number. Raises SchemaMismatch."""
        schema = table_of(table).schema
        folder = self.empty_folder(table)
        with pq.ParquetWriter(folder / "part-0.parquet", schema, compression=COMPRESSION) as file:
            for piece in [rows] if isinstance(rows, pa.Table) else rows:
                file.write_table(conform(table, piece))
        return self.finish(table)

    def commit(
        self,
        *,
        cluster: str,
        positions: Mapping[int, int],
        inputs: Mapping[str, Any],
        as_of: datetime | None,
    ) -> Manifest:
        """Atomically make the completed tables live. Raises OSError."""
        tables, retired = dict(self.manifest.tables), []
        for table, live in self.written.items():
            if table_of(table).growth == "current":
                retired += [(table, folder.batch_id) for folder in tables.get(table, ())]
                tables[table] = (live,)
            elif live.rows:
                tables[table] = (*tables.get(table, ()), live)
        return self._replace_manifest(
            retired,
            cluster=cluster,
            as_of=as_of,
            tables=tables,
            positions=dict(positions),
            inputs=dict(inputs),
        )

    def commit_compacted(self, compacted: Mapping[str, frozenset[int]]) -> Manifest:
        """Replace the folders of these batches with the completed folder, in each table."""
        tables, retired = dict(self.manifest.tables), []
        for table, batch_ids in compacted.items():
            retired += [(table, batch_id) for batch_id in sorted(batch_ids)]
            remaining = [folder for folder in tables[table] if folder.batch_id not in batch_ids]
            tables[table] = (*remaining, self.written[table])
        return self._replace_manifest(retired, tables=tables)

    def _replace_manifest(self, retired: list[tuple[str, int]], **fields: Any) -> Manifest:
        now = self._now()
        fields["retired"] = (*self.manifest.retired, *(RetiredFolder(*one, now) for one in retired))
        manifest = replace(self.manifest, batch_id=self.batch_id, **fields)
        self._failpoint("before the manifest")
        save(self.path, manifest)
        self.manifest = manifest
        self.written = {}
        self._failpoint("after the manifest")
        self._remove_unused()
        return manifest

    def _remove_unused(self) -> None:
        """Remove folders of interrupted runs, and retired folders whose grace period is over."""
        due = self._now() - GRACE_S
        # Removed folders are dropped from the list with the next manifest.
        retired = tuple(folder for folder in self.manifest.retired if folder.at > due)
        kept = {(folder.table, folder.batch_id) for folder in retired}
        for table, live in self.manifest.tables.items():
            kept |= {(table, folder.batch_id) for folder in live}
        for table, batch_id, path in _batch_folders(self.path):
            if (table, batch_id) not in kept:
                shutil.rmtree(path)
        self.manifest = replace(self.manifest, retired=retired)


# --- compaction


class Compacted(NamedTuple):
    """`folders` folders of a table, merged into one folder with `rows` rows."""

    table: str
    folders: int
    rows: int


def compact(writer: Writer, at_folders: int = 2) -> list[Compacted]:
    """Merge the small folders of each append table that has at least `at_folders`, and commit. The
    merged folder gets its own batch id. Raises SchemaMismatch and OSError; the lake is then
    unchanged."""
    found = {}
    for table, live in writer.manifest.tables.items():
        small = frozenset(folder.batch_id for folder in live if folder.rows < SMALL_ROWS)
        if table_of(table).growth == "append" and len(small) >= at_folders:
            found[table] = small
    merged = []
    for table, batch_ids in found.items():
        # Reading ahead would hold more than two pieces of a file in memory.
        scanner = writer.lake.dataset(table, batch_ids).scanner(
            columns=table_of(table).schema.names, batch_readahead=1, fragment_readahead=1
        )
        merged.append(Compacted(table, len(batch_ids), writer.write(table, scanner.to_batches())))
    if merged:
        writer.commit_compacted(found)
    return merged


def _has_foreign_files(folder: Path) -> bool:
    """Whether the folder contains files that cannot be from a run that was interrupted before its
    first commit."""
    return any(
        path.name != LOCK_NAME and not path.name.startswith("_") and not _is_table(path)
        for path in folder.iterdir()
    )


def _is_table(path: Path) -> bool:
    return (path.name in TABLES or path.name in STATE_TABLES) and path.is_dir()


def _batch_folders(lake: Path) -> Iterator[tuple[str, int, Path]]:
    for table in filter(_is_table, sorted(lake.iterdir())):
        for folder in table.glob("batch_id=*"):
            with suppress(ValueError):  # not one of our folders
                yield table.name, int(folder.name.removeprefix("batch_id=")), folder
