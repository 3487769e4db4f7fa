"""Rounds and bytes, equal to those of Kafka Connect's own classes.

`vectors.jsonl` has histories with Kafka's answers to them. Where there is Java, Kafka is asked
about more: KOHORT_PARITY_GROUPS of them. KOHORT_PARITY_RECORD=1 writes the file anew.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from kohort.assignors.connect.protocol import (
    WorkerAssignment,
    WorkerState,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)

from ..java_oracle import ask
from .histories import history, replayed

ORACLE = Path(__file__).with_name("ConnectOracle.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
RECORDED = 40
DRAWN = int(os.environ.get("KOHORT_PARITY_GROUPS", "200"))


def test_every_recorded_round_ends_as_with_kafka() -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(vectors) == RECORDED
    for vector in vectors:
        assert replayed(vector["history"]) == vector["kafka"]


@pytest.mark.java
@pytest.mark.parity
def test_drawn_rounds_end_as_with_kafka(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories = [history(seed) for seed in range(DRAWN)]
    kafka = [_in_order(answers) for answers in ask(kafka_jars, ORACLE, histories)]
    if os.environ.get("KOHORT_PARITY_RECORD"):
        pairs = zip(histories[:RECORDED], kafka, strict=False)
        lines = [json.dumps({"history": drawn, "kafka": answers}) for drawn, answers in pairs]
        VECTORS.write_text("\n".join(lines) + "\n")
    differing = [
        seed
        for seed, (drawn, answers) in enumerate(zip(histories, kafka, strict=True))
        if replayed(drawn) != answers
    ]
    with capsys.disabled():
        rounds = sum(len(answers) for answers in kafka)
        sys.stdout.write(f"\nconnect: {rounds} rounds of {DRAWN} groups, {len(differing)} differ\n")
    assert not differing


def _in_order(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is revoked is a set in Kafka."""
    for answer in answers:
        answer["revoked"] = {worker: sorted(work) for worker, work in answer["revoked"].items()}
    return answers


STATES = [
    WorkerState("http://w1:8083", 7),
    WorkerState("", -1, WorkerAssignment("L", "http://l", 9, (("c", -1), ("d", 2), ("c", 0)))),
    WorkerState("ü", 1, WorkerAssignment("L", "u", 2**40, (), (("c", 1), ("b", -1)), 60_000)),
    WorkerState("u", 1, WorkerAssignment("leader", "u", 3, error=1)),
]


@pytest.mark.java
def test_the_bytes_are_those_of_kafkas_own_classes(kafka_jars: Path) -> None:
    cases = [(state, version) for state in STATES for version in (1, 2)]
    written = ask(kafka_jars, ORACLE, [_case(*case) for case in cases])
    for (state, version), kafka in zip(cases, written, strict=True):
        metadata = write_metadata(state, version)
        assert metadata.hex() == kafka["metadata"]
        said = read_metadata(metadata)
        assert write_metadata(said, version) == metadata
        if state.allocation:
            assignment = write_assignment(state.allocation, version)
            assert assignment.hex() == kafka["assignment"]
            assert read_assignment(assignment) == said.allocation


def _case(state: WorkerState, version: int) -> dict[str, Any]:
    given = state.allocation
    return {
        "url": state.url,
        "config_offset": state.config_offset,
        "sessioned": version == 2,
        "allocation": given
        and {
            "leader": given.leader,
            "leader_url": given.leader_url,
            "config_offset": given.config_offset,
            "error": given.error,
            "assigned": given.assigned,
            "revoked": given.revoked,
            "delay_ms": given.delay_ms,
        },
    }
