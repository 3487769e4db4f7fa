"""Assignments of the consumers' assignors are equal to Kafka's, or better.

`vectors.jsonl` has groups with Kafka's assignments. If Java is installed, more groups are compared:
KOHORT_PARITY_GROUPS of each strategy. KOHORT_PARITY_RECORD=1 recreates the file.
"""

import base64
import dataclasses
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN
from kohort.assignors.sticky.ownership import cooperative_member_data, sticky_member_data
from support.java import run_oracle

ORACLE = Path(__file__).with_name("KafkaAssignors.java")
VECTORS = Path(__file__).with_name("vectors.jsonl")
RECORDED = 100  # of each strategy
GROUPS = int(os.environ.get("KOHORT_PARITY_GROUPS", "250"))
REBALANCES_MAX = 12
EXACT = ("range", "roundrobin")
STICKY = ("sticky", "cooperative-sticky")
RACKS = "abc"

Case = dict[str, Any]
"""A group and its topics as JSON, in the format of `kohort assign --cases`. The user data is always
included, so that Java reads the same bytes."""
Assigned = Mapping[str, Sequence[Any]]
"""Pairs of topic and partition by member, as tuples or lists."""
Comparison = Literal["better", "equal", "worse"]

# --- cases


def case(strategy: str, topics: Topics, members: Mapping[str, Subscription]) -> Case:
    content: Case = {"assignor": strategy, "partitions": dict(topics.partitions)}
    if topics.replica_racks:
        content["replica_racks"] = {t: list(racks) for t, racks in topics.replica_racks.items()}
    content["members"] = {name: _member(member) for name, member in members.items()}
    return content


