"""Groups of the new protocol, equal to those of the assignors of Kafka's coordinator.

`vectors.jsonl` has groups with Kafka's answers. Where there is Java, Kafka is asked about more:
KOHORT_PARITY_GROUPS of them. KOHORT_PARITY_RECORD=1 writes the file anew.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from ..java_oracle import ask
from .groups import assigned, case

ORACLE = Path(__file__).with_name("ServerOracle.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
# The last one: two members of one level have nothing to give, which changes who is asked next.
RECORDED = (*range(150), 2106)
DRAWN = int(os.environ.get("KOHORT_PARITY_GROUPS", "1000"))


def test_every_recorded_group_is_given_what_kafka_gave_it() -> None:
    vectors = [json.loads(line) for line in VECTORS.read_text().splitlines()]
    assert len(vectors) == len(RECORDED)
    for vector in vectors:
        assert assigned(vector["group"]) == vector["kafka"]


@pytest.mark.java
@pytest.mark.parity
def test_drawn_groups_are_given_what_kafka_gives_them(
    kafka_jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = sorted({*RECORDED, *range(DRAWN)})
    groups = [case(seed) for seed in seeds]
    kafka = ask(kafka_jars, ORACLE, groups)
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
