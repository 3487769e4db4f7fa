"""The coordinator of the groups of one offsets partition. No bytes, no clock, no I/O.

handle() and tick() decide; they change soft state only and return records and replies. apply() is
the one writer of durable state, live and when a log is read. Between a decision and applying its
records nobody may ask: the runtime does both in one breath. Read states.py first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from ..offsets.causes import Cause
from ..offsets.records import (
    GroupMetadataRecord,
    GroupTombstone,
    OffsetCommitRecord,
    OffsetTombstone,
    OtherGroupRecord,
    PendingTransactionalOffset,
    ReplayedRecord,
    TransactionalOffsetEnd,
    UnknownRecord,
)
from ..offsets.table import OffsetsTable
from ..protocol.errors import ErrorCode
from .commands import (
    Command,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from .commits import decide_commit
from .config import GroupConfig
from .converting import decide_foreign
from .deadline_keys import EXPIRING, DeadlineKey
from .deleting import decide_delete_group, decide_delete_offsets, tombstones_of_topics
from .describing import decide_describe, decide_list
from .expiring import Expiring
from .fetches import decide_fetch
from .foreign import Foreign
from .group import Group
from .heartbeats import decide_heartbeat, session_timer_due
from .joining import decide_join
from .leaving import decide_leave
from .rebalance import join_timer_due, prepare, refuse_syncs
from .refusing import decide_refused
from .results import join_refused
from .states import COMPLETING, DEAD, STABLE
from .storing import restored
from .syncing import decide_sync, sync_timer_due
from .telling import tell_accepted
from .turn import NOTHING, Outcome, Reply, Shard, Turn
from .voice import UNHEARD, EventType, Voice, Why

__all__ = ["Coordinator", "Outcome", "Reply"]

_DECIDE: Final[Mapping[type, Callable[[Shard, Any, int, int], Outcome]]] = {
    JoinGroup: decide_join,
    SyncGroup: decide_sync,
    Heartbeat: decide_heartbeat,
    LeaveGroup: decide_leave,
    OffsetCommit: decide_commit,
    OffsetFetch: decide_fetch,
    DescribeGroup: decide_describe,
    ListGroups: decide_list,
    DeleteGroup: decide_delete_group,
    OffsetDelete: decide_delete_offsets,
}


class Coordinator:
    """`new_member_id` makes the random part of a member id (upstream: a UUID's text); `voice` is
    told what happens, of every commit that is accepted only if it `tells_commits`."""

    __slots__ = ("_expiring", "_shard", "_table", "_tells_commits")

    def __init__(
        self,
        config: GroupConfig,
        new_member_id: Callable[[], str],
        table: OffsetsTable | None = None,
        voice: Voice = UNHEARD,
        *,
        tells_commits: bool = False,
    ) -> None:
        self._tells_commits = tells_commits
        self._table = OffsetsTable() if table is None else table
        self._shard = Shard(config, new_member_id, self._table, voice)
        self._expiring = Expiring(self._shard)

    # --- deciding

    def handle(self, command: Command, ticket: int, now: int) -> Outcome:
        """Decide `command`. Its reply carries `ticket`, in this outcome or in a later one; it never
        comes if a later request of the same member takes its place."""
        shard = self._shard
        outcome = decide_foreign(shard, command, ticket, now) if shard.foreign.groups else None
        if outcome is None:
            outcome = _DECIDE[type(command)](shard, command, ticket, now)
        if self._tells_commits and type(command) is OffsetCommit:
            tell_accepted(shard, command, outcome)
        return outcome

    def tick(self, now: int) -> Outcome:
        """Decide what is due first, if anything is due by `now`. One deadline at a time, so that
        its records are applied before the next is looked at."""
        popped = self._shard.deadlines.pop_due(now)
        if popped is None:
            return NOTHING
        timer, due = popped
        if timer == EXPIRING:
            return self._expiring.due(now)
        group = self._shard.groups.get(timer.group_id)
        if group is None:
            return NOTHING
        turn = Turn(self._shard, now)
        if timer.kind == "session":
            session_timer_due(turn, group, timer.member_id, due)
        elif timer.kind == "join":
            join_timer_due(turn, group)
        else:
            sync_timer_due(turn, group)
        return turn.outcome()

    def rebalance(self, group_id: str, why: Why, leader: str | None, now: int) -> Outcome:
        """Open a round that no client has asked for, and let `leader`, one of its members, lead
        the group if it rejoins. Nothing, where a round is open or nobody is there."""
        group = self._shard.groups.get(group_id)
        if group is None or group.state not in (COMPLETING, STABLE):
            return NOTHING
        turn = Turn(self._shard, now)
        prepare(turn, group, why)
        if leader is not None:
            group.leader = leader
        return turn.outcome()

    def expire(self, group_id: str, member_id: str, now: int) -> Outcome:
        """End the session of a member, or of an id that was given away, before its time."""
        group = self._shard.groups.get(group_id)
        if group is None:
            return NOTHING
        turn = Turn(self._shard, now)
        turn.deadlines.cancel(DeadlineKey("session", group_id, member_id))
        session_timer_due(turn, group, member_id, now)
        return turn.outcome()

    def refuse(self, outcome: Outcome, now: int) -> Outcome:
        """Decide what becomes of `outcome`, whose records are too large for the log."""
        return decide_refused(self._shard, outcome, now)

    def next_deadline(self) -> int | None:
        """When to tick() again: never too late, sometimes too early (a deadline moved meanwhile;
        the tick then decides nothing and the next answer is right). None: no need to."""
        return self._shard.deadlines.earliest()

    @property
    def is_expiring(self) -> bool:
        """Whether a sweep for what has expired is under way: the next ticks are its slices, and
        others may be served between them."""
        return self._expiring.is_under_way

    def topics_deleted(self, topics: Set[str]) -> Iterator[Outcome]:
        """All that was committed for them goes, in every group and any state: slice by slice,
        each to be carried out before the next is asked for. The first step costs next to nothing,
        and is the last where there is nothing to do."""
        return tombstones_of_topics(self._shard, topics)

    # --- durable state

    def apply(self, record: ReplayedRecord) -> None:
        """Take in a record: of a decision just made, or of the log that is being read."""
        kind = type(record)
        if kind is OffsetCommitRecord:
            self._table.put(record)  # type: ignore[arg-type]
        elif isinstance(record, GroupMetadataRecord):
            self._apply_group(record)
        elif isinstance(record, OffsetTombstone):
            self._apply_forgotten(record)
        elif isinstance(record, GroupTombstone):
            self._forget(record.group_id)
        elif isinstance(record, OtherGroupRecord):
            self._shard.foreign.apply(record)
        elif isinstance(record, UnknownRecord):
            self._shard.foreign.apply_unknown(record, self._shard.voice)
        elif isinstance(record, PendingTransactionalOffset | TransactionalOffsetEnd):
            self._apply_transaction(record)

    def _apply_transaction(
        self, record: PendingTransactionalOffset | TransactionalOffsetEnd
    ) -> None:
        shard, group_id = self._shard, record.group_id
        if isinstance(record, TransactionalOffsetEnd):
            shard.foreign.pending.pop(record, None)
            return
        shard.foreign.pending[record] = None
        # It has made the group, whatever comes of it.
        if group_id not in shard.foreign.groups and shard.find(group_id, -1) is None:
            shard.new_group(group_id, -1)

    def _apply_group(self, record: GroupMetadataRecord) -> None:
        group = self._shard.groups.get(record.group_id)
        if group is not None and group.proposed is record.value:
            group.settle(record.value)
        else:
            self._forget(record.group_id)
            self._shard.groups[record.group_id] = restored(record, self._shard.voice)

    def _apply_forgotten(self, record: OffsetTombstone) -> None:
        """A group outlives its last offset, until it gets a tombstone of its own."""
        group_id, foreign = record.group_id, self._shard.foreign
        is_known = group_id in self._shard.groups or group_id in foreign.groups
        was_only_offsets = not is_known and self._table.has(group_id)
        self._table.forget(record)
        foreign.pending.pop(record, None)
        if was_only_offsets and not self._table.has(group_id):
            self._shard.new_group(group_id, -1)

    def _forget(self, group_id: str) -> None:
        group = self._shard.groups.pop(group_id, None)
        if group is None:
            return
        deadlines = self._shard.deadlines
        deadlines.cancel(group.join_timer)
        deadlines.cancel(group.sync_timer)
        for member_id in (*group.members, *group.pending_joins):
            deadlines.cancel(DeadlineKey("session", group_id, member_id))

    # --- gaining and losing the partition

    def loaded(self, now: int) -> Outcome:
        """The log has been read: members have a whole session to be heard of again."""
        turn = Turn(self._shard, now)
        for group in self._shard.groups.values():
            turn.voice.info(
                "Loaded classic group %s with %d members.", group.group_id, len(group.members)
            )
            turn.voice.tell(
                EventType.GROUP_LOADED,
                group,
                state_from=DEAD,
                state_to=group.state,
                detail={"members": str(len(group.members))},
            )
            for member in group.members.values():
                turn.arm(member.session, member.session_timeout_ms)
            limit = turn.config.group_max_size
            if len(group.members) > limit:
                reason = (
                    f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over "
                    f"capacity {limit}. Rebalancing in order to give a chance for consumers to "
                    "commit offsets"
                )
                prepare(turn, group, Why(Cause.GROUP_FULL, reason))
        self._shard.foreign.tell(turn.voice)
        self._expiring.arm(now)
        return turn.outcome()

    def dismiss(self, now: int) -> Sequence[Reply]:
        """Whoever waits is told to look for another coordinator."""
        turn = Turn(self._shard, now)
        for group in self._shard.groups.values():
            for member in group.members.values():
                ticket = group.take_join(member)
                if ticket is not None:
                    refused = join_refused(ErrorCode.not_coordinator, member.member_id)
                    turn.answer(ticket, refused)
            refuse_syncs(turn, group, ErrorCode.not_coordinator)
        _, replies = turn.outcome()
        return replies

    def unload(self) -> Sequence[Reply]:
        """The partition is lost: whoever waits is told to look for its new coordinator."""
        replies = self.dismiss(0)
        voice = self._shard.voice
        for group in self._shard.groups.values():
            voice.info(
                "[GroupId=%s] Unloading group metadata for generation %d.",
                group.group_id,
                group.generation,
            )
            voice.tell(
                EventType.GROUP_UNLOADED,
                group,
                state_from=group.state,
                state_to=DEAD,
                detail={"members": str(len(group.members))},
            )
            group.transition(DEAD, 0)
        self._shard.groups.clear()
        self._shard.deadlines.clear()
        return replies

    # --- looking

    @property
    def groups(self) -> Mapping[str, Group]:
        """The groups that are, or were, more than their offsets. To look at, not to touch."""
        return self._shard.groups

    @property
    def foreign(self) -> Foreign:
        """What only a Kafka can have left. To look at."""
        return self._shard.foreign

    @property
    def table(self) -> OffsetsTable:
        return self._table

    @property
    def deadlines(self) -> Mapping[DeadlineKey, int]:
        """What is due when. To look at."""
        return self._shard.deadlines.pending
