"""The coordinator of the groups in one offsets partition. It encodes nothing, reads no clock and
does no I/O.

`handle` and `tick` make decisions, change only soft state, and return an Outcome. Only `apply`
changes durable state, both live and on load. The caller applies an outcome's records before the
next decision. Upstream: GroupCoordinatorShard.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final

from ..offsets.causes import Cause
from ..offsets.records import (
    ConsumerGroupRecord,
    ConsumerRecordType,
    GroupMetadataRecord,
    GroupTombstone,
    GroupType,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    TransactionalOffsetCommit,
    TransactionEnd,
)
from ..protocol.errors import ErrorCode
from .admin import decide_delete_group, decide_describe, decide_describe_consumer, decide_list
from .classic.group import Group, RebalanceReason, restore
from .classic.join import decide_join
from .classic.members import decide_heartbeat, decide_leave, session_expired
from .classic.rebalance import (
    decide_sync,
    join_timer_expired,
    prepare_rebalance,
    reject_waiting_requests,
    restore_static_member,
    sync_timer_expired,
)
from .classic.states import COMPLETING, DEAD, STABLE
from .commands import (
    LARGE_RECORD_ERROR,
    Command,
    CommitResult,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatResult,
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Result,
    SyncGroup,
    SyncResult,
    TxnOffsetCommit,
    consumer_heartbeat_error,
    error_result,
    join_error,
    sync_error,
)
from .consumer.classic_members import (
    decide_classic_heartbeat,
    decide_classic_join,
    decide_classic_leave,
    decide_classic_sync,
)
from .consumer.group import ConsumerGroup
from .consumer.heartbeat import decide_consumer_heartbeat
from .consumer.leaving import deadline_expired, fence_member
from .consumer.members import restore_deadlines
from .consumer.subscriptions import bump_epoch, query_topics, resolve_regexes
from .deadlines import MEMBER_DEADLINES, DeadlineKey
from .decision import (
    Decision,
    PartitionState,
    group_deleted,
    group_event,
)
from .offset_cleanup import Sweep, delete_offsets_of_topics, expire_offsets
from .offsets import (
    commit_accepted,
    commit_events,
    decide_commit,
    decide_delete_offsets,
    decide_fetch,
    decide_transactional_commit,
)
from .other_groups import OtherGroups
from .outcome import NOTHING, WARNING, EventType, GroupEvent, Outcome, RegexQuery, reply

_DECIDE: Final[Mapping[type, Callable[[PartitionState, Any, int, int], Outcome]]] = {
    JoinGroup: decide_join,
    SyncGroup: decide_sync,
    Heartbeat: decide_heartbeat,
    LeaveGroup: decide_leave,
    OffsetCommit: decide_commit,
    TxnOffsetCommit: decide_transactional_commit,
    OffsetFetch: decide_fetch,
    ConsumerGroupHeartbeat: decide_consumer_heartbeat,
    DescribeConsumerGroup: decide_describe_consumer,
    DescribeGroup: decide_describe,
    ListGroups: decide_list,
    DeleteGroup: decide_delete_group,
    OffsetDelete: decide_delete_offsets,
}
# Commands of members that use the classic protocol in a consumer group.
_DECIDE_CLASSIC: Final[
    Mapping[type, Callable[[PartitionState, ConsumerGroup, Any, int, int], Outcome]]
] = {
    JoinGroup: decide_classic_join,
    SyncGroup: decide_classic_sync,
    Heartbeat: decide_classic_heartbeat,
    LeaveGroup: decide_classic_leave,
}


class Coordinator:
    """The groups of one partition, their deadlines and committed offsets."""

    def __init__(self, partition: PartitionState) -> None:
        self._partition = partition
        self._reports_commits = partition.config.reports_commits
        # For inspection only. `groups` may lack groups that have only offsets.
        self.groups: Mapping[str, Group] = partition.groups
        self.consumer_groups: Mapping[str, ConsumerGroup] = partition.consumer_groups
        self.other_groups = partition.other_groups
        self.pending_offsets = partition.pending_offsets
        self.offsets = partition.offsets
        self.held_assignments: Set[str] = partition.held_assignments
        # The state of each consumer group before the first record since the last state_changes().
        self._states_before: dict[str, str] = {}
        self.deadlines: Mapping[DeadlineKey, int] = partition.deadlines.pending

    # --- decisions

    def handle(self, command: Command, ticket: int, now: int) -> Outcome:
        """Decide `command`. This or a later outcome contains the reply to `ticket`, unless a later
        request of the member supersedes this one, or the member is removed while its SyncGroup
        waits. The group's offsets must be in memory."""
        partition = self._partition
        outcome = None
        if partition.consumer_groups:
            outcome = _decide_classic_member(partition, command, ticket, now)
        if outcome is None and partition.other_groups.groups:
            outcome = _decide_other_group(partition, command, ticket, now)
        if outcome is None:
            outcome = _DECIDE[type(command)](partition, command, ticket, now)
        if self._reports_commits and type(command) is OffsetCommit:
            outcome = commit_accepted(partition, command, outcome)
        return outcome

    def tick(self, now: int) -> Outcome:
        """Handle the first deadline that is due at `now`, if any. Each call handles only one
        deadline, so that its records are applied before the next decision."""
        popped = self._partition.deadlines.pop_due(now)
        if popped is None:
            return NOTHING
        timer, due_ms = popped
        decision = Decision(self._partition, now)
        if timer.kind in MEMBER_DEADLINES:
            deadline_expired(decision, timer, due_ms)
            return decision.outcome()
        if timer.kind == "regex":
            consumer_group = self._partition.consumer_groups.get(timer.group_id)
            if consumer_group is not None:
                query_topics(decision, consumer_group)
            return decision.outcome()
        group = self._partition.groups[timer.group_id]
        if timer.kind == "session":
            session_expired(decision, group, timer.member_id, due_ms)
        elif timer.kind == "join":
            join_timer_expired(decision, group)
        else:
            sync_timer_expired(decision, group)
        return decision.outcome()

    def regexes_matched(
        self, query: RegexQuery, matched: Mapping[str, tuple[str, ...]], now: int
    ) -> Outcome:
        """Handle the result of a query. The group may have changed since the query."""
        self._partition.matching.discard(query.group_id)
        group = self._partition.consumer_groups.get(query.group_id)
        if group is None:
            return NOTHING
        decision = Decision(self._partition, now)
        resolve_regexes(decision, group, matched, query.topics_version)
        return decision.outcome()

    def commit_events(self, producer_id: int) -> tuple[GroupEvent, ...]:
        """Return the events for the offsets that a transaction commits. Called before the end of
        the transaction is applied. The events are published once the end is durable."""
        if not self._reports_commits:
            return ()
        return commit_events(self._partition, producer_id)

    def next_deadline(self) -> int | None:
        """Return a lower bound for the time of the next call to tick(), or None. A tick that finds
        nothing due raises the bound."""
        return self._partition.deadlines.earliest()

    def append_failed(self, outcome: Outcome, now: int) -> Outcome:
        """Decide a replacement for `outcome`, whose records are larger than max.message.bytes. The
        records were not applied, but soft state has changed. Upstream: the append futures in
        GroupMetadataManager."""
        partition = self._partition
        decision = Decision(partition, now)
        leader = ""
        for record in outcome.records:
            if isinstance(record, GroupMetadataRecord):
                group_id = record.group_id
                group = partition.groups[group_id]
                if (
                    group_id in partition.consumer_groups
                    or group_id in partition.other_groups.groups
                ):
                    # The group was to become classic.
                    reject_waiting_requests(decision, group, LARGE_RECORD_ERROR)
                    self._remove_group(group_id)
                    continue
                _roll_back_proposed(decision, group)
                leader = group.leader or ""
        changed = {r.group_id for r in outcome.records if isinstance(r, ConsumerGroupRecord)}
        for group_id in changed:
            consumer_group = partition.consumer_groups.get(group_id)
            if consumer_group is not None:
                consumer_group.unresolved = None  # any new regular expression was not stored
                restore_deadlines(decision, consumer_group)
        for ticket, result in outcome.replies:
            if changed and isinstance(result, LeaveResult):
                # Unlike in a classic group, all members stay.
                result = LeaveResult(LARGE_RECORD_ERROR, ())
            decision.reply(ticket, _failed(result, leader))
        return decision.outcome()

    # --- for tests

    def rebalance(
        self, group_id: str, reason: RebalanceReason, leader: str | None, now: int
    ) -> Outcome:
        """Start a rebalance, which gives a consumer group its next epoch. If the member `leader`
        rejoins, it becomes the leader of a classic group. Do nothing in the join phase of a classic
        group, or if the group has no members."""
        consumer_group = self._partition.consumer_groups.get(group_id)
        if consumer_group is not None and consumer_group.members:
            decision = Decision(self._partition, now)
            metadata_hash = consumer_group.metadata_hash
            bump_epoch(decision, consumer_group, metadata_hash, reason.cause, reason.text)
            return decision.outcome()
        group = self._partition.groups.get(group_id)
        if group is None or group.state not in (COMPLETING, STABLE):
            return NOTHING
        decision = Decision(self._partition, now)
        prepare_rebalance(decision, group, *reason)
        if leader is not None:
            group.leader = leader
        return decision.outcome()

    def expire_session(self, group_id: str, member_id: str, now: int) -> Outcome:
        """Expire the session of a member, or of a pending member id, now."""
        decision = Decision(self._partition, now)
        if group_id in self._partition.consumer_groups:
            deadline_expired(decision, DeadlineKey("member session", group_id, member_id), now)
            return decision.outcome()
        group = self._partition.groups.get(group_id)
        if group is None:
            return NOTHING
        decision.deadlines.cancel(DeadlineKey("session", group_id, member_id))
        session_expired(decision, group, member_id, now)
        return decision.outcome()

    def fence(self, group_id: str, member_id: str, now: int) -> Outcome:
        """Fence a member that uses the consumer protocol."""
        group = self._partition.consumer_groups.get(group_id)
        if group is None:
            return NOTHING
        decision = Decision(self._partition, now)
        fence_member(decision, group, member_id)
        return decision.outcome()

    def hold_assignment(self, group_id: str, *, is_held: bool) -> None:
        """While `is_held`, do not compute target assignments of a consumer group."""
        if is_held:
            self._partition.held_assignments.add(group_id)
        else:
            self._partition.held_assignments.discard(group_id)

    # --- periodic cleanup

    def expire_offsets(self, now_ms: Callable[[], int]) -> Sweep:
        """Delete expired offsets and groups."""
        return expire_offsets(self._partition, now_ms)

    def delete_offsets_of_topics(self, topics: Set[str]) -> Sweep:
        """Delete the offsets of deleted topics. This is cheap if no offsets are deleted."""
        return delete_offsets_of_topics(self._partition, topics)

    # --- durable state

    def state_changes(self) -> Sequence[GroupEvent]:
        """Return the transitions of consumer groups since the last call. Their states are derived
        from durable state, so this method is called after the records of an outcome were
        applied."""
        if not self._states_before:
            return ()
        changes = []
        for group_id, before in self._states_before.items():
            # A missing group was deleted or converted, which the outcome reports.
            group = self._partition.consumer_groups.get(group_id)
            if group is not None and group.state != before:
                type_ = EventType.STATE_CHANGE
                change = group_event(type_, group, state_from=before, state_to=group.state)
                changes.append(change)
        self._states_before.clear()
        return changes

    def apply(self, record: OffsetsRecord) -> None:
        """Apply a record of the last decision, or of the log that is being loaded. The offsets of
        the record's group must be in memory."""
        partition = self._partition
        if isinstance(record, OffsetCommitRecord):
            partition.offsets.put(record)
            if partition.pending_offsets:
                partition.pending_offsets.supersede(record[:3])
        elif isinstance(record, TransactionalOffsetCommit):
            self._apply_transactional(record)
        elif isinstance(record, TransactionEnd):
            ended = partition.pending_offsets.end(record.producer_id, is_commit=record.is_commit)
            for commit in ended:
                partition.offsets.put(commit)
        elif isinstance(record, GroupMetadataRecord):
            self._apply_group(record)
        elif isinstance(record, OffsetTombstone):
            self._apply_offset_tombstone(record)
        elif isinstance(record, GroupTombstone):
            classic = partition.groups.get(record.group_id)
            if classic is not None:  # the records of a consumer group may follow
                self._states_before[record.group_id] = classic.state
            self._remove_group(record.group_id)
        elif isinstance(record, ConsumerGroupRecord):
            self._apply_consumer_record(record)
        elif isinstance(record, OtherGroupRecord):
            partition.other_groups.apply(record)
        else:
            partition.other_groups.unknown_types.add(record.record_type)

    def _apply_transactional(self, record: TransactionalOffsetCommit) -> None:
        partition, group_id = self._partition, record.commit.group_id
        partition.pending_offsets.add(record)
        # A transactional commit creates the group, even if it is aborted later.
        if not partition.exists(group_id):
            partition.new_group(group_id, -1)

    def _apply_group(self, record: GroupMetadataRecord) -> None:
        groups = self._partition.groups
        group = groups.get(record.group_id)
        if group is not None and group.proposed is record.value:
            group.apply_metadata(record.value)
        else:
            self._remove_group(record.group_id)
            groups[record.group_id] = restore(record.group_id, record.value)

    def _apply_consumer_record(self, record: ConsumerGroupRecord) -> None:
        group_id, groups = record.group_id, self._partition.consumer_groups
        group = groups.get(group_id)
        if record.type is ConsumerRecordType.GROUP_METADATA and record.value is None:
            groups.pop(group_id, None)
            self._partition.deadlines.cancel(DeadlineKey("regex", group_id))
            self._partition.topic_filters.pop(group_id, None)
            return
        if group is None:
            if record.value is None:
                return  # compaction keeps tombstones longer than the records they delete
            group = groups[group_id] = ConsumerGroup(group_id)
            classic = self._partition.groups.get(group_id)
            if classic is not None and classic.stored is None and classic.proposed is None:
                self._remove_group(group_id)  # the group had only offsets
        if group_id not in self._states_before:
            self._states_before[group_id] = group.state
        group.apply(record)

    def _apply_offset_tombstone(self, record: OffsetTombstone) -> None:
        """Remove an offset. A group without offsets exists until its own tombstone is applied."""
        group_id, partition = record.group_id, self._partition
        offsets = partition.offsets
        had_only_offsets = not partition.has_metadata(group_id) and offsets.has_group(group_id)
        offsets.remove(record)
        partition.pending_offsets.remove(record)
        if had_only_offsets and not offsets.has_group(group_id):
            partition.new_group(group_id, -1)

    def _remove_group(self, group_id: str) -> None:
        group = self._partition.groups.pop(group_id, None)
        if group is None:
            return
        deadlines = self._partition.deadlines
        deadlines.cancel(group.join_timer)
        deadlines.cancel(group.sync_timer)
        for member_id in (*group.members, *group.pending_joins):
            deadlines.cancel(DeadlineKey("session", group_id, member_id))

    # --- gaining and losing the partition

    def loaded(self, now: int) -> Outcome:
        """Start the sessions of all members after the log has been read (upstream: onLoaded)."""
        self._states_before.clear()
        decision = Decision(self._partition, now)
        for group in self._partition.groups.values():
            _report_loaded(decision, group, "classic")
            for member in group.members.values():
                decision.schedule(member.session, member.session_timeout_ms)
            limit = decision.config.group_max_size
            if len(group.members) > limit:
                reason = (
                    f"Freshly-loaded group {group.group_id} (size {len(group.members)}) is over "
                    f"capacity {limit}. Rebalancing in order to give a chance for consumers to "
                    "commit offsets"
                )
                prepare_rebalance(decision, group, Cause.GROUP_FULL, reason)
        for consumer_group in self._partition.consumer_groups.values():
            _report_loaded(decision, consumer_group, "consumer")
            restore_deadlines(decision, consumer_group)
        _log_other_groups(decision, self._partition.other_groups)
        for offset in self._partition.pending_offsets:
            decision.log(
                "Group %s has an open transaction: the offset of %s-%d is unstable until it ends.",
                *offset,
            )
        return decision.outcome()

    def fail_waiting(self, now: int) -> Outcome:
        """Fail all waiting requests with NOT_COORDINATOR."""
        decision = Decision(self._partition, now)
        for group in self._partition.groups.values():
            reject_waiting_requests(decision, group, ErrorCode.not_coordinator)
        return decision.outcome()

    def unload(self) -> Outcome:
        """Drop all groups, because this broker is no longer the coordinator of the partition.
        Waiting requests get NOT_COORDINATOR."""
        decision = Decision(self._partition, 0)
        for group in self._partition.groups.values():
            reject_waiting_requests(decision, group, ErrorCode.not_coordinator)
            decision.log(
                "[GroupId=%s] Unloading group metadata for generation %d.",
                group.group_id,
                group.generation,
            )
            _report_members(decision, EventType.GROUP_UNLOADED, group, group.state, DEAD)
        for each in self._partition.consumer_groups.values():
            _report_members(decision, EventType.GROUP_UNLOADED, each, each.state, DEAD)
        self._partition.groups.clear()
        self._partition.consumer_groups.clear()
        self._partition.held_assignments.clear()
        self._partition.matching.clear()
        self._partition.topic_filters.clear()
        self._partition.pending_offsets.clear()
        self._partition.deadlines.clear()
        return decision.outcome()


