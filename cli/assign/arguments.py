"""The flags of `kohort assign`, and which go together.

Imported for every `kohort --help`: nothing heavy here.
"""

import argparse
from typing import Any, Final

from ..errors import UserError

FORMATS: Final = ("table", "json", "csv")
HELP: Final = """\
Say who gets which partition: what a group's leader would answer, without a group or a broker.

    kohort assign --assignor sticky --topic t0=3 --topic t1=3 --member C0=t0,t1 --member C1=t0,t1

With --before FILE the members had what FILE says, which is what --format json printed of the round
before: what was kept, what moved, who lost it to whom. With --cases FILE a case a line is answered
by a line; docs/assign.md has their fields."""

# A case is whole: nothing of it comes from elsewhere, and its answer has one form.
NOT_WITH_CASES: Final = (
    "assignor",
    "topic",
    "member",
    "rack",
    "replica-racks",
    "before",
    "explain",
    "format",
    "svg",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--assignor", metavar="NAME", help="range, sticky, …, or one of yours by its name or path")
    _repeated(parser, "--topic", "T=N", "a topic with N partitions")
    _repeated(parser, "--member", "M=T,T", "a member and the topics that it subscribes to")
    _repeated(parser, "--rack", "M=RACK", "where a member is")
    _repeated(
        parser,
        "--replica-racks",
        "T=a+b,b+c",
        "for each partition of a topic the racks of its replicas",
    )
    add("--before", metavar="FILE", help="the round before: what --format json printed")
    add("--explain", action="store_true", help="say why each partition moved (with --before)")
    add("--format", choices=FORMATS, help="(default: table)")
    add("--svg", metavar="FILE", help="write the picture too")
    add("--cases", metavar="FILE", help="a JSON object a line; - is stdin")


def _repeated(parser: argparse.ArgumentParser, flag: str, form: str, meaning: str) -> None:
    parser.add_argument(
        flag, metavar=form, action="append", default=[], help=f"{meaning}; as often as you like"
    )


def check(args: argparse.Namespace) -> None:
    """Raises UserError where flags do not go together."""
    if args.cases is not None:
        for flag in NOT_WITH_CASES:
            if getattr(args, flag.replace("-", "_")):
                raise UserError(f"--cases tells all: leave --{flag} out.")
    elif args.assignor is None:
        raise UserError("give --assignor with --topic and --member, or --cases.")
    elif args.explain and args.before is None:
        raise UserError("--explain says why partitions moved: give the round --before, too.")


def check_whole(args: argparse.Namespace) -> None:
    """Raises UserError for what is right as far as it goes, and has an empty answer."""
    missing = [f"--{flag}" for flag in ("topic", "member") if not getattr(args, flag)]
    if missing:
        raise UserError(f"there is nothing to share out: give {' and '.join(missing)}, too.")


def case_content(args: argparse.Namespace) -> dict[str, Any]:
    """The flags as the JSON of a case; raises UserError."""
    members: dict[str, dict[str, Any]] = {
        member: {"topics": [topic for topic in topics.split(",") if topic]}
        for member, topics in _pairs(args.member, "--member", "C0=t0,t1")
    }
    for member, rack in _pairs(args.rack, "--rack", "C0=a"):
        if member not in members:
            raise UserError(f"--rack {member}={rack}: no --member is called {member}.")
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


def _pairs(given: list[str], flag: str, example: str) -> list[tuple[str, str]]:
    """`name=value`, where the name, which is a member's at times, may have `=` in it."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise UserError(f"{flag} {text}: give it as {flag} {example}.")
        if name in pairs:
            raise UserError(f"{flag} {text}: {name} is given twice.")
        pairs[name] = value
    return list(pairs.items())
