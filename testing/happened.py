"""What a history is made of, and how it is read out of what came in (requests) and what the
coordinators told (events). Pure functions over both."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..coordinator.outcome import EventType, GroupEvent
from .asked import Asked, TopicPartition

_NO_MEMBER = -1

# Events that tell why a member is out; LEAVE_RECEIVED and JOIN_REJECTED do if they have a cause.
_EXITS = {
    EventType.LEAVE_RECEIVED,
    EventType.MEMBER_EXPIRED,
    EventType.MEMBER_JOIN_TIMED_OUT,
    EventType.MEMBER_SYNC_TIMED_OUT,
    EventType.MEMBER_REPLACED,
    EventType.JOIN_REJECTED,
}
_ROUND_ENDS = (EventType.JOIN_COMPLETED, EventType.GROUP_EMPTIED)
_GENERATION_ENDS = (
    EventType.REBALANCE_STARTED,
    EventType.GROUP_DELETED,
    EventType.GROUP_UNLOADED,
    *_ROUND_ENDS,
)


@dataclass(frozen=True, slots=True)
class Heard:
    """Something that a coordinator told (docs/events.md)."""

    at_ms: int
    node_id: int
    event: GroupEvent
    wall_s: float = 0.0
    """Seconds of wall time since the broker was made."""
    is_of_test: bool = False
    """It was the test's doing: it moved the clock, or told the group to do so."""
    handled: Asked | None = None
    """The request that was being handled."""


@dataclass(frozen=True, slots=True)
class ClockMove:
    """What the test did to the broker's clock."""

    what: str
    """`frozen`, `resumed` or `advanced`."""
    at_ms: int
    """Where it stood before."""
    by_ms: int
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that a test did to the broker as a whole."""

    at_ms: int
    what: str
    """`crashed`, `lost its power`, `restarted`, `restored`, `node 2 stopped`, `node 2 started`."""
    after: int
    """The number of the last request that came before it."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Commit:
    """An accepted commit of one partition."""

    at_ms: int
    group: str
    member_id: str | None
    """None: by somebody who is no member."""
    client_id: str | None
    generation: int | None
    topic: str
    partition: int
    before: int | None
    """What was committed before, as far as this history knows."""
    offset: int
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RefusedCommit:
    """A commit of one partition that was answered with an error."""

    at_ms: int
    group: str
    member_id: str | None
    client_id: str | None
    generation: int | None
    topic: str
    partition: int
    offset: int
    error: str
    """Kafka's name: `ILLEGAL_GENERATION`."""
    is_of_fault: bool
    """The test's doing (faults.py), not the coordinator's."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Generation:
    """A round of a group that came to its end, and what came of it."""

    number: int
    at_ms: int
    cause: str
    """Why it was opened: `member joined`, `session expired`, … (docs/events.md)."""
    reason: str
    """The same in Kafka's words, with the client's own reason in it (KIP-800)."""
    join_ms: int
    """From the opening of the round until all had joined."""
    members: int
    leader: str | None
    protocol: str | None
    partitions: Mapping[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    """Member id -> what the leader gave it; empty before it has."""
    synced_ms: int | None = None
    """When the leader had brought that."""
    until_ms: int | None = None
    """When the next round was opened; None: it is the group's generation still."""
    wall_s: float = 0.0
    synced_wall_s: float | None = None
    until_wall_s: float | None = None

    @property
    def lasted_ms(self) -> int | None:
        """From its beginning until the next round was opened; None: that is still to come."""
        return None if self.until_ms is None else self.until_ms - self.at_ms


@dataclass(frozen=True, slots=True)
class Exit:
    """A member that is out."""

    at_ms: int
    group: str
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    generation: int | None
    """The group's when it went."""
    cause: str
    """`member left`, `session expired`, … (docs/events.md)."""
    reason: str | None
    """What the client itself said of it (KIP-800)."""
    wall_s: float = 0.0
    is_of_test: bool = False
    """The test moved the clock, or told the group to do so."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A group went from one state to the next, by Kafka's names of them."""

    at_ms: int
    group: str
    before: str | None
    """None: the group is new, or was loaded."""
    after: str | None
    """None: it is gone from this node."""
    wall_s: float = 0.0


