"""A coordinator with its log as a list and a manual clock. Its invariants are checked after every
step: a replay of the log gives the durable state, and counters and timers match the members."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.runtime.context import CoordinatorCodec
from kohort.coordinator.classic.group import Group, restore
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import (
    CommitEntry,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatResult,
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TopicFilter,
)
from kohort.coordinator.consumer.group import ConsumerGroup, MemberState
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.deadlines import MEMBER_DEADLINES, DeadlineKey
from kohort.coordinator.decision import GroupConfig, PartitionState, TopicMetadata
from kohort.coordinator.offset_cleanup import ReadGroup, Sweep
from kohort.coordinator.outcome import (
    EventType,
    GroupEvent,
    LogLine,
    Outcome,
    RegexMatcher,
    Reply,
)
from kohort.log.tasks import CooperativeTask, run_synchronously
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import (
    ConsumerGroupRecord,
    OffsetCommitRecord,
    OffsetsRecord,
    TopicPartitions,
    TransactionalOffsetCommit,
)
from kohort.offsets.table import OffsetsTable
from kohort.protocol.errors import ErrorCode

GROUP = "orders"
RANGE = (("range", b"r"),)


def durable_state(coordinator: Coordinator) -> dict[str, Any]:
    offsets = coordinator.offsets
    return {
        "groups": {g.group_id: g.stored for g in coordinator.groups.values() if g.stored},
        "offsets": {group_id: offsets.of_group(group_id) for group_id in offsets.groups()},
        "consumer groups": consumer_state(coordinator),
    }


def consumer_state(coordinator: Coordinator) -> dict[str, dict[str, Any]]:
    """Return the consumer groups, including the state derived from their members."""
    soft = {"members_max", "checked", "unresolved", "is_homogeneous", "_has_new_subscriptions"}
    soft |= {"orders", "orders_version", "_last_names"}
    return {
        group_id: {name: value for name, value in vars(group).items() if name not in soft}
        for group_id, group in coordinator.consumer_groups.items()
    }


class Replay:
    """A coordinator that has loaded a growing log, and one that has loaded what compaction leaves
    of its records of consumer groups."""

    def __init__(self, new_coordinator: Callable[[], Coordinator]) -> None:
        self._new_coordinator = new_coordinator
        self._end = 0
        self._last: dict[tuple[Any, ...], ConsumerGroupRecord] = {}
        self.whole, self.compacted = new_coordinator(), new_coordinator()

    def follow(self, log: Sequence[OffsetsRecord]) -> None:
        """Load the records that were added since the last call."""
        added, self._end = log[self._end :], len(log)
        for record in added:
            self.whole.apply(record)
        changes = [record for record in added if isinstance(record, ConsumerGroupRecord)]
        for change in changes:
            self._last.pop(change[:3], None)
            if change.value is not None:
                self._last[change[:3]] = change
        if changes:
            self.compacted = self._new_coordinator()
            for change in self._last.values():
                self.compacted.apply(change)


def offset_commit(
    group_id: str,
    offsets: Sequence[tuple[str, int, int]],
    *,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = None,
    retention_ms: int | None = None,
    supports_member_epochs: bool = False,
) -> OffsetCommit:
    """Build an OffsetCommit. `offsets`: (topic, partition, offset) triples."""
    return OffsetCommit(
        group_id,
        generation,
        member_id,
        instance,
        [CommitEntry(topic, partition, -1, metadata) for topic, partition, _ in offsets],
        [(offset,) for _, _, offset in offsets],
        retention_ms,
        supports_member_epochs,
    )


def join_group(
    member_id: str = "",
    *,
    group_id: str = GROUP,
    instance: str | None = None,
    client: str | None = "client",
    protocols: tuple[tuple[str, bytes], ...] = RANGE,
    protocol_type: str = "consumer",
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    version: int = 9,
    reason: str | None = None,
) -> JoinGroup:
    return JoinGroup(
        group_id,
        member_id,
        instance,
        client,
        "/127.0.0.1",
        session_ms,
        rebalance_ms,
        protocol_type,
        protocols,
        version >= 4,
        version >= 9,
        reason,
    )


def consumer_heartbeat(
    member_id: str,
    epoch: int,
    owned: Iterable[TopicPartitions] | None = None,
    *,
    group_id: str = GROUP,
    topics: Sequence[str] | None = None,
    regex: str | None = None,
    instance: str | None = None,
    rack: str | None = None,
    assignor: str | None = None,
    rebalance_ms: int = -1,
    client: str | None = "client",
) -> ConsumerGroupHeartbeat:
    return ConsumerGroupHeartbeat(
        group_id,
        member_id,
        epoch,
        instance,
        rack,
        rebalance_ms,
        None if topics is None else tuple(topics),
        regex,
        assignor,
        None if owned is None else tuple(owned),
        client,
        "/127.0.0.1",
        None,
        True,
    )


class FixedTopics:
    """Topics of a coordinator on its own (coordinator/decision.py: TopicMetadata). Patterns have
    Python's syntax."""

    def __init__(self, **partitions: int) -> None:
        self.version = self.created_version = 1
        self._ids: dict[str, UUID] = {}
        self._partitions: dict[str, int] = {}
        for topic, count in partitions.items():
            self.put(topic, count)

    def put(self, topic: str, partitions: int, topic_id: UUID | None = None) -> None:
        """Create a topic, or add partitions to it."""
        self.version += 1
        if topic not in self._ids:
            self.created_version = self.version
            self._ids[topic] = topic_id or UUID(int=self.version)
        self._partitions[topic] = partitions

    def delete(self, topic: str) -> None:
        self.version += 1
        del self._ids[topic], self._partitions[topic]

    def id_of(self, topic: str) -> UUID | None:
        return self._ids.get(topic)

    def name_of(self, topic_id: Any) -> str | None:
        return next((name for name, each in self._ids.items() if each == topic_id), None)

    def partition_count(self, topic_id: Any) -> int:
        return self._partitions.get(self.name_of(topic_id) or "", 0)

    def metadata_hash(self, topics: Iterable[str]) -> int:
        known = sorted((t, self._partitions[t]) for t in topics if t in self._ids)
        return hash(tuple((self._ids[t], count) for t, count in known)) if known else 0

    def regex_problem(self, regex: str) -> str | None:
        try:
            re.compile(regex)
        except re.error as error:
            return str(error)
        return None

    def matcher(
        self, regexes: Collection[str], describes_topic: TopicFilter | None
    ) -> RegexMatcher:
        topics = sorted(filter(describes_topic, self._ids) if describes_topic else self._ids)

        def match() -> CooperativeTask[dict[str, tuple[str, ...]]]:
            yield
            return {
                regex: tuple(topic for topic in topics if re.fullmatch(regex, topic))
                for regex in regexes
            }

        return match