def _report_loaded(decision: Decision, group: Group | ConsumerGroup, type_: str) -> None:
    members = len(group.members)
    decision.log("Loaded %s group %s with %d members.", type_, group.group_id, members)
    _report_members(decision, EventType.GROUP_LOADED, group, DEAD, group.state)


def _report_members(
    decision: Decision, type_: EventType, group: Group | ConsumerGroup, before: str, after: str
) -> None:
    detail = {"members": str(len(group.members))}
    decision.report(type_, group, state_from=before, state_to=after, detail=detail)


def _log_other_groups(decision: Decision, other_groups: OtherGroups) -> None:
    for type_ in sorted(other_groups.unknown_types):
        decision.log("Ignoring records of unknown type %d; they are kept.", type_, level=WARNING)
    for group_id, group in other_groups.groups.items():
        decision.log("Loaded %s group %s without members.", group.type.value, group_id)


def _roll_back_proposed(decision: Decision, group: Group) -> None:
    """Roll back the change whose record could not be written."""
    group.proposed = None
    if group.state is COMPLETING:
        # Fail all waiting syncs, including the leader's. All members must then rejoin.
        reason = (
            f"Error {LARGE_RECORD_ERROR.name.upper()} when storing group assignment during "
            f"SyncGroup (member: {group.leader})."
        )
        decision.report(EventType.STATE_CHANGE, group, state_from=STABLE, state_to=COMPLETING)
        prepare_rebalance(decision, group, Cause.ASSIGNMENT_TOO_LARGE, reason)
    elif group.replaced is not None:
        restore_static_member(decision, group, group.replaced)


