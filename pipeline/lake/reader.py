"""Reading a lake without Spark: each table as Arrow, from the folders in the manifest.

A `Lake` is a snapshot: later batches are not visible, and the folders that they replace are kept
for a grace period (writer.py).
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from .manifest import MANIFEST, LiveFolder, Manifest, load
from .schema import BATCH_ID, LakeError, SchemaMismatch, table_of

# With two hundred members per row, this many rows take about 50 MB.
PIECE_ROWS: Final = 1_000
_HIVE = ds.partitioning(pa.schema([BATCH_ID]), flavor="hive")


def batch_folder(lake: Path, table: str, batch_id: int) -> Path:
    return lake / table / f"batch_id={batch_id}"


class Lake:
    """A snapshot of the lake. Raises LakeNotFound, LakeTooNew, LakeError and OSError."""

    def __init__(self, path: Path | str, manifest: Manifest | None = None) -> None:
        self.path = Path(path)
        self.manifest = manifest or load(self.path)

    @staticmethod
    def exists(path: Path | str) -> bool:
        return (Path(path) / MANIFEST).exists()

    @property
    def as_of(self) -> datetime | None:
        """The newest time in any input, in UTC; None if nothing has been read."""
        return self.manifest.as_of

    @property
    def batch_id(self) -> int:
        return self.manifest.batch_id

    @property
    def cluster(self) -> str:
        return self.manifest.cluster

    @property
    def positions(self) -> dict[int, int]:
        """Offsets partition -> next log offset to read."""
        return self.manifest.positions

    def live(self, table: str) -> tuple[LiveFolder, ...]:
        """Return the live folders of a table; empty if it was never written."""
        table_of(table)
        return self.manifest.tables.get(table, ())

    def rows(self, table: str) -> int:
        return sum(folder.rows for folder in self.live(table))

    def folders(self, table: str) -> list[Path]:
        return [batch_folder(self.path, table, folder.batch_id) for folder in self.live(table)]

    def read(
        self, table: str, columns: Sequence[str] | None = None, filters: ds.Expression | None = None
    ) -> pa.Table:
        """Return the rows of a table, unordered, by default with `batch_id` as the last column.
        Raises SchemaMismatch if the files lack a column, LakeError if they do not match the
        manifest, and OSError."""
        dataset = self.dataset(table)
        try:
            rows = sum(_verified_rows(table, fragment) for fragment in dataset.get_fragments())
            if rows != self.rows(table):
                raise self.damaged(table, f"{rows} rows instead of {self.rows(table)}")
            return dataset.to_table(columns=columns and list(columns), filter=filters)
        except (pa.ArrowInvalid, FileNotFoundError) as error:
            raise self.damaged(table, str(error).partition("\n")[0]) from error

    def pieces(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of a table, PIECE_ROWS at a time, without the checks of `read`. A leaf
        of a nested column can be read alone: `member_list.list.element.member_id`."""
        for folder in self.folders(table):
            for file in sorted(folder.glob("*.parquet")):
                with pq.ParquetFile(file) as parquet:
                    yield from parquet.iter_batches(PIECE_ROWS, columns=list(columns))

    def dataset(self, table: str, batch_ids: Collection[int] | None = None) -> ds.Dataset:
        """Return a dataset of a table, or of some of its batches, without reading rows."""
        folders = [
            batch_folder(self.path, table, folder.batch_id)
            for folder in self.live(table)
            if batch_ids is None or folder.batch_id in batch_ids
        ]
        return ds.dataset(
            [str(file) for folder in folders for file in sorted(folder.glob("*.parquet"))],
            schema=table_of(table).schema.append(BATCH_ID),
            format="parquet",
            partitioning=_HIVE,
            partition_base_dir=str(self.path / table),
        )

    def damaged(self, table: str, problem: str) -> LakeError:
        return LakeError(
            f"{self.path / table} is damaged ({problem}): remove the lake and run the pipeline "
            "again."
        )


def _verified_rows(table: str, fragment: ds.ParquetFileFragment) -> int:
    """Return the number of rows. Raises SchemaMismatch if the file lacks a column of the table."""
    missing = set(table_of(table).schema.names) - set(fragment.physical_schema.names)
    if missing:
        raise SchemaMismatch(
            f"{fragment.path} has no {', '.join(sorted(missing))}: another version of kohort wrote "
            "this lake. Remove it and run the pipeline again."
        )
    return int(fragment.metadata.num_rows)
