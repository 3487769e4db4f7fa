"""Cases: a group and its topics as JSON, in the format of `kohort assign --cases`.

    {"assignor": "range", "partitions": {"t0": 3}, "replica_racks": {"t0": [["a", "b"], …]},
     "members": {"C0": {"topics": ["t0"], "owned": [["t0", 0]], "generation": 1, "rack": "a",
                        "user_data": "base64", "group_instance_id": "i"}}}

The user data is always included, so that Java reads the same bytes.
"""

import base64
import dataclasses
import random
from collections.abc import Iterable, Mapping
from typing import Any

from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics
from kohort.assignors.resolve import BUILTIN

Case = dict[str, Any]
RACKS = "abc"


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
