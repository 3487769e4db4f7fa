"""The commands of `kohort ctl`: each is one endpoint of the control API (docs/control.md).

Parameters in the path and required fields are positional arguments. Other fields are flags. The
broker validates the values.
"""

import argparse
import math
import os
import re
from typing import Final, NamedTuple

from ...control_api import TOKEN_VARIABLE
from ...control_api.parameters import describe

HELP: Final = """\
Inspect and control a broker that was started with `kohort serve --control-port 9093`:

    export KOHORT_CONTROL=http://127.0.0.1:9093
    kohort ctl topic orders --partitions 3
    kohort ctl produce orders a b c
    kohort ctl wait billing stable --members 1
    kohort ctl fault answer OffsetCommit --error NOT_COORDINATOR --group billing
    kohort ctl advance --seconds 45
    kohort ctl check-faults

The response is printed as JSON. Exit code 0: success; 1: a wait timed out, a fault did not fire,
a fake member could not join, or the group, topic or other object does not exist (an explanation is
on standard error); 2: invalid arguments or no connection."""

VARIABLE: Final = "KOHORT_CONTROL"


class Command(NamedTuple):
    name: str
    method: str
    path: str
    help: str
    arguments: str = ""
    """Positional arguments after the names in the path, and flags."""

    @property
    def positional(self) -> list[str]:
        return [name for name in self.arguments.split() if not name.startswith("--")]

    @property
    def flags(self) -> list[str]:
        return [name[2:] for name in self.arguments.split() if name.startswith("--")]


_FILTER: Final = (
    "--group --member --instance_id --generation --transactional_id --client_id --topic "
    "--partition --node"
)
_WHEN: Final = "--nth --times --probability --seed"
_WAIT: Final = "--members --generation --epoch --topic --partition --member --offset --timeout"
_TIME: Final = "--days --hours --minutes --seconds --ms --heartbeats --timeout"
_REQUESTS: Final = "--group --client_id --after"
_JOIN: Final = (
    "--protocol --assignor --client_id --instance_id --session_timeout_ms --rebalance_timeout_ms "
    "--may_be_rejected --timeout"
)
_GROUP: Final = "/groups/{group}"
_TRANSACTION: Final = "/transactions/{transactional_id}"
_FAKE: Final = "/fake-members/{fake_member}"