class ConsumerConfig(NamedTuple):
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 0


def new_coordinator(
    config: GroupConfig,
    new_id: Callable[[], str],
    offsets: OffsetsTable,
    topics: TopicMetadata | None = None,
    consumer_config: Callable[[str], ConsumerConfig] = lambda _group_id: ConsumerConfig(),
) -> Coordinator:
    codec, topics = CoordinatorCodec(), topics or FixedTopics()
    return Coordinator(
        PartitionState(config, new_id, codec, offsets, topics, consumer_config, new_id)
    )


class CoordinatorHarness:
    """A coordinator on its own; `results` maps tickets to results."""

    def __init__(self, *, check_interval_ms: int = 600_000, **config: Any) -> None:
        defaults = group_config(BrokerConfig())
        self.config = replace(defaults, **{"reports_commits": True, **config})
        self.check_interval_ms = check_interval_ms
        self.now = 1_000_000
        self.log: list[OffsetsRecord] = []
        self.results: dict[int, Any] = {}
        self.events: list[GroupEvent] = []
        self.reported_states: dict[str, str] = {}  # group -> its state according to the events
        self.log_lines: list[str] = []
        self.sweep_ms = self.now + check_interval_ms
        self.topics = FixedTopics(orders=4)
        self.consumer_config = ConsumerConfig()
        self._ids = 0
        self._ticket = 0
        self.coordinator = self.new_coordinator()
        self.coordinator.loaded(self.now)
        self.is_checking = True
        self._replay = Replay(self.new_coordinator)

    def new_coordinator(self) -> Coordinator:
        return new_coordinator(
            self.config,
            self._new_id,
            OffsetsTable(),
            self.topics,
            lambda _group_id: self.consumer_config,
        )

    def _new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    # --- the runtime's part

    def submit(self, command: Any) -> int:
        """Submit a command and return its ticket; `results` receives the result."""
        if isinstance(command, ConsumerGroupHeartbeat) and command.keeps_alive:
            self._check_keep_alive(command)
        self._ticket += 1
        self._apply_outcome(self.coordinator.handle(command, self._ticket, self.now))
        return self._ticket

    def _check_keep_alive(self, command: ConsumerGroupHeartbeat) -> None:
        """Check that a heartbeat without changes, which may take a fast path, has the same result
        as one that repeats a field."""
        group = self.coordinator.consumer_groups.get(command.group_id)
        if group is not None and group.partition_metadata is not None:
            return  # only the first decision deletes it
        member = None if group is None else group.members.get(command.member_id)
        timeout_ms = 1 if member is None else member.metadata.rebalance_timeout_ms
        repeated = command._replace(rebalance_timeout_ms=timeout_ms)
        decided = [
            (self.coordinator.handle(each, 0, self.now), dict(self.coordinator.deadlines))
            for each in (command, repeated)
        ]
        assert decided[0] == decided[1]

    def call(self, command: Any) -> Any:
        """Return the result of a command that completes immediately."""
        return self.results[self.submit(command)]

    def fail_append(self, command: Any) -> Any:
        """Return the result of a command whose records the log rejects."""
        self._ticket += 1
        outcome = self.coordinator.handle(command, self._ticket, self.now)
        assert outcome.records
        self._apply_outcome(self.coordinator.append_failed(outcome, self.now))
        return self.results[self._ticket]

    def append(self, *records: OffsetsRecord) -> None:
        """Append records that are not the coordinator's, and apply them."""
        for record in records:
            self.log.append(record)
            self.coordinator.apply(record)
        self.check()

    def advance_and_sweep(self, ms: int) -> None:
        """Advance the clock; a sweep runs at the end."""
        self.sweep_ms = self.now + ms
        self.advance(ms)

    def advance(self, ms: int) -> None:
        """Advance the clock, stopping at every deadline."""
        until = self.now + ms
        while (due := self._next_deadline()) <= until:
            self.now = max(self.now, due)
            if due == self.sweep_ms:
                self.sweep(self.coordinator.expire_offsets(lambda: self.now))
                self.sweep_ms = self.now + self.check_interval_ms
            else:
                self._apply_outcome(self.coordinator.tick(self.now))
        self.now = until

    def _next_deadline(self) -> int:
        deadline = self.coordinator.next_deadline()
        return self.sweep_ms if deadline is None else min(deadline, self.sweep_ms)

    def sweep(self, sweep: Sweep) -> int:
        """Run a sweep; return the number of its steps."""
        steps = 0
        for step in sweep:
            assert not isinstance(step, ReadGroup), "all offsets are in memory"
            self._apply_outcome(step)
            steps += 1
        return steps

    def restart(self) -> None:
        """Unload the partition and load it from its log."""
        lost = self.coordinator.unload()
        self._publish(lost)
        self._deliver_replies(lost.replies)
        self.coordinator = self.new_coordinator()
        self._replay = Replay(self.new_coordinator)
        for record in self.log:
            self.coordinator.apply(record)
        self._apply_outcome(self.coordinator.loaded(self.now))
        self.sweep_ms = self.now + self.check_interval_ms

    def _apply_outcome(self, outcome: Outcome) -> None:
        self._publish(outcome)
        for record in outcome.records:
            self.log.append(record)
            self.coordinator.apply(record)
        for change in self.coordinator.state_changes():
            self._add_event(change)
        self._deliver_replies(outcome.replies)
        if self.is_checking:
            self.check()
        for query in outcome.queries:
            matched = run_synchronously(query.match())
            self._apply_outcome(self.coordinator.regexes_matched(query, matched, self.now))

    def _publish(self, outcome: Outcome) -> None:
        for event in outcome.events:
            if isinstance(event, LogLine):
                self.log_lines.append(event.message % event.arguments)
            else:
                self._add_event(event)

    def _add_event(self, event: GroupEvent) -> None:
        self.events.append(event)
        if event.state_to is not None:
            self.reported_states[event.group_id] = event.state_to

    def _deliver_replies(self, replies: Sequence[Reply]) -> None:
        for ticket, result in replies:
            assert ticket not in self.results, "a request has two results"
            self.results[ticket] = result

    # --- requests with defaults

    def join(self, member_id: str = "", **values: Any) -> int:
        return self.submit(join_group(member_id, **values))

    def request_member_id(self, **more: Any) -> str:
        """Send the first JoinGroup of a dynamic member and return the new member id (KIP-394)."""
        result = self.results[self.join(**more)]
        assert result.error_code is ErrorCode.member_id_required
        assert isinstance(result.member_id, str)
        return result.member_id

    def join_dynamic(self, **more: Any) -> int:
        """Send both JoinGroups of a dynamic member; return the ticket of the second."""
        return self.join(self.request_member_id(**more), **more)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = None,
    ) -> int:
        given = tuple((assignments or {}).items())
        return self.submit(
            SyncGroup(GROUP, generation, member_id, instance, protocol_type, None, given)
        )

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None
    ) -> ErrorCode:
        error = self.call(Heartbeat(GROUP, generation, member_id, instance)).error_code
        assert isinstance(error, ErrorCode)
        return error

    def leave(self, *members: str | tuple[str, str | None], reason: str | None = None) -> Any:
        leaving = [(m, None) if isinstance(m, str) else m for m in members]
        return self.call(LeaveGroup(GROUP, tuple(LeavingMember(*m, reason) for m in leaving)))

    def commit(
        self,
        *entries: tuple[str, int, int],
        group_id: str = GROUP,
        metadata: str | None = "",
        **values: Any,
    ) -> Any:
        offsets = entries or (("t", 0, 1),)
        done = self.call(offset_commit(group_id, offsets, metadata=metadata, **values))
        assert len(done.errors) == len(offsets)
        return done.errors[0] if len(offsets) == 1 else done.errors

    def fetch(self, *topics: tuple[str, tuple[int, ...]], group_id: str = GROUP) -> Any:
        return self.call(OffsetFetch(group_id, topics or None, False, None, -1))

    # --- the consumer protocol (KIP-848)

    def consumer(
        self,
        member_id: str,
        epoch: int,
        owned: Mapping[str, Iterable[int]] | None = None,
        **values: Any,
    ) -> ConsumerHeartbeatResult:
        """Send a ConsumerGroupHeartbeat. `owned`: partitions by topic; None: not sent."""
        listed = None
        if owned is not None:
            listed = [
                TopicPartitions(self.topics.id_of(topic) or topic, tuple(partitions))
                for topic, partitions in owned.items()
            ]
        result = self.call(consumer_heartbeat(member_id, epoch, listed, **values))
        assert isinstance(result, ConsumerHeartbeatResult)
        return result

    def consumer_join(self, member_id: str, **more: Any) -> ConsumerHeartbeatResult:
        """Send the first heartbeat of a member, subscribed to `orders` unless `more` overrides
        it."""
        if "regex" not in more:
            more = {"topics": ("orders",), **more}
        return self.consumer(member_id, 0, {}, **{"rebalance_ms": 60_000, **more})

    def assigned(self, result: ConsumerHeartbeatResult) -> dict[str, tuple[int, ...]] | None:
        """Return the assignment of a response by topic; None if it has none."""
        if result.assignment is None:
            return None
        return {self.topics.name_of(topic): each for topic, each in result.assignment}

    def owned_by(self, member_id: str) -> dict[str, list[int]]:
        """Return the partitions that a member owns, without those it is revoking."""
        owned = self.consumers.members[member_id].assigned
        return {self.topics.name_of(topic): sorted(each) for topic, each in owned.items()}

    def describe_consumers(self) -> Any:
        result = self.call(DescribeConsumerGroup(GROUP))
        return result._replace(members=tuple(result.members))

    @property
    def consumers(self) -> ConsumerGroup:
        return self.coordinator.consumer_groups[GROUP]

    # --- administration

    def describe(self, group_id: str = GROUP) -> Any:
        return self.call(DescribeGroup(group_id))

    def list_groups(self, *states: str, types: tuple[str, ...] = ()) -> Any:
        return self.call(ListGroups.filtered(states, types)).groups

    def delete(self, group_id: str = GROUP) -> ErrorCode:
        error = self.call(DeleteGroup(group_id)).error_code
        assert isinstance(error, ErrorCode)
        return error

    def delete_offsets(self, *topics: tuple[str, tuple[int, ...]]) -> Any:
        """Return the error of the group if there is one, else the errors of the topics."""
        done = self.call(OffsetDelete(GROUP, topics))
        return done.error_code or done.errors

    # --- events

    def events_of(self, type_: EventType) -> list[GroupEvent]:
        return [event for event in self.events if event.type is type_]

    def causes(self) -> list[str]:
        """Return the cause of each rebalance."""
        return [str(event.cause) for event in self.events_of(EventType.REBALANCE_STARTED)]

    # --- the group

    @property
    def group(self) -> Group:
        return self.coordinator.groups[GROUP]

    @property
    def state(self) -> State:
        return self.group.state

    def stable_group(self, *instances: str | None, **more: Any) -> list[str]:
        """Create a stable group at generation 1 with a static member for each instance id and a
        dynamic one for each None. Return their member ids; the first leads."""
        tickets = [
            self.join_dynamic(**more) if name is None else self.join(instance=name, **more)
            for name in instances
        ]
        self.advance(self.config.group_initial_rebalance_delay_ms)
        while any(ticket not in self.results for ticket in tickets):
            self.advance(self.config.group_initial_rebalance_delay_ms)
        ids = [self.results[ticket].member_id for ticket in tickets]
        self.sync_all(ids, self.group.generation)
        return ids

    def sync_all(self, ids: list[str], generation: int) -> None:
        leader = self.group.leader
        for member_id in ids:
            given = {m: m.encode() for m in ids} if member_id == leader else None
            self.sync(member_id, generation, given)
        assert self.state is State.STABLE

    # --- invariants

    def check(self) -> None:
        self._replay.follow(self.log)
        assert durable_state(self._replay.whole) == durable_state(self.coordinator)
        armed = self.coordinator.deadlines
        for group in self.coordinator.groups.values():
            check_group(group)
            check_deadlines(group, armed)
        assert consumer_state(self._replay.compacted) == consumer_state(self.coordinator)
        for consumer_group in self.coordinator.consumer_groups.values():
            check_consumer_group(consumer_group)
            assert self.reported_states[consumer_group.group_id] == consumer_group.state
            check_member_deadlines(consumer_group, armed)
        watched = self.coordinator.groups.keys() | self.coordinator.consumer_groups.keys()
        assert all(timer.group_id in watched for timer in armed)


