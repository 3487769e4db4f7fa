"""Groups as seen by an admin client, from DescribeGroups and ConsumerGroupDescribe responses."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..group_view import Member, count_members, settled_owner
from ..recorded_request import TopicPartition
from ..timeline.timeline import join_partitions

UNKNOWN = -1
"""The generation of a classic group, which DescribeGroups does not return."""

_CLASSIC_MEMBER = 0  # MemberType; since version 1 of ConsumerGroupDescribe


class DescribedClassicGroup:
    """A group as returned by kafka-python's `describe_groups`."""

    generation = UNKNOWN

    def __init__(self, described: Mapping[str, Any]) -> None:
        self._members: list[Mapping[str, Any]] = described["members"]
        self.state = str(described["group_state"])

    @property
    def members(self) -> list[Member]:
        return [_classic_member(each) for each in self._members]

    @property
    def is_settled(self) -> bool:
        # A group is Stable after its leader's SyncGroup. The other members get their assignments
        # soon after.
        if self.state != "Stable":
            return False
        owned = {partition for each in self._members for partition in _owned(each)}
        # Owned but unassigned partitions are revoked, and the group rebalances again (KIP-429).
        return owned <= {partition for each in self._members for partition in _assigned(each)}

    def settled_owner(self, partition: TopicPartition) -> Member | None:
        members = self.members if self.is_settled else ()
        return next((each for each in members if partition in each.partitions), None)

    def __str__(self) -> str:
        return "\n".join([f"is {self.state}", *(f"  {each}" for each in self.members)])


def _classic_member(described: Mapping[str, Any]) -> Member:
    partitions = tuple(_assigned(described))
    return Member(
        described["member_id"],
        described.get("group_instance_id"),
        described["client_id"],
        described["client_host"],
        False,
        partitions,
        epoch=UNKNOWN,
        target=partitions,
    )


def _assigned(member: Mapping[str, Any]) -> Iterator[TopicPartition]:
    return _decoded(member["member_assignment"], "assigned_partitions")


def _owned(member: Mapping[str, Any]) -> Iterator[TopicPartition]:
    """Yield the owned partitions in the subscription of the member's last JoinGroup."""
    return _decoded(member["member_metadata"], "owned_partitions")


def _decoded(data: Any, name: str) -> Iterator[TopicPartition]:
    # The data is empty before the assignment, or if the group does not use the consumer protocol.
    return _partitions((data.get(name) or ()) if isinstance(data, dict) else (), "topic")


class DescribedConsumerGroup:
    """A group in a ConsumerGroupDescribe response."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.state = str(described["group_state"])
        self.generation = int(described["group_epoch"])
        self.members = [_consumer_member(each) for each in described["members"]]
        self._assignment_epoch = int(described["assignment_epoch"])

    @property
    def is_settled(self) -> bool:
        return self.state == "Stable"

    def settled_owner(self, partition: TopicPartition) -> Member | None:
        if self.generation > self._assignment_epoch:
            return None
        return settled_owner(self.members, self._assignment_epoch, partition)

    def __str__(self) -> str:
        head = (
            f"is {self.state} in epoch {self.generation}, with the assignment of epoch "
            f"{self._assignment_epoch} and {count_members(len(self.members))}"
        )
        return "\n".join([head, *map(_line, self.members)])


def _line(member: Member) -> str:
    line = (
        f"  {member.client_id} ({member.member_id}), epoch {member.epoch}, owns "
        f"{join_partitions(member.partitions)}"
    )
    if member.revoking:
        line += f", has to revoke {join_partitions(member.revoking)}"
    missing = [each for each in member.target if each not in member.partitions]
    return f"{line}, should get {join_partitions(missing)}" if missing else line


def _consumer_member(described: Mapping[str, Any]) -> Member:
    owned = tuple(sorted(_partitions(described["assignment"]["topic_partitions"], "topic_name")))
    target = described["target_assignment"]["topic_partitions"]
    wanted = tuple(sorted(_partitions(target, "topic_name")))
    is_classic = described.get("member_type") == _CLASSIC_MEMBER
    return Member(
        described["member_id"],
        described["instance_id"],
        described["client_id"],
        described["client_host"],
        False,
        tuple(each for each in owned if each in wanted),
        "classic" if is_classic else "consumer",
        described["member_epoch"],
        wanted,
        tuple(each for each in owned if each not in wanted),
    )


def _partitions(topics: Any, name: str) -> Iterator[TopicPartition]:
    for topic in topics:
        for index in topic["partitions"]:
            yield topic[name], index
