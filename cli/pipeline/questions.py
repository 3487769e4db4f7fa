"""The commands that ask a lake, and their flags. Imported for every `kohort --help`: nothing heavy
here.
"""

import argparse
from pathlib import Path
from typing import Any, Final, NamedTuple

__all__ = ["QUESTIONS", "Question", "add_flags"]

FORMATS: Final = ("table", "json", "csv")


class Question(NamedTuple):
    """`more` goes on where `says`, the line of `kohort --help`, ends."""

    says: str
    more: str
    group: str | None  # "one": it is about a group; "?": or about all

    @property
    def description(self) -> str:
        return f"{self.says[0].upper()}{self.says[1:]}.\n{self.more}"


QUESTIONS: Final = {
    "why": Question(
        "say what is wrong with a group, and why",
        "A paragraph with its evidence and what to do, then the rebalances that it rests on.",
        "one",
    ),
    "timeline": Question(
        "list a group's generations: who came, who went, and why",
        "A line for each change of the group, the newest last.",
        "one",
    ),
    "lag": Question(
        "tell how far groups are behind, per partition",
        "In records and in time, with status, trend and owner. A lag that is not known is a -, "
        "never 0.",
        "?",
    ),
    "storms": Question(
        "list storms of rebalances",
        "A storm: three rebalances and more within five minutes.",
        "?",
    ),
    "report": Question(
        "write all of it as one page of HTML",
        "The page needs no network and no server.",
        None,
    ),
}
"""By command, in the order of `kohort --help`."""


def add_flags(command: argparse.ArgumentParser, name: str) -> None:
    command.set_defaults(module=f"pipeline.{name}")
    add: Any = command.add_argument
    match QUESTIONS[name].group:
        case "one":
            add("group", metavar="GROUP")
        case "?":
            add("group", metavar="GROUP", nargs="?", help="(default: all groups)")
    add(
        "--lake",
        metavar="DIR",
        type=Path,
        required=True,
        help="what `kohort pipeline run` has written",
    )
    if name == "report":
        add("--out", metavar="FILE", type=Path, required=True, help="the page to write")
        return
    if name == "timeline":
        add("--last", metavar="N", type=_count, help="only the newest N changes")
    add("--format", choices=FORMATS, default="table", help="(default: table)")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number
