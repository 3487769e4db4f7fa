"""Rebalances and encoding are equal to those of Kafka Connect's own classes.

`vectors.jsonl` has histories with Kafka's results. If Java is installed, more histories are
compared: KOHORT_PARITY_GROUPS of them. KOHORT_PARITY_RECORD=1 recreates the file.
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
from support.java import run_oracle

from .workers import history, replayed

ORACLE = Path(__file__).with_name("ConnectOracle.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
RECORDED = 40
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "200"))


def test_recorded_histories_have_kafkas_results() -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(vectors) == RECORDED
    for vector in vectors:
        assert replayed(vector["history"]) == vector["kafka"]


@pytest.mark.java
@pytest.mark.parity
def test_random_histories_have_kafkas_results(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories = [history(seed) for seed in range(GROUPS)]
    kafka = [_sorted(results) for results in run_oracle(kafka_jars, ORACLE, histories)]
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
        pairs = zip(histories[:RECORDED], kafka, strict=False)
        lines = [json.dumps({"history": drawn, "kafka": results}) for drawn, results in pairs]
        VECTORS.write_text("\n".join(lines) + "\n")
    differing = [
        seed
        for seed, (drawn, results) in enumerate(zip(histories, kafka, strict=True))
        if replayed(drawn) != results
    ]
    with capsys.disabled():
        rebalances = sum(len(results) for results in kafka)
        sys.stdout.write(
            f"\nconnect: {rebalances} rebalances of {GROUPS} groups, {len(differing)} differ\n"
        )
    assert not differing


def _sorted(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort revocations, which are sets in Kafka."""
    for result in results:
        result["revoked"] = {worker: sorted(work) for worker, work in result["revoked"].items()}
    return results


STATES = [
    WorkerState("http://w1:8083", 7),
    WorkerState("", -1, WorkerAssignment("L", "http://l", 9, (("c", -1), ("d", 2), ("c", 0)))),
    WorkerState("ü", 1, WorkerAssignment("L", "u", 2**40, (), (("c", 1), ("b", -1)), 60_000)),
    WorkerState("u", 1, WorkerAssignment("leader", "u", 3, error=1)),
]


@pytest.mark.java
def test_the_encoding_is_that_of_kafkas_classes(kafka_jars: Path) -> None:
    cases = [(state, version) for state in STATES for version in (1, 2)]
    written = run_oracle(kafka_jars, ORACLE, [_case(*case) for case in cases])
    for (state, version), kafka in zip(cases, written, strict=True):
        metadata = write_metadata(state, version)
        assert metadata.hex() == kafka["metadata"]
        decoded = read_metadata(metadata)
        assert write_metadata(decoded, version) == metadata
        if state.allocation:
            assignment = write_assignment(state.allocation, version)
            assert assignment.hex() == kafka["assignment"]
            assert read_assignment(assignment) == decoded.allocation


def _case(state: WorkerState, version: int) -> dict[str, Any]:
    allocation = state.allocation
    return {
        "url": state.url,
        "config_offset": state.config_offset,
        "sessioned": version == 2,
        "allocation": allocation
        and {
            "leader": allocation.leader,
            "leader_url": allocation.leader_url,
            "config_offset": allocation.config_offset,
            "error": allocation.error,
            "assigned": allocation.assigned,
            "revoked": allocation.revoked,
            "delay_ms": allocation.delay_ms,
        },
    }