# fmt: off
COMMANDS: Final = (
    Command("cluster", "GET", "/cluster", "addresses for clients, and the nodes"),
    Command("event-loop", "GET", "/event-loop", "durations of event loop callbacks"),
    Command("reset", "POST", "/reset", "replace the broker with a new one at the same address"),
    Command("clock", "GET", "/clock", "the broker's time"),
    Command("freeze", "POST", "/clock/freeze", "stop the clock"),
    Command("resume", "POST", "/clock/resume", "resume the clock"),
    Command("advance", "POST", "/clock/advance", "advance the clock", _TIME),
    Command("topics", "GET", "/topics", "names of all topics"),
    Command("topic", "POST", "/topics/{topic}", "create a topic if it does not exist",
            "--partitions --config"),
    Command("describe-topic", "GET", "/topics/{topic}", "partitions and log end offsets"),
    Command("delete-topic", "DELETE", "/topics/{topic}", "delete a topic"),
    Command("add-partitions", "POST", "/topics/{topic}/partitions", "add partitions to a topic",
            "total"),
    Command("produce", "POST", "/topics/{topic}/records", "append records",
            "values --keys --partition --headers --encoding"),
    Command("records", "GET", "/topics/{topic}/records", "the records of a topic",
            "--partition --limit --read_committed --encoding"),
    Command("groups", "GET", "/groups", "all groups"),
    Command("group", "GET", _GROUP, "state, members and their partitions"),
    Command("wait", "POST", f"{_GROUP}/wait", "wait until a group is stable, …", f"until {_WAIT}"),
    Command("explain", "GET", f"{_GROUP}/explain", "explain what a group is waiting for"),
    Command("offsets", "GET", f"{_GROUP}/offsets", "committed offsets"),
    Command("lag", "GET", f"{_GROUP}/lag", "records after the committed offsets", "topic"),
    Command("generations", "GET", f"{_GROUP}/generations", "completed rebalances and causes"),
    Command("assignments", "GET", f"{_GROUP}/assignments", "partitions of members over time"),
    Command("commits", "GET", f"{_GROUP}/commits", "accepted commits"),
    Command("rejected-commits", "GET", f"{_GROUP}/rejected-commits", "rejected commits"),
    Command("exits", "GET", f"{_GROUP}/exits", "members that left or were removed"),
    Command("state-changes", "GET", f"{_GROUP}/state-changes", "state transitions"),
    Command("rebalance", "POST", f"{_GROUP}/rebalance", "start a rebalance", "--reason"),
    Command("lead", "POST", f"{_GROUP}/lead", "start a rebalance with this leader", "member"),
    Command("expire", "POST", f"{_GROUP}/expire", "end the session of a member", "member"),
    Command("fence", "POST", f"{_GROUP}/fence", "fence a member, which must rejoin", "member"),
    Command("evict", "POST", f"{_GROUP}/evict", "remove a member as an administrator does",
            "member --reason"),
    Command("move", "POST", f"{_GROUP}/move", "move the coordinator to a node", "node_id"),
    Command("load", "POST", f"{_GROUP}/loading", "make the coordinator load until finish-loading"),
    Command("finish-loading", "DELETE", f"{_GROUP}/loading", "make the coordinator active"),
    Command("hold-assignment", "POST", f"{_GROUP}/assignment-hold",
            "hold back the assignment of a consumer group until release-assignment"),
    Command("release-assignment", "DELETE", f"{_GROUP}/assignment-hold", "compute the assignment"),
    Command("hold", "POST", f"{_GROUP}/holds",
            "hold JoinGroup, SyncGroup or ConsumerGroupHeartbeat requests", "api"),
    Command("holds", "GET", "/holds", "all holds and their requests"),
    Command("wait-hold", "POST", "/holds/{hold}/wait", "wait until requests are held",
            "--count --timeout"),
    Command("release", "DELETE", "/holds/{hold}", "release the requests of a hold"),
    Command("transactions", "GET", "/transactions", "all transactions"),
    Command("transaction", "GET", _TRANSACTION, "state, producer, partitions, and what the "
            "transaction is waiting for"),
    Command("wait-transaction", "POST", f"{_TRANSACTION}/wait",
            "wait until a transaction is open, committed or aborted", "until --timeout"),
    Command("abort-transaction", "POST", f"{_TRANSACTION}/abort",
            "abort an open transaction and fence its producer"),
    Command("expire-transactional-id", "POST", f"{_TRANSACTION}/expire",
            "expire a transactional id that has no open transaction"),
    Command("hold-markers", "POST", f"{_TRANSACTION}/marker-hold",
            "hold back the markers of a transaction until release-markers"),
    Command("wait-markers", "POST", f"{_TRANSACTION}/marker-hold/wait",
            "wait until markers are held", "--timeout"),
    Command("release-markers", "DELETE", f"{_TRANSACTION}/marker-hold", "write the markers"),
    Command("transaction-changes", "GET", f"{_TRANSACTION}/changes", "state changes and causes"),
    Command("fake-member", "POST", f"{_GROUP}/fake-members", "add a scripted member",
            f"topics {_JOIN}"),
    Command("describe-fake-member", "GET", _FAKE, "a fake member's partitions and errors"),
    Command("wait-fake-member", "POST", f"{_FAKE}/wait", "wait until a fake member owns partitions",
            "--partitions --timeout"),
    Command("script-fake-member", "POST", f"{_FAKE}/script",
            "suspend, kill or restart a fake member, …", "action"),
    Command("commit-fake-member", "POST", f"{_FAKE}/commit", "commit an offset as the fake member",
            "topic partition offset --generation --member_id"),
    Command("stop-node", "POST", "/nodes/{node_id}/stop", "stop a node"),
    Command("start-node", "POST", "/nodes/{node_id}/start", "start a stopped node"),
    Command("crash", "POST", "/crash", "crash the broker and start it again", "--power --seed"),
    Command("restart", "POST", "/restart", "stop and start the broker"),
    Command("snapshot", "POST", "/snapshots", "copy the disk"),
    Command("restore", "POST", "/snapshots/{snapshot}/restore", "start from a snapshot"),
    Command("fault", "POST", "/faults", "set a fault: answer with an error, drop requests, …",
            f"action api --error --seconds --ms {_FILTER} {_WHEN}"),
    Command("condition", "POST", "/conditions",
            "set a condition of the network, a clock or the disk: latency, network_partition, …",
            "condition --api --seconds --ms --jitter_ms --bytes_per_second --seed --group "
            "--client_id --topic --partition --node --times"),
    Command("faults", "GET", "/faults", "all faults that are set"),
    Command("describe-fault", "GET", "/faults/{fault}", "a fault and its requests"),
    Command("wait-fault", "POST", "/faults/{fault}/wait", "wait until a fault has fired",
            "--times --timeout"),
    Command("cancel-fault", "DELETE", "/faults/{fault}", "remove a fault"),
    Command("check-faults", "POST", "/faults/check", "check and remove all faults"),
    Command("requests", "GET", "/requests", "the last requests", f"--api {_REQUESTS} --limit"),
    Command("wait-request", "POST", "/requests/wait", "wait until a request has arrived",
            f"api {_REQUESTS} --count --timeout"),
    Command("events", "GET", "/events", "the last events of coordinators", "--group --limit"),
)
# fmt: on

