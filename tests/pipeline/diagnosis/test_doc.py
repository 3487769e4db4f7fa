"""docs/diagnosis.md lists the rules, statuses and verdicts of the code, with correct examples."""

import re
from pathlib import Path

import pytest
from history_builder import A_ALONE, MINUTE, A, B, HistoryBuilder, member, partitions, without_b
from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis import checks, slow_consumer
from kohort.pipeline.diagnosis.rebalance_rules import RULES
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.diagnosis.status import WORST_FIRST

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "diagnosis.md").read_text()
CONFIDENCES = {"high", "medium", "low"}


def rows(header: str) -> list[list[str]]:
    """The rows of the table that begins with these columns."""
    lines = DOC.split(header)[1].splitlines()[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


RULE_ROWS = rows("| rule | condition | cause | confidence |")


def test_the_page_lists_the_rules_of_the_code() -> None:
    listed = [(int(number), name) for number, name, *_ in RULE_ROWS]
    assert listed == [(rule.number, rule.name) for rule in RULES]


def test_causes_and_confidences_of_the_page_exist() -> None:
    for _, _, causes, confidence, *_ in RULE_ROWS:
        assert set(re.findall(r"`(\w+)`", causes)) <= set(Cause.__members__)
        assert set(confidence.split(", ")) <= CONFIDENCES


def two_records(before: list[object], now: list[object], **fields: object) -> HistoryBuilder:
    history = HistoryBuilder(*before, protocol=fields.pop("was", "range"))  # type: ignore[arg-type]
    history.generation(*now, at=10 * MINUTE, **fields)  # type: ignore[arg-type]
    return history


def expired() -> HistoryBuilder:
    history = HistoryBuilder(A)
    history.commits(A, until=MINUTE)
    history.generation(at=2 * MINUTE)
    history.tombstone(at=2 * MINUTE + 7 * 24 * 60 * MINUTE)
    return history


def emptied() -> HistoryBuilder:
    history = HistoryBuilder(A)
    history.commits(A, until=10 * MINUTE)
    history.generation(at=10 * MINUTE + 100)
    return history


def second_phase() -> HistoryBuilder:
    coop = "cooperative-sticky"
    history = HistoryBuilder(A_ALONE, protocol=coop)
    history.generation(A, B._replace(assigned=()), at=MINUTE, protocol=coop)
    history.generation(A, B, at=MINUTE + 100, protocol=coop)
    return history


STATIC = member("s", 1, instance="s-1")
EXAMPLES = {
    1: expired(),
    2: HistoryBuilder(A),
    3: emptied(),
    4: two_records([A, STATIC], [A, STATIC._replace(member_id="s-2")], number=1),
    5: two_records([A, B], [A, B], protocol="cooperative-sticky"),
    6: without_b(303_000, lag=500),
    7: without_b(48_000, lag=500),
    8: without_b(2_000, back=True),
    9: without_b(2_000),
    10: without_b(48_000, lag=0),
    11: two_records([A_ALONE], [A, B]),
    12: two_records([A], [A._replace(topics=("orders", "refunds"))]),
    13: two_records([A, B], [A, B._replace(assigned=partitions(1, 2))]),
    14: second_phase(),
    15: two_records([A, B], [A, B]),
}


@pytest.mark.parametrize("number", EXAMPLES)
def test_the_example_of_a_rule_is_its_output(number: int) -> None:
    row = explain(EXAMPLES[number].build()).rebalances[-1]
    [(_, _, causes, confidence, *_)] = [cells for cells in RULE_ROWS if cells[0] == str(number)]
    assert f"`{row.cause}`" in causes
    assert row.confidence in confidence
    assert f"{number}. {row.cause} ({row.confidence}): {row.evidence}" in DOC


def test_the_page_lists_every_status() -> None:
    listed = [cells[0].strip("`") for cells in rows("| status | condition |")]
    assert listed == list(WORST_FIRST)


def test_the_page_lists_every_verdict() -> None:
    listed = {cells[0].strip("`") for cells in rows("| verdict | meaning |")}
    sources = "".join(Path(module.__file__ or "").read_text() for module in (checks, slow_consumer))
    verdicts = set(re.findall(r'(?:CheckResult\(\s*.*,\s+|verdict=)"([A-Z_]+)"', sources))
    assert listed == verdicts, "correct the table of verdicts in docs/diagnosis.md"
