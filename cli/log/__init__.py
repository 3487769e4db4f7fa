"""`kohort log`: what lies in the files of a log, whether a broker is using them or not.

Only `repair` and `compact` write. A folder may be Kafka's.

arguments.py   the commands and their flags
places.py      what a path names: a segment, a partition's folder, a data folder
sweep.py       the batches of a segment, and what is bad between them
cursor.py      a reader's place in a partition that others write, compact and cut
decoding.py    what a record says
dump.py        `kohort log dump`
compact.py     `kohort log compact`
"""

import argparse
from importlib import import_module


def run(args: argparse.Namespace) -> int:
    """Run one command; its exit code. Raises UserError."""
    code: int = import_module(f".{args.log_command}", __package__).run(args)
    return code
