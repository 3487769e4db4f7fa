"""A lake without Spark: each table as Arrow, of the folders that the manifest lists and no others.

A `Lake` is what it was when it was opened: batches that come later are not seen, and what they put
aside stays for a grace (writer.py), so a question is answered from one state of the lake.
"""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from .errors import LakeError, WrongRows
from .manifest import MANIFEST, Live, Manifest, load
from .schemas import BATCH_ID, table_of

__all__ = ["Lake", "batch_folder"]

# With two hundred members in each of as many rows, some 50 MB.
PIECE_ROWS: Final = 1_000
_HIVE = ds.partitioning(pa.schema([BATCH_ID]), flavor="hive")


def batch_folder(lake: Path, table: str, batch_id: int) -> Path:
    return lake / table / f"batch_id={batch_id}"


class Lake:
    """Raises NoLake, LakeTooNew, LakeError."""

    def __init__(self, path: Path | str, manifest: Manifest | None = None) -> None:
        self.path = Path(path)
        self.manifest = manifest or load(self.path)

    @staticmethod
    def exists(path: Path | str) -> bool:
        return (Path(path) / MANIFEST).exists()

    @property
    def as_of(self) -> datetime | None:
        """The newest time that any input has told of, in UTC; null: nothing has been read."""
        return self.manifest.as_of

    @property
    def batch_id(self) -> int:
        return self.manifest.batch_id

    @property
    def cluster(self) -> str:
        return self.manifest.cluster

    @property
    def positions(self) -> dict[int, int]:
        """Offsets partition -> the log offset that is read next."""
        return self.manifest.positions

    def live(self, table: str) -> tuple[Live, ...]:
        """The folders of a table that count; none: nothing has been written to it."""
        table_of(table)
        return self.manifest.tables.get(table, ())

    def rows(self, table: str) -> int:
        return sum(one.rows for one in self.live(table))

    def folders(self, table: str) -> list[Path]:
        return [batch_folder(self.path, table, one.batch_id) for one in self.live(table)]

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        filters: ds.Expression | None = None,
    ) -> pa.Table:
        """The rows of a table, in no order, with `batch_id` as the last column.

        Raises WrongRows where the files are not of this version's schema; LakeError where they are
        not what the manifest says; OSError.
        """
        found = self.dataset(table, None)
        try:
            rows = sum(_checked_rows(table, fragment) for fragment in found.get_fragments())
            if rows != self.rows(table):
                raise self._damaged(table, f"{rows} rows instead of {self.rows(table)}")
            wanted = None if columns is None else list(columns)
            return found.to_table(columns=wanted, filter=filters)
        except (pa.ArrowInvalid, FileNotFoundError) as error:
            raise self._damaged(table, str(error).partition("\n")[0]) from error

    def pieces(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a table, some at a time, of some columns; of one that is nested also a leaf
        alone: `member_list.list.element.member_id`. What `read` would find wrong is not looked for.
        """
        for folder in self.folders(table):
            for file in sorted(folder.glob("*.parquet")):
                with pq.ParquetFile(file) as parquet:
                    yield from parquet.iter_batches(PIECE_ROWS, columns=list(columns))

    def _damaged(self, table: str, what: str) -> LakeError:
        return LakeError(
            f"{self.path / table} is damaged ({what}): make the lake anew: remove it, and run the "
            "pipeline again."
        )

    def dataset(self, table: str, batch_ids: Collection[int] | None) -> ds.Dataset:
        """For those who read a table in pieces; `batch_ids`: of some batches alone."""
        folders = [
            batch_folder(self.path, table, one.batch_id)
            for one in self.live(table)
            if batch_ids is None or one.batch_id in batch_ids
        ]
        return ds.dataset(
            [str(file) for folder in folders for file in sorted(folder.glob("*.parquet"))],
            schema=table_of(table).schema.append(BATCH_ID),
            format="parquet",
            partitioning=_HIVE,
            partition_base_dir=str(self.path / table),
        )


def _checked_rows(table: str, fragment: ds.ParquetFileFragment) -> int:
    """How many it has. Arrow itself would make up nulls for a column that a file lacks."""
    lacking = set(table_of(table).schema.names) - set(fragment.physical_schema.names)
    if lacking:
        raise WrongRows(
            f"{fragment.path} lacks {', '.join(sorted(lacking))}: another version of kohort wrote "
            "this lake. Make it anew: remove it, and run the pipeline again."
        )
    return int(fragment.metadata.num_rows)
