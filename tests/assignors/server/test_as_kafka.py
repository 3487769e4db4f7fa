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
RECORDED = 150
RECORDED_BYTES_MAX = 2_000  # of a history with its records: the file stays small
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "1000"))


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
    histories = [random_history(seed) for seed in range(GROUPS)]
    kafka = run_oracle(kafka_jars, ORACLE, histories)
    pairs = list(zip(histories, kafka, strict=True))
    if os.environ.get("KOHORT_PARITY_RECORD"):
        lines = [json.dumps({"history": history, "kafka": records}) for history, records in pairs]
        small = [f"{line}\n" for line in lines if len(line) <= RECORDED_BYTES_MAX]
        VECTORS.write_text("".join(small[:RECORDED]))
    differing = [seed for seed, pair in enumerate(pairs) if records_of(pair[0]) != pair[1]]
    groups = Counter(history["assignor"] for history in histories)
    assignments = sum(map(len, kafka))
    with capsys.disabled():
        sys.stdout.write(
            f"\nserver-side: groups {dict(groups)}, {assignments} assignments, "
            f"{len(differing)} differ\n"
        )
    assert not differing
