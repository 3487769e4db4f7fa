"""The command line: commands, flags and exit codes.

Must not import anything slow: the module of a command is imported when that command runs.
"""

import argparse
import errno
import io
import math
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Never, TypeAlias

from .. import __version__, is_compiled
from ..printable import printable
from . import log as log_commands
from .acls import arguments as acls_arguments
from .assign import arguments as assign_arguments
from .ctl import commands as ctl_commands
from .errors import EXIT_INTERRUPTED, EXIT_NEGATIVE, EXIT_USER_ERROR, UserError
from .groups import arguments as groups_arguments
from .imports import hypothesis_hidden
from .pipeline import arguments as pipeline_arguments
from .transactions import arguments as transactions_arguments

__all__ = ["main", "parser"]

SERVE = """\
Run a broker until SIGTERM, SIGINT or SIGHUP. When clients can connect, the broker prints one line:

    kohort VERSION listening on HOST:PORT (data DIR, durability fsync)

With --control-port a second line follows: control http://HOST:PORT

The configuration keys are those of Kafka's server.properties. A value is taken from the first of:
a flag, -o, an environment variable (KAFKA_NUM_PARTITIONS=6), the --config file, the default."""

CONFORMANCE = """\
Play scenarios on a broker, and compare its responses with those recorded from Apache Kafka 4.3.
Everything that a run creates is removed, except internal topics and transactional ids. Use a
dedicated test broker.

A scenario is skipped if the broker does not have the settings that it needs. --print-settings
prints settings for a broker (docs/conformance.md). A run takes one to four minutes. Exit code 0:
no response differs; 1: some responses differ; 2: the broker cannot be reached or used, or a flag is
invalid; 130: interrupted (Ctrl-C)."""

CHECK = """\
Check that a broker keeps Kafka's guarantees under load. Producers, transactions, consumers and
groups use a new topic, clients crash, and everything is read at the end. What the clients observed
must be possible with a correct Kafka (docs/check.md lists the anomalies). Works with Kafka 3.0 or
later:

    kohort check --bootstrap-server 127.0.0.1:9092 --seconds 60

Without --bootstrap-server, the command starts a kohort cluster and disturbs it; with --command, it
starts and disturbs your broker. --nemesis selects the disturbances. For the cluster: kill, power
(failure), move (leaders and coordinators), fsync (failures), clock (jumps), lost (responses). For
your broker: kill (SIGKILL), pause (SIGSTOP).

Exit code 0: no anomaly; 1: an anomaly; 2: invalid flags, or no verdict is possible."""

# The names in conformance/settings.py, which would be slow to import.
CONFORMANCE_SETTINGS: Final = (
    *("quick", "delayed", "configs", "consumer", "upgrade", "downgrade", "disabled"),
    *("transactions", "acls", "open"),
)

