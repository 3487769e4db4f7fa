"""`kohort log`: what lies in the files of a log, whether a broker is using them or not.

Only `repair` and `compact` write. A folder may be Kafka's.

arguments.py   the commands and their flags
sources.py     what a path names: a segment, a partition's folder, a data folder
cursor.py      a reader's place in a partition that others write, compact and cut
decoding.py    what a record says
wreck.py       what can still be read of bad bytes
text.py        records as lines for people
dump.py        `kohort log dump`
compact.py     `kohort log compact`
verify.py      `kohort log verify`
repair.py      `kohort log repair`
impact.py      what lost records mean for groups
stats.py       `kohort log stats`
"""

import argparse
from importlib import import_module

from ..errors import EXIT_INTERRUPTED, UserError


def run(args: argparse.Namespace) -> int:
    """Run one command; its exit code. Raises UserError."""
    from ...log.errors import UnsupportedMagic

    try:
        code: int = import_module(f".{args.log_command}", __package__).run(args)
    except UnsupportedMagic as error:
        raise UserError(f"{args.path} cannot be read: {error.reason}.") from error
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        raise  # whoever reads our lines has had enough
    except PermissionError as error:
        raise UserError(f"{error.filename or args.path}: this user may not do that.") from error
    except OSError as error:
        raise UserError(f"{error.filename or args.path}: {error.strerror or error}.") from error
    return code
