"""The flags of `kohort assign` and their allowed combinations.

Imported for every `kohort --help`: must not import anything slow.
"""

import argparse
from collections.abc import ItemsView
from typing import Any, Final

from ..errors import UserError
from ..output import FORMATS

HELP: Final = """\
Compute an assignment as a group's leader would or, with the assignors uniform and server-range, as
the broker would for a group of the consumer protocol. Needs neither a group nor a broker.

    kohort assign --assignor sticky --topic t0=3 --topic t1=3 --member C0=t0,t1 --member C1=t0,t1

With --before FILE, the output of an earlier --format json, members already own the partitions of
that assignment, and kept and moved partitions are printed as well. With --cases FILE, each line of
FILE is one case as a JSON object, and produces one line of output (docs/assign.md)."""

# With --cases, each line contains the whole case, and there is only one output format.
NOT_WITH_CASES: Final = (
    "assignor", "topic", "member", "rack", "replica-racks", "before", "explain", "format", "svg",
)  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(module="assign.command")
    add = parser.add_argument
    add(
        "--assignor",
        metavar="NAME",
        help="range, sticky, uniform, …, or your own by name or path",
    )
    _repeatable(parser, "--topic", "T=N", "a topic with N partitions")
    _repeatable(parser, "--member", "M=T,T", "a member and its subscribed topics")
    _repeatable(parser, "--rack", "M=RACK", "the rack of a member")
    _repeatable(parser, "--replica-racks", "T=a+b,b+c", "the replicas' racks, by partition")
    add("--before", metavar="FILE", help="the previous assignment, printed by --format json")
    add("--explain", action="store_true", help="explain why each partition moved (with --before)")
    add("--format", choices=FORMATS, help="(default: table)")
    add("--svg", metavar="FILE", help="also write the assignment to an SVG file")
    add("--cases", metavar="FILE", help="one JSON object per line; -: standard input")


def _repeatable(parser: argparse.ArgumentParser, flag: str, metavar: str, meaning: str) -> None:
    text = f"{meaning}; repeatable"
    parser.add_argument(flag, metavar=metavar, action="append", default=[], help=text)


def check(args: argparse.Namespace) -> None:
    """Raise UserError for flags that cannot be combined."""
    if args.cases is not None:
        for flag in NOT_WITH_CASES:
            if getattr(args, flag.replace("-", "_")):
                raise UserError(f"--{flag} cannot be used with --cases.")
    elif args.assignor is None:
        raise UserError("pass --assignor, --topic and --member, or --cases.")
    elif args.explain and args.before is None:
        raise UserError("--explain needs --before: it explains why partitions moved.")


def check_not_empty(args: argparse.Namespace) -> None:
    """Raise UserError if a valid case has no topics or no members."""
    missing = [f"--{flag}" for flag in ("topic", "member") if not getattr(args, flag)]
    if missing:
        raise UserError(f"nothing to assign: missing {' and '.join(missing)}.")


def case_content(args: argparse.Namespace) -> dict[str, Any]:
    """Return the flags as the JSON of a case. Raises UserError."""
    members: dict[str, dict[str, Any]] = {
        member: {"topics": [topic for topic in topics.split(",") if topic]}
        for member, topics in _pairs(args.member, "--member", "C0=t0,t1")
    }
    for member, rack in _pairs(args.rack, "--rack", "C0=a"):
        if member not in members:
            raise UserError(f"--rack {member}={rack}: no --member {member}.")
        members[member]["rack"] = rack
    return {
        "assignor": args.assignor,
        "partitions": {
            topic: int(count) if count.isdecimal() and len(count) < 20 else count
            for topic, count in _pairs(args.topic, "--topic", "t0=3")
        },
        "members": members,
        "replica_racks": {
            topic: [racks.split("+") for racks in partitions.split(",")]
            for topic, partitions in _pairs(args.replica_racks, "--replica-racks", "t0=a+b,b+c")
        },
    }


def _pairs(values: list[str], flag: str, example: str) -> ItemsView[str, str]:
    """Parse `name=value`, split at the last `=`, because a member id may contain `=`."""
    pairs: dict[str, str] = {}
    for text in values:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise UserError(f"invalid {flag} {text}: expected a value as in {flag} {example}.")
        if name in pairs:
            raise UserError(f"{flag} {text}: {name} is specified twice.")
        pairs[name] = value
    return pairs.items()