MISSING: Final = "the following arguments are required"
"""The beginning of argparse's message about missing arguments."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage text. `args.parser` is the parser of
    the given command. By default, flags cannot be abbreviated."""

    exit_code = EXIT_USER_ERROR

    def __init__(self, *, allow_abbrev: bool = False, **options: Any) -> None:
        super().__init__(allow_abbrev=allow_abbrev, **options)
        self.set_defaults(parser=self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Before Python 3.13, argparse would set the flag of `--flag=--` to [].
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument, not '--'")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from ..suggestions import did_you_mean

            if hint := did_you_mean(str(value), map(str, action.choices)):
                raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> Never:
        # argparse would report only missing arguments, although unknown ones may be misspellings.
        if message.startswith(MISSING) and (unknown := self._unknown_flags()):
            self.reject(unknown)
        see = " See" if message.endswith("?") else "; see"
        self.exit(self.exit_code, f"{self.prog}: {message}{see} `{self.prog} --help`.\n")

    def reject(self, unknown: Sequence[str]) -> Never:
        from ..suggestions import did_you_mean

        own = (flag for action in self._actions for flag in action.option_strings)
        hint = did_you_mean(unknown[0].partition("=")[0], own)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")

    def check_encoding(self) -> None:
        """Reject arguments that cannot be sent to a broker. They come from a terminal or a script
        with another encoding."""
        for each in self._given:
            if not each.isprintable() and any("\ud800" <= char <= "\udfff" for char in each):
                self.error(f"invalid argument '{printable(each)}': expected UTF-8")

    def _unknown_flags(self) -> list[str]:
        given = [each for each in takewhile("--".__ne__, self._given) if each.startswith("--")]
        known = tuple(self._flags())
        return [
            each
            for each in given
            if (flag := each.partition("=")[0]) not in known
            and not (self.allow_abbrev and any(one.startswith(flag) for one in known))
        ]

    def _flags(self) -> Iterator[str]:
        """Yield the flags, including those of subcommands."""
        for action in self._actions:
            yield from action.option_strings
            if isinstance(action, argparse._SubParsersAction):
                for subcommand in action.choices.values():
                    yield from subcommand._flags()


INSTALL: Final = "run pip install './kohort[{}]' in the folder that contains the clone"
EXTRA: Final = {
    "kafka": ("kafka-python", INSTALL.format("cli")),
    "rich": ("rich", INSTALL.format("cli")),
    "numpy": ("numpy", INSTALL.format("pipeline")),
    "pyarrow": (
        "pyarrow",
        INSTALL.format("pipeline") + ", or install only pyarrow to query a lake",
    ),
}
"""Module -> package that contains it, and how to install it."""

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. 0: success; 1: negative result, no broker of a
    cluster responded, or standard output was closed; 2: an error that the user can fix; 130:
    Ctrl-C. `kohort groups`, `acls` and `transactions` follow Kafka's tools."""
    _open_standard_streams()
    top = parser()
    args, unknown = top.parse_known_args(argv)
    if unknown:
        # argparse itself would refer to `kohort --help`, which does not list the command's flags.
        args.parser.reject(unknown)
    if args.command is None:
        top.error(f"missing command: one of {', '.join(args.commands)}")
    if args.command in ("acls", "ctl", "groups", "transactions"):
        args.parser.check_encoding()
    try:
        args.check(args)  # before imports that may take a second
        with hypothesis_hidden():
            module = import_module(f".{_module(args)}", __package__)
        code: int = module.run(args)
        sys.stdout.flush()
    except UserError as error:
        print(f"kohort {args.command}: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except ImportError as error:
        module_name = (error.name or "").partition(".")[0]
        if module_name not in EXTRA:
            raise
        package, hint = EXTRA[module_name]
        if isinstance(error, ModuleNotFoundError):
            problem = f"{package} is not installed"
        else:
            problem = f"the installed version of {package} is too old ({error})"
        print(f"kohort {args.command}: {problem}: {hint}.", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and error.errno != errno.ENOSPC:
            raise
        # Python flushes standard output once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # `kohort … | head`
            return EXIT_NEGATIVE
        where = error.filename or "standard output or data"  # only errors of open() name the file
        print(
            f"kohort {args.command}: no space left for {where}: free some space.",
            file=sys.stderr,
        )
        return EXIT_USER_ERROR
    return code


def _open_standard_streams() -> None:
    """Make standard output escape characters that it cannot encode, and open /dev/null for standard
    streams that were closed at startup. Otherwise, printing such a character would fail, and a
    socket or a file would get the descriptor of the closed stream, which libuv refuses to close.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # open() gets its descriptor, the lowest free one
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names may contain characters that the encoding of the terminal lacks.
        sys.stdout.reconfigure(errors="backslashreplace")


def _module(args: argparse.Namespace) -> str:
    """Return the module whose `run` runs the command, relative to this package."""
    if args.command == "serve" and args.control_port is not None and not args.print_config:
        return "control"
    return str(getattr(args, "module", args.command))


def parser() -> argparse.ArgumentParser:
    """Return the parser with all commands and flags."""
    about = "A small Kafka-compatible broker for tests, built around the group coordinator."
    top = Parser(prog="kohort", description=about)
    version = f"kohort {__version__}{' (compiled)' if is_compiled() else ''}"
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    _serve(commands)
    _health(commands)
    _conformance(commands)
    _check(commands)
    summary = "list, describe and delete consumer groups and reset their offsets, in any cluster"
    groups = _add(commands, "groups", summary, groups_arguments.HELP, allow_abbrev=True)
    groups.exit_code = 1  # for invalid flags, as in kafka-consumer-groups
    groups_arguments.add_flags(groups)
    summary = "list, add and remove ACLs, in any cluster"
    acls = _add(commands, "acls", summary, acls_arguments.HELP)
    acls.exit_code = 1  # for invalid flags, as in kafka-acls
    acls_arguments.add_flags(acls)
    summary = "list, describe and abort transactions, in any cluster"
    transactions = _add(commands, "transactions", summary, transactions_arguments.HELP)
    transactions.exit_code = 1  # for invalid flags, as in kafka-transactions
    transactions_arguments.add_commands(transactions)
    summary = "compute an assignment of partitions, and explain it"
    assign_arguments.add_flags(_add(commands, "assign", summary, assign_arguments.HELP))
    summary = "inspect, repair and compact the files of a log"
    log_commands.add_commands(_add(commands, "log", summary, log_commands.HELP))
    summary = "read an offsets log into a lake of tables, with Spark"
    pipeline_arguments.add_commands(_add(commands, "pipeline", summary, pipeline_arguments.HELP))
    for name, query in pipeline_arguments.QUERIES.items():
        command = _add(commands, name, query.summary, query.description)
        pipeline_arguments.add_query_flags(command, name)
    summary = "query and control a broker started with --control-port"
    ctl_commands.add_commands(_add(commands, "ctl", summary, ctl_commands.HELP))
    top.set_defaults(commands=list(commands.choices), check=lambda _args: None)
    return top


def _serve(commands: Commands) -> None:
    serve = _add(commands, "serve", "run a broker", SERVE)
    add = serve.add_argument
    add("--host", metavar="H", help="address to listen on (default: 127.0.0.1)")
    add("--port", metavar="P", help="port to listen on (default: 9092); 0: any free port")
    text = "how clients connect: PLAINTEXT (default), SSL, SASL_PLAINTEXT or SASL_SSL; the "
    text += "certificate authority is D/security/ca.pem (docs/security.md)"
    add("--security", metavar="PROTOCOL", help=text)
    text = "a user that can authenticate with SASL; may be repeated"
    add("--user", metavar="NAME:PASSWORD", action="append", help=text)
    text = "a super user; all other users may do only what ACLs allow; may be repeated"
    add("--super-user", metavar="NAME", action="append", help=text)
    add("--nodes", metavar="N", help="nodes of the cluster, on ports P, P+1, … (default: 1)")
    add("--profile", metavar="NAME", help="API versions to serve (default: kafka-4.x)")
    add("--cache-offsets", metavar="N", help="offsets to keep in memory (default: all)")
    add("--data-dir", metavar="D", help="data folder (default: ./kohort-data)")
    text = "what an acknowledged commit survives: power loss (default), a process crash, "
    text += "nothing (everything is in memory)"
    add("--durability", metavar="fsync|os|none", help=text)
    text = "event log in the data folder: none, causes of rebalances (default), or also commits"
    add("--events", metavar="off|on|all", help=text)
    text = "HTTP port on which tests control the broker (0: any free port); all data is in "
    text += "memory (docs/control.md)"
    add("--control-port", metavar="P", help=text)
    text = "address of --control-port (default: 127.0.0.1); a non-local one needs a token"
    add("--control-host", metavar="H", help=text)
    text = "the bearer token that each request to --control-port must contain; prefer the "
    text += "variable KOHORT_CONTROL_TOKEN, because other users can see flags"
    add("--control-token", metavar="T", help=text)
    text = "with --control-port: Kafka's timeouts (default), or no initial rebalance delay"
    add("--control-preset", choices=("kafka", "instant"), help=text)
    add("--config", metavar="FILE", type=Path, help="a server.properties file")
    override = add("-o", "--override", metavar="KEY=VALUE", action="append", default=[])
    override.help = "set one configuration key; repeatable"
    text = (
        "ignore configuration keys that neither kohort nor Kafka defines, rather than reject them"
    )
    add("--allow-unknown-config", action="store_true", help=text)
    add("--print-config", action="store_true", help="print all settings and their origins")
    text = "(default: info); debug logs every request"
    levels = ("debug", "info", "warning", "error")
    add("--log-level", type=str.lower, choices=levels, default="info", help=text)
    add("--log-format", choices=("kafka", "json"), default="kafka", help="(default: kafka)")


def _health(commands: Commands) -> None:
    text = "Request the API versions of a kohort or Kafka broker.\n"
    text += "Exit code 0: the broker responded; 1: it did not, and the reason is printed."
    add = _add(
        commands, "health", "check that a broker responds; exit code 0 or 1", text
    ).add_argument
    add("--bootstrap-server", metavar="H:P", required=True, help="address of the broker")
    add("--timeout", metavar="MS", type=int, default=5000, help="milliseconds (default: 5000)")


def _conformance(commands: Commands) -> None:
    summary = "compare the responses of any broker with those of Apache Kafka"
    add = _add(commands, "conformance", summary, CONFORMANCE).add_argument
    add("--bootstrap-server", metavar="H:P", help="address of the broker, a single node for tests")
    text = "the broker's listener with SASL/PLAIN for scenarios with ACLs, which delete all ACLs; "
    text += "--print-settings acls prints the users"
    add("--sasl-bootstrap-server", metavar="H:P", help=text)
    text = "a properties file for Java clients, if the broker requires TLS or SASL"
    add("--command-config", metavar="FILE", help=text)
    text = "play only scenarios with this name, module or area, such as heartbeats or "
    text += "'static_members.*'; may be repeated"
    add("--only", metavar="PATTERN", action="append", default=[], help=text)
    text = "play only scenarios recorded with these settings, with which the broker was started"
    add("--settings", choices=CONFORMANCE_SETTINGS, help=text)
    text = "a broker setting that the broker does not report; may be repeated"
    add("--assume", metavar="KEY=VALUE", action="append", default=[], help=text)
    text = "also compare error messages, and other fields next to an error code"
    add("--strict", action="store_true", help=text)
    add("--format", choices=("text", "json", "markdown"), default="text", help="(default: text)")
    add("--list", action="store_true", help="print the scenarios and the settings that they need")
    text = "print lines of server.properties for a broker that plays these scenarios"
    add("--print-settings", choices=CONFORMANCE_SETTINGS, help=text)


def _check(commands: Commands) -> None:
    summary = "check that a broker keeps Kafka's guarantees under load"
    add = _add(commands, "check", summary, CHECK).add_argument
    text = "one or more brokers, separated by commas (default: the built-in kohort cluster)"
    add("--bootstrap-server", metavar="H:P", help=text)
    add("--command-config", metavar="FILE", help="a properties file for Java clients")
    text = "a command that runs the broker in the foreground; run again after each kill"
    add("--command", metavar="COMMAND", dest="broker_command", help=text)
    add("--seconds", metavar="N", type=_seconds, default=60.0, help="duration (default: 60)")
    text = "seed for the actions of clients and disturbances (default: a random number)"
    add("--seed", metavar="S", type=_whole, help=text)
    text = "how to disturb the broker: names separated by commas, or none (default: all that apply)"
    add("--nemesis", metavar="NAMES", help=text)
    text = "session timeout of classic members (default: 6000, or 1500 for the built-in cluster)"
    add("--session-timeout", metavar="MS", type=_whole, help=text)
    add("--format", choices=("text", "json"), default="text", help="(default: text)")
    add("--timeline", metavar="FILE", help="write a timeline of the run to FILE, an .svg file")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"invalid {text!r}: expected a number of seconds, e.g. 15")
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid {text!r}: expected a number, e.g. 15") from None


def _add(
    commands: Commands, name: str, summary: str, description: str, *, allow_abbrev: bool = False
) -> Parser:
    raw = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(
        name, help=summary, description=description, formatter_class=raw, allow_abbrev=allow_abbrev
    )
