"""What must hold after every event, whatever members, network, disk and broker have been through.

I1  Within a generation no partition has two owners; once all is calm each has one.
I2  Generations only grow while a coordinator lives; one that was assigned survives a crash.
I3  An acknowledged commit is still there after any crash; none appears unasked (commits.py).
I4  Replaying the log gives the live durable state.
I5  Each request gets exactly one answer, but for those that Kafka never answers; once faults stop,
    every group is stable within Setting.bound_ms, and stays so.
I6  An old generation, a fenced member, one that has left or that was long silent never gets a
    success.
I7  No deadline without its member, and what a group counts is what it has (group_world.py).
I8  One node coordinates a group, the leader of its partition; any other says so. Who was parked at
    one that lost it has an answer when the next begins. Leader epochs grow, in the log too
    (leaders.py).
I9  What expires may, by Kafka's rules (retention.py), and in the end all does; a topic that is
    deleted takes its offsets along. What is gone stays gone.

Answers are judged by what other answers have said, not by what the coordinator believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kohort.broker.context import CoordinatorState
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
from simulation.commits import Commits
from simulation.consumers import partitions_of
from simulation.leaders import Leaders
from simulation.lifetime import Known, Lifetime
from simulation.retention import Retention
from simulation.violation import Violation
from support.coordinator import check_deadlines, check_group, durable_state

if TYPE_CHECKING:
    from kohort.topics.registry import Topics
    from kohort.topics.topic import Partition, Topic
    from simulation.network import Request
    from simulation.server import Life
    from simulation.world import World

_NONE = ErrorCode.none
_MEMBERS_COMMANDS = (JoinGroup, SyncGroup, Heartbeat, OffsetCommit)


class Invariants:
    def __init__(self, world: World) -> None:
        self.world = world
        self.commits = Commits()
        self._leaders = Leaders()
        self._retention = Retention(self.commits, world.setting.config.offsets_retention_ms)
        self._lifetimes: dict[int, Lifetime] = {}  # of each partition's coordinator
        self._owners: dict[tuple[str, int], dict[int, str]] = {}
        # Of each group, the newest generation that anybody has an assignment of.
        self._assigned: dict[str, int] = {}
        self._open: dict[int, Request] = {}

    # --- requests and answers

    def asked(self, life: Life, request: Request) -> None:
        world, command = self.world, request.command
        request.sent_ms = now = world.schedule.now_ms()
        world.note("<", request.who, "%s", request)
        self._open[request.number] = request
        request.readable = self.commits.asked(request)
        request.is_elsewhere = life.leader_of(command.group_id) != request.link.node_id
        if request.may_park:
            self._replaces(request)
        shard = life.shard_of(command.group_id, request.link.node_id)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            return
        request.coordinator = shard.coordinator
        lifetime = self._lifetimes[shard.partition]
        group = shard.coordinator.groups.get(command.group_id)
        member = (command.group_id, getattr(command, "member_id", ""))
        request.known = Known(
            lifetime.told.get(command.group_id, -1),
            member in lifetime.gone,
            group is not None and group.state is State.COMPLETING_REBALANCE,
            now - lifetime.heard_ms.get(member, now),
        )
        if type(command) in _MEMBERS_COMMANDS:
            lifetime.heard_ms[member] = now

    def _replaces(self, request: Request) -> None:
        """A member's join or sync takes the place of one that it sent before."""
        kind, by = type(request.command), (request.command.group_id, request.command.member_id)
        for other in self._open.values():
            if other is not request and type(other.command) is kind:
                other.is_replaced |= (other.command.group_id, other.command.member_id) == by

    def answered(self, request: Request, result: Any) -> None:
        self.world.note(">", request.who, "%s: %s", request, result)
        if request.answered:
            raise Violation(f"I5: {request} was answered twice")
        if request.is_dropped:
            raise Violation(f"I5: {request} was answered, and its client is gone")
        request.answered = True
        request.result = result
        del self._open[request.number]
        known = request.known
        if request.is_elsewhere and _error(result) is not ErrorCode.not_coordinator:
            raise Violation(f"I8: {request} was answered, but not by its coordinator: {result}")
        self.commits.answered(request, result, request.readable)
        if known is not None:
            lifetime = self._lifetime_of(request)
            self._check_success(request, result, known)
            if lifetime is not None:
                self._learn(lifetime, request, result)

    def _lifetime_of(self, request: Request) -> Lifetime | None:
        """None if its coordinator is no more: its last answers are about the past."""
        for lifetime in self._lifetimes.values():
            if lifetime.coordinator is request.coordinator:
                return lifetime
        return None

    def _check_success(self, request: Request, result: Any, known: Known) -> None:
        command = request.command
        if type(command) not in _MEMBERS_COMMANDS:
            return
        error = _error(result)
        is_alive = error is _NONE or (
            type(command) is Heartbeat and error is ErrorCode.rebalance_in_progress
        )
        if not is_alive or (type(command) is JoinGroup and not command.member_id):
            return
        if known.is_gone:
            raise Violation(f"I6: {request} succeeds, and its member is gone")
        if type(command) is JoinGroup or command.generation_id < 0:
            return
        if command.generation_id < known.generation:
            raise Violation(f"I6: {request} succeeds, and generation {known.generation} has begun")
        if type(command) is OffsetCommit and known.is_completing:
            raise Violation(f"I6: {request} succeeds before its generation is assigned")
        if type(command) is Heartbeat:
            session_ms = self.world.session_ms(request.who)
            if command.group_instance_id is None and known.silent_ms > session_ms:
                raise Violation(f"I6: {request} comes {known.silent_ms} ms too late")

    def _learn(self, lifetime: Lifetime, request: Request, result: Any) -> None:
        command, group_id = request.command, request.command.group_id
        now = self.world.schedule.now_ms()
        if type(command) is JoinGroup and result.error is _NONE:
            lifetime.heard_ms[group_id, result.member_id] = now
            lifetime.told[group_id] = max(lifetime.told.get(group_id, -1), result.generation_id)
            self._check_joined(lifetime, request, result)
        elif type(command) is JoinGroup and result.error is ErrorCode.fenced_instance_id:
            lifetime.gone.add((group_id, command.member_id))
        elif type(command) is SyncGroup:
            lifetime.heard_ms[group_id, command.member_id] = now
            if result.error is _NONE:
                self._assigns(request, result.assignment)
        elif type(command) is LeaveGroup and result.error is _NONE:
            for left in result.members:
                if left.error is _NONE and left.member_id:
                    lifetime.gone.add((group_id, left.member_id))

    def _check_joined(self, lifetime: Lifetime, request: Request, result: JoinResult) -> None:
        command = request.command
        names = [name for name, _ in command.protocols]
        if result.protocol_name not in names:
            raise Violation(f"I1: {request} is given {result.protocol_name}")
        at = (command.group_id, result.generation_id)
        if lifetime.protocols.setdefault(at, result.protocol_name) != result.protocol_name:
            raise Violation(f"I1: generation {at} has two protocols")
        is_leader = result.leader == result.member_id
        listed = [member.member_id for member in result.members]
        if is_leader != (result.member_id in listed) or (listed and not is_leader):
            raise Violation(f"I1: {request}: {result.leader} leads {listed}")

    def _assigns(self, request: Request, assignment: bytes) -> None:
        command = request.command
        at = (command.group_id, command.generation_id)
        self._assigned[at[0]] = max(self._assigned.get(at[0], -1), at[1])
        owner = command.group_instance_id or command.member_id
        owners = self._owners.setdefault(at, {})
        for partition in partitions_of(assignment):
            if owners.setdefault(partition, owner) != owner:
                raise Violation(
                    f"I1: {owner} and {owners[partition]} own {partition} of {at[0]} in "
                    f"generation {at[1]}"
                )

    # --- after each event

    def after_event(self, life: Life) -> None:
        self._leaders.check(life)
        for shard in life.shards:
            if shard.state is not CoordinatorState.ACTIVE:
                continue
            lifetime = self._lifetimes.get(shard.partition)
            if lifetime is None or lifetime.coordinator is not shard.coordinator:
                lifetime = self._loaded(life, shard)
            self._check_groups(lifetime)
            self._check_replay(life, shard, lifetime)

    def elected(self, topics: Topics, topic: Topic, partition: Partition) -> None:
        self._leaders.elected(topics, topic, partition)

    def sweeps(self, coordinator: Coordinator, records: Sequence[Any], now: int) -> None:
        self.world.note("=", "broker", "sweeps: %s", records)
        self._retention.judge(coordinator, records, now)

    def topic_forgotten(self, life: Life, name: str) -> None:
        """Its name is about to be free. Partitions that cannot be read forget it when they can."""
        for shard in life.shards:
            if shard.state is CoordinatorState.ACTIVE:
                self.commits.topic_forgotten(name, self._groups_of(shard.partition))
                table = shard.offsets
                if any(name in table.of_group(group_id) for group_id in table.groups()):
                    raise Violation(f"I9: {name} was deleted, and its offsets are there")

    def _check_groups(self, lifetime: Lifetime) -> None:
        coordinator = lifetime.coordinator
        groups = coordinator.groups
        for group_id, group in groups.items():
            try:
                check_group(group)
                check_deadlines(group, coordinator.deadlines)
            except AssertionError as error:
                raise Violation(f"I7: {group_id}: {error}") from error
            if group.generation < lifetime.generations.get(group_id, 0):
                raise Violation(f"I2: {group_id} is back at generation {group.generation}")
            lifetime.generations[group_id] = group.generation
            self._retention.saw(group, self.world.schedule.now_ms())
        for group_id in lifetime.generations.keys() - groups.keys():
            self._forget(lifetime, group_id)

    def _forget(self, lifetime: Lifetime, group_id: str) -> None:
        """It was deleted: its generations begin anew."""
        del lifetime.generations[group_id]
        self._retention.forgot(group_id)
        lifetime.told.pop(group_id, None)
        self._assigned.pop(group_id, None)
        for known in (lifetime.protocols, self._owners):
            for at in [at for at in known if at[0] == group_id]:
                del known[at]

    def _check_replay(self, life: Life, shard: Any, lifetime: Lifetime) -> None:
        log = shard.log
        if life.group_commit.is_pending(log) or log.end_offset == lifetime.replayed_to:
            return
        if lifetime.replayed_to < log.end_offset:
            with self.world.files.without_faults():
                for header, batch in log.batches(max(lifetime.replayed_to, 0)):
                    if header.leader_epoch < lifetime.epoch:
                        raise Violation(f"I8: {header} comes after epoch {lifetime.epoch}")
                    lifetime.epoch = header.leader_epoch
                    for record in records(batch):
                        lifetime.replay.apply(decode_record(record.key, record.value))
        lifetime.replayed_to = log.end_offset
        self.commits.swept_for_good(self._groups_of(shard.partition))
        live, replayed = durable_state(shard.coordinator), durable_state(lifetime.replay)
        if live != replayed:
            raise Violation(f"I4: live {live}, replayed {replayed}")

    # --- lives

    def _loaded(self, life: Life, shard: Any) -> Lifetime:
        world, coordinator = self.world, shard.coordinator
        replay, _ = life._new_coordinator(shard.partition)
        lifetime = self._lifetimes[shard.partition] = Lifetime(coordinator, replay)
        world.note("=", "broker", "partition %d is loaded", shard.partition)
        for request in self._open.values():
            is_of_another = request.coordinator not in (None, coordinator)
            is_here = world.partition_of(request.command.group_id) == shard.partition
            if is_here and is_of_another and not (request.is_dropped or request.is_replaced):
                raise Violation(f"I8: {request} has no answer, and its coordinator is another now")
        for group in coordinator.groups.values():
            self._retention.loaded(group)
        table = coordinator.offsets
        found = {
            (group_id, topic, partition): committed.offset
            for group_id in table.groups()
            for topic, partitions in table.of_group(group_id).items()
            for partition, committed in partitions.items()
        }
        topics = life.topics
        for key in found if topics._registry_log.failed is None else ():
            if topics.get(key[1]) is None and not topics.is_being_deleted(key[1]):
                raise Violation(f"I9: {key} is loaded, and its topic was deleted")
        self.commits.loaded(self._groups_of(shard.partition), found)
        for group_id, generation in list(self._assigned.items()):
            if world.partition_of(group_id) != shard.partition:
                continue
            group = coordinator.groups.get(group_id)
            if group is None and group_id in world.deleted:
                self._assigned.pop(group_id)
            elif group is None or group.generation < generation:
                raise Violation(f"I2: {group_id} has lost generation {generation}, it was assigned")
        return lifetime

    def _groups_of(self, partition: int) -> set[str]:
        return {g for g in self.commits.groups if self.world.partition_of(g) == partition}

    def broker_started(self, life: Life) -> None:
        self._leaders.started(life)

    def broker_died(self) -> None:
        self._lifetimes.clear()
        for request in self._open.values():
            request.is_dropped = True
        self._open.clear()
        self.commits.restarted()

    def check_nobody_waits(self, since_ms: int) -> None:
        """Whoever asked before `since_ms` has its answer, or will never get one from Kafka."""
        for request in self._open.values():
            if request.sent_ms < since_ms and not request.is_dropped:
                raise Violation(f"I5: {request} has no answer")

    def check_nothing_is_left(self, life: Life) -> None:
        """After a night in which all was due to expire."""
        for shard in life.shards:
            if shard.state is not CoordinatorState.ACTIVE:
                raise Violation(f"I5: partition {shard.partition} is {shard.state} in the night")
            coordinator = shard.coordinator
            left = [*coordinator.groups, *coordinator.offsets.groups()]
            if left:
                raise Violation(f"I9: {left} are there for ever")


def _error(result: Any) -> ErrorCode:
    """Of the result of any command; the first one of a commit."""
    return result.errors[0] if type(result) is CommitResult else result.error
