"""Groups of consumers, given what Kafka's own assignors give them, or something better.

`vectors.jsonl` has groups with Kafka's answers. Where there is Java, Kafka is asked about more:
KOHORT_PARITY_GROUPS of each strategy. KOHORT_PARITY_RECORD=1 writes the file anew.
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

from .cases import Case, again, answer, drawn
from .java_oracle import ask
from .judging import gives_back, moved, unevenness, valid, verdict

ORACLE = Path(__file__).with_name("KafkaAssignors.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
RECORDED = 100  # of each strategy
DRAWN = int(os.environ.get("KOHORT_PARITY_GROUPS", "1000"))
ROUNDS_MAX = 12
EXACT = ("range", "roundrobin")
STICKY = ("sticky", "cooperative-sticky")


def cases(strategy: str) -> list[Case]:
    return [drawn(strategy, random.Random(f"{strategy} {seed}")) for seed in range(DRAWN)]


def plain(asked: Case) -> dict[str, list[list[Any]]]:
    """Our answer, as JSON has it."""
    return {name: [list(one) for one in share] for name, share in answer(asked).items()}


def judged(asked: Case, kafka: Any) -> Counter[str]:
    """What is to be said of the first round."""
    if "error" in kafka or not valid(asked, kafka):
        return Counter(["Kafka fails"])
    ours = plain(asked)
    said = Counter({f"moves {verdict(moved(asked, ours), moved(asked, kafka))}": 1})
    if asked["assignor"] == "sticky":
        said[f"balance {verdict(unevenness(ours), unevenness(kafka))}"] += 1
    said["same"] += ours == kafka
    return said


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{line}\n")


def record(strategy: str, asked: list[Case], kafka: list[Any]) -> None:
    known = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    vectors = [vector for vector in known if vector["group"]["assignor"] != strategy]
    pairs = zip(asked[:RECORDED], kafka, strict=False)
    vectors += [{"group": group, "kafka": given} for group, given in pairs]
    lines = sorted(json.dumps(vector, ensure_ascii=False) for vector in vectors)
    VECTORS.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("strategy", EXACT + STICKY)
def test_every_recorded_group_is_given_what_kafka_gave_it(strategy: str) -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    vectors = [vector for vector in vectors if vector["group"]["assignor"] == strategy]
    assert len(vectors) == RECORDED
    for vector in vectors:
        if plain(vector["group"]) != vector["kafka"]:
            said = judged(vector["group"], vector["kafka"])
            assert strategy in STICKY
            assert said["Kafka fails"] or not said["moves worse"] + said["balance worse"], vector


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.parametrize("strategy", EXACT)
def test_drawn_groups_are_given_exactly_what_kafka_gives_them(
    strategy: str, kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = cases(strategy)
    kafka = ask(kafka_jars, ORACLE, asked)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        record(strategy, asked, kafka)
    differing = [n for n, case in enumerate(asked) if plain(case) != kafka[n]]
    tell(capsys, f"{strategy}: {DRAWN} groups, {len(differing)} differ")
    assert not differing


@pytest.mark.java
@pytest.mark.parity
def test_drawn_sticky_groups_are_as_even_and_move_no_more_than_with_kafka(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = cases("sticky")
    kafka = ask(kafka_jars, ORACLE, asked)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        record("sticky", asked, kafka)
    said = sum((judged(*pair) for pair in zip(asked, kafka, strict=True)), Counter[str]())
    tell(capsys, f"sticky: {DRAWN} groups: {_listed(said)}")
    assert said["same"] > 0.9 * DRAWN
    assert not said["moves worse"]
    assert not said["balance worse"]


@pytest.mark.java
@pytest.mark.parity
def test_drawn_cooperative_groups_settle_as_even_and_move_no_more_than_with_kafka(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = cases("cooperative-sticky")
    first = ask(kafka_jars, ORACLE, asked)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        record("cooperative-sticky", asked, first)
    said: Counter[str] = Counter()
    kafka = _kafka_settled(kafka_jars, asked, first)
    for case, given, theirs in zip(asked, first, kafka, strict=True):
        said["same first round"] += plain(case) == given
        if theirs is None:
            said["Kafka fails"] += 1
            continue
        ours = _settled(case)
        said[f"balance {verdict(unevenness(ours.given), unevenness(theirs.given))}"] += 1
        moves = verdict(ours.moved, theirs.moved)
        if moves == "worse" and ours.rounds < theirs.rounds:
            said["moves more for a round less"] += 1
        else:
            said[f"moves {moves}"] += 1
        said[f"rounds {verdict(ours.rounds, theirs.rounds)}"] += 1
        said["more than two rounds"] += ours.rounds > 2
    tell(capsys, f"cooperative-sticky: {DRAWN} groups: {_listed(said)}")
    assert said["same first round"] > 0.8 * DRAWN
    assert not said["more than two rounds"]
    assert not said["rounds worse"]
    assert not said["balance worse"]
    assert not said["moves worse"]
    assert said["moves more for a round less"] <= DRAWN / 1_000


def _listed(said: Counter[str]) -> str:
    return ", ".join(f"{what} {said[what]}" for what in sorted(said))


@dataclass
class Settled:
    """What a group has in the end, and how many partitions members gave back on the way."""

    given: Any
    rounds: int
    moved: int


def _settled(case: Case) -> Settled:
    settled = Settled({}, 0, 0)
    going = True
    while going and settled.rounds < ROUNDS_MAX:
        given = plain(case)
        settled = Settled(given, settled.rounds + 1, settled.moved + moved(case, given))
        going = gives_back(case, given)
        case = again(case, given)
    return settled


def _kafka_settled(jars: Path, asked: list[Case], first: list[Any]) -> list[Settled | None]:
    """None where Kafka fails."""
    ended: list[Settled | None] = [None] * len(asked)
    going = dict(enumerate(zip(asked, first, strict=True)))
    gone_back = [0] * len(asked)
    for rounds in range(1, ROUNDS_MAX + 1):
        for n, (case, given) in list(going.items()):
            if "error" in given or not valid(case, given):
                del going[n]
                continue
            gone_back[n] += moved(case, given)
            if not gives_back(case, given) or rounds == ROUNDS_MAX:
                ended[n] = Settled(given, rounds, gone_back[n])
                del going[n]
        following = {n: again(case, given) for n, (case, given) in going.items()}
        answers = ask(jars, ORACLE, following.values()) if following else []
        going = dict(zip(following, zip(following.values(), answers, strict=True), strict=True))
    return ended
