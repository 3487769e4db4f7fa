"""The answer for programs: JSON, which --before reads again, and CSV with a line a partition."""

import csv
import json
from collections.abc import Iterable
from typing import Any, Final, TextIO

from ...assignors.explain import Move
from ...assignors.model import TopicPartition
from .answer import Answer

COLUMNS: Final = ("topic", "partition", "member", "before", "reason", "words")


def write_json(answer: Answer, out: TextIO) -> None:
    """A line a member and a line a move; `kept` and `moves` are null without a round before."""
    members = (f"{_json(name)}: {_json(given)}" for name, given in answer.assignment.items())
    kept, moves = "null", "null"
    if answer.before is not None:
        kept = _json(answer.kept)
        moves = _block("[]", (_json(_move_row(row)) for row in answer.moves))
    fields = {
        "assignor": _json(answer.case.assignor.name),
        "assignment": _block("{}", members),
        "kept": kept,
        "moves": moves,
    }
    out.write("{\n" + ",\n".join(f'  "{name}": {text}' for name, text in fields.items()) + "\n}\n")


def write_csv(answer: Answer, out: TextIO) -> None:
    """By partition; at the end the members that have none, as Kafka's own tools list them."""
    by_partition: dict[TopicPartition, tuple[object, ...]] = {
        at: (*at, member, None, None, None)
        for member, given in answer.assignment.items()
        for at in given
    }
    for at in answer.kept:
        owner = by_partition[at][2]
        by_partition[at] = (*at, owner, owner, None, None)
    for move in answer.moves:
        row = (move.member, ";".join(move.before), move.reason, move.words)
        by_partition[move.partition] = (*move.partition, *row)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row for _, row in sorted(by_partition.items()))
    idle = (member for member, given in answer.assignment.items() if not given)
    writer.writerows((None, None, member, None, None, None) for member in idle)


def _move_row(move: Move) -> dict[str, Any]:
    topic, partition = move.partition
    return {
        "topic": topic,
        "partition": partition,
        "before": move.before,
        "member": move.member,
        "reason": move.reason,
        "words": move.words,
    }


_json: Final = json.JSONEncoder().encode


def _block(brackets: str, lines: Iterable[str]) -> str:
    """One inner line each."""
    inner = ",\n".join(f"    {line}" for line in lines)
    return f"{brackets[0]}\n{inner}\n  {brackets[1]}" if inner else brackets
