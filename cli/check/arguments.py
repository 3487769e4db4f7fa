"""The flags of `kohort check`.

Imported for every `kohort --help`: must not import anything slow.
"""

import argparse
import math
from typing import Final

HELP: Final = """\
Check that a broker keeps its promises under load: producers, transactions, consumers and groups
work on a new topic, clients crash, and everything is read at the end. What the clients saw must be
possible with a correct Kafka (docs/check.md lists the anomalies). Works with Kafka 3.0 or later:

    kohort check --bootstrap-server 127.0.0.1:9092 --seconds 60

Without --bootstrap-server it starts a kohort cluster and disturbs it: kill, power (failure), move
(leaders and coordinators), fsync (fails), clock (jumps), lost (responses). With --command it starts
your broker and disturbs that: kill (SIGKILL), pause (SIGSTOP).

Exit code 0: no anomaly; 1: an anomaly; 2: invalid flags, or the broker cannot be judged, because it
cannot be reached or did too little."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(module="check.command")
    add = parser.add_argument
    text = "one or more brokers, separated by commas (default: the built-in kohort cluster)"
    add("--bootstrap-server", metavar="H:P", help=text)
    add("--command-config", metavar="FILE", help="a properties file for Java clients")
    text = "starts the broker at --bootstrap-server, in the foreground, and again after each kill"
    add("--command", metavar="COMMAND", dest="broker_command", help=text)
    add("--seconds", metavar="N", type=_seconds, default=60.0, help="duration (default: 60)")
    text = "decides what the clients and the disturbances do (default: a random number)"
    add("--seed", metavar="S", type=_whole, help=text)
    text = "how to disturb the broker: names separated by commas, or none (default: all that apply)"
    add("--nemesis", metavar="NAMES", help=text)
    text = "of classic members (default: 6000, Kafka's minimum; built-in cluster: 1500)"
    add("--session-timeout", metavar="MS", type=_whole, help=text)
    add("--format", choices=("text", "json"), default="text", help="(default: text)")
    add("--timeline", metavar="FILE", help="write a picture of the run, FILE.svg")


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
