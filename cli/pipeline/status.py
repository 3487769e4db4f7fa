"""`kohort pipeline status`: what is in a lake."""

import argparse
from pathlib import Path
from typing import NamedTuple

from .columns import table
from .failing import explained
from .shapes import show_rows

__all__ = ["run"]


class Row(NamedTuple):
    table: str
    rows: int
    folders: int
    bytes: int
    grain: str


def run(args: argparse.Namespace) -> int:
    """Raises UserError."""
    with explained(args.lake):
        from ...pipeline.lake import Lake
        from ...pipeline.tables import TABLES

        lake = Lake(args.lake)
        rows = [
            Row(name, lake.rows(name), len(folders), sum(map(_size, folders)), of.grain)
            for name, of in TABLES.items()
            for folders in [lake.folders(name)]
        ]
    if args.format != "table":
        show_rows(Row._fields, rows, args.format)
        return 0
    as_of = f"{lake.as_of:%Y-%m-%d %H:%M:%S} UTC" if lake.as_of else "-"
    print(f"cluster {lake.cluster or '-'}, batch {lake.batch_id}, tells of all until {as_of}")
    print(f"{sum(lake.positions.values()):,} offsets of {len(lake.positions)} partitions read\n")
    shown = [(one.table, f"{one.rows:,}", str(one.folders), f"{one.bytes:,}") for one in rows]
    header = ("table", "rows", "folders", "bytes")
    for line in table([header, *shown], right=header[1:]):
        print(line)
    return 0


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.parquet"))
