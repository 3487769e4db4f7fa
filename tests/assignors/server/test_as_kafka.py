"""Assignments of `uniform` and `server-range` are equal to those of Kafka's group coordinator.

`vectors.jsonl` has groups with Kafka's assignments. If Java is installed, more groups are compared:
KOHORT_PARITY_GROUPS of them. KOHORT_PARITY_RECORD=1 recreates the file.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from ..java_oracle import run_oracle
from .groups import assigned, case

ORACLE = Path(__file__).with_name("ServerOracle.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
# In the last one, two members of one level have nothing to give, which changes the order.
RECORDED = (*range(150), 2106)
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "1000"))


def test_recorded_groups_have_kafkas_assignments() -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(vectors) == len(RECORDED)
    for vector in vectors:
        assert assigned(vector["group"]) == vector["kafka"]


@pytest.mark.java
@pytest.mark.parity
def test_random_groups_have_kafkas_assignments(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = sorted({*RECORDED, *range(GROUPS)})
    groups = [case(seed) for seed in seeds]
    kafka = run_oracle(kafka_jars, ORACLE, groups)
    if os.environ.get("KOHORT_PARITY_RECORD"):
        lines = [
            json.dumps({"group": drawn, "kafka": answer})
            for seed, drawn, answer in zip(seeds, groups, kafka, strict=True)
            if seed in RECORDED
        ]
        VECTORS.write_text("\n".join(lines) + "\n")
    differing = [
        seed
        for seed, drawn, answer in zip(seeds, groups, kafka, strict=True)
        if assigned(drawn) != answer
    ]
    with capsys.disabled():
        counts = {
            name: sum(g["assignor"] == name for g in groups) for name in ("uniform", "server-range")
        }
        sys.stdout.write(f"\nserver-side: {counts}, {len(differing)} differ\n")
    assert not differing