def _failed(result: Result, leader: str) -> Result:
    """Return the result of a command whose records could not be stored."""
    match result:
        case CommitResult(errors):
            return CommitResult((LARGE_RECORD_ERROR,) * len(errors))
        case SyncResult(ErrorCode.none):
            return sync_error(LARGE_RECORD_ERROR)
        case ConsumerHeartbeatResult(ErrorCode.none):
            return consumer_heartbeat_error(LARGE_RECORD_ERROR)
        case JoinResult(ErrorCode.none):
            # A static member that rejoins gets the generation but not a new member id.
            _, generation_id, protocol_type, protocol_name, *_ = result
            return JoinResult(
                LARGE_RECORD_ERROR,
                generation_id,
                protocol_type,
                protocol_name,
                leader,
                "",
                (),
                False,
            )
    return result


def _decide_classic_member(
    partition: PartitionState, command: Command, ticket: int, now: int
) -> Outcome | None:
    """Decide a command of the classic protocol for a consumer group. JoinGroup deletes an empty
    consumer group, even if the join is rejected. Upstream: maybeDeleteEmptyConsumerGroup, which
    does not write the tombstones if the join is rejected."""
    decide = _DECIDE_CLASSIC.get(type(command))
    if decide is None or isinstance(command, ListGroups):
        return None
    group = partition.consumer_groups.get(command.group_id)
    if group is None:
        return None
    if group.members or not isinstance(command, JoinGroup):
        return decide(partition, group, command, ticket, now)
    outcome = decide_join(partition, command, ticket, now)
    converted = _converted(command.group_id, group.tombstones(), outcome)
    if command.group_id in partition.groups or partition.offsets.has_group(command.group_id):
        return converted
    return converted._replace(events=(group_deleted(group, 0), *outcome.events))