def check_group(group: Group) -> None:
    members = group.members.values()
    assert all(member_id == m.member_id for member_id, m in group.members.items())
    assert group.awaiting_joins == sum(m.join_ticket is not None for m in members)
    counts: dict[str, int] = {}
    for member in members:
        for name in dict(member.protocols):
            counts[name] = counts.get(name, 0) + 1
    assert group.protocol_counts == counts
    assert group.static_members == {
        m.group_instance_id: m.member_id for m in members if m.group_instance_id is not None
    }
    assert not group.pending_joins.keys() & group.members.keys()
    assert (group.leader in group.members) if members else group.leader is None
    assert group.proposed is None
    if group.state is State.EMPTY:
        assert not members
    if group.state is not State.PREPARING_REBALANCE:
        assert group.awaiting_joins == 0
    if group.state is not State.COMPLETING_REBALANCE:
        assert all(m.sync_ticket is None for m in members)
    if group.state is State.STABLE:
        assert group.stored is not None
        again = restore(group.group_id, group.stored)
        assert (again.generation, again.leader) == (group.generation, group.leader)
        assert again.protocol_name == group.protocol_name
        assert {m.member_id: m.assignment for m in again.members.values()} == {
            m.member_id: m.assignment for m in members
        }


def check_deadlines(group: Group, armed: Any) -> None:
    """Check that sessions belong to members, and that members without a session have a waiting
    request."""
    watched = {t.member_id for t in armed if t.kind == "session" and t.group_id == group.group_id}
    known = group.members.keys() | group.pending_joins.keys()
    assert watched <= known
    assert all(group.members[m].has_waiting_request for m in known - watched)
    is_open = group.state is State.PREPARING_REBALANCE
    assert (group.join_timer in armed) is is_open
    if group.sync_timer in armed:
        assert group.pending_syncs
        assert group.state in (State.COMPLETING_REBALANCE, State.STABLE)
    assert DeadlineKey("join", group.group_id) == group.join_timer


