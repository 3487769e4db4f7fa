"""`kohort pipeline status` and `kohort pipeline compact`."""

import argparse
from pathlib import Path
from typing import NamedTuple

from ...pipeline.formatting import UNKNOWN
from ...pipeline.lake import Lake
from ...pipeline.lake.writer import Writer, compact
from ...pipeline.tables import TABLES
from ..output import table
from .errors import user_errors
from .output import print_rows


def run(args: argparse.Namespace) -> int:
    """Show or compact the lake. Raises UserError."""
    action = _compact if args.pipeline_command == "compact" else _status
    action(args)
    return 0


def _compact(args: argparse.Namespace) -> None:
    with user_errors(args.lake):
        Lake(args.lake)  # raises LakeError, where Writer would create a lake
        with Writer(args.lake) as writer:
            compacted = compact(writer)
    for each in compacted:
        print(f"{each.table}: {each.folders} folders merged into one with {each.rows:,} rows")
    if not compacted:
        print(f"{args.lake}: no table has more than one small folder")


class Row(NamedTuple):
    table: str
    rows: int
    folders: int
    bytes: int
    grain: str


def _status(args: argparse.Namespace) -> None:
    with user_errors(args.lake):
        lake = Lake(args.lake)
        rows = [
            Row(name, lake.rows(name), len(folders), sum(map(_size, folders)), spec.grain)
            for name, spec in TABLES.items()
            for folders in [lake.folders(name)]
        ]
    if args.format != "table":
        print_rows(Row._fields, (row._asdict() for row in rows), args.format)
        return
    as_of = f"{lake.as_of:%Y-%m-%d %H:%M:%S} UTC" if lake.as_of else UNKNOWN
    print(f"cluster {lake.cluster or UNKNOWN}, batch {lake.batch_id}, as of {as_of}")
    print(f"{sum(lake.positions.values()):,} offsets of {len(lake.positions)} partitions read\n")
    shown = [(row.table, f"{row.rows:,}", str(row.folders), f"{row.bytes:,}") for row in rows]
    header = ("table", "rows", "folders", "bytes")
    print(*table([header, *shown], right=header[1:]), sep="\n")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.parquet"))
