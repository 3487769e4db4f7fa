"""The invariants, checked after every event.

I1  Within a generation no partition has two owners; once settled, every partition has one.
I2  Generations only grow while a coordinator is loaded; an assigned one survives a crash.
I3  An acknowledged commit survives any crash; no commit appears that was not requested (models.py).
I4  Replaying the log gives the live durable state.
I5  Each request gets exactly one response, except those to which Kafka never responds. After faults
stop, every group becomes stable within SimulationConfig.settle_max_ms, and stays stable. I6  An old
generation, and a member that was fenced, left or expired, never gets a success. I7  No deadline
without its member; a group's counters equal its contents (support/coordinator.py). I8  Only the
leader of a group's partition coordinates the group; other nodes respond with an error.
    A request that waits at a coordinator that lost its partition gets a response before the next
    coordinator is loaded. Leader epochs grow, in the log too (models.py).
I9  Groups and offsets expire only by Kafka's rules, and in the end all do (models.py). The offsets
    of a deleted topic are deleted. Whatever is deleted stays deleted.

Responses are checked against other responses, not against the coordinator's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.runtime.context import CoordinatorState
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import (
    CommitResult,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    OffsetCommit,
    SyncGroup,
)
from kohort.coordinator.coordinator import Coordinator
from kohort.log.records import records
from kohort.offsets.record_codec import decode_record
from kohort.protocol.errors import ErrorCode
from simulation.actors import partitions_of
from simulation.config import is_mixed
from simulation.mixed_invariants import MixedInvariants
from simulation.models import CommittedOffsets, Expiration, Leadership, Violation
from support.coordinator import (
    check_consumer_group,
    check_deadlines,
    check_group,
    check_member_deadlines,
    durable_state,
)

if TYPE_CHECKING:
    from kohort.topics.registry import TopicRegistry
    from kohort.topics.topic import Partition, Topic
    from simulation.broker import SimulatedBroker
    from simulation.network import Request
    from simulation.simulation import Simulation

_MEMBER_COMMANDS = (JoinGroup, SyncGroup, Heartbeat, OffsetCommit)


class Known(NamedTuple):
    """What responses had stated when a request was submitted."""

    generation: int  # the newest in a JoinGroup response
    is_removed: bool  # the member has left or was fenced
    is_completing: bool
    silent_ms: int  # since the member's last request


@dataclass
class History:
    """What the responses of one loaded coordinator have stated."""

    partition: int
    coordinator: Coordinator
    replay: Coordinator
    replayed_to: int = -1
    leader_epoch: int = 0  # that of the last replayed batch
    generations: dict[str, int] = field(default_factory=dict)
    joined_generations: dict[str, int] = field(default_factory=dict)
    protocols: dict[tuple[str, int], str | None] = field(default_factory=dict)
    removed: set[tuple[str, str]] = field(default_factory=set)
    last_request_ms: dict[tuple[str, str], int] = field(default_factory=dict)


class Invariants:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.commits = CommittedOffsets()
        self._leadership = Leadership()
        retention_ms = simulation.config.group_config.offsets_retention_ms
        self._expiration = Expiration(self.commits, retention_ms)
        self._histories: dict[int, History] = {}  # keyed by partition
        self._mixed = MixedInvariants()
        self._owners: dict[tuple[str, int], dict[int, str]] = {}  # keyed by group and generation
        self._assigned_generations: dict[str, int] = {}  # newest in a SyncGroup response
        self._open_requests: dict[int, Request] = {}
        self._session_timeouts_ms = {s.name: s.session_timeout_ms for s in simulation.config.slots}

    # --- requests and responses

    def request_submitted(self, broker: SimulatedBroker, request: Request) -> None:
        command = request.command
        request.submitted_ms = now_ms = self._simulation.schedule.now_ms()
        self._simulation.record("<", request.client, "%s", request)
        self._open_requests[request.number] = request
        request.readable = self.commits.request_submitted(request)
        request.is_misdirected = broker.leader_of(command.group_id) != request.connection.node_id
        if request.may_wait:
            self._mark_replaced(request)
        request.topic_id = self._simulation.topic_id
        request.known_epochs = None
        context = broker.context_of(command.group_id, request.connection.node_id)
        if context is None or context.state is not CoordinatorState.ACTIVE:
            return
        request.coordinator = context.coordinator
        history = self._histories[context.partition]
        group = context.coordinator.groups.get(command.group_id)
        if is_mixed(command.group_id):
            request.known_epochs = self._mixed.known(request)
            return
        member = (command.group_id, getattr(command, "member_id", ""))
        request.known = Known(
            history.joined_generations.get(command.group_id, -1),
            member in history.removed,
            group is not None and group.state is State.COMPLETING_REBALANCE,
            now_ms - history.last_request_ms.get(member, now_ms),
        )
        if type(command) in _MEMBER_COMMANDS:
            history.last_request_ms[member] = now_ms

    def _mark_replaced(self, request: Request) -> None:
        """Mark an earlier join or sync of the member as replaced by this one."""
        kind, member = type(request.command), _member(request)
        for other in self._open_requests.values():
            if other is not request and type(other.command) is kind:
                other.is_replaced |= _member(other) == member

    def request_completed(self, request: Request, result: Any) -> None:
        self._simulation.record(">", request.client, "%s: %s", request, result)
        if request.has_response:
            raise Violation(f"I5: {request} has two responses")
        if request.is_dropped:
            raise Violation(f"I5: {request} has a response, but its connection was closed")
        request.has_response = True
        request.result = result
        del self._open_requests[request.number]
        if request.is_misdirected and _error(result) is not ErrorCode.not_coordinator:
            raise Violation(
                f"I8: {request} was handled by a node that is not coordinator: {result}"
            )
        self.commits.request_completed(request, result)
        if request.known_epochs is not None:
            self._mixed.completed(request, result, request.known_epochs)
        if request.known is not None:
            self._check_success(request, result, request.known)
            # The last responses of an unloaded coordinator describe an earlier state.
            for history in self._histories.values():
                if history.coordinator is request.coordinator:
                    self._update_history(history, request, result)

    def _check_success(self, request: Request, result: Any, known: Known) -> None:
        command, error = request.command, _error(result)
        if type(command) not in _MEMBER_COMMANDS:
            return
        is_valid = error is ErrorCode.none or (
            type(command) is Heartbeat and error is ErrorCode.rebalance_in_progress
        )
        if not is_valid or (type(command) is JoinGroup and not command.member_id):
            return
        if known.is_removed:
            raise Violation(f"I6: {request} succeeds after its member was removed")
        if type(command) is JoinGroup or command.generation_id < 0:
            return
        if command.generation_id < known.generation:
            raise Violation(f"I6: {request} succeeds in generation {known.generation}")
        if type(command) is OffsetCommit and known.is_completing:
            raise Violation(f"I6: {request} succeeds before its generation is assigned")
        if type(command) is Heartbeat and command.group_instance_id is None:
            timeout_ms = self._session_timeouts_ms[request.client.partition(".")[0]]
            if known.silent_ms > timeout_ms:
                raise Violation(f"I6: {request} succeeds after {known.silent_ms} ms")

    def _update_history(self, history: History, request: Request, result: Any) -> None:
        command, group_id = request.command, request.command.group_id
        now_ms = self._simulation.schedule.now_ms()
        if type(command) is JoinGroup and result.error_code is ErrorCode.none:
            history.last_request_ms[group_id, result.member_id] = now_ms
            newest = max(history.joined_generations.get(group_id, -1), result.generation_id)
            history.joined_generations[group_id] = newest
            self._check_joined(history, request, result)
        elif type(command) is JoinGroup and result.error_code is ErrorCode.fenced_instance_id:
            history.removed.add((group_id, command.member_id))
        elif type(command) is SyncGroup:
            history.last_request_ms[group_id, command.member_id] = now_ms
            if result.error_code is ErrorCode.none:
                self._check_assignment(request, result.assignment)
        elif type(command) is LeaveGroup and result.error_code is ErrorCode.none:
            for left in result.members:
                if left.error_code is ErrorCode.none and left.member_id:
                    history.removed.add((group_id, left.member_id))

    def _check_joined(self, history: History, request: Request, result: JoinResult) -> None:
        command, protocol = request.command, result.protocol_name
        if protocol not in dict(command.protocols):
            raise Violation(f"I1: {request} gets protocol {protocol}")
        key = (command.group_id, result.generation_id)
        if history.protocols.setdefault(key, protocol) != protocol:
            raise Violation(f"I1: (group, generation) {key} has two protocols")
        is_leader = result.leader == result.member_id
        listed = [member.member_id for member in result.members]
        if is_leader != (result.member_id in listed) or (listed and not is_leader):
            raise Violation(f"I1: {request}: the leader is {result.leader}, members are {listed}")

    def _check_assignment(self, request: Request, assignment: bytes) -> None:
        command = request.command
        group_id, generation = key = (command.group_id, command.generation_id)
        newest = max(self._assigned_generations.get(group_id, -1), generation)
        self._assigned_generations[group_id] = newest
        owner = command.group_instance_id or command.member_id
        owners = self._owners.setdefault(key, {})
        for partition in partitions_of(assignment):
            if owners.setdefault(partition, owner) != owner:
                raise Violation(
                    f"I1: {owner} and {owners[partition]} own {partition} of {group_id} in "
                    f"generation {generation}"
                )

    # --- after each event

    def check(self, broker: SimulatedBroker) -> None:
        self._leadership.check(broker)
        for context in broker.contexts:
            if context.state is CoordinatorState.ACTIVE:
                history = self._histories.get(context.partition)
                if history is None or history.coordinator is not context.coordinator:
                    history = self._coordinator_loaded(broker, context)
                self._check_groups(history)
                self._check_replay(broker, context, history)

    def _check_groups(self, history: History) -> None:
        coordinator = history.coordinator
        for group_id, group in coordinator.groups.items():
            try:
                check_group(group)
                check_deadlines(group, coordinator.deadlines)
            except AssertionError as error:
                raise Violation(f"I7: {group_id}: {error}") from error
            if group.generation < history.generations.get(group_id, 0) and not is_mixed(group_id):
                raise Violation(f"I2: {group_id} returns to generation {group.generation}")
            history.generations[group_id] = group.generation
            self._expiration.observe(group, self._simulation.schedule.now_ms())
        for group_id in history.generations.keys() - coordinator.groups.keys():
            self._group_deleted(history, group_id)
        for consumer_group in coordinator.consumer_groups.values():
            try:
                check_consumer_group(consumer_group)
                check_member_deadlines(consumer_group, coordinator.deadlines)
            except AssertionError as error:
                raise Violation(f"I7: {consumer_group.group_id}: {error}") from error
        self._mixed.observe(coordinator, self._mixed_groups(history.partition))

    def _mixed_groups(self, partition: int) -> list[str]:
        group_ids = filter(is_mixed, self._simulation.group_ids)
        return [each for each in group_ids if self._simulation.partition_of(each) == partition]

    def _group_deleted(self, history: History, group_id: str) -> None:
        """Handle the deletion of a group: its generations start again at 0."""
        del history.generations[group_id]
        self._expiration.group_deleted(group_id)
        history.joined_generations.pop(group_id, None)
        self._assigned_generations.pop(group_id, None)
        for by_generation in (history.protocols, self._owners):
            for key in [key for key in by_generation if key[0] == group_id]:
                del by_generation[key]

    def _check_replay(self, broker: SimulatedBroker, context: Any, history: History) -> None:
        log = context.log
        if broker.group_commit.is_pending(log) or log.end_offset == history.replayed_to:
            return
        if history.replayed_to < log.end_offset:
            with self._simulation.files.without_faults():
                for header, batch in log.batches(max(history.replayed_to, 0)):
                    if header.leader_epoch < history.leader_epoch:
                        raise Violation(f"I8: {header} follows leader epoch {history.leader_epoch}")
                    history.leader_epoch = header.leader_epoch
                    for record in records(batch):
                        history.replay.apply(decode_record(record.key, record.value))
        history.replayed_to = log.end_offset
        self.commits.expirations_durable(self._groups_of(context.partition))
        live, replayed = durable_state(context.coordinator), durable_state(history.replay)
        if live != replayed:
            raise Violation(f"I4: live state {live}, replayed state {replayed}")

    # --- events of the broker

    def leader_elected(self, topics: TopicRegistry, topic: Topic, partition: Partition) -> None:
        self._leadership.elected(topics, topic, partition)

    def offsets_expired(self, coordinator: Coordinator, records: Sequence[Any]) -> None:
        self._simulation.record("=", "broker", "expires: %s", records)
        self._expiration.check(coordinator, records, self._simulation.schedule.now_ms())

    def topic_cleaned_up(self, broker: SimulatedBroker, name: str) -> None:
        """Check that all loaded partitions have deleted the topic's offsets; others do so when
        loaded."""
        for context in broker.contexts:
            if context.state is CoordinatorState.ACTIVE:
                self.commits.topic_cleaned_up(name, self._groups_of(context.partition))
                table = context.offsets
                if any(name in table.of_group(group_id) for group_id in table.groups()):
                    raise Violation(f"I9: topic {name} was deleted without its offsets")

    def broker_started(self, broker: SimulatedBroker) -> None:
        self._leadership.broker_started(broker)

    def broker_crashed(self) -> None:
        self._histories.clear()
        for request in self._open_requests.values():
            request.is_dropped = True
        self._open_requests.clear()
        self.commits.broker_crashed()

    def _coordinator_loaded(self, broker: SimulatedBroker, context: Any) -> History:
        coordinator, partition = context.coordinator, context.partition
        replay, _ = broker.new_coordinator(partition)
        history = self._histories[partition] = History(partition, coordinator, replay)
        self._mixed.loaded(coordinator, self._mixed_groups(partition))
        self._simulation.record("=", "broker", "partition %d is loaded", partition)
        for request in self._open_requests.values():
            is_of_another = request.coordinator not in (None, coordinator)
            is_here = self._simulation.partition_of(request.command.group_id) == partition
            if is_here and is_of_another and not (request.is_dropped or request.is_replaced):
                raise Violation(f"I8: {request} has no response, and its coordinator was unloaded")
        for group in coordinator.groups.values():
            self._expiration.loaded(group)
        self._check_offsets_loaded(broker, context)
        for group_id, generation in list(self._assigned_generations.items()):
            if self._simulation.partition_of(group_id) != partition:
                continue
            group = coordinator.groups.get(group_id)
            if group is None and group_id in self._simulation.deleted_groups:
                self._assigned_generations.pop(group_id)
            elif group is None or group.generation < generation:
                raise Violation(f"I2: {group_id} has lost generation {generation}, it was assigned")
        return history

    def _check_offsets_loaded(self, broker: SimulatedBroker, context: Any) -> None:
        table, topics = context.offsets, broker.topics
        found = {
            (group_id, topic, partition): committed.offset
            for group_id in table.groups()
            for topic, partitions in table.of_group(group_id).items()
            for partition, committed in partitions.items()
        }
        for key in found if topics._registry_log.failed is None else ():
            if topics.get(key[1]) is None and not topics.is_being_deleted(key[1]):
                raise Violation(f"I9: {key} is loaded, but its topic was deleted")
        self.commits.loaded(self._groups_of(context.partition), found)

    def _groups_of(self, partition: int) -> set[str]:
        return {g for g in self.commits.groups if self._simulation.partition_of(g) == partition}

    # --- at the end of a phase

    def check_responses(self, since_ms: int) -> None:
        """Check that each request before `since_ms` has a response, unless Kafka sends none."""
        for request in self._open_requests.values():
            if request.submitted_ms < since_ms and not request.is_dropped:
                raise Violation(f"I5: {request} has no response")

    def check_all_expired(self, broker: SimulatedBroker) -> None:
        for context in broker.contexts:
            if context.state is not CoordinatorState.ACTIVE:
                raise Violation(f"I5: partition {context.partition} is {context.state}")
            coordinator = context.coordinator
            left = [*coordinator.groups, *coordinator.consumer_groups]
            left += coordinator.offsets.groups()
            if left:
                raise Violation(f"I9: {left} never expire")


def _member(request: Request) -> tuple[str, str]:
    return request.command.group_id, request.command.member_id


def _error(result: Any) -> ErrorCode:
    """Return the error of a command's result; for a commit, the error of the first partition."""
    return result.errors[0] if type(result) is CommitResult else result.error_code
