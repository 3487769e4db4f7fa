"""The flags of kafka-consumer-groups and their allowed combinations (ConsumerGroupCommandOptions).

Imported for every `kohort --help`: must not import anything slow.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..output import FORMATS
from .errors import CommandError, UsageError

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
# In the order in which Kafka checks for conflicts.
SCENARIOS: Final = (
    "to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "shift-by",
    "from-file",
)  # fmt: skip
ONLY_WITH: Final[Mapping[str, Sequence[str]]] = {
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
STATES: Final = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling",
    "Stable",
)  # fmt: skip
TYPES: Final = ("Classic", "Consumer")
NOT_EXECUTED: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)
HELP: Final = """\
List, describe and delete consumer groups, and reset their offsets, in any Kafka cluster.

Flags, tables, messages and exit codes match those of kafka-consumer-groups in Kafka 4.3. If the
cluster returns an error, the exit code is 0, or 1 with --format json or csv. If no broker responds
within --timeout, the exit code is 1."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(module="groups.command")
    add = parser.add_argument
    add("--bootstrap-server", metavar="H:P", help="one or more brokers, separated by commas")
    add("--command-config", metavar="FILE", help="a properties file for Java clients")
    add("--timeout", metavar="MS", default="10000", help="timeout of requests (default: 10000)")
    add("--format", choices=FORMATS, default="table", help="(default: table, as in Kafka's tool)")
    action = parser.add_argument_group("actions, one of").add_argument
    action("--list", action="store_true", help="the names of all groups")
    action("--describe", action="store_true", help="offsets and lag, members or state")
    action("--delete", action="store_true", help="delete groups without members")
    action("--reset-offsets", action="store_true", help="reset offsets of groups without members")
    action("--delete-offsets", action="store_true", help="delete offsets of one group, for --topic")
    which = parser.add_argument_group("selection").add_argument
    repeatable: dict[str, Any] = {"action": "append", "default": []}
    which("--group", metavar="G", **repeatable, help="repeatable")
    which("--all-groups", action="store_true")
    text = "a topic, or only some of its partitions; repeatable"
    which("--topic", metavar="T[:0,1]", **repeatable, help=text)
    which("--all-topics", action="store_true", help="all topics with committed offsets")
    text = "with --list: print states, or only groups in these states; with --describe: print "
    text += "coordinator and state"
    which("--state", nargs="?", const="", metavar="S,S", help=text)
    text = "with --list: print types, or only groups of these types"
    which("--type", nargs="?", const="", metavar="T,T", help=text)
    which("--offsets", action="store_true", help="with --describe (default)")
    which("--members", action="store_true", help="with --describe")
    which("--verbose", action="store_true", help="with --describe: more columns")
    _add_reset_flags(parser)


def _add_reset_flags(parser: argparse.ArgumentParser) -> None:
    reset = parser.add_argument_group("reset offsets to, one of").add_argument
    reset("--to-earliest", action="store_true")
    reset("--to-latest", action="store_true")
    reset("--to-current", action="store_true", help="committed offsets, else the latest")
    reset("--to-offset", metavar="N")
    reset("--shift-by", metavar="N", help="forward, or backward if negative")
    text = "UTC by default; a zone may follow"
    reset("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss", help=text)
    reset("--by-duration", metavar="PnDTnHnMnS", help="offsets at this time before now")
    reset("--from-file", metavar="FILE", help="output of --export")
    how = parser.add_argument_group("how to reset offsets").add_argument
    how("--dry-run", action="store_true", help="only print the new offsets (default)")
    how("--execute", action="store_true", help="commit the new offsets")
    how("--export", action="store_true", help="print the new offsets as CSV, for --from-file")


def check(args: argparse.Namespace) -> None:
    """Raise UsageError with Kafka's message. The checks are in the order of Kafka's tool."""
    if not args.bootstrap_server:
        raise UsageError('Missing required argument "[bootstrap-server]"')
    unavailable = ", ".join(
        flag
        for flag, actions in ONLY_WITH.items()
        if _has(args, flag) and not any(_has(args, action) for action in actions)
    )
    if unavailable:
        raise UsageError(
            f"Option(s) [{unavailable}] are unavailable given other options on the command line"
        )
    if args.describe:
        _check_describe(args)
    if args.delete:
        _check_groups(args, "delete")
        if args.topic:
            raise UsageError(
                "The consumer does not support topic-specific offset deletion from a consumer "
                "group."
            )
    if args.delete_offsets and not (args.group and args.topic):
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if args.reset_offsets:
        _check_reset(args)
    _not_both(args, "group", ("all-groups", "list"))
    _not_both(args, "topic", ("list", "describe"))
    if sum(_has(args, action) for action in ACTIONS) != 1:
        flags = ", ".join(f"--{action}" for action in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {flags}")


def _has(args: argparse.Namespace, flag: str) -> bool:
    return getattr(args, flag.replace("-", "_")) not in (None, False, [])


def _not_both(args: argparse.Namespace, flag: str, others: Sequence[str]) -> None:
    for other in others:
        if other != flag and _has(args, flag) and _has(args, other):
            raise UsageError(f'Option "[{flag}]" can\'t be used with option "[{other}]"')


def _check_groups(args: argparse.Namespace, action: str) -> None:
    if not args.group and not args.all_groups:
        raise UsageError(f"Option [{action}] takes one of these options: [group], [all-groups]")


def _check_describe(args: argparse.Namespace) -> None:
    _check_groups(args, "describe")
    if sum((args.members, args.offsets, args.state is not None)) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if args.state:
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_reset(args: argparse.Namespace) -> None:
    if args.dry_run and args.execute:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not args.dry_run and not args.execute:
        print(NOT_EXECUTED, file=sys.stderr)
    if args.export and args.format != "table":
        raise UsageError("--export cannot be used with --format")
    _check_groups(args, "reset-offsets")
    for scenario in SCENARIOS:
        _not_both(args, scenario, SCENARIOS)


def names(text: str | None, known: Sequence[str], kind: str) -> list[str]:
    """Parse a list of states or types such as `stable,empty`, and return Kafka's names for them.
    Raises UsageError."""
    if not text:
        return []
    by_lower = {name.lower(): name for name in known}
    given = [name.strip().lower() for name in text.split(",")]
    if not by_lower.keys() >= set(given):
        valid = "states" if kind == "state" else kind
        raise UsageError(f"Invalid {kind} list '{text}'. Valid {valid} are: {', '.join(known)}")
    return [by_lower[name] for name in given]


def integer(text: str, flag: str) -> int:
    """Parse an integer. Raises CommandError and not UsageError, because Kafka parses the value only
    when it runs the action."""
    try:
        return int(text)
    except ValueError as error:
        raise CommandError(f"Cannot parse argument '{text}' of option {flag}") from error