def check_consumer_group(group: ConsumerGroup) -> None:
    """Check that a partition has one owner, and that epochs, targets and the state are those of the
    members. Counters are checked by the replay of the compacted log."""
    owners: dict[tuple[Any, int], str] = {}
    for member in group.members.values():
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                for partition, epoch in partitions.items():
                    owner = owners.setdefault((topic_id, partition), member.member_id)
                    assert owner == member.member_id, f"{owner} owns it too"
                    assert group.owner_epoch(topic_id, partition) == member.epoch
                    assert 0 <= epoch <= max(member.epoch, group.assignment_epoch)
        assert member.epoch <= group.epoch
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        assert bool(member.pending_revocation) == (is_revoking and not member.has_left_temporarily)
    if group.members and group.epoch == group.assignment_epoch:
        members = group.members.values()
        is_stable = all(each.is_reconciled_to(group.assignment_epoch) for each in members)
        assert group.state == ("Stable" if is_stable else "Reconciling")
    assert group.targets.keys() <= group.members.keys()
    assert group.assignment_epoch <= group.epoch
    assert group.regexes.keys() <= group.regex_counts.keys()


def check_member_deadlines(group: ConsumerGroup, armed: Any) -> None:
    """Check that every member has a session, and that no other member has a deadline."""
    kinds: dict[str, set[str]] = {kind: set() for kind in MEMBER_DEADLINES}
    for timer in armed:
        if timer.group_id == group.group_id and timer.kind in kinds:
            kinds[timer.kind].add(timer.member_id)
    members = group.members.values()
    assert kinds["member session"] == group.members.keys()
    assert set().union(*kinds.values()) <= group.members.keys()
    revoking = {
        m.member_id
        for m in members
        if m.state is MemberState.UNREVOKED_PARTITIONS and not m.uses_classic_protocol
    }
    assert kinds["revocation"] >= {m for m in revoking if not group.members[m].has_left_temporarily}


def pending_offset(group_id: str, partition: int, topic: str = "t") -> TransactionalOffsetCommit:
    """A commit in an open transaction."""
    commit = OffsetCommitRecord(group_id, topic, partition, encode_commit_value(1, -1, "", 0))
    return TransactionalOffsetCommit(7, 0, commit)
