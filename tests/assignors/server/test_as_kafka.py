"""The records of groups of the consumer protocol are equal to those of Kafka's group coordinator.

`vectors.jsonl` has histories of groups with Kafka's records. If Java is installed, more are
compared: KOHORT_PARITY_GROUPS of them. KOHORT_PARITY_RECORD=1 recreates the file.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.java import run_oracle

from .histories import random_history, records_of

ORACLE = Path(__file__).with_name("ServerOracle.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
# Histories in which single members or partitions depend on details of Java's hash tables.
SUBTLE = (
    204, 348, 486, 705, 708, 834, 970, 992, 1287, 1652,
    1374, 1505, 1770, 2115, 2198, 2679, 2831, 2898, 2957,
)  # fmt: skip
RECORDED = 120
RECORDED_BYTES_MAX = 2_000  # per history other than SUBTLE, so that the file stays small
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "250"))


def test_recorded_groups_have_kafkas_records() -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(vectors) == RECORDED
    for vector in vectors:
        assert records_of(vector["history"]) == vector["kafka"]


@pytest.mark.java
@pytest.mark.parity
def test_random_groups_have_kafkas_records(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = sorted({*range(GROUPS), *SUBTLE})
    histories = [random_history(seed) for seed in seeds]
    kafka = run_oracle(kafka_jars, ORACLE, histories)
    pairs = dict(zip(seeds, zip(histories, kafka, strict=True), strict=True))
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
        lines = {
            seed: json.dumps({"history": history, "kafka": records}) + "\n"
            for seed, (history, records) in pairs.items()
        }
        small = [seed for seed in seeds if len(lines[seed]) <= RECORDED_BYTES_MAX]
        chosen = [*SUBTLE, *(seed for seed in small if seed not in SUBTLE)]
        VECTORS.write_text("".join(lines[seed] for seed in chosen[:RECORDED]))
    differing = [
        seed for seed, (history, records) in pairs.items() if records_of(history) != records
    ]
    groups = Counter(history["assignor"] for history in histories)
    assignments = sum(map(len, kafka))
    with capsys.disabled():
        sys.stdout.write(
            f"\nserver-side: groups {dict(groups)}, {assignments} assignments, "
            f"{len(differing)} differ\n"
        )
    assert not differing
