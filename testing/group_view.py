"""A group as seen by its coordinator, with one interface for both group protocols."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from ..broker.broker import Broker
from ..broker.cluster import Node
from ..broker.runtime.context import CoordinatorContext, CoordinatorState
from ..coordinator.classic.group import Group as ClassicGroup
from ..coordinator.classic.states import STABLE
from ..coordinator.consumer.group import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroup,
    GroupState,
    Partitions,
)
from ..coordinator.consumer.group import Member as ConsumerMember
from ..coordinator.coordinator import Coordinator
from ..coordinator.deadlines import DeadlineKey
from ..protocol.consumer_protocol import Subscription, decode_subscription
from ..protocol.errors import ProtocolError
from ..topics.names import OFFSETS_TOPIC
from ..topics.registry import TopicRegistry
from .lifecycle import BrokerHost
from .recorded_request import TopicPartition, assigned_partitions
from .timeline.timeline import join_partitions, name_member


class ConnectedMember(NamedTuple):
    """A member whose client has an open connection."""

    group_id: str
    member_id: str
    client_id: str
    session_due_ms: int | None
    """When the session expires; None while the response to a JoinGroup or SyncGroup is pending,
    because the session does not expire then."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as seen by its coordinator."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    """Always false in a consumer group (KIP-848), which has no leader."""
    partitions: tuple[TopicPartition, ...]
    """The partitions that the member owns and need not revoke. In a classic group, the partitions
    that the leader last assigned to it; () if the assignment is in another format."""
    protocol: str = "classic"
    """`classic` or `consumer`; a consumer group may have members of both protocols."""
    epoch: int = -1
    """The member epoch; in a classic group, the generation."""
    target: tuple[TopicPartition, ...] = ()
    """The target assignment of the member; in a classic group, the same as `partitions`."""
    revoking: tuple[TopicPartition, ...] = ()
    """The partitions that the member must revoke, and owns until it confirms the revocation."""

    @property
    def name(self) -> str:
        """The member id, with the client id."""
        return name_member(self.member_id, self.client_id)

    def has_name(self, name: str) -> bool:
        """Whether `name` is the member id, the instance id or the client id of the member."""
        return name in (self.member_id, self.instance_id, self.client_id)


class GroupView(Protocol):
    """A group of either protocol."""

    @property
    def state(self) -> str:
        """Kafka's name for the state."""

    @property
    def generation(self) -> int:
        """The generation id, or the group epoch."""

    @property
    def members(self) -> list[Member]:
        """The members, in the order in which they joined."""

    @property
    def is_settled(self) -> bool:
        """Whether the group is Stable, and every member has its assignment and need not revoke."""

    def settled_owner(self, partition: TopicPartition) -> Member | None:
        """Return the partition's owner; None if it has no owner or is about to move."""


class ClassicView:
    def __init__(self, group: ClassicGroup) -> None:
        self.group = group

    @property
    def state(self) -> str:
        return str(self.group.state)

    @property
    def generation(self) -> int:
        return self.group.generation

    @property
    def members(self) -> list[Member]:
        group = self.group
        assigned = {
            each.member_id: assigned_partitions(each.assignment) for each in group.members.values()
        }
        revoking = _pending_revocations(group, assigned)
        return [
            Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.member_id == group.leader,
                assigned[each.member_id],
                epoch=group.generation,
                target=assigned[each.member_id],
                revoking=tuple(sorted(revoking.get(each.member_id, ()))),
            )
            for each in group.members.values()
        ]

    @property
    def is_settled(self) -> bool:
        is_stable = self.group.state is STABLE and not self.group.pending_syncs
        return is_stable and not any(each.revoking for each in self.members)

    @property
    def subscriptions(self) -> dict[str, str]:
        """The topics to which members are subscribed by name, each with a member's client id."""
        return {
            topic: each.client_id
            for each in self.group.members.values()
            for topic in _subscription(each.protocols[0][1]).topics
        }

    def settled_owner(self, partition: TopicPartition) -> Member | None:
        if self.group.state is not STABLE:
            return None
        return next((each for each in self.members if partition in each.partitions), None)


