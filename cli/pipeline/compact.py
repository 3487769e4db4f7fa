"""`kohort pipeline compact`: small files become few."""

import argparse

from .failing import explained

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Raises UserError."""
    with explained(args.lake):
        from ...pipeline.lake import Lake
        from ...pipeline.lake.compaction import compact
        from ...pipeline.lake.writer import Writer

        Lake(args.lake)  # a writer would make one
        with Writer(args.lake) as writer:
            merged = compact(writer)
    for one in merged:
        print(f"{one.table}: {one.folders} folders merged into one of {one.rows:,} rows")
    if not merged:
        print(f"{args.lake}: no table has two small folders")
    return 0