def commits_in(heard: Iterable[Heard]) -> Iterator[Commit]:
    before: dict[tuple[str, TopicPartition], int] = {}
    for each in heard:
        event = each.event
        if event.type is not EventType.COMMIT_ACCEPTED:
            continue
        # An event is told when it is decided: where it could not be written then, it was refused.
        refused = {} if each.handled is None else each.handled.errors_of_partitions
        for name, offset in event.detail.items():
            topic, _, index = name.rpartition("-")
            key = event.group_id, (topic, int(index))
            if (topic, int(index)) in refused:
                continue
            yield Commit(
                at_ms=each.at_ms,
                group=event.group_id,
                member_id=event.member_id,
                client_id=event.client_id,
                generation=event.generation,
                topic=topic,
                partition=int(index),
                before=before.get(key),
                offset=int(offset),
                wall_s=each.wall_s,
            )
            before[key] = int(offset)


def refused_commits_in(requests: Iterable[Asked]) -> Iterator[RefusedCommit]:
    for asked in requests:
        if asked.api != "OffsetCommit" or not asked.errors:
            continue
        for (topic, partition), error in asked.errors_of_partitions.items():
            generation = asked.generation
            yield RefusedCommit(
                at_ms=asked.at_ms,
                group=asked.group or "",
                member_id=asked.member_id,
                client_id=asked.client_id,
                generation=None if generation == _NO_MEMBER else generation,
                topic=topic,
                partition=partition,
                offset=asked.offsets.get((topic, partition), -1),
                error=error,
                is_of_fault=bool(asked.faults),
                wall_s=asked.wall_s,
            )


def generations_in(
    heard: Iterable[Heard], requests: Iterable[Asked], group: str
) -> list[Generation]:
    """The rounds of a group, the one that left it empty with them."""
    syncs = [each for each in requests if each.assignments and each.group == group]
    found: list[Generation] = []
    for each in heard:
        event = each.event
        if event.group_id != group:
            continue
        if event.type in _GENERATION_ENDS and found and found[-1].until_ms is None:
            found[-1] = replace(found[-1], until_ms=each.at_ms, until_wall_s=each.wall_s)
        if event.type in _ROUND_ENDS:
            found.append(_generation(each))
        elif event.type is EventType.SYNC_COMPLETED and found:
            given = (s for s in reversed(syncs) if s.wall_s <= each.wall_s and _is_of(s, event))
            partitions = next((sync.assignments for sync in given), {})
            found[-1] = replace(
                found[-1],
                partitions=partitions,
                synced_ms=each.at_ms,
                synced_wall_s=each.wall_s,
            )
    return found


def _is_of(sync: Asked, event: GroupEvent) -> bool:
    return sync.generation == event.generation and sync.member_id == event.detail.get("leader")


def _generation(heard: Heard) -> Generation:
    event = heard.event
    detail = event.detail
    return Generation(
        number=event.generation or 0,
        at_ms=heard.at_ms,
        cause=str(event.cause or ""),
        reason=event.reason or "",
        join_ms=event.duration_ms or 0,
        members=int(detail.get("members", 0)),
        leader=detail.get("leader"),
        protocol=detail.get("protocol"),
        wall_s=heard.wall_s,
    )


def exits_in(heard: Iterable[Heard]) -> Iterator[Exit]:
    for each in heard:
        event = each.event
        if event.type not in _EXITS or event.cause is None:
            continue
        yield Exit(
            at_ms=each.at_ms,
            group=event.group_id,
            member_id=event.member_id,
            instance_id=event.instance_id,
            client_id=event.client_id,
            generation=event.generation,
            cause=str(event.cause),
            reason=event.reason,
            wall_s=each.wall_s,
            is_of_test=each.is_of_test,
        )


def state_changes_in(heard: Iterable[Heard]) -> Iterator[StateChange]:
    for each in heard:
        event = each.event
        if event.state_from is None and event.state_to is None:
            continue
        before = None if event.state_from is None else str(event.state_from)
        after = None if event.state_to is None else str(event.state_to)
        yield StateChange(each.at_ms, event.group_id, before, after, each.wall_s)
