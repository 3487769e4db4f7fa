"""Writing a lake: a batch's folders first, then the manifest that lets them count.

One writer at a time holds the lake's lock. Folder names are never used twice for what counted
once, so a reader's files stay what they were; a folder that no longer counts is put aside for
`GRACE_S` and then removed. A folder that counts for nobody (of a killed run) is removed at once
when the lake is opened for writing.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ...log.errors import FolderInUse
from ...log.files import LOCK_NAME, DiskFiles, lock_folder
from .errors import LakeError, WrongRows
from .footers import checked_rows
from .manifest import Live, Manifest, Retired, load, save, sync_folder
from .reader import Lake, batch_folder
from .schemas import fitted, table_of

__all__ = ["COMPRESSION", "GRACE_S", "Writer", "write_batch"]

# As Spark is told too (session.py).
COMPRESSION: Final = "zstd"

# The report of a large lake is made in seconds; who holds a folder for longer than five minutes
# has most likely opened it in a notebook, and can open the lake anew.
GRACE_S: Final = 300.0


class Writer:
    """One batch after the other. `passing` is called with the name of each point that a kill may
    strike at. Raises LakeError (in use, no lake), LakeTooNew, OSError.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        passing: Callable[[str], None] = lambda _point: None,
        now: Callable[[], float] = time.time,
        grace_s: float = GRACE_S,
    ) -> None:
        self.path = Path(path)
        self._passing = passing
        self._now = now
        self._grace_s = grace_s
        self.path.mkdir(parents=True, exist_ok=True)
        if not Lake.exists(self.path) and any(_foreign(self.path)):
            raise LakeError(f"{self.path} is not empty and holds no lake: choose another --lake.")
        try:
            self._lock = lock_folder(
                self.path, DiskFiles(), program="kohort pipeline", remedy="Stop it, or wait for it."
            )
        except FolderInUse as error:
            raise LakeError(str(error)) from error
        try:
            self.manifest = load(self.path) if Lake.exists(self.path) else Manifest()
            self._written: dict[str, Live] = {}
            self._sweep()
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def lake(self) -> Lake:
        """What has been committed."""
        return Lake(self.path, self.manifest)

    @property
    def batch_id(self) -> int:
        """Of the batch that is being written."""
        return self.manifest.batch_id + 1

    def begin(self) -> None:
        """A batch from its start, whatever has been written of it before."""
        self._written = {}

    def folder(self, table: str) -> Path:
        """Where the batch's rows of a table belong; whatever lies there is to be overwritten."""
        table_of(table)
        self._passing(f"before {table}")
        return batch_folder(self.path, table, self.batch_id)

    def fresh_folder(self, table: str) -> Path:
        """The same, and there is nothing in it."""
        folder = self.folder(table)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def finish(self, table: str) -> int:
        """Checks and makes durable what was written into `folder(table)`; how many rows.

        Raises WrongRows.
        """
        rows = 0
        folder = batch_folder(self.path, table, self.batch_id)
        for file in folder.glob("*.parquet"):
            rows += checked_rows(table, file)
            _sync_file(file)
        sync_folder(folder)
        sync_folder(folder.parent)
        self._written[table] = Live(self.batch_id, rows)
        self._passing(f"after {table}")
        return rows

    def write(self, table: str, rows: pa.Table | Iterable[pa.RecordBatch]) -> int:
        """Rows of this process; of batches, one after the other. Raises WrongRows."""
        schema = table_of(table).schema
        folder = self.fresh_folder(table)
        pieces = [rows] if isinstance(rows, pa.Table) else map(_as_table, rows)
        with pq.ParquetWriter(folder / "part-0.parquet", schema, compression=COMPRESSION) as file:
            for piece in pieces:
                file.write_table(fitted(table, piece))
        return self.finish(table)

    def write_rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
        """Rows by column; those that lack a column have null in it. Raises WrongRows."""
        schema = table_of(table).schema
        unknown = {name for row in rows for name in row} - set(schema.names)
        if unknown:
            raise WrongRows(f"{table} has no column {', '.join(sorted(unknown))}.")
        # Arrow itself takes a null for any column; `write` does not.
        loose = pa.schema([field.with_nullable(True) for field in schema])
        return self.write(table, pa.Table.from_pylist(list(rows), schema=loose))

    def written(self) -> dict[str, Live]:
        """The tables that are finished in this batch."""
        return dict(self._written)

    def commit(
        self,
        *,
        cluster: str,
        positions: Mapping[int, int],
        inputs: Mapping[str, Any],
        as_of: datetime | None,
    ) -> Manifest:
        """What was finished counts from here on. Raises OSError; then nothing of it does."""
        tables, ceased = dict(self.manifest.tables), []
        for table, live in self._written.items():
            if table_of(table).growth == "current":
                ceased += [
                    Retired(table, one.batch_id, self._now()) for one in tables.get(table, ())
                ]
                tables[table] = (live,)
            elif live.rows:
                tables[table] = (*tables.get(table, ()), live)
        return self._replace(
            replace(
                self.manifest,
                batch_id=self.batch_id,
                cluster=cluster,
                as_of=as_of,
                tables=tables,
                positions=dict(positions),
                inputs=dict(inputs),
                retired=(*self.manifest.retired, *ceased),
            )
        )

    def commit_merged(self, merged: Mapping[str, frozenset[int]]) -> Manifest:
        """What was finished takes the place of each table's folders of those batches."""
        tables, ceased = dict(self.manifest.tables), []
        for table, gone in merged.items():
            ceased += [Retired(table, batch_id, self._now()) for batch_id in sorted(gone)]
            left = [one for one in tables[table] if one.batch_id not in gone]
            tables[table] = (*left, self._written[table])
        return self._replace(
            replace(
                self.manifest,
                batch_id=self.batch_id,
                tables=tables,
                retired=(*self.manifest.retired, *ceased),
            )
        )

    def _replace(self, manifest: Manifest) -> Manifest:
        self._passing("before the manifest")
        save(self.path, manifest)
        self.manifest = manifest
        self._written = {}
        self._passing("after the manifest")
        self._sweep()
        return manifest

    def _sweep(self) -> None:
        """Removes what counts for nobody: left by a killed run, or put aside long enough ago."""
        due = self._now() - self._grace_s
        kept = {(one.table, one.batch_id) for one in self.manifest.retired if one.at > due}
        kept |= {
            (table, one.batch_id) for table, live in self.manifest.tables.items() for one in live
        }
        for table, batch_id, folder in _batch_folders(self.path):
            if (table, batch_id) not in kept:
                shutil.rmtree(folder)
        # Forgotten in the next manifest: a folder that is gone needs no line of its own.
        retired = tuple(one for one in self.manifest.retired if one.at > due)
        self.manifest = replace(self.manifest, retired=retired)


