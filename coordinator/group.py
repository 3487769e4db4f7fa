"""A group: what the log says of it, and who is in it now. Counts are kept, never counted.

`stored` is the durable part; only settle() and whoever loads the log write it. All the rest is
soft: the round that is open, who waits for what. Between two rounds both say the same.
"""

from ..offsets.records import GroupMetadata
from .commands import JoinGroup
from .deadline_keys import DeadlineKey
from .members import Member
from .states import COMPLETING, DEAD, EMPTY, MAY_FOLLOW, STABLE, State
from .voice import UNHEARD, Voice, Why


class Group:
    __slots__ = (
        "awaiting_joins",
        "generation",
        "group_id",
        "initial_left_ms",
        "initial_wait_ms",
        "join_timer",
        "leader",
        "member_added",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "proposed",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "replaced",
        "state",
        "state_timestamp_ms",
        "static_members",
        "stored",
        "subscriptions",
        "sync_timer",
        "voice",
        "why",
    )

    def __init__(self, group_id: str, now: int, voice: Voice = UNHEARD) -> None:
        self.group_id = group_id
        self.voice = voice
        # --- durable
        self.stored: GroupMetadata | None = None  # None: nothing but offsets was ever written
        # --- since the last transition
        self.state = EMPTY
        self.previous_state = DEAD
        self.state_timestamp_ms = now
        self.proposed: GroupMetadata | None = None  # decided, its record not yet applied
        self.replaced: Member | None = None  # as long as the record that says so is not applied
        # --- of a generation
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.subscriptions: tuple[bytes, ...] | None = None  # see subscriptions.py
        # --- who is in it, in the order in which they came
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.protocol_counts: dict[str, int] = {}  # name -> how many members speak it
        # --- of the round that is open (dicts for their order)
        self.pending_joins: dict[str, None] = {}  # ids handed out and not yet used
        self.pending_syncs: dict[str, None] = {}  # ids that owe a sync in this generation
        self.awaiting_joins = 0
        # What the newest round was opened for: that which is open, or else the one that made this
        # generation. None: no round since the group was loaded.
        self.why: Why | None = None
        self.member_added = False  # since the initial delay was last extended
        self.initial_wait_ms: int | None = None  # the delay that runs; None: no initial round
        self.initial_left_ms = 0  # how long it may still be extended
        self.join_timer = DeadlineKey("join", group_id)
        self.sync_timer = DeadlineKey("sync", group_id)

    # --- what follows from it

    @property
    def is_initial(self) -> bool:
        """Whether the open round is the one after Empty, which only its timer closes."""
        return self.previous_state is EMPTY

    @property
    def all_joined(self) -> bool:
        return self.awaiting_joins == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks for; 0 without members. Looks at all of them."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # --- changes

    def transition(self, state: State, now: int) -> None:
        self._follow(state)
        self.state_timestamp_ms = now

    def _follow(self, state: State) -> None:
        assert state in MAY_FOLLOW[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.previous_state = self.state
        self.state = state

    def settle(self, value: GroupMetadata) -> None:
        """Its own record has come back from the log; the sync of a leader ends the round."""
        self.stored = value
        self.proposed = self.replaced = None
        if self.state is COMPLETING and value.generation == self.generation:
            for member in value.members:
                self.members[member.member_id].assignment = member.assignment
            self._follow(STABLE)

    def add(self, member: Member) -> None:
        instance_id = member.group_instance_id
        if instance_id is not None:
            assert instance_id not in self.static_members
            self.static_members[instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.join_ticket is not None:
            self.awaiting_joins += 1
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Take a member, or a pending id, out. Its session stays set: see drop() and let_go()
        in rebalance.py."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            assert member.join_ticket is None, "who waits for a round must be answered first"
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def put_in_place(self, old: Member, new: Member) -> None:
        """A static member under another id; it comes last from now on."""
        instance_id = new.group_instance_id
        assert instance_id is not None
        self._count(new, 1)
        self._count(old, -1)
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self.static_members[instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id

    def update(self, member: Member, command: JoinGroup, ticket: int) -> None:
        """Take what a member says when it joins again, and park its request. One that was parked
        before is forgotten: upstream never answers it either."""
        if member.protocols != command.protocols:
            self._count(member, -1)
            member.protocols = command.protocols
            self._count(member, 1)
        member.rebalance_timeout_ms = command.rebalance_timeout_ms
        member.session_timeout_ms = command.session_timeout_ms
        if member.join_ticket is None:
            self.awaiting_joins += 1
        member.join_ticket = ticket

    def take_join(self, member: Member) -> int | None:
        """The parked join of a member, which is to be answered now."""
        ticket = member.join_ticket
        if ticket is not None:
            member.join_ticket = None
            self.awaiting_joins -= 1
        return ticket

    def _count(self, member: Member, by: int) -> None:
        counts = self.protocol_counts
        # A name that a member lists twice counts once. Upstream counts twice, finds no protocol
        # that all speak, and never closes the round.
        for name in dict(member.protocols):
            count = counts.get(name, 0) + by
            if count:
                counts[name] = count
            else:
                del counts[name]
