"""Random histories of groups of the consumer protocol, and the records that kohort would write.

A history is JSON, described in ServerOracle.java.
"""

import random
from typing import Any, TypeAlias
from uuid import UUID

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.hashing import TopicHashes, group_spec_order, subscription_order
from kohort.assignors.server.model import Member, ServerAssignor, Topic, TopicId
from kohort.assignors.server.targets import have_same_partitions, loaded_target

History: TypeAlias = dict[str, Any]
Records: TypeAlias = list[list[Any]]
"""[member, [[topic, [partition, ...]], ...]]"""

INT64_MAX = 2**63 - 1


# --- kohort's records


def records_of(history: History) -> list[Records]:
    """Return the records of each assignment."""
    group = Group(SERVER_ASSIGNORS[history["assignor"]])
    results = [group.apply(step) for step in history["steps"]]
    return [records for records in results if records is not None]


class Group:
    """The state of a group on which its assignments depend."""

    def __init__(self, assignor: ServerAssignor) -> None:
        self._assignor = assignor
        self._topics: dict[str, Topic] = {}
        self._names: dict[TopicId, str] = {}
        self._members: dict[str, Member] = {}
        self._have_target: set[str] = set()
        self._size_max = 0

    def apply(self, step: dict[str, Any]) -> Records | None:
        if "leave" in step:
            self._remove(step["leave"])
        elif "join" in step:
            return self._heartbeat(step)
        else:
            self._topics = {
                name: Topic(UUID(int=(high % 2**64 << 64) + low % 2**64), count)
                for name, (high, low, count) in step["topics"].items()
            }
            self._names |= {topic.id: name for name, topic in self._topics.items()}
        return None

    def _remove(self, member_id: str) -> None:
        del self._members[member_id]
        self._have_target.discard(member_id)

    def _heartbeat(self, step: dict[str, Any]) -> Records | None:
        member_id, instance = step["join"], step["instance"]
        replaced = self._static_member(instance)
        previous = self._members.get(member_id if replaced is None else replaced)
        if replaced == member_id:
            replaced = None
        order = group_spec_order([*self._members], self._size_max, member_id, replaced)
        if replaced is not None:
            self._remove(replaced)
        topics = subscription_order(step["topics"], step["regex"] or ())
        target = previous.target if previous else {}
        if replaced is not None:
            target = loaded_target(target, TopicHashes())
        self._members[member_id] = Member(topics, target, instance)
        self._size_max = max(self._size_max, len(self._members))
        records = self._assign(order) if "assign" in step else None
        if replaced is not None:
            self._have_target.add(member_id)
        return records

    def _static_member(self, instance: str | None) -> str | None:
        for member_id, member in self._members.items():
            if instance is not None and member.group_instance_id == instance:
                return member_id
        return None

    def _assign(self, order: list[str]) -> Records:
        members = {member_id: self._members[member_id] for member_id in order}
        homogeneous = len({frozenset(member.topics) for member in members.values()}) == 1
        targets = self._assignor(members, self._topics, homogeneous)
        assert [*targets] == order
        records: Records = []
        for member_id, target in targets.items():
            member = members[member_id]
            is_new = member_id not in self._have_target
            if is_new or not have_same_partitions(target, member.target):
                topics = [[self._names[topic], [*target[topic]]] for topic in target]
                records.append([member_id, topics])
                instance = member.group_instance_id
                self._members[member_id] = Member(member.topics, target, instance)
                self._have_target.add(member_id)
        return records


# --- random histories


def random_history(seed: int) -> History:
    draw = _Draw(seed)
    steps = [draw.topics()]
    for _ in range(draw.chance.randint(3, draw.chance.choice((15, 15, 15, 80)))):
        steps.append(draw.step())
    assignor = draw.chance.choice(("uniform", "uniform", "uniform", "range"))
    return {"assignor": assignor, "steps": steps}


class _Draw:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"server {seed}")
        self.partitions_max = self.chance.choice((4, 12, 40, 200))
        self.equal = self.chance.choice((0, 0.9, 1))  # how often subscriptions are equal
        self.existing: dict[str, list[int]] = {}
        for number in range(self.chance.choice((1, 2, 3, 7, 25))):
            self.create(f"t{number}")
        self.members: dict[str, dict[str, Any]] = {}
        self.names = self.some_topics()
        self.count = 0

    def create(self, name: str) -> None:
        high, low = (self.chance.randint(-INT64_MAX, INT64_MAX) for _ in range(2))
        self.existing[name] = [high, low, self.chance.randint(1, self.partitions_max)]

    def topics(self) -> dict[str, Any]:
        return {"topics": {name: [*topic] for name, topic in self.existing.items()}}

    def some_topics(self) -> list[str]:
        names = [*self.existing, "unknown"]
        return self.chance.sample(names, self.chance.randint(1, len(names)))

    def step(self) -> dict[str, Any]:
        action = self.chance.random()
        if action < 0.15 and len(self.members) > 1:
            left = self.chance.choice([*self.members])
            del self.members[left]
            return {"leave": left}
        if action < 0.3:
            return self.change_topics()
        if action < 0.6 and self.members:
            return self.heartbeat(self.chance.choice([*self.members]))
        return self.join()

    def change_topics(self) -> dict[str, Any]:
        name = self.chance.choice([*self.existing])
        action = self.chance.random()
        if action < 0.5:
            self.existing[name][2] += self.chance.randint(1, self.partitions_max)
        elif action < 0.6 and len(self.existing) > 1:
            del self.existing[name]
        elif action < 0.8:
            self.create(name)  # deleted and created again
        else:
            self.create(f"t{len(self.existing) + 30}")
        return self.topics()

    def heartbeat(self, member_id: str) -> dict[str, Any]:
        """Return the member, often with another subscription. A static member may have
        restarted."""
        step = self.members.pop(member_id)
        if step["instance"] is not None and self.chance.random() < 0.4:
            member_id = self.member_id()
        if self.chance.random() < 0.5:
            step = self.subscribed(member_id, step["instance"])
        step = step | {"join": member_id, "assign": True}
        self.members[member_id] = step
        return step

    def member_id(self) -> str:
        self.count += 1
        if self.chance.random() < 0.3:
            return f"consumer-{self.count}"
        return f"{self.chance.getrandbits(132):033x}é"[self.chance.randint(0, 20) :]

    def join(self) -> dict[str, Any]:
        member_id = self.member_id()
        instance = f"i{self.count * 37 % 100}" if self.chance.random() < 0.2 else None
        if any(member["instance"] == instance for member in self.members.values()):
            instance = None
        self.members[member_id] = self.subscribed(member_id, instance)
        return self.members[member_id]

    def subscribed(self, member_id: str, instance: str | None) -> dict[str, Any]:
        equal = self.chance.random() < self.equal
        topics = self.names if equal else self.some_topics()
        if self.chance.random() < 0.3:
            topics = self.chance.sample(topics, len(topics))
        regex = None
        if self.chance.random() < 0.2:
            split = self.chance.randint(0, len(topics))
            regex = sorted(topics[max(0, split - 1) :])  # one topic may be in both
            topics = topics[:split]
        step = {"join": member_id, "topics": topics, "regex": regex, "instance": instance}
        return step | ({"assign": True} if self.chance.random() < 0.8 else {})
