"""The generations of a group of either protocol and the partitions that its members owned, derived
from the events of its coordinator and the assignments of its leaders."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..coordinator.outcome import EventType, GroupEvent
from ..offsets.causes import Cause
from .recorded_request import RecordedRequest, TopicPartition

# Events that state why a member left the group (LEAVE_RECEIVED and JOIN_REJECTED only if they have
# a cause).
_EXITS = {
    EventType.LEAVE_RECEIVED,
    EventType.MEMBER_EXPIRED,
    EventType.MEMBER_JOIN_TIMED_OUT,
    EventType.MEMBER_SYNC_TIMED_OUT,
    EventType.MEMBER_REVOCATION_TIMED_OUT,
    EventType.MEMBER_REPLACED,
    EventType.JOIN_REJECTED,
}
_GENERATION_BEGINS = (EventType.JOIN_COMPLETED, EventType.GROUP_EMPTIED)
_GENERATION_ENDS = (
    EventType.REBALANCE_STARTED,
    EventType.GROUP_DELETED,
    *_GENERATION_BEGINS,
)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event of a coordinator (docs/events.md)."""

    at_ms: int
    node_id: int
    event: GroupEvent
    wall_s: float = 0.0
    """Wall-clock seconds since the broker was created."""
    is_by_test: bool = False
    """Whether the test caused the event, by moving the clock or by a method of the group."""
    request: RecordedRequest | None = None
    """The request that the coordinator was handling."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a classic group (a completed rebalance and its result), or an epoch of a
    consumer group (KIP-848: a change to the group and its consequences)."""

    number: int
    at_ms: int
    cause: str
    """Why the rebalance began: `member joined`, `session expired`, … (docs/events.md)."""
    reason: str
    """The reason in Kafka's words, followed by the client's reason (KIP-800)."""
    join_ms: int
    """The time from the start of the rebalance until all members had joined; 0 in a consumer group,
    whose rebalances do not wait for joins."""
    members: int
    leader: str | None
    protocol: str | None
    """The assignor; None in a consumer group."""
    partitions: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    """The partitions that the leader assigned, by member id; empty before the assignment. In a
    consumer group, all partitions that each member has owned in this epoch."""
    synced_ms: int | None = None
    """When the leader sent the assignment; in a consumer group, when all members had reconciled."""
    until_ms: int | None = None
    """When the next rebalance started or the group was deleted; None for the current generation,
    which continues if the coordinator moves."""
    wall_s: float = 0.0
    synced_wall_s: float | None = None
    until_wall_s: float | None = None

    @property
    def lasted_ms(self) -> int | None:
        """The time until `until_ms`; None for the current generation."""
        return None if self.until_ms is None else self.until_ms - self.at_ms


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The partitions that a member owned for some time."""

    at_ms: int
    group: str
    member_id: str
    epoch: int
    """The generation of the group, or the member epoch in a consumer group."""
    partitions: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...] = ()
    """Partitions that the member also owned, but had to revoke (KIP-848)."""
    until_ms: int | None = None
    """When the ownership ended or changed; None if the member still owns the partitions."""
    wall_s: float = 0.0
    until_wall_s: float | None = None


def is_exit(event: GroupEvent) -> bool:
    """Whether the event reports that a member has left or was removed."""
    return event.type in _EXITS and event.cause is not None


class GroupReplay:
    """Replays the events of one group, in order."""

    def __init__(
        self, events: Iterable[RecordedEvent], requests: Iterable[RecordedRequest], group: str
    ) -> None:
        self.generations: list[Generation] = []
        self.assignments: list[MemberAssignment] = []
        self._open: dict[str, int] = {}  # index of the current assignment, by member id
        self._syncs = [each for each in requests if each.assignments and each.group == group]
        self._is_consumer_group = False
        self._last_epoch = 0
        # The epoch to which each member has reconciled; -1 while it is still reconciling.
        self._members: dict[str, int] = {}
        for recorded in events:
            if recorded.event.group_id == group:
                self._replay(recorded)

    def _replay(self, recorded: RecordedEvent) -> None:
        event, type_ = recorded.event, recorded.event.type
        self._note_protocol(event)
        if type_ is EventType.MEMBER_JOINED:
            self._members[event.member_id or ""] = -1
        elif type_ is EventType.MEMBER_REPLACED:
            self._members[event.detail.get("successor", "")] = -1
            if self._is_consumer_group:
                self._forget_replaced(event.member_id or "")
        if is_exit(event) and event.cause is not Cause.LEFT_TEMPORARILY:
            self._members.pop(event.member_id or "", None)
            self._close(event.member_id or "", recorded)
        if self._begins_epoch(event):
            self._begin_epoch(recorded)
        elif type_ is EventType.ASSIGNMENT_CHANGED:
            self._change_assignment(recorded)
        elif not self._is_consumer_group:
            self._replay_classic(recorded)
        elif type_ is EventType.GROUP_DELETED:
            self._end_generation(recorded)
        if type_ is EventType.GROUP_EMPTIED:
            self._members.clear()

    def _note_protocol(self, event: GroupEvent) -> None:
        if event.type in (EventType.GROUP_CREATED, EventType.GROUP_CONVERTED):
            self._is_consumer_group = event.detail.get("type") == "consumer"
        elif event.type is EventType.JOIN_COMPLETED:
            self._is_consumer_group = False
        elif event.type is EventType.ASSIGNMENT_CHANGED:
            self._is_consumer_group = True
        if event.type in (EventType.GROUP_CREATED, EventType.GROUP_DELETED):
            self._last_epoch = 0

    # --- classic groups

    def _replay_classic(self, recorded: RecordedEvent) -> None:
        event = recorded.event
        if event.type in _GENERATION_ENDS:
            self._end_generation(recorded)
            for member_id in list(self._open):
                self._close(member_id, recorded)
        if event.type in _GENERATION_BEGINS:
            self.generations.append(_generation(recorded))
            self._last_epoch = event.generation or 0
        elif event.type is EventType.SYNC_COMPLETED and self.generations:
            of_leader = (
                sync
                for sync in reversed(self._syncs)
                if sync.wall_s <= recorded.wall_s
                and sync.generation == event.generation
                and sync.member_id == event.detail.get("leader")
            )
            partitions = next((sync.assignments for sync in of_leader), {})
            self._sync(recorded, partitions)
            for member_id, owned in partitions.items():
                self._assign(member_id, event.generation or 0, owned, (), recorded)

    def _end_generation(self, recorded: RecordedEvent) -> None:
        if self.generations and self.generations[-1].until_ms is None:
            self.generations[-1] = replace(
                self.generations[-1], until_ms=recorded.at_ms, until_wall_s=recorded.wall_s
            )

    def _sync(
        self, recorded: RecordedEvent, partitions: Mapping[str, tuple[TopicPartition, ...]]
    ) -> None:
        self.generations[-1] = replace(
            self.generations[-1],
            partitions=partitions,
            synced_ms=recorded.at_ms,
            synced_wall_s=recorded.wall_s,
        )

    # --- consumer groups

    def _begins_epoch(self, event: GroupEvent) -> bool:
        """Whether the event begins a new epoch of a consumer group. (A rebalance that does not
        increase the epoch belongs to a classic group that has replaced the consumer group.)"""
        return (
            self._is_consumer_group
            and event.type is EventType.REBALANCE_STARTED
            and (event.generation or 0) > self._last_epoch
        )

    def _begin_epoch(self, recorded: RecordedEvent) -> None:
        self._end_generation(recorded)
        self._last_epoch = recorded.event.generation or 0
        generation = _generation(recorded)
        self.generations.append(replace(generation, members=len(self._members)))

    def _change_assignment(self, recorded: RecordedEvent) -> None:
        event, member_id = recorded.event, recorded.event.member_id or ""
        epoch = int(event.detail["member_epoch"])
        owned, revoking = (_parse(event.detail[name]) for name in ("assigned", "revoking"))
        self._assign(member_id, epoch, owned, revoking, recorded)
        self._members[member_id] = epoch if event.detail["state"] == "stable" else -1
        for index in reversed(range(len(self.generations))):
            generation = self.generations[index]
            if generation.number == epoch:
                before = generation.partitions.get(member_id, ())
                own = {member_id: tuple(sorted({*before, *owned}))}
                partitions = {**generation.partitions, **own}
                self.generations[index] = replace(generation, partitions=partitions)
                break
        if not self.generations or self.generations[-1].synced_ms is not None:
            return
        last = self.generations[-1]
        if all(reached == last.number for reached in self._members.values()):
            self._sync(recorded, last.partitions)

    def _forget_replaced(self, member_id: str) -> None:
        """Remove the old id of a static member, which continues in the same epoch with a new id."""
        if self.generations:
            last = self.generations[-1]
            partitions = {who: own for who, own in last.partitions.items() if who != member_id}
            self.generations[-1] = replace(last, partitions=partitions)

    # --- ownership

    def _assign(
        self,
        member_id: str,
        epoch: int,
        owned: tuple[TopicPartition, ...],
        revoking: tuple[TopicPartition, ...],
        recorded: RecordedEvent,
    ) -> None:
        if member_id in self._open:
            current = self.assignments[self._open[member_id]]
            if (current.epoch, current.partitions, current.revoking) == (epoch, owned, revoking):
                return
        self._close(member_id, recorded)
        self._open[member_id] = len(self.assignments)
        group, at_ms, wall_s = recorded.event.group_id, recorded.at_ms, recorded.wall_s
        self.assignments.append(
            MemberAssignment(at_ms, group, member_id, epoch, owned, revoking, wall_s=wall_s)
        )

    def _close(self, member_id: str, recorded: RecordedEvent) -> None:
        index = self._open.pop(member_id, None)
        if index is not None:
            self.assignments[index] = replace(
                self.assignments[index], until_ms=recorded.at_ms, until_wall_s=recorded.wall_s
            )


def _generation(recorded: RecordedEvent) -> Generation:
    event, detail = recorded.event, recorded.event.detail
    return Generation(
        number=event.generation or 0,
        at_ms=recorded.at_ms,
        cause=str(event.cause or ""),
        reason=event.reason or "",
        join_ms=event.duration_ms or 0,
        members=int(detail.get("members", 0)),
        leader=detail.get("leader"),
        protocol=detail.get("protocol"),
        wall_s=recorded.wall_s,
    )


def _parse(partitions: str) -> tuple[TopicPartition, ...]:
    """Parse `orders-0,orders-1`."""
    names = (each.rpartition("-") for each in partitions.split(",") if each)
    return tuple((topic, int(index)) for topic, _, index in names)