# --- arguments

_INTEGERS: Final = {
    "after", "bytes_per_second", "count", "epoch", "fake_member", "fault", "generation", "hold",
    "jitter_ms", "limit", "members", "ms",
    "node", "node_id", "nth", "offset", "partition", "partitions", "rebalance_timeout_ms", "seed",
    "session_timeout_ms", "snapshot", "total",
}  # fmt: skip
_NUMBERS: Final = {"timeout", "days", "hours", "minutes", "seconds", "probability"}
PAIRS: Final = ("config", "headers")
"""Repeatable flags with KEY=VALUE."""
REPEATED: Final = ("keys", *PAIRS)
_SWITCHES: Final = {"power", "may_be_rejected", "heartbeats", "read_committed"}


def add_commands(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--control",
        metavar="URL",
        default=os.environ.get(VARIABLE),
        help=f"address of the control API, as printed by `kohort serve` (default: ${VARIABLE})",
    )
    parser.add_argument(
        "--control-token",
        metavar="TOKEN",
        default=os.environ.get(TOKEN_VARIABLE),
        help=f"the control API token, if one is required (default: ${TOKEN_VARIABLE})",
    )
    parser.set_defaults(module="ctl.client")
    commands = parser.add_subparsers(dest="ctl", metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = commands.add_parser(command.name, help=command.help, description=command.help)
        for name in path_names(command) + command.positional:
            count = "+" if name in ("values", "topics") else None
            one.add_argument(name, nargs=count, type=_type(name), help=_help(command, name))
        for name in command.flags:
            _add_flag(one, name, _help(command, name))


def path_names(command: Command) -> list[str]:
    return re.findall(r"{(\w+)}", command.path)


def _help(command: Command, name: str) -> str:
    text = describe(command.path, name).replace("`", "").replace("%", "%%")
    return f"{text}; may be repeated" if name in REPEATED else text


def _add_flag(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    # Omitted flags must not be sent. None cannot mark them, because null is a valid value.
    flag = f"--{name.replace('_', '-')}"
    if name in _SWITCHES:
        parser.add_argument(flag, default=argparse.SUPPRESS, action="store_true", help=text)
        return
    parser.add_argument(
        flag,
        dest=name,
        default=argparse.SUPPRESS,
        type=_type(name),
        action="append" if name in REPEATED else "store",
        metavar="KEY=VALUE" if name in PAIRS else name.upper(),
        help=text,
    )


def _type(name: str) -> "argparse._ActionType":
    if name in _INTEGERS:
        return int
    if name in _NUMBERS:
        return _number
    return _pair if name in PAIRS else _times if name == "times" else str


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"invalid {text!r}: expected a number")
    return value


def _times(text: str) -> int | None:
    if text != "always" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid {text!r}: expected a number or always")
    return None if text == "always" else int(text)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"invalid {text!r}: expected KEY=VALUE")
    return key, value