def _member(subscription: Subscription) -> dict[str, Any]:
    fields = {
        "topics": subscription.topics,
        "owned": subscription.owned_partitions or None,
        "generation": subscription.generation_id,
        "rack": subscription.rack_id or None,
        "user_data": subscription.user_data,
        "group_instance_id": subscription.group_instance_id,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if subscription.user_data is not None:
        fields["user_data"] = base64.b64encode(subscription.user_data).decode()
    return fields


def read(content: Case) -> tuple[str, Topics, dict[str, Subscription]]:
    members = {}
    for name, fields in content["members"].items():
        data = fields.get("user_data")
        members[name] = Subscription(
            tuple(fields["topics"]),
            tuple((topic, partition) for topic, partition in fields.get("owned", ())),
            fields.get("generation"),
            fields.get("rack"),
            None if data is None else base64.b64decode(data),
            fields.get("group_instance_id"),
        )
    topics = Topics(content["partitions"], content.get("replica_racks", {}))
    return content["assignor"], topics, members


def assign(content: Case) -> Assignment:
    strategy, topics, members = read(content)
    return BUILTIN[strategy].assign(topics, members)


def rejoined(
    content: Case, assigned: Mapping[str, Iterable[TopicPartition]], generation: int = 100
) -> Case:
    """The same members rejoin and own what they were assigned."""
    strategy, topics, members = read(content)
    for name, member in members.items():
        owned = tuple((topic, partition) for topic, partition in assigned[name])
        data = BUILTIN[strategy].subscription_user_data(member.topics, owned, generation)
        members[name] = dataclasses.replace(
            member, owned_partitions=owned, generation_id=generation, user_data=data
        )
    return case(strategy, topics, members)


def random_case(strategy: str, chance: random.Random) -> Case:
    """A group with previous owners: some claims are valid, some stale, some made twice."""
    topics = _topics(chance)
    names = [f"t{n}" for n in range(len(topics.partitions) + 1)]  # the last one does not exist
    members = _members(chance, names)
    if chance.random() < 0.2:
        _add_random_claims(chance, topics, members)
    elif chance.random() < 0.85:
        members = _with_history(strategy, chance, topics, names, members)
    for name, member in members.items():
        data = BUILTIN[strategy].subscription_user_data(
            member.topics, member.owned_partitions, member.generation_id
        )
        members[name] = dataclasses.replace(member, user_data=data)
    return case(strategy, topics, members)


def _topics(chance: random.Random) -> Topics:
    most = chance.choice((1, 3, 8, 20))
    sizes = {f"t{n}": chance.randint(0, most) for n in range(chance.randint(1, 7))}
    racks: dict[str, list[list[str]]] = {}
    if chance.random() < 0.4:
        replication = chance.randint(1, 3)
        for topic, size in sizes.items():
            racks[topic] = [chance.sample(RACKS, replication) for _ in range(size)]
    return Topics(sizes, racks)


def _members(chance: random.Random, names: list[str]) -> dict[str, Subscription]:
    equal = chance.random() < 0.45
    common = tuple(sorted(chance.sample(names, chance.randint(1, len(names)))))
    member_racks = RACKS if chance.random() < 0.5 else ""
    members = {}
    for n in range(chance.randint(1, chance.choice((3, 8, 20)))):
        topics = common
        if not equal and chance.random() < 0.7:
            topics = tuple(sorted(chance.sample(names, chance.randint(0, len(names)))))
        name = chance.choice((f"m{n}", f"consumer-{n}-{chance.getrandbits(64):016x}", f"é{n}"))
        rack = chance.choice(member_racks) if member_racks and chance.random() < 0.9 else None
        instance = f"i{chance.randint(0, 99)}-{n}" if chance.random() < 0.1 else None
        members[name] = Subscription(topics, rack_id=rack, group_instance_id=instance)
    return members


def _add_random_claims(
    chance: random.Random, topics: Topics, members: dict[str, Subscription]
) -> None:
    every = [(topic, p) for topic, size in topics.partitions.items() for p in range(size)]
    every.append(("gone", 0))
    for name, member in members.items():
        owned = chance.sample(every, chance.randint(0, min(len(every), 6)))
        members[name] = _claiming(chance, member, owned, chance.randint(1, 3))


def _with_history(
    strategy: str,
    chance: random.Random,
    topics: Topics,
    names: list[str],
    members: dict[str, Subscription],
) -> dict[str, Subscription]:
    """The members own what was assigned before the members and topics changed."""
    before = dict(members)
    for n in range(chance.randint(0, 2)):
        before[f"left{n}"] = Subscription(
            tuple(chance.sample(names, chance.randint(1, len(names))))
        )
    for name in chance.sample(sorted(members), chance.randint(0, min(2, len(members)))):
        del before[name]
    smaller = {t: size - (chance.random() < 0.15) for t, size in topics.partitions.items()}
    assigned = BUILTIN[strategy].assign(Topics({t: max(0, n) for t, n in smaller.items()}), before)
    after = {}
    for name, member in members.items():
        if name in assigned:
            generation = 4 if chance.random() < 0.9 else chance.randint(2, 4)
            member = _claiming(chance, member, assigned[name], generation)
        if chance.random() < 0.1:
            topics_now = tuple(sorted(chance.sample(names, chance.randint(1, len(names)))))
            member = dataclasses.replace(member, topics=topics_now)
        after[name] = member
    if assigned and chance.random() < 0.2:  # a member that missed the last rebalance
        stray = chance.choice(sorted(after))
        after[stray] = _claiming(chance, after[stray], assigned[chance.choice(sorted(assigned))], 3)
    return after


def _claiming(
    chance: random.Random, member: Subscription, owned: list[TopicPartition], generation: int
) -> Subscription:
    return dataclasses.replace(
        member,
        owned_partitions=tuple(owned),
        generation_id=generation if chance.random() < 0.95 else None,
    )


# --- comparisons


def partitions(assigned: Assigned, member: str) -> set[TopicPartition]:
    return {(topic, partition) for topic, partition in assigned[member]}


def imbalance(assigned: Assigned) -> int:
    """Return Kafka's balance score: the sum of the load differences of all pairs of members."""
    loads = sorted(len(share) for share in assigned.values())
    return sum(load * (2 * index - len(loads) + 1) for index, load in enumerate(loads))


def revoked(case: Case, assigned: Assigned) -> int:
    """Count the partitions taken from an owner that still subscribes to their topic. If claims
    conflict, the newest generation wins; a partition claimed twice in it has no owner."""
    strategy, topics, members = read(case)
    member_data = sticky_member_data if strategy == "sticky" else cooperative_member_data
    claims: dict[TopicPartition, list[tuple[int, str]]] = {}
    for name, member in members.items():
        data = member_data(member)
        for topic, partition in set(data.partitions):
            if 0 <= partition < topics.partitions.get(topic, 0):
                generation = -1 if data.generation is None else data.generation
                claims.setdefault((topic, partition), []).append((generation, name))
    count = 0
    for partition, claimed in claims.items():
        newest = max(claimed)[0]
        owners = [name for generation, name in claimed if generation == newest]
        if len(owners) == 1 and partition[0] in members[owners[0]].topics:
            count += partition not in partitions(assigned, owners[0])
    return count


def has_revocations(case: Case, assigned: Assigned) -> bool:
    """Whether a member lost a partition that it owned, so that another rebalance follows."""
    _, _, members = read(case)
    return any(
        set(members[name].owned_partitions) - partitions(assigned, name) for name in assigned
    )


def is_valid(case: Case, assigned: Assigned) -> bool:
    """Whether members get only topics of their subscriptions, and each partition has one owner."""
    _, topics, members = read(case)
    counts = Counter(one for name in assigned for one in partitions(assigned, name))
    return (
        assigned.keys() == members.keys()
        and all(counts[one] == 1 and one[1] < topics.partitions.get(one[0], 0) for one in counts)
        and all(
            one[0] in members[name].topics
            for name in assigned
            for one in partitions(assigned, name)
        )
    )


def compare(ours: int, theirs: int) -> Comparison:
    return "better" if ours < theirs else "equal" if ours == theirs else "worse"


def cases(strategy: str) -> list[Case]:
    return [random_case(strategy, random.Random(f"{strategy} {seed}")) for seed in range(GROUPS)]


def assign_as_json(case: Case) -> dict[str, list[list[Any]]]:
    return {name: [list(one) for one in share] for name, share in assign(case).items()}


def compared(case: Case, kafka: Any) -> Counter[str]:
    """Count the outcomes of comparing one rebalance with Kafka's."""
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
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
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
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
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
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
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
    """Return the final assignment, the number of rebalances, and the number of revocations."""

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
    """Return the final assignments of Kafka, None for groups in which it fails."""
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
