"""The flags of `kohort ctl`, made of the table of its commands."""

import argparse
import os
import re

from .commands import COMMANDS, Command

HELP = """\
Ask and steer a broker that was started with `kohort serve --control-port 9093`:

    export KOHORT_CONTROL=http://127.0.0.1:9093
    kohort ctl topic orders --partitions 3
    kohort ctl produce orders a b c
    kohort ctl wait billing stable --members 1
    kohort ctl fault answer OffsetCommit --error NOT_COORDINATOR --group billing
    kohort ctl advance --seconds 45
    kohort ctl check-faults

The answer is JSON on standard output. Exit code 0: done; 1: a barrier has waited in vain, a fault
has not fired or a puppet may not join, and standard error has the story; 2: something has to be
mended."""

VARIABLE = "KOHORT_CONTROL"

_WHOLE = "total node_id hold fault partitions partition members generation offset ms nth seed"
_MORE = "limit after count node snapshot puppet session_timeout_ms rebalance_timeout_ms"
_WHOLE_NUMBERS = {*_WHOLE.split(), *_MORE.split()}
_NUMBERS = {"timeout", "days", "hours", "minutes", "seconds", "probability"}
PAIRS = ("config", "headers")
"""Said as KEY=VALUE, each on its own."""
_SWITCHES = {"power", "may_be_refused"}
_SAID = {
    "values": "values of the records",
    "keys": "their keys: once for each value",
    "headers": "a header of each record, as often as you like",
    "config": "one of Kafka's topic configs, as often as you like",
    "timeout": "seconds of wall time (default: 10)",
    "times": "how often (default: 1; always: without end)",
    "until": "stable, generation, owner, committed, empty or gone",
    "deed": "of a fault: answer, delay, delay_answer, never_answer, drop, lose_answer, "
    "apply_late, close_mid_frame, trickle, corrupt; of a puppet: slow, quick, silence, speak, die, "
    "leave, come_back, close",
    "error": "Kafka's name of it: NOT_COORDINATOR",
    "who": "a member id, an instance id or a client id",
    "encoding": "text (default), or base64",
}


def add_commands(test: argparse.ArgumentParser) -> None:
    test.add_argument(
        "--control",
        metavar="URL",
        default=os.environ.get(VARIABLE),
        help=f"where the controls are, as `kohort serve` prints it (default: ${VARIABLE})",
    )
    commands = test.add_subparsers(dest="ctl", metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = commands.add_parser(
            command.name, help=command.help, description=command.help, allow_abbrev=False
        )
        one.set_defaults(parser=one)
        for name in in_path(command) + list(command.places):
            count = "+" if name in ("values", "topics") else None
            one.add_argument(name, nargs=count, type=_type(name), help=_SAID.get(name))
        for name in command.flags:
            _add_flag(one, name)


def in_path(command: Command) -> list[str]:
    """What its path names."""
    return re.findall(r"{(\w+)}", command.path)


def times(text: str) -> int | None:
    """None: always."""
    return None if text == "always" else int(text)


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} is no KEY=VALUE")
    return key, value


def _add_flag(parser: argparse.ArgumentParser, name: str) -> None:
    # SUPPRESS: what nobody has said is not sent, and null can be.
    flag = f"--{name.replace('_', '-')}"
    if name in _SWITCHES:
        parser.add_argument(flag, dest=name, default=argparse.SUPPRESS, action="store_true")
        return
    parser.add_argument(
        flag,
        dest=name,
        default=argparse.SUPPRESS,
        type=_type(name),
        action="append" if name in ("keys", *PAIRS) else "store",
        metavar="KEY=VALUE" if name in PAIRS else name.upper(),
        help=_SAID.get(name),
    )


def _type(name: str) -> "argparse._ActionType":
    if name in _WHOLE_NUMBERS:
        return int
    if name in _NUMBERS:
        return float
    return pair if name in PAIRS else times if name == "times" else str
