"""`kohort ctl`: the control API of a broker that runs with `--control-port`, as commands.

commands   the table of commands, and their arguments
client     one HTTP request
"""

import argparse
import sys


def run(args: argparse.Namespace) -> int:
    """Send the request of a command and print the response. Returns 0, or 1 if a wait has timed out
    or a check has failed. Raises UserError."""
    # Importing urllib takes milliseconds, which other commands do not need to spend.
    from ..errors import UserError
    from .client import RequestFailed, send
    from .commands import COMMANDS, PAIRS, VARIABLE, path_names

    if not args.control:
        raise UserError(
            f"no address of the control API: give --control URL or set {VARIABLE}=URL, as printed "
            "by `kohort serve --control-port 0`."
        )
    command = next(command for command in COMMANDS if command.name == args.ctl)
    names = (*path_names(command), *command.positional, *command.flags)
    given = {name: getattr(args, name) for name in names if hasattr(args, name)}
    given |= {name: dict(given[name]) for name in PAIRS if name in given}
    try:
        print(send(args.control, command.method, command.path, given), end="")
    except RequestFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    return 0
