"""The broker's assignors with the interface of client-side assignors.

Members are in Kafka's order for members that joined in the order of their ids. Topic ids
are numbered in the order of topic names.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from ..model import Assignment, Assignor, Subscription, Topics
from ..ordering import java_order, member_order
from .builtin import SERVER_ASSIGNORS
from .hashing import group_spec_order, subscription_order
from .model import Member, ServerAssignor, Topic, TopicId

FIRST_ID: Final = 2  # 0 and 1 are in Uuid.RESERVED


class ServerSideAssignor(Assignor):
    """A server-side assignor. Owned partitions become the previous target assignment. If a
    partition has two owners, the owner with the newer generation keeps it, or the first owner if
    the generations are equal. Partitions that do not exist are ignored."""

    cooperative = False

    def __init__(self, name: str, assign: ServerAssignor) -> None:
        self._name, self._assign = name, assign

    @property
    def name(self) -> str:
        return self._name

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        names = sorted(topics.partitions, key=java_order)
        by_name = {
            name: Topic(UUID(int=number), topics.partitions[name])
            for number, name in enumerate(names, FIRST_ID)
        }
        targets = _targets(by_name, members)
        order = group_spec_order(sorted(members, key=java_order), len(members))
        assigned = self._assign(
            {
                member_id: Member(
                    subscription_order(members[member_id].topics),
                    targets[member_id],
                    members[member_id].group_instance_id,
                )
                for member_id in order
            },
            by_name,
            len({frozenset(member.topics) for member in members.values()}) == 1,
        )
        return {
            member_id: [
                (name, partition)
                for name in names
                for partition in sorted(assigned[member_id].get(by_name[name].id, ()))
            ]
            for member_id in members
        }


def _targets(
    topics: Mapping[str, Topic], members: Mapping[str, Subscription]
) -> dict[str, dict[TopicId, list[int]]]:
    """Return the previous target assignments of all members."""
    targets: dict[str, dict[TopicId, list[int]]] = {member_id: {} for member_id in members}
    has_owner: set[tuple[str, int]] = set()
    newest_first = sorted(
        member_order(members), key=lambda member_id: -_generation(members[member_id])
    )
    for member_id in newest_first:
        for topic, partition in members[member_id].owned_partitions:
            exists = topic in topics and 0 <= partition < topics[topic].partitions
            if exists and (topic, partition) not in has_owner:
                has_owner.add((topic, partition))
                targets[member_id].setdefault(topics[topic].id, []).append(partition)
    return targets


def _generation(member: Subscription) -> int:
    return -1 if member.generation_id is None else member.generation_id


# There is also a client-side assignor named `range`.
SERVER_SIDE: Final = tuple(
    ServerSideAssignor("server-range" if name == "range" else name, assign)
    for name, assign in SERVER_ASSIGNORS.items()
)