def _converted(group_id: str, tombstones: Iterable[OffsetsRecord], outcome: Outcome) -> Outcome:
    """Return the outcome of a join that turns a group into a classic group."""
    event = group_event(EventType.GROUP_CONVERTED, group_id, detail={"type": "classic"})
    records = (*tombstones, *outcome.records)
    return outcome._replace(records=records, events=(event, *outcome.events))


def _decide_other_group(
    partition: PartitionState, command: Command, ticket: int, now: int
) -> Outcome | None:
    """Decide a command for a group of another type. Return None if the command is to be handled as
    for a classic group without members."""
    if isinstance(command, ListGroups):
        return None
    group = partition.other_groups.groups.get(command.group_id)
    if group is None:
        return None
    is_share = group.type is GroupType.SHARE
    match command:
        case JoinGroup() if is_share:
            error = ErrorCode.inconsistent_group_protocol
            return reply(ticket, join_error(error, command.member_id))
        case JoinGroup():
            # This converts the group to a classic group, which keeps the offsets (upstream:
            # maybeDeleteEmptyConsumerGroup).
            outcome = decide_join(partition, command, ticket, now)
            if command.group_id not in partition.groups:
                return outcome  # the join was rejected
            return _converted(command.group_id, group.tombstones(), outcome)
        case OffsetCommit() | TxnOffsetCommit() | OffsetDelete() if is_share:
            error = ErrorCode.group_id_not_found
        case OffsetCommit(generation_id=epoch) | TxnOffsetCommit(
            OffsetCommit(generation_id=epoch)
        ) if epoch >= 0:
            error = ErrorCode.unknown_member_id
        case OffsetFetch(member_id=member_id, member_epoch=epoch) if not is_share:
            if epoch < 0 and member_id is None:
                return None
            error = ErrorCode.unknown_member_id
        case _:
            return None
    return reply(ticket, error_result(command, error))
