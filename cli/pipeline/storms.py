"""`kohort storms`: when a group did little else than rebalance."""

import argparse

from ...pipeline.answers.rows import Storm
from ...pipeline.answers.words import cause_text, counted, span, when
from .asking import asked
from .columns import table
from .shapes import show_rows

__all__ = ["run"]

RIGHT = ("LASTED", "REBALANCES", "MEMBERS", "STOOD-STILL")


def run(args: argparse.Namespace) -> int:
    """0. Raises UserError."""
    with asked(args.lake) as answers:
        if args.group is not None:
            answers.known(args.group)
        rows = answers.storms(args.group)
        groups = 1 if args.group is not None else len(answers.names())
    if args.format != "table":
        show_rows(Storm._fields, rows, args.format)
    elif rows:
        for line in table(_lines(rows), RIGHT):
            print(line)
    else:
        print(f"No storm of rebalances in {args.group or counted(groups, 'group')}.")
    return 0


def _lines(rows: list[Storm]) -> list[list[str]]:
    names = ["GROUP", "FROM (UTC)", "LASTED", "REBALANCES", "MEMBERS", "STOOD-STILL", "MOSTLY"]
    lines = [names]
    for row in rows:
        lasted = round((row.to_ts - row.from_ts).total_seconds() * 1000)
        numbers = [span(lasted), str(row.rebalances), str(row.distinct_members)]
        still = [span(row.pause_ms_total), cause_text(row.dominant_cause)]
        lines.append([row.group, when(row.from_ts), *numbers, *still])
    return lines
