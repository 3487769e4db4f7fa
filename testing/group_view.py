"""A group as seen by its coordinator: its members, its state, and an explanation of that state."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..broker.broker import Broker
from ..broker.cluster import Node
from ..broker.context import CoordinatorContext
from ..coordinator.classic.group import Group as CoordinatorGroup
from ..coordinator.classic.group import Member as CoordinatorMember
from ..coordinator.classic.states import COMPLETING, EMPTY, PREPARING, STABLE
from ..coordinator.coordinator import Coordinator
from ..coordinator.deadlines import DeadlineKey
from ..protocol.consumer_protocol import decode_subscription
from ..protocol.errors import ProtocolError
from ..suggestions import did_you_mean
from ..topics.names import OFFSETS_TOPIC
from .hints import hints, no_client
from .lifecycle import BrokerHost
from .recorded_request import RecordedRequest, TopicPartition, assigned_partitions
from .timeline import deduplicate, join_partitions

# Number of requests in an explanation: two or three rebalances of a small group. Older requests
# without a response are shown as well: the group may be waiting for one of them.
LAST_REQUESTS = 12
# After these errors a client may rejoin with another member id.
_RESETS_MEMBER_ID = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"})


class ConnectedMember(NamedTuple):
    """A member whose client has an open connection."""

    group_id: str
    member_id: str
    client_id: str
    session_due_ms: int | None
    """When its session expires; None while the response to its join or sync is pending, because it
    sends no heartbeats then."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as seen by its coordinator."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    partitions: tuple[TopicPartition, ...]
    """What the leader assigned in the last SyncGroup; () if that is not a ConsumerProtocol
    assignment."""

    def has_name(self, name: str) -> bool:
        """Whether `name` is its member id, its instance id or its client id."""
        return name in (self.member_id, self.instance_id, self.client_id)


def node_of(broker: Broker, group_id: str) -> Node:
    """Return the node that coordinates the group; the first node if nothing was written for it
    yet."""
    partition = broker.node.coordinators.partition_of(group_id)
    return broker.cluster.leader_of(OFFSETS_TOPIC, partition) or broker.node


def context_of(broker: Broker, group_id: str) -> CoordinatorContext | None:
    coordinators = node_of(broker, group_id).coordinators
    return coordinators.contexts.get(coordinators.partition_of(group_id))


def coordinator_of(broker: Broker, group_id: str) -> Coordinator | None:
    context = context_of(broker, group_id)
    return None if context is None else context.coordinator


def connected_members(host: BrokerHost) -> list[ConnectedMember]:
    """Return the members whose clients are connected, without fake members. On the broker's
    loop."""
    if not host.broker.is_running:
        return []
    members = {
        member.member_id: ConnectedMember(
            group_id,
            member.member_id,
            member.client_id,
            context.coordinator.deadlines.get(member.session)
            if member.join_ticket is None and member.sync_ticket is None
            else None,
        )
        for node in host.broker.cluster.nodes.values()
        for context in node.coordinators.contexts.values()
        for group_id, group in context.coordinator.groups.items()
        for member in group.members.values()
        if member.client_id not in host.background.client_ids
    }
    open_connections = host.interceptor.open_connections
    connected = []
    for request in reversed(host.history.requests if members else ()):
        member = members.pop(request.member_id or "", None)
        if member is not None and request.connection in open_connections:
            connected.append(member)
        if not members:
            break
    return connected


def members_of(group: CoordinatorGroup) -> list[Member]:
    return [
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.member_id == group.leader,
            assigned_partitions(each.assignment),
        )
        for each in group.members.values()
    ]


def list_members(members: Iterable[Member]) -> str:
    """`app-1 (app-1-3f…) owns orders-0`; `none`"""
    lines = (
        f"{each.client_id} ({each.member_id}) owns {join_partitions(each.partitions)}"
        for each in members
    )
    return "; ".join(lines) or "none"


def pending_revocations(group: CoordinatorGroup) -> dict[str, set[TopicPartition]]:
    """Member id -> partitions that it owned when it joined and that were assigned to nobody. In a
    cooperative rebalance its client now revokes them and rejoins (KIP-429)."""
    if group.protocol_name is None:
        return {}
    assigned = {partition for each in members_of(group) for partition in each.partitions}
    owned = {
        each.member_id: _owned_partitions(each.metadata(group.protocol_name))
        for each in group.members.values()
    }
    return {member_id: rest for member_id, own in owned.items() if (rest := own - assigned)}


def _owned_partitions(subscription: bytes) -> set[TopicPartition]:
    try:
        decoded = decode_subscription(subscription)
    except ProtocolError:  # not the consumer protocol
        return set()
    return {(topic, index) for topic, indexes in decoded.owned_partitions for index in indexes}


