"""Assignments of `uniform` and `server-range` are equal to those of Kafka's group coordinator.

`vectors.jsonl` has groups with Kafka's assignments. If Java is installed, more groups are compared:
KOHORT_PARITY_GROUPS of them. KOHORT_PARITY_RECORD=1 recreates the file.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from kohort.assignors.model import Assignor, Subscription, Topics
from kohort.assignors.ordering import member_order
from kohort.assignors.range import ServerRangeAssignor
from kohort.assignors.uniform import UniformAssignor
from support.java import run_oracle

ORACLE = Path(__file__).with_name("ServerOracle.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
# In the last group, two members of one level have nothing to give, which changes the order.
RECORDED = (*range(150), 2106)
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "1000"))
SERVER_SIDE: dict[str, Assignor] = {
    "uniform": UniformAssignor(),
    "server-range": ServerRangeAssignor(),
}


def case(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    # Names in the order of their numbers.
    sizes = {f"t{n}": draw.randint(1, 12) for n in range(draw.randint(1, 7))}
    names = draw.sample([f"m{n}" for n in range(10, 40)], draw.randint(1, 9))
    equal = draw.random() < 0.4
    same = _some(draw, sizes)
    members = {
        name: Subscription(
            topics=same if equal else _some(draw, sizes),
            group_instance_id=f"i{draw.randint(100, 999)}{name}" if draw.random() < 0.2 else None,
        )
        for name in names
    }
    if draw.random() < 0.8:
        _own(draw, sizes, members)
    return {
        "assignor": draw.choice(("uniform", "uniform", "server-range")),
        "partitions": sizes,
        "members": {
            name: {
                "topics": members[name].topics,
                "owned": members[name].owned_partitions,
                "group_instance_id": members[name].group_instance_id,
            }
            for name in member_order(members)
        },
    }


def _some(draw: random.Random, sizes: dict[str, int]) -> tuple[str, ...]:
    return tuple(sorted(draw.sample(sorted(sizes), draw.randint(1, len(sizes)))))


def _own(draw: random.Random, sizes: dict[str, int], members: dict[str, Subscription]) -> None:
    """Claim the partitions of a target assignment before the members changed, or arbitrary ones."""
    before = {
        name: Subscription(_some(draw, sizes) if draw.random() < 0.3 else member.topics)
        for name, member in members.items()
        if draw.random() < 0.8
    } | {"gone": Subscription(_some(draw, sizes))}
    target = UniformAssignor().assign(Topics(sizes), before)
    if draw.random() < 0.3:
        target = {name: [] for name in members}
        for topic, size in sizes.items():
            for partition in range(size):
                if draw.random() < 0.8:
                    target[draw.choice(sorted(members))].append((topic, partition))
    for name, member in members.items():
        owned = tuple(target.get(name, ()))
        members[name] = Subscription(
            member.topics, owned, generation_id=3, group_instance_id=member.group_instance_id
        )


def assigned(case: dict[str, Any]) -> dict[str, list[list[Any]]]:
    """Return kohort's assignment, as JSON."""
    members = {
        name: Subscription(
            tuple(fields["topics"]),
            tuple((topic, partition) for topic, partition in fields["owned"]),
            generation_id=3,
            group_instance_id=fields["group_instance_id"],
        )
        for name, fields in case["members"].items()
    }
    shares = SERVER_SIDE[case["assignor"]].assign(Topics(case["partitions"]), members)
    return {name: [[*partition] for partition in share] for name, share in shares.items()}


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