def write_batch(
    path: Path | str,
    tables: Mapping[str, pa.Table | list[dict[str, Any]]],
    *,
    positions: Mapping[int, int] | None = None,
    cluster: str = "test",
    as_of: datetime | None = None,
) -> int:
    """A batch of rows that are in memory, into a lake that need not be there yet; its batch_id."""
    with Writer(path) as writer:
        for name, rows in tables.items():
            if isinstance(rows, list):
                writer.write_rows(name, rows)
            else:
                writer.write(name, rows)
        before = writer.manifest
        return writer.commit(
            cluster=cluster,
            positions={**before.positions, **(positions or {})},
            inputs=before.inputs,
            as_of=as_of or before.as_of,
        ).batch_id


def _as_table(rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows])


def _foreign(folder: Path) -> Iterator[Path]:
    """What a run that was killed before its first commit cannot have left."""
    for path in folder.iterdir():
        if path.name != LOCK_NAME and not path.name.startswith("_") and not _ours(path):
            yield path


def _ours(path: Path) -> bool:
    try:
        table_of(path.name)
    except WrongRows:
        return False
    return path.is_dir()


def _batch_folders(lake: Path) -> Iterator[tuple[str, int, Path]]:
    for table in sorted(lake.iterdir()):
        if _ours(table):
            for folder in table.glob("batch_id=*"):
                with suppress(ValueError):
                    yield table.name, int(folder.name.removeprefix("batch_id=")), folder


def _sync_file(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
