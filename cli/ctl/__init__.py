"""`kohort ctl`: the controls of a broker that runs with `--control-port`, as commands.

arguments   the commands and their flags
commands    the table of them: which endpoint each asks, with what
command     asks it, and tells the answer
client      one request over HTTP
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """Its exit code; raises UserError."""
    from . import command  # urllib takes some milliseconds that other commands need not wait for

    return command.run(args)
