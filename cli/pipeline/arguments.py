"""The commands of `kohort pipeline` and their flags. Imported for every `kohort --help`: nothing
heavy here.
"""

import argparse
import re
from pathlib import Path
from typing import Any, Final, TypeAlias

__all__ = ["HELP", "add_commands"]

HELP: Final = """\
Read an offsets log with Spark, Kafka's or ours, and keep what it tells in a lake: Parquet files
that `kohort why`, `timeline`, `lag` and `storms` answer from, and whatever reads Parquet."""

RUN: Final = """\
Read what is new in the log into the lake, batch after batch, and end; with --follow, go on.

A batch counts as a whole or not at all: a run that is killed leaves the lake as it was, and the
next one goes on from there. Ctrl-C ends after the batch that is being read, and twice at once."""

_UNITS_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


def add_commands(pipeline: argparse.ArgumentParser) -> None:
    commands = pipeline.add_subparsers(dest="pipeline_command", metavar="COMMAND", required=True)
    _run(commands)
    status = _add(commands, "status", "show what is in a lake", "Needs no Spark.")
    status.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="(default: table)"
    )
    _add(
        commands,
        "compact",
        "merge the small files of a lake",
        "A run does it by itself when there are many. Needs no Spark; changes no row.",
    )


def _add(commands: Commands, name: str, says: str, more: str) -> Any:
    command = commands.add_parser(
        name,
        help=says,
        description=f"{says[0].upper()}{says[1:]}. {more}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(parser=command, module=f"pipeline.{name}")
    command.add_argument("--lake", metavar="DIR", type=Path, required=True, help="where it lies")
    return command


def _run(commands: Commands) -> None:
    command = _add(commands, "run", "read what is new in the log into the lake", "")
    command.description = RUN
    _of_the_cluster(command)
    add = command.add_argument
    until = command.add_mutually_exclusive_group()
    until.add_argument(
        "--follow", action="store_true", help="go on with what is appended, until Ctrl-C"
    )
    until.add_argument("--once", action="store_true", help="one batch, and no more")
    add(
        "--every",
        metavar="TIME",
        type=_seconds,
        help="with --follow: how often it looks, as 500ms, 30s, 5m (default: 30s)",
    )
    add(
        "--max-records-per-batch",
        metavar="N",
        type=_count,
        help="(default: 1000000; more need more memory, fewer end sooner at Ctrl-C)",
    )
    add(
        "--master",
        metavar="URL",
        help="where Spark runs, as spark://HOST:7077 (default: what spark-submit says, else this "
        "machine, with all its cores)",
    )
    add(
        "--conf",
        metavar="KEY=VALUE",
        type=_pair,
        action="append",
        default=[],
        help="a setting of Spark's, as spark.driver.memory=4g; as often as you like",
    )


def _of_the_cluster(command: argparse.ArgumentParser) -> None:
    """What is read, and what is to be known of it."""
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--log", metavar="DIR", type=Path, help="a data folder, in use or not")
    source.add_argument("--bootstrap-server", metavar="H:P", help="a broker, of any Kafka")
    command.add_argument(
        "--events",
        metavar="DIR",
        type=Path,
        help="a folder of events that a kohort broker has written (default: that of --log)",
    )
    command.add_argument(
        "--cluster",
        metavar="NAME",
        help="what the cluster is called in the lake (default: its own id)",
    )
    command.add_argument(
        "--offsets-retention-minutes",
        metavar="N",
        type=_count,
        help="the cluster's offsets.retention.minutes, by which a group has expired or was deleted "
        "(default: Kafka's, 10080)",
    )


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text, re.ASCII)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: give one as 500ms, 30s, 5m, 1h")
    return float(match[1]) * _UNITS_S[match[2]]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value
