"""The commands of `kohort log` and their flags. Imported for every `kohort --help`: nothing heavy
here.
"""

import argparse
from pathlib import Path
from typing import Any, Final, TypeAlias

HELP: Final = """\
Look into the files of a log, Kafka's or ours, whether a broker is using them or not.

PATH is a segment (a file of 20 digits and .log), the folder of a partition, or a data folder."""


Commands: TypeAlias = "argparse._SubParsersAction[Any]"


def add_commands(log: argparse.ArgumentParser) -> None:
    commands = log.add_subparsers(dest="log_command", metavar="COMMAND", required=True)
    _dump(commands)
    _compact(commands)
    _verify(commands)
    _repair(commands)
    _stats(commands)


def _add(commands: Commands, name: str, says: str, more: str) -> Any:
    command = commands.add_parser(
        name, help=says, description=f"{says[0].upper()}{says[1:]}. {more}", allow_abbrev=False
    )
    command.set_defaults(parser=command)
    command.add_argument(
        "path",
        metavar="PATH",
        type=Path,
        help="a segment, the folder of a partition, or a data folder",
    )
    return command


def _dump(commands: Commands) -> None:
    add = _add(
        commands,
        "dump",
        "print every record, decoded",
        "Of a data folder: the records of __consumer_offsets. Exit code 1: some of it could not "
        "be read.",
    ).add_argument
    add("--format", choices=("text", "json"), default="text", help="(default: text)")
    add("--group", metavar="G", help="only what is stored for this group")
    add(
        "--follow",
        action="store_true",
        help="go on with what a broker appends, until Ctrl-C (looks five times a second)",
    )


def _compact(commands: Commands) -> None:
    _add(
        commands,
        "compact",
        "keep the newest record of each key, where no broker is using the folder",
        "Topics without cleanup.policy=compact are passed over. Exit code 1: a log is damaged and "
        "stays as it is.",
    )


def _verify(commands: Commands) -> None:
    _add(
        commands,
        "verify",
        "say whether all of it is sound",
        "What is bad is told with its place, what is lost by it and what to do. Nothing is "
        "written. Exit code 0: sound; 1: flaws; 2: no log.",
    )


def _repair(commands: Commands) -> None:
    _add(
        commands,
        "repair",
        "take bad bytes out of it, and keep what is sound behind them",
        "For a folder that no broker uses. The bad bytes are kept in files *.cut. What is lost, "
        "and what that means for groups, is told. Exit code 1: flaws are left.",
    ).add_argument("--dry-run", action="store_true", help="only tell; write nothing")


def _stats(commands: Commands) -> None:
    _add(
        commands,
        "stats",
        "tell how much is in it, and how much of that still counts",
        "A line for each partition, and the total.",
    ).add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="(default: table)"
    )
