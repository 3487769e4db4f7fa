"""Random groups of the consumer protocol, from a seed: new, changed since they were balanced, or
with arbitrary owners."""

import random
from typing import Any

from kohort.assignors.model import Assignor, Subscription, Topics
from kohort.assignors.range import ServerRangeAssignor
from kohort.assignors.subscribers import member_order
from kohort.assignors.uniform import UniformAssignor

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
    """A target assignment of before members changed, or arbitrary owners."""
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
    """Our assignment, as JSON."""
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
