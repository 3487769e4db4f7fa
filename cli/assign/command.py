"""`kohort assign`: the result of the flags as JSON or CSV, and the line protocol of --cases."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from ...assignors.explain import Move
from ...assignors.model import Assignment, TopicPartition
from .. import output
from ..errors import UserError
from . import arguments
from .cases import CaseError, Result, assign, decode, parse_assignment, parse_case

# Room for the JSON of a million partitions and a million moves with explanations.
BEFORE_BYTES_MAX: Final = 256 << 20
# Room for a case with a million partitions, all of them owned.
CASE_BYTES_MAX: Final = 32 << 20
SKIP_BYTES: Final = 1 << 20
# Assignors only consider owned partitions of the newest generation, so all members get the same
# generation.
GENERATION_BEFORE: Final = 1

CSV_COLUMNS: Final = ("topic", "partition", "member", "before", "reason", "explanation")

_to_json: Final = json.JSONEncoder().encode


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises UserError, except for an invalid case of --cases, for which a line with the
    error message is printed."""
    arguments.check(args)
    if args.cases is not None:
        with _opened(args.cases) as cases:
            run_cases(cases, sys.stdout)
        return 0
    try:
        result = _result(args)
    except CaseError as error:
        raise UserError(f"{error}.") from error
    arguments.check_not_empty(args)
    for warning in _warnings(result):
        print(warning, file=sys.stderr)
    if args.svg is not None:
        _write_svg(result, Path(args.svg))
    match args.format:
        case "json":
            write_json(result)
        case "csv":
            write_csv(result)
        case _:
            from .table import print_table  # imports rich

            print_table(result, explain=args.explain)
    return 0


def _result(args: argparse.Namespace) -> Result:
    content = arguments.case_content(args)
    if args.before is None:
        return assign(parse_case(content))
    before = _read_before(args.before)
    for member, fields in content["members"].items():
        if member in before:
            fields["owned"] = [list(at) for at in before[member]]
            fields["generation"] = GENERATION_BEFORE
    return assign(parse_case(content), before)


def _read_before(path: str) -> Assignment:
    """Read the output of --format json, or a line of the output of --cases."""
    with _opened(path) as file:
        text = file.read(BEFORE_BYTES_MAX + 1)
    if len(text) > BEFORE_BYTES_MAX:
        raise UserError(f"--before {path}: larger than {BEFORE_BYTES_MAX} bytes.")
    try:
        content = decode(text)
        if isinstance(content, dict) and isinstance(content.get("assignment"), dict):
            content = content["assignment"]
        return parse_assignment(content, "previous assignment")
    except CaseError as error:
        raise UserError(f"--before {path}: {error}.") from error


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from error


def _warnings(result: Result) -> Iterator[str]:
    known = result.case.topics.partitions
    for member, subscription in result.case.members.items():
        for topic in subscription.topics:
            if topic not in known:
                yield f"warning: {member} subscribes to {topic}, but --topic {topic} is missing"


def _write_svg(result: Result, path: Path) -> None:
    from .svg import svg
    from .table import grid_of

    grid = grid_of(result)
    if grid.too_big is not None:
        raise UserError(f"--svg {path}: {grid.too_big}.")
    try:
        path.write_text(svg(result, grid), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write --svg {path}: {error.strerror or error}.") from error


# --- JSON and CSV


def write_json(result: Result) -> None:
    """Print one line per member and per move; `kept` and `moves` are null without --before."""
    members = (f"{_to_json(name)}: {_to_json(at)}" for name, at in result.assignment.items())
    kept, moves = "null", "null"
    if result.before is not None:
        kept = _to_json(result.kept)
        moves = _block("[]", map(_move_json, result.moves))
    fields = {
        "assignor": _to_json(result.case.assignor.name),
        "assignment": _block("{}", members),
        "kept": kept,
        "moves": moves,
    }
    print("{\n" + ",\n".join(f'  "{name}": {text}' for name, text in fields.items()) + "\n}")


def _move_json(move: Move) -> str:
    at = dict(zip(("topic", "partition"), move.partition, strict=True))
    others = ("before", "member", "reason", "explanation")
    return _to_json(at | {name: getattr(move, name) for name in others})


def _block(brackets: str, lines: Iterable[str]) -> str:
    inner = ",\n".join(f"    {line}" for line in lines)
    return f"{brackets[0]}\n{inner}\n  {brackets[1]}" if inner else brackets


def write_csv(result: Result) -> None:
    """Print a row for each partition and then, as Kafka's tools do, for each member without
    partitions."""
    rows: dict[TopicPartition, tuple[object, ...]] = {
        at: (*at, member, None, None, None)
        for member, partitions in result.assignment.items()
        for at in partitions
    }
    for at in result.kept:
        owner = rows[at][2]
        rows[at] = (*at, owner, owner, None, None)
    for move in result.moves:
        before = ";".join(move.before)
        row = (*move.partition, move.member, before, move.reason, move.explanation)
        rows[move.partition] = row
    idle = (
        (None, None, member, None, None, None)
        for member, partitions in result.assignment.items()
        if not partitions
    )
    output.write_csv(CSV_COLUMNS, (*(row for _, row in sorted(rows.items())), *idle))


# --- --cases


def run_cases(cases: BinaryIO, results: TextIO) -> None:
    """Write and flush one line of output for each line of input, so that a program can use the
    command as a server."""
    for line in _lines(cases):
        results.write(run_case(line) + "\n")
        results.flush()


def run_case(line: bytes | None) -> str:
    """Return the assignment or the error as JSON; None stands for a line that is too long."""
    try:
        if line is None:
            raise CaseError(f"line longer than {CASE_BYTES_MAX} bytes")
        if line.isspace():
            raise CaseError("empty line")
        return _to_json(assign(parse_case(decode(line))).assignment)
    except CaseError as error:
        return _to_json({"error": str(error)})


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    while line := stream.readline(CASE_BYTES_MAX + 1):
        if len(line) <= CASE_BYTES_MAX or line.endswith(b"\n"):
            yield line
            continue
        while (rest := stream.readline(SKIP_BYTES)) and not rest.endswith(b"\n"):
            pass
        yield None
