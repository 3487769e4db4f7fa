"""The command line: which commands there are and what their flags mean.

Imports nothing heavy: `kohort --help` and the way to a listening broker have to be quick, so a
command's module is imported when the command is called.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Never, TypeAlias

from .. import __version__, is_compiled
from . import logs
from .assign import arguments as assign_arguments
from .ctl import arguments as test_arguments
from .errors import EXIT_USER_ERROR, UserError
from .groups import arguments as groups_arguments
from .log import arguments as log_arguments
from .pipeline import arguments as pipeline_arguments
from .pipeline import questions

__all__ = ["main", "parser"]

SERVE = """\
Run a broker until SIGTERM or SIGINT. When clients can connect, it prints one line:

    kohort VERSION listening on HOST:PORT (data DIR, durability fsync)

With --control-port a second line follows: control http://HOST:PORT

Settings are those of Kafka's server.properties. What is given twice is taken from the first of:
a flag, -o, an environment variable (KAFKA_NUM_PARTITIONS=6), the --config file, the default."""


class Parser(argparse.ArgumentParser):
    """argparse, with one sentence instead of the usage text when something is wrong."""

    exit_code = EXIT_USER_ERROR

    def error(self, message: str) -> Never:
        self.exit(self.exit_code, f"{self.prog}: {message}; see `{self.prog} --help`.\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 done, 1 no (or nobody reads on), 2 the user has to mend
    something, 130 Ctrl-C. `kohort groups` has those of Kafka's tool (docs/groups.md)."""
    top = parser()
    args, unknown = top.parse_known_args(argv)
    if unknown:
        # Said here: argparse would refer to `kohort --help`, which has not the command's flags.
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if args.command is None:
        top.error(
            "give a command: serve (run a broker), health (ask a broker whether it is well), "
            "groups (list, describe, reset, delete), assign (say who gets which partition), "
            "log (look into its files), pipeline (read its log into a lake), why, timeline, lag, "
            "storms, report (ask what happened) or test (steer a broker that a test has started)"
        )
    try:
        module = getattr(args, "module", args.command)
        code: int = import_module(f".{module}", __package__).run(args)
        sys.stdout.flush()
    except UserError as error:
        print(f"kohort {args.command}: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # as a shell tells of one that the signal ended
    except BrokenPipeError:
        # Who reads our lines (`| head`) has had enough. What is left is written nowhere, or Python
        # would complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def parser() -> argparse.ArgumentParser:
    """All commands with all flags. `args.module`, or else `args.command`, names the module that
    runs it."""
    top = Parser(
        prog="kohort",
        description="A Kafka group coordinator broker, wire-compatible, made for tests.",
        allow_abbrev=False,
    )
    version = f"kohort {__version__}{' (compiled)' if is_compiled() else ''}"
    top.add_argument("--version", action="version", version=version)
    top.set_defaults(parser=top)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    _serve(commands)
    _health(commands)
    _groups(commands)
    says = "say who gets which partition, and why"
    assign_arguments.add_flags(_added(commands, "assign", says, assign_arguments.HELP))
    says = "look into the files of a log"
    log_arguments.add_commands(_added(commands, "log", says, log_arguments.HELP))
    says = "read an offsets log into a lake of tables, with Spark"
    pipeline_arguments.add_commands(_added(commands, "pipeline", says, pipeline_arguments.HELP))
    for name, question in questions.QUESTIONS.items():
        questions.add_flags(_added(commands, name, question.says, question.description), name)
    says = "ask and steer a broker that runs with --control-port"
    test_arguments.add_commands(_added(commands, "ctl", says, test_arguments.HELP))
    return top


def _serve(commands: Commands) -> None:
    serve = _added(commands, "serve", "run a broker", SERVE)
    add = serve.add_argument
    add("--host", metavar="H", help="address to listen on (default: 127.0.0.1)")
    add("--port", metavar="P", help="port to listen on (default: 9092); 0: any free one")
    add("--nodes", metavar="N", help="nodes of the cluster, on ports P, P+1, … (default: 1)")
    add("--profile", metavar="NAME", help="whose API versions are served (default: kafka-4.x)")
    add("--cache-offsets", metavar="N", help="offsets kept in memory at most (default: all)")
    add("--data-dir", metavar="D", help="folder to keep everything in (default: ./kohort-data)")
    add(
        "--durability",
        metavar="fsync|os|none",
        help="what an acknowledged commit survives: power loss (default), the end of the "
        "process, nothing (no folder is used)",
    )
    add(
        "--events",
        metavar="off|on|all",
        help="what the event log in the data folder tells: nothing, why groups are rebalanced "
        "(default), every commit too",
    )
    _controls(add)
    add("--config", metavar="FILE", type=Path, help="a server.properties")
    add(
        "-o",
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one setting, as often as you like",
    )
    add("--print-config", action="store_true", help="print all settings, each with its origin")
    add(
        "--log-level",
        type=str.lower,
        choices=logs.LEVELS,
        default="info",
        help="from where on (default: info); debug tells of every request",
    )
    add("--log-format", choices=logs.FORMATS, default="kafka", help="(default: kafka)")


def _controls(add: Callable[..., object]) -> None:
    add(
        "--control-port",
        metavar="P",
        help="let tests in any language ask and steer the broker, over HTTP at this port (0: any "
        "free one): in memory, and without a password (docs/control.md)",
    )
    add("--control-host", metavar="H", help="address of the controls (default: 127.0.0.1)")
    add(
        "--control-preset",
        choices=("kafka", "instant"),
        help="with controls: Kafka's own times (default), or rebalances that wait for nobody",
    )


def _health(commands: Commands) -> None:
    health = commands.add_parser(
        "health",
        help="ask a broker whether it is well; exit code 0 or 1",
        description="Ask a broker (any that speaks Kafka's protocol) for its API versions. "
        "Exit code 0: it answered; 1: it did not, and why.",
        allow_abbrev=False,
    )
    health.set_defaults(parser=health)
    health.add_argument("--bootstrap-server", metavar="H:P", required=True)
    health.add_argument(
        "--timeout", metavar="MS", type=int, default=5000, help="milliseconds (default: 5000)"
    )


def _groups(commands: Commands) -> None:
    says = "list, describe, delete consumer groups and reset their offsets, in any Kafka"
    groups = _added(commands, "groups", says, groups_arguments.HELP, allow_abbrev=True)
    groups.exit_code = 1  # as kafka-consumer-groups ends for wrong flags
    groups_arguments.add_flags(groups)


def _added(
    commands: Commands, name: str, says: str, description: str, *, allow_abbrev: bool = False
) -> Parser:
    """A command whose description is set as it is written."""
    command = commands.add_parser(
        name,
        help=says,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=allow_abbrev,
    )
    command.set_defaults(parser=command)
    return command