def _pending_revocations(
    group: ClassicGroup, assigned: dict[str, tuple[TopicPartition, ...]]
) -> dict[str, set[TopicPartition]]:
    """Return, by member id, the partitions that the member owned when it joined and that no member
    is assigned now. Its client is about to revoke them and rejoin (cooperative, KIP-429)."""
    if group.state is not STABLE or group.protocol_name is None:
        return {}
    all_assigned = {partition for each in assigned.values() for partition in each}
    revoking = {}
    for each in group.members.values():
        listed = _subscription(each.metadata(group.protocol_name)).owned_partitions
        owned = {(topic, index) for topic, indexes in listed for index in indexes}
        if rest := owned - all_assigned:
            revoking[each.member_id] = rest
    return revoking


def _subscription(metadata: bytes) -> Subscription:
    try:
        return decode_subscription(metadata)
    except ProtocolError:  # not the consumer protocol
        return Subscription(())


class ConsumerView:
    """A consumer group (KIP-848)."""

    def __init__(
        self, coordinator: Coordinator, group: ConsumerGroup, topics: TopicRegistry
    ) -> None:
        self.group = group
        self._deadlines = coordinator.deadlines
        self._topics = topics

    @property
    def state(self) -> str:
        return str(self.group.state)

    @property
    def generation(self) -> int:
        return self.group.epoch

    @property
    def members(self) -> list[Member]:
        return [self.member(each) for each in self.group.members.values()]

    def member(self, member: ConsumerMember) -> Member:
        return Member(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            False,
            self.partitions(member.assigned),
            "classic" if member.uses_classic_protocol else "consumer",
            member.epoch,
            self.partitions(self.group.targets.get(member.member_id, {})),
            self.partitions(member.pending_revocation),
        )

    def partitions(self, assigned: Partitions) -> tuple[TopicPartition, ...]:
        """Return the partitions, sorted, with topic names. For a deleted topic, the name is its
        id."""
        found = []
        for topic_id, indexes in assigned.items():
            topic = self._topics.by_id(topic_id) if isinstance(topic_id, UUID) else None
            name = str(topic_id) if topic is None else topic.name
            found += [(name, index) for index in indexes]
        return tuple(sorted(found))

    @property
    def is_settled(self) -> bool:
        return self.group.state is GroupState.STABLE and not any(
            self.due_ms("member sync", member_id) for member_id in self.group.members
        )

    @property
    def subscriptions(self) -> dict[str, str]:
        """The topics to which members are subscribed by name, each with a member's client id."""
        return {
            topic: each.client_id
            for each in self.group.members.values()
            for topic in each.metadata.subscribed_topic_names
        }

    def settled_owner(self, partition: TopicPartition) -> Member | None:
        group = self.group
        if group.epoch > group.assignment_epoch:
            return None
        return settled_owner(self.members, group.assignment_epoch, partition)

    def due_ms(self, kind: Any, member_id: str) -> int | None:
        return self._deadlines.get(DeadlineKey(kind, self.group.group_id, member_id))


def settled_owner(
    members: Iterable[Member], assignment_epoch: int, partition: TopicPartition
) -> Member | None:
    """Return the member of a consumer group that owns the partition and will keep it. The member
    must have reached the epoch of the target assignment, or be a static member that has left
    temporarily."""
    for member in members:
        has_moved_on = member.epoch in (assignment_epoch, LEAVE_STATIC_EPOCH)
        if has_moved_on and partition in member.partitions and partition in member.target:
            return member
    return None


class Timers:
    """The deadlines of a group, as text."""

    def __init__(self, coordinator: Coordinator, group_id: str, now_ms: int) -> None:
        self._deadlines = coordinator.deadlines
        self._group_id = group_id
        self.now_ms = now_ms

    def due_ms(self, key: DeadlineKey) -> int | None:
        return self._deadlines.get(key)

    def left(self, key: DeadlineKey) -> str:
        due_ms = self.due_ms(key)
        return "(no timer)" if due_ms is None else self.until(due_ms)

    def until(self, due_ms: int) -> str:
        return f"{(due_ms - self.now_ms) / 1000:.1f} s"

    def session(self, member_id: str) -> DeadlineKey:
        """Return the key of the session of a member of either protocol."""
        key = DeadlineKey("member session", self._group_id, member_id)
        return key if key in self._deadlines else key._replace(kind="session")

    def session_left(self, member_id: str) -> str:
        return self.left(self.session(member_id))


