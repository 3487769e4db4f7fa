"""`kohort log`: inspect, repair and compact the files of a log, Kafka's or kohort's.

Only `repair` and `compact` write. The other commands also work while a broker runs.

arguments       commands and flags
dump            `kohort log dump`
verify          `kohort log verify`
stats           `kohort log stats`
repair          `kohort log repair`
compact         `kohort log compact`
partition_logs  finding the logs at a path, and reading them while a broker writes
decoding        records as data and as text
salvage         readable records in corrupt bytes, and what their loss means
"""

import argparse
from importlib import import_module

from ..errors import UserError


def run(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises UserError."""
    from ...log.errors import UnsupportedMagic

    try:
        code: int = import_module(f".{args.log_command}", __package__).run(args)
    except UnsupportedMagic as error:
        raise UserError(f"{args.path} cannot be read: {error.reason}.") from error
    except BrokenPipeError:
        raise  # handled by main
    except PermissionError as error:
        raise UserError(f"{error.filename or args.path}: permission denied.") from error
    except OSError as error:
        raise UserError(f"{error.filename or args.path}: {error.strerror or error}.") from error
    return code
