"""The commands of the pipeline and their flags. Imported for every `kohort --help`."""

import argparse
import re
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ..errors import UserError
from ..output import FORMATS

HELP: Final = """\
Read an offsets log of Kafka or kohort with Spark and write the results to a lake. A lake consists
of Parquet files, which `kohort why`, `timeline`, `lag`, `storms` and `report` query."""

RUN: Final = """\
Read the new part of the log into the lake, batch by batch, and exit; with --follow, keep running.

Batches are atomic: if the command is killed, the lake contains all complete batches, and the next
run continues after them. Ctrl-C stops the command after the current batch; a second Ctrl-C stops it
immediately."""

_UNITS_S: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


class Query(NamedTuple):
    summary: str
    details: str
    group: str | None  # "required", "optional", or None: always all groups

    @property
    def description(self) -> str:
        return f"{self.summary[0].upper()}{self.summary[1:]}.\n{self.details}"


QUERIES: Final = {
    "why": Query(
        "explain what is wrong with a group",
        "Prints a diagnosis with evidence and advice, and the rebalances that it is based on.",
        "required",
    ),
    "timeline": Query(
        "list a group's generations with their causes, and the members that joined and left",
        "Prints one entry per change of the group, the newest last.",
        "required",
    ),
    "lag": Query(
        "show the lag of groups per partition",
        "Lag is shown in records and in time. An unknown lag is printed as -, never as 0.",
        "optional",
    ),
    "storms": Query(
        "list rebalance storms", "Three or more rebalances in five minutes are a storm.", "optional"
    ),
    "report": Query(
        "write an HTML page about all groups", "The page needs no network and no server.", None
    ),
}
"""The queries by command, in the order of `kohort --help`."""


def add_query_flags(command: argparse.ArgumentParser, name: str) -> None:
    command.set_defaults(module="pipeline.queries")
    add: Any = command.add_argument
    match QUERIES[name].group:
        case "required":
            add("group", metavar="GROUP")
        case "optional":
            add("group", metavar="GROUP", nargs="?", help="(default: all groups)")
    _add_lake(command, "a lake written by `kohort pipeline run`")
    if name == "report":
        add("--out", metavar="FILE", type=Path, required=True, help="the page to write")
        return
    if name == "timeline":
        add("--last", metavar="N", type=_count, help="only the newest N changes")
    _add_format(command)


def add_commands(pipeline: argparse.ArgumentParser) -> None:
    commands = pipeline.add_subparsers(dest="pipeline_command", metavar="COMMAND", required=True)
    run = _add(commands, "run", "read the new part of the log into the lake", RUN, "run")
    _add_run_flags(run)
    status = _add(commands, "status", "show the contents of a lake", "Does not need Spark.", "lake")
    _add_format(status)
    more = "`run` does this if a table has many files. Does not need Spark."
    _add(commands, "compact", "merge the small files of a lake", more, "lake")


def _add(commands: Commands, name: str, summary: str, details: str, module: str) -> Any:
    description = details if name == "run" else f"{summary.capitalize()}. {details}"
    raw = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(name, help=summary, description=description, formatter_class=raw)
    command.set_defaults(module=f"pipeline.{module}")
    _add_lake(command, "the folder of the lake")
    return command


def _add_lake(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--lake", metavar="DIR", type=Path, required=True, help=text)


def _add_format(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=FORMATS, default="table", help="(default: table)")


def _add_run_flags(command: argparse.ArgumentParser) -> None:
    command.set_defaults(check=_check_run_flags)
    add = command.add_argument
    source = command.add_mutually_exclusive_group(required=True)
    source.add_argument("--log", metavar="DIR", type=Path, help="a data folder; it may be in use")
    source.add_argument("--bootstrap-server", metavar="H:P", help="a kohort or Kafka broker")
    text = "a properties file for Java clients, if the broker requires TLS or SASL"
    add("--command-config", metavar="FILE", type=Path, help=text)
    text = "the data folder with the event log of a kohort broker (default: the folder of --log)"
    add("--events", metavar="DIR", type=Path, help=text)
    text = "how long to wait for the first response of a broker, such as 500ms, 30s, 5m "
    text += "(default: 10s)"
    add("--timeout", metavar="TIME", type=_seconds, help=text)
    add("--cluster", metavar="NAME", help="the cluster's name in the lake (default: its id)")
    text = "the cluster's offsets.retention.minutes, which distinguishes expired from deleted "
    text += "groups (default: Kafka's, 10080)"
    add("--offsets-retention-minutes", metavar="N", type=_count, help=text)
    until = command.add_mutually_exclusive_group()
    text = "keep reading new records until Ctrl-C"
    until.add_argument("--follow", action="store_true", help=text)
    until.add_argument("--once", action="store_true", help="process one batch only")
    text = "with --follow: the interval, such as 500ms, 30s, 5m (default: 30s)"
    add("--every", metavar="TIME", type=_seconds, help=text)
    text = "smaller batches need less memory and stop sooner on Ctrl-C (default: 1000000)"
    add("--max-records-per-batch", metavar="N", type=_count, help=text)
    text = "Spark master, such as spark://HOST:7077 (default: the master of spark-submit, or this "
    text += "machine with all cores)"
    add("--master", metavar="URL", help=text)
    text = "a Spark setting, such as spark.driver.memory=4g; repeatable"
    add("--conf", metavar="KEY=VALUE", type=_pair, action="append", default=[], help=text)


def _check_run_flags(args: argparse.Namespace) -> None:
    if args.every is not None and not args.follow:
        args.parser.error("--every requires --follow")
    if args.command_config is not None and args.log is not None:
        args.parser.error("--command-config requires --bootstrap-server")
    if args.log is not None:
        _check_folder(args.log, "a data folder")
    if args.events is not None:
        _check_folder(args.events, "the data folder of a kohort broker")


def _check_folder(path: Path, expected: str) -> None:
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise UserError(f"{error.filename}: {error.strerror}.") from error
    if not is_folder:
        raise UserError(f"{path} is not a folder: pass {expected}.")


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text, re.ASCII)
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"invalid time {text!r}: expected 500ms, 30s, 5m or 1h")
    return float(match[1]) * _UNITS_S[match[2]]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"invalid number {text!r}: expected 1 or more")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"invalid setting {text!r}: expected KEY=VALUE")
    return key, value
