"""docs/diagnosis.md has the rules as the code has them, and its examples are what is said."""

import re
from pathlib import Path

import pytest
from group_stories import A_ALONE, MINUTE, A, B, Tale, member, parts, without_b
from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis import complaints, slow, verdict
from kohort.pipeline.diagnosis.causes import RULES
from kohort.pipeline.diagnosis.rebalances import rebalances
from kohort.pipeline.diagnosis.status import WORST_FIRST

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "diagnosis.md").read_text()
CONFIDENCES = {"high", "medium", "low"}


def rows(header: str) -> list[list[str]]:
    """Of the table that begins with these columns."""
    lines = DOC.split(header)[1].splitlines()[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


RULE_ROWS = rows("| rule | it holds when | cause | confidence |")


def test_the_rules_of_the_page_are_those_of_the_code() -> None:
    told = [(int(number), name) for number, name, *_ in RULE_ROWS]
    assert told == [(rule.number, rule.name) for rule in RULES]


def test_causes_and_confidences_of_the_page_are_words_that_there_are() -> None:
    for _, _, causes, confidence, *_ in RULE_ROWS:
        assert set(re.findall(r"`(\w+)`", causes)) <= set(Cause.__members__)
        assert set(confidence.split(", ")) <= CONFIDENCES


def two(before: list[object], now: list[object], **fields: object) -> Tale:
    tale = Tale()
    tale.generation(*before, protocol=fields.pop("was", "range"))  # type: ignore[arg-type]
    tale.generation(*now, at=10 * MINUTE, **fields)  # type: ignore[arg-type]
    return tale


def expired() -> Tale:
    tale = Tale()
    tale.generation(A)
    tale.commits(A, until=MINUTE)
    tale.generation(at=2 * MINUTE)
    tale.tombstone(at=2 * MINUTE + 7 * 24 * 60 * MINUTE)
    return tale


def created() -> Tale:
    tale = Tale()
    tale.generation(A)
    return tale


def emptied() -> Tale:
    tale = Tale()
    tale.generation(A)
    tale.commits(A, until=10 * MINUTE)
    tale.generation(at=10 * MINUTE + 100)
    return tale


def second_phase() -> Tale:
    tale = Tale()
    coop = "cooperative-sticky"
    tale.generation(A_ALONE, protocol=coop)
    tale.generation(A, B._replace(assigned=()), at=MINUTE, protocol=coop)
    tale.generation(A, B, at=MINUTE + 100, protocol=coop)
    return tale


STATIC = member("s", 1, instance="s-1")
EXAMPLES = {
    1: expired(),
    2: created(),
    3: emptied(),
    4: two([A, STATIC], [A, STATIC._replace(member_id="s-2")], number=1),
    5: two([A, B], [A, B], protocol="cooperative-sticky"),
    6: without_b(303_000, ahead=500),
    7: without_b(48_000, ahead=500),
    8: without_b(2_000, back=True),
    9: without_b(2_000),
    10: without_b(48_000, ahead=0),
    11: two([A_ALONE], [A, B]),
    12: two([A], [A._replace(topics=("orders", "refunds"))]),
    13: two([A, B], [A, B._replace(assigned=parts(1, 2))]),
    14: second_phase(),
    15: two([A, B], [A, B]),
}


@pytest.mark.parametrize("number", EXAMPLES)
def test_the_example_of_a_rule_is_what_is_said_of_such_a_group(number: int) -> None:
    row = rebalances(EXAMPLES[number].story())[-1]
    [(_, _, causes, confidence, *_)] = [cells for cells in RULE_ROWS if cells[0] == str(number)]
    assert f"`{row.cause}`" in causes
    assert row.confidence in confidence
    assert f"{number}. {row.cause} ({row.confidence}): {row.evidence}" in DOC


def test_the_page_lists_every_status() -> None:
    told = [cells[0].strip("`") for cells in rows("| status | when |")]
    assert told == list(WORST_FIRST)


def test_the_page_lists_every_verdict() -> None:
    told = {cells[0].strip("`") for cells in rows("| verdict | what it says |")}
    sources = "".join(
        Path(module.__file__ or "").read_text() for module in (complaints, slow, verdict)
    )
    said = set(re.findall(r'^ {8,}"([A-Z][A-Z_]+)",$', sources, re.MULTILINE))
    said |= set(re.findall(r'Complaint\(\w+, "([A-Z_]+)"', sources))
    assert told == said
