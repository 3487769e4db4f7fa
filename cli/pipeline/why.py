"""`kohort why`: what is wrong with a group, its evidence and what to do, and the rebalances that it
rests on.
"""

import argparse
from collections.abc import Iterator

from ...pipeline.answers.names import MemberNames
from ...pipeline.answers.rows import Change, Diagnosis
from ...pipeline.answers.words import counted, printable, when
from .asking import asked
from .columns import bullets, paragraph
from .shapes import show_rows
from .timeline import change_lines

__all__ = ["run"]

SEVERITIES = {0: "all is well", 1: "to be known", 2: "warning", 3: "error"}
# Of a group in a storm there may be thousands; the newest say what is to be said.
REBALANCES_SHOWN = 10


def run(args: argparse.Namespace) -> int:
    """0. Raises UserError."""
    with asked(args.lake) as answers:
        answers.known(args.group)
        diagnoses = answers.diagnoses(args.group)
        changes = answers.changes(args.group)
    rebalances = [change for change in changes if change.is_rebalance]
    if args.format != "table":
        fields = (*Diagnosis._fields, "rebalances")
        show_rows(fields, [(*each, rebalances) for each in diagnoses], args.format)
        return 0
    for diagnosis in diagnoses:
        for line in _said(diagnosis):
            print(line)
    if not diagnoses:
        print(f"{args.group} is gone, and nothing more is to be said of it than what happened.")
    names = MemberNames(change.member_list for change in changes)
    for line in _rested_on(args.group, rebalances, names):
        print(line)
    return 0


def _said(diagnosis: Diagnosis) -> Iterator[str]:
    verdict = diagnosis.verdict.replace("_", " ").lower()
    severity = SEVERITIES.get(diagnosis.severity, str(diagnosis.severity))
    group, as_of = printable(diagnosis.group), when(diagnosis.as_of)
    yield f"{group}: {verdict} ({severity}), as of {as_of} UTC\n"
    yield paragraph(diagnosis.text)
    yield from bullets("Evidence", diagnosis.evidence)
    yield from bullets("What to do", diagnosis.advice)


def _rested_on(group: str, rebalances: list[Change], names: MemberNames) -> Iterator[str]:
    if not rebalances:
        return
    yield "\nRebalances"
    earlier = len(rebalances) - REBALANCES_SHOWN
    if earlier > 0:
        yield f"{counted(earlier, 'earlier one')}: kohort timeline {printable(group)}"
    yield from change_lines(rebalances[-REBALANCES_SHOWN:], names)
