"""Cases: one group and its topics as JSON, in the form that `kohort assign --cases` reads.

    {"assignor": "range", "partitions": {"t0": 3}, "replica_racks": {"t0": [["a", "b"], …]},
     "members": {"C0": {"topics": ["t0"], "owned": [["t0", 0]], "generation": 1, "rack": "a",
                        "user_data": "base64", "group_instance_id": "i"}}}

The user data is always written out, so that whoever reads a case reads the same bytes.
"""

import base64
import dataclasses
import random
from collections.abc import Iterable, Mapping
from typing import Any

from kohort.assignors.builtin import BUILTIN
from kohort.assignors.model import Assignment, Subscription, TopicPartition, Topics

Case = dict[str, Any]
RACKS = "abc"


def case(strategy: str, topics: Topics, members: Mapping[str, Subscription]) -> Case:
    asked: Case = {"assignor": strategy, "partitions": dict(topics.partitions)}
    if topics.replica_racks:
        asked["replica_racks"] = {t: list(racks) for t, racks in topics.replica_racks.items()}
    asked["members"] = {name: _member(member) for name, member in members.items()}
    return asked


def _member(subscription: Subscription) -> dict[str, Any]:
    told = {name: value for name, value in dataclasses.asdict(subscription).items() if value}
    told.setdefault("topics", ())
    if subscription.generation is not None:
        told["generation"] = subscription.generation
    if subscription.user_data is not None:
        told["user_data"] = base64.b64encode(subscription.user_data).decode()
    return told


def read(asked: Case) -> tuple[str, Topics, dict[str, Subscription]]:
    members = {}
    for name, told in asked["members"].items():
        data = told.get("user_data")
        members[name] = Subscription(
            tuple(told["topics"]),
            tuple((topic, partition) for topic, partition in told.get("owned", ())),
            told.get("generation"),
            told.get("rack"),
            None if data is None else base64.b64decode(data),
            told.get("group_instance_id"),
        )
    topics = Topics(asked["partitions"], asked.get("replica_racks", {}))
    return asked["assignor"], topics, members


def answer(asked: Case) -> Assignment:
    strategy, topics, members = read(asked)
    return BUILTIN[strategy].assign(topics, members)


def again(
    asked: Case, given: Mapping[str, Iterable[TopicPartition]], generation: int = 100
) -> Case:
    """The same members join again, and own what they were given."""
    strategy, topics, members = read(asked)
    for name, member in members.items():
        owned = tuple((topic, partition) for topic, partition in given[name])
        data = BUILTIN[strategy].user_data(member.topics, owned, generation)
        members[name] = dataclasses.replace(
            member, owned=owned, generation=generation, user_data=data
        )
    return case(strategy, topics, members)


def drawn(strategy: str, chance: random.Random) -> Case:
    """A group with a past: some of it known to all, some forgotten, some disputed."""
    topics = _topics(chance)
    names = [f"t{n}" for n in range(len(topics.partitions) + 1)]  # the last one is unknown
    members = _members(chance, names)
    if chance.random() < 0.2:
        _own_at_random(chance, topics, members)
    elif chance.random() < 0.85:
        members = _after(strategy, chance, topics, names, members)
    for name, member in members.items():
        data = BUILTIN[strategy].user_data(member.topics, member.owned, member.generation)
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
    told_racks = RACKS if chance.random() < 0.5 else ""
    members = {}
    for n in range(chance.randint(1, chance.choice((3, 8, 20)))):
        topics = common
        if not equal and chance.random() < 0.7:
            topics = tuple(sorted(chance.sample(names, chance.randint(0, len(names)))))
        name = chance.choice((f"m{n}", f"consumer-{n}-{chance.getrandbits(64):016x}", f"é{n}"))
        rack = chance.choice(told_racks) if told_racks and chance.random() < 0.9 else None
        instance = f"i{chance.randint(0, 99)}-{n}" if chance.random() < 0.1 else None
        members[name] = Subscription(topics, rack=rack, group_instance_id=instance)
    return members


def _own_at_random(chance: random.Random, topics: Topics, members: dict[str, Subscription]) -> None:
    every = [(topic, p) for topic, size in topics.partitions.items() for p in range(size)]
    every.append(("gone", 0))
    for name, member in members.items():
        owned = chance.sample(every, chance.randint(0, min(len(every), 6)))
        members[name] = _told(chance, member, owned, chance.randint(1, 3))


def _after(
    strategy: str,
    chance: random.Random,
    topics: Topics,
    names: list[str],
    members: dict[str, Subscription],
) -> dict[str, Subscription]:
    """What the group was given before someone left, someone came, or wishes and topics changed."""
    before = dict(members)
    for n in range(chance.randint(0, 2)):
        before[f"left{n}"] = Subscription(
            tuple(chance.sample(names, chance.randint(1, len(names))))
        )
    for name in chance.sample(sorted(members), chance.randint(0, min(2, len(members)))):
        del before[name]
    smaller = {t: size - (chance.random() < 0.15) for t, size in topics.partitions.items()}
    given = BUILTIN[strategy].assign(Topics({t: max(0, n) for t, n in smaller.items()}), before)
    after = {}
    for name, member in members.items():
        if name in given:
            generation = 4 if chance.random() < 0.9 else chance.randint(2, 4)
            member = _told(chance, member, given[name], generation)
        if chance.random() < 0.1:
            wanted = tuple(sorted(chance.sample(names, chance.randint(1, len(names)))))
            member = dataclasses.replace(member, topics=wanted)
        after[name] = member
    if given and chance.random() < 0.2:  # one that missed it all
        stray = chance.choice(sorted(after))
        after[stray] = _told(chance, after[stray], given[chance.choice(sorted(given))], 3)
    return after


def _told(
    chance: random.Random, member: Subscription, owned: list[TopicPartition], generation: int
) -> Subscription:
    return dataclasses.replace(
        member,
        owned=tuple(owned),
        generation=generation if chance.random() < 0.95 else None,
    )
