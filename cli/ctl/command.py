"""Asks the endpoint of a command, and tells the answer."""

import argparse
import sys

from ..errors import UserError
from .arguments import PAIRS, VARIABLE, in_path
from .client import Failed, ask
from .commands import COMMANDS


def run(args: argparse.Namespace) -> int:
    """0, or 1 when a barrier has waited in vain or a check has failed; raises UserError."""
    if not args.control:
        raise UserError(
            f"say where the controls are: --control URL, or {VARIABLE}=URL, as "
            "`kohort serve --control-port 0` prints it."
        )
    command = next(each for each in COMMANDS if each.name == args.ctl)
    names = (*in_path(command), *command.places, *command.flags)
    given = {name: getattr(args, name) for name in names if hasattr(args, name)}
    given |= {name: dict(given[name]) for name in PAIRS if name in given}
    try:
        print(ask(args.control, command.method, command.path, given), end="")
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0
