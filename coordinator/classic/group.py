"""A classic group and its members.

`Group.stored` is the logged state, which only `apply_metadata` and `restore` write. Everything else
is soft state: the current rebalance and its waiting requests. Between rebalances, the soft state
matches `stored`. Upstream: ClassicGroup, ClassicGroupMember.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ...offsets.records import GroupMetadata, MemberMetadata
from ...protocol.errors import ErrorCode
from ..commands import JoinGroup
from ..deadlines import DeadlineKey
from .states import COMPLETING, DEAD, EMPTY, STABLE, VALID_TRANSITIONS, State

CONSUMER: Final = "consumer"  # the protocol type whose subscriptions the broker can decode


class RebalanceReason(NamedTuple):
    """Why a rebalance started."""

    cause: Cause
    text: str  # Kafka's log message, including the client's reason (KIP-800)
    member_ids: tuple[str, ...] = ()  # the members that triggered it


@dataclass(eq=False, repr=False, kw_only=True)
class Member:
    """A member: its identity, protocols, assignment, and the tickets of its waiting requests."""

    session: DeadlineKey
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    client_software: str | None = None
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    # True until the member's first join phase ends. Until then, it cannot send heartbeats.
    is_new: bool = False
    join_ticket: int | None = None
    sync_ticket: int | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_waiting_request(self) -> bool:
        """Whether a join or sync of the member is waiting, which suspends session expiration. A new
        member never counts as waiting. Otherwise, a client that has given up would keep the join
        phase open forever."""
        waits = self.join_ticket is not None or self.sync_ticket is not None
        return waits and not self.is_new

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for the group's protocol, which every member lists."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)


class Group:
    """A classic group. Counters avoid loops over up to a thousand members."""

    def __init__(self, group_id: str, now: int) -> None:
        self.group_id = group_id
        # --- as logged; replies wait until it is durable
        # None if the log has no record of the group, only offsets.
        self.stored: GroupMetadata | None = None
        # --- state and pending record
        self.state = EMPTY
        self.previous_state = DEAD
        self.state_timestamp_ms = now
        self.proposed: GroupMetadata | None = None  # decided, but its record has not been applied
        # The static member that was replaced, until the proposed record is applied.
        self.replaced: Member | None = None
        # --- state of the generation
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        # The members' subscriptions at the start of the generation, undecoded, or None if the group
        # does not use the consumer protocol (upstream: ClassicGroup.computeSubscribedTopics).
        self.subscriptions: tuple[bytes, ...] | None = None
        # --- members, in the order in which they joined
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.protocol_counts: dict[str, int] = {}  # protocol name -> members that list it
        # --- the current rebalance (dicts, because they are ordered)
        self.pending_joins: dict[str, None] = {}  # member ids handed out but not yet used
        # Members that have not sent SyncGroup -> when the join phase ended.
        self.pending_syncs: dict[str, int] = {}
        self.awaiting_joins = 0
        # The reason for the current or most recent rebalance, or None if the group has not
        # rebalanced since it was loaded.
        self.rebalance_reason: RebalanceReason | None = None
        # Whether a member has joined since the initial delay was last extended.
        self.member_added = False
        # The current initial delay, or None if no initial delay is running.
        self.initial_delay_ms: int | None = None
        self.initial_delay_left_ms = 0  # how much the delay may still be extended
        self.join_timer = DeadlineKey("join", group_id)
        self.sync_timer = DeadlineKey("sync", group_id)

    # --- queries

    @property
    def in_initial_rebalance(self) -> bool:
        """Whether the join phase started from Empty. A join or leave does not end such a phase."""
        return self.previous_state is EMPTY

    @property
    def all_joined(self) -> bool:
        return self.awaiting_joins == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members, or 0 if there are none. O(n)."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Return NONE if the client is a member of the group. A pending member id is not a member.
        The instance id is checked first, so that a client that uses another member's instance id is
        fenced, even if its member id is unknown."""
        if group_instance_id is not None:
            holder = self.static_members.get(group_instance_id)
            if holder is None:
                return ErrorCode.unknown_member_id
            if holder != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def supports_protocols(
        self, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
    ) -> bool:
        """Whether a client with these protocols may join the group."""
        if self.state is EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        members = len(self.members)
        counts = self.protocol_counts
        for name, _ in protocols:  # noqa: SIM110 (no generator: a thousand members join at once)
            if counts.get(name, 0) == members:
                return True
        return False

    @property
    def common_protocols(self) -> list[str]:
        """The protocols that every member lists."""
        members = len(self.members)
        return [name for name, count in self.protocol_counts.items() if count == members]

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that every member lists. Each member
        votes for the first of these protocols in its list. The leader's preference breaks a tie
        (upstream: hash order)."""
        candidates = self.common_protocols
        if len(candidates) == 1:
            return candidates[0]
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        most = max(votes.values())
        assert self.leader is not None
        leader = self.members[self.leader]
        return next(name for name, _ in leader.protocols if votes.get(name) == most)

    # --- changes

    def transition(self, state: State, now: int) -> None:
        self._set_state(state)
        self.state_timestamp_ms = now

    def _set_state(self, state: State) -> None:
        assert state in VALID_TRANSITIONS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.previous_state = self.state
        self.state = state

    def apply_metadata(self, value: GroupMetadata) -> None:
        """Apply the proposed record. The record of a leader's SyncGroup makes the group Stable."""
        self.stored = value
        self.proposed = self.replaced = None
        if self.state is COMPLETING and value.generation == self.generation:
            for member in value.members:
                self.members[member.member_id].assignment = member.assignment
            self._set_state(STABLE)

    def add(self, member: Member) -> None:
        instance_id = member.group_instance_id
        if instance_id is not None:
            assert instance_id not in self.static_members
            self.static_members[instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        if member.join_ticket is not None:
            self.awaiting_joins += 1
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. The caller cancels the session deadline."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            assert member.join_ticket is None, "a waiting join must receive its response first"
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, old: Member, new: Member) -> None:
        """Replace `old` with `new`, which has the same instance id and becomes the last member."""
        instance_id = new.group_instance_id
        assert instance_id is not None
        self._count_protocols(new, 1)
        self._count_protocols(old, -1)
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self.static_members[instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id

    def update(self, member: Member, command: JoinGroup, ticket: int) -> None:
        """Update the protocols and timeouts of a rejoining member, whose join now waits. An earlier
        join of the member that is still waiting never gets a response, as in Kafka."""
        if member.protocols != command.protocols:
            self._count_protocols(member, -1)
            member.protocols = command.protocols
            self._count_protocols(member, 1)
        member.rebalance_timeout_ms = command.rebalance_timeout_ms
        member.session_timeout_ms = command.session_timeout_ms
        if member.join_ticket is None:
            self.awaiting_joins += 1
        member.join_ticket = ticket

    def pop_join_ticket(self, member: Member) -> int | None:
        """Clear and return the ticket of a member's waiting join; the caller sends the response."""
        ticket = member.join_ticket
        if ticket is not None:
            member.join_ticket = None
            self.awaiting_joins -= 1
        return ticket

    def cache_subscriptions(self) -> None:
        """Store the members' subscriptions at the start of this generation."""
        name = self.protocol_name
        if self.protocol_type != CONSUMER or (self.members and name is None):
            self.subscriptions = None
        else:
            members = self.members.values()
            self.subscriptions = tuple(member.metadata(name or "") for member in members)

    def _count_protocols(self, member: Member, by: int) -> None:
        counts = self.protocol_counts
        # A name that a member lists twice counts once. Upstream counts it twice, then finds no
        # protocol that all members support, and never ends the join phase.
        for name in dict(member.protocols):
            count = counts.get(name, 0) + by
            if count:
                counts[name] = count
            else:
                del counts[name]


# --- to and from the record


def to_metadata(group: Group, assignments: dict[str, bytes] | None) -> GroupMetadata:
    """Return the record value of the group. `assignments`, by member id, replaces the current
    assignments unless it is None; a missing member gets b"".

    Only the metadata for the selected protocol is stored. After a reload, a member with several
    protocols therefore counts as changed when it rejoins, as in Kafka.
    """
    name = group.protocol_name
    return GroupMetadata(
        group.protocol_type or "",
        group.generation,
        name,
        group.leader,
        group.state_timestamp_ms,
        tuple(
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(name or ""),
                member.assignment
                if assignments is None
                else assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ),
    )


def restore(group_id: str, value: GroupMetadata) -> Group:
    """Create the group that a record describes."""
    group = Group(group_id, value.state_timestamp_ms)
    group.stored = value
    group.state = STABLE if value.members else EMPTY
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol_name
    group.leader = value.leader
    for stored in value.members:
        timeout_ms = stored.rebalance_timeout_ms
        group.add(
            Member(
                session=DeadlineKey("session", group_id, stored.member_id),
                member_id=stored.member_id,
                group_instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                # v0 of the value has no rebalance timeout.
                rebalance_timeout_ms=stored.session_timeout_ms if timeout_ms == -1 else timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=((value.protocol_name or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    group.cache_subscriptions()
    return group
