"""`kohort lag`: how far groups are behind, per partition."""

import argparse
import sys

from ...pipeline.answers.rows import Lag
from ...pipeline.answers.words import count, span, when
from .asking import asked
from .columns import table
from .shapes import show_rows

__all__ = ["run"]

NO_SAMPLES = (
    "# lag is not known: the lake has no samples of where logs end. `kohort pipeline run` takes "
    "them from a broker (--bootstrap-server) or from the segments of a data folder (--log)."
)

RIGHT = ("PARTITION", "LAG", "TIME-LAG")


def run(args: argparse.Namespace) -> int:
    """0. Raises UserError."""
    with asked(args.lake) as answers:
        if args.group is not None:
            answers.known(args.group)
        rows = answers.lag(args.group)
        sampled = answers.has_samples()
    if args.format != "table":
        show_rows(Lag._fields, rows, args.format)
    elif rows:
        for line in table(_lines(rows, named=args.group is None), RIGHT):
            print(line)
        print(f"\nas of {when(max(row.as_of for row in rows))} UTC")
    else:
        nobody = "No group has" if args.group is None else f"{args.group} has no"
        print(f"{nobody} committed offsets (any more).")
    if rows and not sampled:
        sys.stdout.flush()
        print(NO_SAMPLES, file=sys.stderr)
    return 0


def _lines(rows: list[Lag], *, named: bool) -> list[list[str]]:
    """`named`: with the group's name in each line."""
    header = ["GROUP", "TOPIC", "PARTITION", "STATUS", "LAG", "TIME-LAG", "TREND", "OWNER"]
    lines = [header]
    for row in rows:
        owner = row.owner_instance_id or row.client_id
        host = (row.client_host or "").lstrip("/")
        lines.append(
            [
                row.group,
                row.topic,
                str(row.partition),
                row.status,
                count(row.lag),
                span(row.lag_ms),
                (row.trend or "-").lower(),
                f"{owner} @ {host}" if owner and host else owner or "-",
            ]
        )
    return lines if named else [line[1:] for line in lines]
