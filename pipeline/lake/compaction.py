"""Many small folders of an append table become one: a batch every half a minute makes three
thousand folders a day, and whoever reads a table opens each of them.

The rows are copied by Arrow, some thousands at a time, into a folder of a batch of its own; the
manifest then lists it instead. Which folder a row lies in means nothing but when it was written.
"""

from typing import Final, NamedTuple

from .schemas import table_of
from .writer import Writer

__all__ = ["AT_FOLDERS", "SMALL_ROWS", "Merged", "compact"]

# A folder of a million rows has some ten megabytes: to open it costs nothing beside reading it.
SMALL_ROWS: Final = 1_000_000
# To merge n folders each time that there are n copies a row once per n batches; with 32, a day of
# half-minutes leaves at most 32 folders of a table, and costs a per cent of what the batches cost.
AT_FOLDERS: Final = 32


class Merged(NamedTuple):
    """`folders` of a table have become one of `rows`."""

    table: str
    folders: int
    rows: int


def compact(writer: Writer, at_folders: int = 2) -> list[Merged]:
    """Merges the small folders of each append table that has so many of them, and commits.

    Raises WrongRows, OSError; the lake is then as it was.
    """
    gone = {
        table: small
        for table, live in writer.manifest.tables.items()
        if table_of(table).growth == "append"
        and len(small := frozenset(one.batch_id for one in live if one.rows < SMALL_ROWS))
        >= at_folders
    }
    merged = [_merge(writer, table, small) for table, small in gone.items()]
    if merged:
        writer.commit_merged(gone)
    return merged


def _merge(writer: Writer, table: str, batch_ids: frozenset[int]) -> Merged:
    rows = writer.lake.dataset(table, batch_ids)
    # No more of it in memory than two pieces of a file.
    few = rows.scanner(
        columns=table_of(table).schema.names, batch_readahead=1, fragment_readahead=1
    )
    return Merged(table, len(batch_ids), writer.write(table, few.to_batches()))
