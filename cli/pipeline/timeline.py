"""`kohort timeline`: a group's generations, who came, who went, and why.

A line of columns for each change, then who went (-), came (+) and came back (=), and the evidence:
it reads in 80 columns.
"""

import argparse
from collections.abc import Iterator, Sequence

from ...pipeline.answers.names import MemberNames
from ...pipeline.answers.rows import Change, Exit
from ...pipeline.answers.words import cause_text, clock, counted, day, span, when
from .asking import asked
from .columns import paragraph
from .shapes import show_rows

__all__ = ["change_lines", "run"]

HEADER = "TIME (UTC)  GEN  MEMBERS     PAUSE  CAUSE"
MARGIN = " " * 14
# Of so many that came or went at once the first ones are named: a group of hundreds starts, too.
NAMED = 12


def run(args: argparse.Namespace) -> int:
    """0. Raises UserError."""
    with asked(args.lake) as answers:
        answers.known(args.group)
        changes = answers.changes(args.group)
    shown = changes[-args.last :] if args.last else changes
    if args.format != "table":
        show_rows(Change._fields, shown, args.format)
    elif not changes:
        print(f"{args.group} has offsets, and no member has ever joined as far as its log tells.")
    else:
        count = sum(change.is_rebalance for change in changes)
        print(f"{args.group}: {counted(count, 'rebalance')}", end="")
        print(f", {when(changes[0].at)} to {when(changes[-1].at)} UTC\n")
        if len(shown) < len(changes):
            print(f"{counted(len(changes) - len(shown), 'earlier change')} not shown\n")
        names = MemberNames(change.member_list for change in changes)
        for line in change_lines(shown, names):
            print(line)
    return 0


def change_lines(changes: Sequence[Change], names: MemberNames) -> Iterator[str]:
    """A header, and some lines for each."""
    yield HEADER
    today = ""
    for change in changes:
        if change.at is not None and day(change.at) != today:
            today = day(change.at)
            yield f"--- {today}"
        generation = "-" if change.generation is None else str(change.generation)
        members = f"{change.members_before} → {change.members_after}"
        doubt = "" if change.confidence in ("exact", "high") else f" ({change.confidence})"
        yield (
            f"{clock(change.at):10}  {generation:>3}  {members:9} "
            f"{span(change.pause_ms):>8}  {cause_text(change.cause)}{doubt}"
        )
        yield from (paragraph(text, MARGIN + mark) for mark, text in _about(change, names) if text)


def _about(change: Change, names: MemberNames) -> Iterator[tuple[str, str]]:
    """The mark before a paragraph, and the paragraph."""
    gone = {each.member_id: each for each in change.exits}
    for member in change.left[:NAMED]:
        yield "- ", names.of(member) + (_of_exit(gone[member]) if member in gone else "")
    if len(change.left) > NAMED:
        yield "- ", f"and {len(change.left) - NAMED} more"
    came = [names.of(member) for member in change.joined]
    if came:
        more = f" and {len(came) - NAMED} more" if len(came) > NAMED else ""
        yield "+ ", ", ".join(came[:NAMED]) + more
    if change.replaced:
        yield "= ", ", ".join(names.of(member) for member in change.replaced) + " came back"
    if change.lost_generations:
        yield "", f"{counted(change.lost_generations, 'generation')} before it never synced."
    yield "", _with_moves(change)


def _with_moves(change: Change) -> str:
    if not change.moved:
        return change.evidence
    had = change.moved + (change.kept or 0)
    moved = f"{change.moved} of {counted(had, 'partition')} moved"
    if not change.evidence:
        return moved
    return change.evidence + (f" {moved}." if change.evidence.endswith(".") else f"; {moved}")


def _of_exit(gone: Exit) -> str:
    said = [] if gone.silence_ms is None else [f"silent {span(gone.silence_ms)}"]
    if gone.came_back_after_ms is not None:
        said.append(f"back after {span(gone.came_back_after_ms)}")
    return f" ({', '.join(said)})" if said else ""
