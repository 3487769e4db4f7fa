"""`kohort assign`: who would get which partition, and why, without a group or a broker.

arguments.py  the flags, and which go together
command.py    from the flags to the answer
cases.py      a case, from JSON or from flags: what it may say, and its limits
finding.py    assignors by name
stream.py     --cases: a line in, a line out
answer.py     an assignment, and what has changed since the round before
picture.py    members by partitions, before anybody draws it
text.py       the picture, what was kept and what moved, for people
svg.py        the picture as a file
forms.py      JSON and CSV
"""

import argparse


def run(args: argparse.Namespace) -> int:
    from . import command

    return command.run(args)
