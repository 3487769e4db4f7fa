"""`kohort log`: inspect, repair and compact log files of kohort or Kafka.

Only `repair` and `compact` write. The other commands also work while a broker runs. This module
defines the flags of all commands, and is imported for every `kohort --help`.

dump            `kohort log dump`
verify          `kohort log verify`
stats           `kohort log stats`
repair          `kohort log repair`
compact         `kohort log compact`
partition_logs  finding the logs at a path, and reading them while a broker writes
decoding        records as data and as text
salvage         readable records in corrupt bytes, and the impact of their loss
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..errors import UserError
from ..output import FORMATS

HELP: Final = """\
Inspect, repair and compact log files of kohort or Kafka.

PATH is a segment (20 digits and .log), a partition's folder, or a data folder."""

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


def add_commands(log: argparse.ArgumentParser) -> None:
    commands = log.add_subparsers(dest="log_command", metavar="COMMAND", required=True)
    text = "For a data folder, only __consumer_offsets is printed. "
    text += "Exit code 1: part of the log is unreadable."
    add = _add(commands, "dump", "print all records, decoded", text).add_argument
    add("--format", choices=("text", "json"), default="text", help="(default: text)")
    add("--group", metavar="G", help="only records of this group")
    add("--follow", action="store_true", help="print new records as well, until Ctrl-C")
    summary = "keep only the latest record of each key; needs a folder that no broker uses"
    text = "Topics without cleanup.policy=compact are skipped. "
    text += "Exit code 1: a log is corrupt and was not changed."
    _add(commands, "compact", summary, text)
    text = "Prints each problem with its position, what is lost, and the remedy. Writes nothing. "
    text += "Exit code 0: valid; 1: problems; 2: not a log."
    _add(commands, "verify", "check all batches and records", text)
    summary = "remove corrupt bytes and keep the valid batches after them"
    text = "Needs a folder that no broker uses. The corrupt bytes are kept in *.cut files. Prints "
    text += "what is lost and how that affects groups. Exit code 1: problems remain."
    add = _add(commands, "repair", summary, text).add_argument
    add("--dry-run", action="store_true", help="print what would be done; write nothing")
    summary = "print sizes, and how much compaction would remove"
    add = _add(commands, "stats", summary, "One line per partition, and the total.").add_argument
    add("--format", choices=FORMATS, default="table", help="(default: table)")


def _add(commands: Commands, name: str, summary: str, more: str) -> Any:
    description = f"{summary[0].upper()}{summary[1:]}. {more}"
    command = commands.add_parser(name, help=summary, description=description)
    places = "a segment, a partition's folder or a data folder"
    command.add_argument("path", metavar="PATH", type=Path, help=places)
    return command


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