# --- explanation


def explain_group(host: BrokerHost, group_id: str, *, verbose: bool = False) -> str:
    """Describe in one sentence what the group waits for, and how the test is involved; if
    `verbose`, also its members, their timers and the last requests. On the broker's loop."""
    coordinator = coordinator_of(host.broker, group_id)
    requests = [each for each in host.history.requests if group_id in each.groups]
    others = {each for request in host.history.requests for each in request.groups} - {group_id}
    group = None if coordinator is None else coordinator.groups.get(group_id)
    explanation = _Explanation(
        coordinator,
        group_id,
        host.clock.now_ms(),
        host.history.wall_s,
        requests,
        [*(no_client(host) if verbose else ()), *hints(host, group, group_id)],
        did_you_mean(group_id, others),
        [] if group is None else _disconnected(host, group),
    )
    return explanation.text(verbose=verbose)


def _disconnected(host: BrokerHost, group: CoordinatorGroup) -> list[str]:
    """Return the members, other than fake members, whose client has no open connection."""
    connected = {each.member_id for each in connected_members(host)}
    return [
        each.member_id
        for each in group.members.values()
        if each.member_id not in connected and each.client_id not in host.background.client_ids
    ]


class _Explanation:
    def __init__(
        self,
        coordinator: Coordinator | None,
        group_id: str,
        now_ms: int,
        wall_s: float,
        requests: Sequence[RecordedRequest],
        hints: Sequence[str],
        similar: str,
        disconnected: Sequence[str],
    ) -> None:
        self._coordinator = coordinator
        self._group_id = group_id
        self._group = None if coordinator is None else coordinator.groups.get(group_id)
        self._now_ms = now_ms
        self._wall_s = wall_s
        self._requests = requests
        self._hints = hints
        self._similar = similar
        self._disconnected = disconnected

    def text(self, *, verbose: bool) -> str:
        held = Counter(each.api for each in self._requests if each.is_held)
        sentences = [self._state()]
        sentences += [f"The test holds {count} × {api} of it." for api, count in held.items()]
        sentences += self._abandoned_members()
        sentences += (
            f"The client of {each} has disconnected without leaving the group: its session expires "
            f"in {self._session_left(each)}."
            for each in self._disconnected
        )
        sentences += self._hints
        summary = " ".join(sentences)
        return "\n".join([summary, *self._details()]) if verbose else summary

    def _state(self) -> str:
        group, name = self._group, f"Group {self._group_id}"
        if group is None:
            if self._coordinator is not None and self._coordinator.offsets.has_group(
                self._group_id
            ):
                return f"{name} is Empty: it has committed offsets, and no member has joined."
            why = ": no member has joined and no offset was committed."
            return f"{name} does not exist{self._similar or why}"
        if group.state is PREPARING:
            return f"{name} is rebalancing: {self._missing_joins(group)}"
        pending = ", ".join(group.pending_syncs)
        timeout = self._time_left(group.sync_timer)
        if group.state is COMPLETING:
            return (
                f"{name} waits for the assignment of generation {group.generation} from its leader "
                f"{group.leader} (SyncGroup). Without it {pending} will be removed in {timeout}."
            )
        in_generation = f"in generation {group.generation}"
        if group.state is STABLE and pending:
            return (
                f"{name} is Stable {in_generation}, but has not received SyncGroup of {pending}. "
                f"Members that do not send it will be removed in {timeout}."
            )
        if group.state is STABLE and (revocations := pending_revocations(group)):
            revoking = "; ".join(
                f"{member_id} must revoke {join_partitions(sorted(partitions))} and rejoin"
                for member_id, partitions in revocations.items()
            )
            return f"{name} is Stable {in_generation}, but {revoking}: it will rebalance again."
        if group.state is STABLE:
            return f"{name} is Stable {in_generation} with {count_members(len(group.members))}."
        if group.state is EMPTY:
            return f"{name} is Empty: it has no members. Its generation is {group.generation}."
        return f"{name} is {group.state}."

    def _missing_joins(self, group: CoordinatorGroup) -> str:
        left = self._time_left(group.join_timer)
        if group.in_initial_rebalance:
            return (
                f"its first members have joined, and it waits {left} for others "
                "(group.initial.rebalance.delay.ms)."
            )
        missing = [m.member_id for m in group.members.values() if m.join_ticket is None]
        missing += group.pending_joins
        if not missing:
            # The last missing member was rejected; Kafka does not check for completion in that
            # case.
            return (
                f"all {count_members(group.awaiting_joins)} have rejoined. As in Kafka, it "
                f"completes at its timeout, in {left}."
            )
        text = (
            f"{group.awaiting_joins} of {len(group.members)} members have rejoined. It waits for "
            f"{', '.join(missing)}, at most {left} (the longest max.poll.interval.ms of its "
            "members)."
        )
        sessions = {member_id: self._due_ms(self._session(member_id)) for member_id in missing}
        due = {member_id: due_ms for member_id, due_ms in sessions.items() if due_ms is not None}
        first = min(due, key=due.__getitem__, default=None)
        join_due_ms = self._due_ms(group.join_timer)
        if first is None or join_due_ms is None or due[first] >= join_due_ms:
            return text
        ends = f"the session of {first} expires in {self._time_left(self._session(first))}"
        return f"{text} Without a heartbeat {ends}."

    def _abandoned_members(self) -> Iterator[str]:
        """Describe members whose client has rejoined with another id because of a fault of the
        test. The coordinator waits for the old ids until their sessions expire."""
        rejected = {
            each.member_id: (each, error)
            for each in self._requests
            if each.faults and each.member_id
            for error in each.errors
            if error in _RESETS_MEMBER_ID
        }
        for member_id in () if self._group is None else self._group.members:
            request, error = rejected.get(member_id, (None, ""))
            if request is not None and self._has_rejoined(request):
                yield (
                    f"A fault of this test answered {member_id} with {error}, and its client has "
                    f'rejoined with another member id: group.expire("{member_id}") or '
                    "clock.advance(…) ends the session of the old one."
                )

    def _has_rejoined(self, rejected: RecordedRequest) -> bool:
        """Whether the client has used another member id since, and not this one."""
        has_rejoined = False
        for each in self._requests:
            if each.number <= rejected.number:
                continue
            if each.member_id == rejected.member_id:
                has_rejoined = False
            elif each.api == "JoinGroup" and each.connection == rejected.connection:
                has_rejoined = True
        return has_rejoined

    def _details(self) -> Iterator[str]:
        group = self._group
        if group is not None:
            if (reason := group.rebalance_reason) is not None:
                yield f"  last rebalance: {reason.cause} ({reason.text})"
            yield from (f"  {self._describe(group, each)}" for each in group.members.values())
            yield from (
                f"  {pending}: has this member id, but has not joined with it; the id expires in "
                f"{self._session_left(pending)}"
                for pending in group.pending_joins
            )
        yield "  last requests:" if self._requests else "  no request has named this group"
        yield from (f"    {line}" for line in self._last_requests())

    def _describe(self, group: CoordinatorGroup, member: CoordinatorMember) -> str:
        name = f"{member.group_instance_id} = " if member.group_instance_id else ""
        leads = ", leader" if member.member_id == group.leader else ""
        client = f"{member.client_id} at {member.client_host}{leads}"
        facts = []
        if group.state is PREPARING:
            facts.append("has rejoined" if member.join_ticket is not None else "has not rejoined")
        elif member.sync_ticket is not None:
            facts.append("waits for its assignment")
        elif member.member_id in group.pending_syncs:
            facts.append("has not sent SyncGroup")
        if not member.has_waiting_request:
            facts.append(f"its session expires in {self._session_left(member.member_id)}")
        return f"{name}{member.member_id} ({client}): {'; '.join(facts)}"

    def _last_requests(self) -> Iterator[str]:
        lines = deduplicate((each, str(each)) for each in self._requests)
        older, last = lines[:-LAST_REQUESTS], lines[-LAST_REQUESTS:]
        waiting = [each for each in older if each.last.response_frame is None]
        for line in (*waiting[-LAST_REQUESTS:], *last):
            until = f", the last one {self._ago(line.last)}" if line.count > 1 else ""
            yield f"{self._ago(line.first)}  {line}{until}"

    def _ago(self, request: RecordedRequest) -> str:
        # In wall-clock time: the broker's clock may be frozen, or have been advanced by hours.
        return f"{request.wall_s - self._wall_s:+.3f} s"

    def _due_ms(self, key: DeadlineKey) -> int | None:
        return None if self._coordinator is None else self._coordinator.deadlines.get(key)

    def _time_left(self, key: DeadlineKey) -> str:
        due_ms = self._due_ms(key)
        return "(no timer)" if due_ms is None else f"{(due_ms - self._now_ms) / 1000:.1f} s"

    def _session(self, member_id: str) -> DeadlineKey:
        return DeadlineKey("session", self._group_id, member_id)

    def _session_left(self, member_id: str) -> str:
        return self._time_left(self._session(member_id))


def count_members(count: int) -> str:
    """`1 member`, `2 members`"""
    return f"{count} member{'s' * (count != 1)}"