def node_of(broker: Broker, group_id: str) -> Node:
    """Return the node of the group's coordinator; the first node if the group's offsets partition
    does not exist yet or has no leader."""
    partition = broker.node.coordinators.partition_of(group_id)
    return broker.cluster.leader_of(OFFSETS_TOPIC, partition) or broker.node


def context_of(broker: Broker, group_id: str) -> CoordinatorContext | None:
    coordinators = node_of(broker, group_id).coordinators
    return coordinators.contexts.get(coordinators.partition_of(group_id))


def coordinator_of(broker: Broker, group_id: str) -> Coordinator | None:
    context = context_of(broker, group_id)
    return None if context is None else context.coordinator


def unavailable(broker: Broker, group_id: str) -> str | None:
    """Return a sentence that says why clients cannot use the group's coordinator; None if it is
    active, or has nothing to load. A coordinator that is not active may have loaded only a part of
    its log."""
    coordinators = node_of(broker, group_id).coordinators
    index = coordinators.partition_of(group_id)
    stored = broker.node.topics.partition(OFFSETS_TOPIC, index)
    if stored is not None and broker.cluster.leader_of(OFFSETS_TOPIC, index) is None:
        return (
            f"Group {group_id} has no coordinator, because the nodes of its offsets partition are "
            "down: clients get COORDINATOR_NOT_AVAILABLE."
        )
    if coordinators.is_loading(index):
        return (
            f"The coordinator of group {group_id} is loading its log (group.loading() ends with "
            "finish()): clients get COORDINATOR_LOAD_IN_PROGRESS."
        )
    context = coordinators.contexts.get(index)
    if context is not None and context.state is CoordinatorState.FAILED:
        return (
            f"The coordinator of group {group_id} failed to load its log: clients get "
            "NOT_COORDINATOR."
        )
    return None


def view_of(broker: Broker, group_id: str) -> ClassicView | ConsumerView | None:
    """Return a view of the group; None if the group does not exist or has only offsets."""
    coordinator = coordinator_of(broker, group_id)
    if coordinator is None:
        return None
    if (consumer_group := coordinator.consumer_groups.get(group_id)) is not None:
        return ConsumerView(coordinator, consumer_group, broker.node.topics)
    classic = coordinator.groups.get(group_id)
    return None if classic is None else ClassicView(classic)


def connected_members(host: BrokerHost) -> list[ConnectedMember]:
    """Return the members whose clients are connected, except fake members. Runs on the broker's
    loop."""
    if not host.broker.is_running:
        return []
    members = {
        member.member_id: member
        for node in host.broker.cluster.nodes.values()
        for context in node.coordinators.contexts.values()
        for member in _members_of(context.coordinator)
        if member.client_id not in host.fake_members.client_ids
    }
    open_connections = host.interception.open_connections
    connected = []
    for request in reversed(host.history.requests if members else ()):
        if request.is_by_producer:
            continue
        found = members.pop(request.member_id or "", None)
        if found is not None and request.connection in open_connections:
            connected.append(found)
        if not members:
            break
    return connected


def _members_of(coordinator: Coordinator) -> Iterator[ConnectedMember]:
    deadlines = coordinator.deadlines
    for group_id, group in coordinator.groups.items():
        for member in group.members.values():
            is_waiting = member.join_ticket is not None or member.sync_ticket is not None
            due_ms = None if is_waiting else deadlines.get(member.session)
            yield ConnectedMember(group_id, member.member_id, member.client_id, due_ms)
    for group_id, consumer_group in coordinator.consumer_groups.items():
        for each in consumer_group.members.values():
            if not each.has_left_temporarily:
                due_ms = deadlines.get(DeadlineKey("member session", group_id, each.member_id))
                yield ConnectedMember(group_id, each.member_id, each.client_id, due_ms)


def list_members(members: Iterable[Member]) -> str:
    """Return text such as `app-1 (app-1-3f…) owns orders-0`, or `none`."""
    lines = (
        f"{each.client_id} ({each.member_id}) owns {join_partitions(each.partitions)}"
        for each in members
    )
    return "; ".join(lines) or "none"


def count_members(count: int) -> str:
    """Return `1 member`, `2 members`, …"""
    return f"{count} member{'s' * (count != 1)}"
