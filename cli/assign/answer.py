"""What the command found, before it is put into a form."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...assignors.explain import Move, compare, moves
from ...assignors.model import Assignment, TopicPartition
from .cases import Case, assigned, failed

# A member trusts what it owned only if the generation is no earlier than others'; in a file of one
# round all are of the same, whatever its number.
GENERATION_BEFORE = 1


@dataclass(frozen=True, slots=True)
class Answer:
    case: Case
    assignment: Assignment
    before: Assignment | None
    kept: Sequence[TopicPartition]
    moves: Sequence[Move]
    """Both empty without a round before."""


def answer_of(case: Case, before: Assignment | None) -> Answer:
    """Raises CaseError where the assignor fails."""
    assignment = assigned(case)
    if before is None:
        return Answer(case, assignment, None, (), ())
    kept, _ = compare(before, assignment)
    try:
        moved = moves(case.assignor, case.topics, case.members, before, assignment)
    except Exception as error:  # of an assignor that could answer once
        raise failed(case.assignor, error) from error
    return Answer(case, assignment, before, kept, moved)


def headline(answer: Answer) -> str:
    counts = [len(partitions) for partitions in answer.assignment.values()] or [0]
    least, most = min(counts), max(counts)
    each = str(least) if least == most else f"{least} to {most}"
    partitions = sum(answer.case.topics.partitions.values())
    return (
        f"{answer.case.assignor.name}: {_number(partitions, 'partition')}, "
        f"{_number(len(answer.assignment), 'member')}, {each} each"
    )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
