"""From the flags to the answer."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from ...assignors.model import Assignment
from ..errors import UserError
from . import arguments, forms, stream
from .answer import GENERATION_BEFORE, Answer, answer_of
from .cases import CaseError, case_of, decoded, partitions_by_member
from .picture import picture_of

# An answer for a million partitions, and as many moves with their words.
BEFORE_BYTES_MAX = 256 << 20


def run(args: argparse.Namespace) -> int:
    """0; raises UserError. A case that is wrong has its error in its line, and is no failure."""
    arguments.check(args)
    if args.cases is not None:
        with _opened(args.cases) as cases:
            stream.answer_all(cases, sys.stdout)
        return 0
    try:
        answer = _answer(args)
    except CaseError as error:
        raise UserError(f"{error}.") from error
    arguments.check_whole(args)
    if isinstance(sys.stdout, TextIOWrapper):
        # Members may have names that a terminal has no letters for.
        sys.stdout.reconfigure(errors="backslashreplace")
    for notice in _notices(answer):
        print(notice, file=sys.stderr)
    if args.svg is not None:
        _write_svg(answer, Path(args.svg))
    show: dict[str, Callable[[], None]] = {
        "json": lambda: forms.write_json(answer, sys.stdout),
        "csv": lambda: forms.write_csv(answer, sys.stdout),
        "table": lambda: _show(answer, args.explain),
    }
    show[args.format or "table"]()
    return 0


def _answer(args: argparse.Namespace) -> Answer:
    content = arguments.case_content(args)
    if args.before is None:
        return answer_of(case_of(content), None)
    before = _round_before(args.before)
    for member, fields in content["members"].items():
        if member in before:
            fields["owned"] = [list(at) for at in before[member]]
            fields["generation"] = GENERATION_BEFORE
    return answer_of(case_of(content), before)


def _round_before(path: str) -> Assignment:
    """What --format json printed; its `assignment` alone, which --cases answers, does too."""
    with _opened(path) as file:
        text = file.read(BEFORE_BYTES_MAX + 1)
    if len(text) > BEFORE_BYTES_MAX:
        raise UserError(f"--before {path}: more than {BEFORE_BYTES_MAX} bytes.")
    try:
        content = decoded(text)
        if isinstance(content, dict) and isinstance(content.get("assignment"), dict):
            content = content["assignment"]
        return partitions_by_member(content, "the round before")
    except CaseError as error:
        raise UserError(f"--before {path}: {error}.") from error


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}.") from error


def _notices(answer: Answer) -> Iterator[str]:
    known = answer.case.topics.partitions
    for member, subscription in answer.case.members.items():
        for topic in subscription.topics:
            if topic not in known:
                yield f"{member} subscribes to {topic}, which no --topic tells of: it is skipped."


def _write_svg(answer: Answer, path: Path) -> None:
    from .svg import svg

    picture = picture_of(answer.case.topics, answer.assignment, answer.before)
    if picture.too_big is not None:
        raise UserError(f"--svg {path}: {picture.too_big}.")
    try:
        path.write_text(svg(answer, picture), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--svg {path}: {error.strerror or error}.") from error


def _show(answer: Answer, explain: bool) -> None:
    from . import text  # brings rich along

    picture = picture_of(answer.case.topics, answer.assignment, answer.before)
    text.show(answer, picture, explain)
