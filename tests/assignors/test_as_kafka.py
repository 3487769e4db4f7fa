"""Assignments of the consumers' assignors are equal to Kafka's, or better.

`vectors.jsonl` has groups with Kafka's assignments. If Java is installed, more groups are compared:
KOHORT_PARITY_GROUPS of each strategy. KOHORT_PARITY_RECORD=1 recreates the file.
"""

import json
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .cases import Case, assign, random_case, rejoined
from .compare import compare, has_revocations, imbalance, is_valid, revoked
from .java_oracle import run_oracle

ORACLE = Path(__file__).with_name("KafkaAssignors.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
RECORDED = 100  # of each strategy
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "1000"))
REBALANCES_MAX = 12
EXACT = ("range", "roundrobin")
STICKY = ("sticky", "cooperative-sticky")


def cases(strategy: str) -> list[Case]:
    return [random_case(strategy, random.Random(f"{strategy} {seed}")) for seed in range(GROUPS)]


def assign_as_json(case: Case) -> dict[str, list[list[Any]]]:
    return {name: [list(one) for one in share] for name, share in assign(case).items()}


def compared(case: Case, kafka: Any) -> Counter[str]:
    """The comparison of one rebalance."""
    if "error" in kafka or not is_valid(case, kafka):
        return Counter(["Kafka fails"])
    ours = assign_as_json(case)
    counts = Counter({f"moves {compare(revoked(case, ours), revoked(case, kafka))}": 1})
    if case["assignor"] == "sticky":
        counts[f"balance {compare(imbalance(ours), imbalance(kafka))}"] += 1
    counts["same"] += ours == kafka
    return counts


def print_line(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


def record(strategy: str, groups: list[Case], kafka: list[Any]) -> None:
    known = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    vectors = [vector for vector in known if vector["group"]["assignor"] != strategy]
    pairs = zip(groups[:RECORDED], kafka, strict=False)
    vectors += [{"group": group, "kafka": assigned} for group, assigned in pairs]
    lines = sorted(json.dumps(vector, ensure_ascii=False) for vector in vectors)
    VECTORS.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("strategy", EXACT + STICKY)
def test_recorded_groups_have_kafkas_assignments(strategy: str) -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    vectors = [vector for vector in vectors if vector["group"]["assignor"] == strategy]
    assert len(vectors) == RECORDED
    for vector in vectors:
        if assign_as_json(vector["group"]) != vector["kafka"]:
            counts = compared(vector["group"], vector["kafka"])
            assert strategy in STICKY
            assert counts["Kafka fails"] or not counts["moves worse"] + counts["balance worse"]


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.parametrize("strategy", EXACT)
def test_random_groups_have_exactly_kafkas_assignments(
    strategy: str, kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = cases(strategy)
    kafka = run_oracle(kafka_jars, ORACLE, groups)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        record(strategy, groups, kafka)
    differing = [n for n, case in enumerate(groups) if assign_as_json(case) != kafka[n]]
    print_line(capsys, f"{strategy}: {GROUPS} groups, {len(differing)} differ")
    assert not differing


@pytest.mark.java
@pytest.mark.parity
def test_random_sticky_groups_are_as_balanced_with_no_more_moves_than_kafkas(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = cases("sticky")
    kafka = run_oracle(kafka_jars, ORACLE, groups)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        record("sticky", groups, kafka)
    counts = sum((compared(*pair) for pair in zip(groups, kafka, strict=True)), Counter[str]())
    print_line(capsys, f"sticky: {GROUPS} groups: {_listed(counts)}")
    assert counts["same"] > 0.9 * GROUPS
    assert not counts["moves worse"]
    assert not counts["balance worse"]


@pytest.mark.java
@pytest.mark.parity
def test_random_cooperative_groups_settle_no_worse_than_kafkas(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = cases("cooperative-sticky")
    first = run_oracle(kafka_jars, ORACLE, groups)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        record("cooperative-sticky", groups, first)
    counts: Counter[str] = Counter()
    kafka = _kafka_settled(kafka_jars, groups, first)
    for case, assigned, theirs in zip(groups, first, kafka, strict=True):
        counts["same first rebalance"] += assign_as_json(case) == assigned
        if theirs is None:
            counts["Kafka fails"] += 1
            continue
        ours = _settled(case)
        counts[f"balance {compare(imbalance(ours.assigned), imbalance(theirs.assigned))}"] += 1
        moves = compare(ours.revoked, theirs.revoked)
        if moves == "worse" and ours.rebalances < theirs.rebalances:
            counts["more moves in fewer rebalances"] += 1
        else:
            counts[f"moves {moves}"] += 1
        counts[f"rebalances {compare(ours.rebalances, theirs.rebalances)}"] += 1
        counts["more than two rebalances"] += ours.rebalances > 2
    print_line(capsys, f"cooperative-sticky: {GROUPS} groups: {_listed(counts)}")
    assert counts["same first rebalance"] > 0.8 * GROUPS
    assert not counts["more than two rebalances"]
    assert not counts["rebalances worse"]
    assert not counts["balance worse"]
    assert not counts["moves worse"]
    assert counts["more moves in fewer rebalances"] <= GROUPS / 1_000


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {counts[what]}" for what in sorted(counts))


@dataclass
class Settled:
    """The final assignment, after how many rebalances, and how many revocations."""

    assigned: Any
    rebalances: int
    revoked: int


def _settled(case: Case) -> Settled:
    settled = Settled({}, 0, 0)
    unsettled = True
    while unsettled and settled.rebalances < REBALANCES_MAX:
        assigned = assign_as_json(case)
        total = settled.revoked + revoked(case, assigned)
        settled = Settled(assigned, settled.rebalances + 1, total)
        unsettled = has_revocations(case, assigned)
        case = rejoined(case, assigned)
    return settled


def _kafka_settled(jars: Path, groups: list[Case], first: list[Any]) -> list[Settled | None]:
    """None if Kafka fails."""
    settled: list[Settled | None] = [None] * len(groups)
    unsettled = dict(enumerate(zip(groups, first, strict=True)))
    total = [0] * len(groups)
    for count in range(1, REBALANCES_MAX + 1):
        for n, (case, assigned) in list(unsettled.items()):
            if "error" in assigned or not is_valid(case, assigned):
                del unsettled[n]
                continue
            total[n] += revoked(case, assigned)
            if not has_revocations(case, assigned) or count == REBALANCES_MAX:
                settled[n] = Settled(assigned, count, total[n])
                del unsettled[n]
        rejoining = {n: rejoined(case, assigned) for n, (case, assigned) in unsettled.items()}
        results = run_oracle(jars, ORACLE, rejoining.values()) if rejoining else []
        unsettled = dict(zip(rejoining, zip(rejoining.values(), results, strict=True), strict=True))
    return settled
