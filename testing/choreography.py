"""What a test makes a group do, where it would otherwise have to wait for chance: rebalance now,
wait at this door, be led by that one.

All is done as the coordinator does it: with its records, its events, its answers to clients.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Self

from ..coordinator.classic.group import RebalanceReason
from ..coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from ..coordinator.coordinator import Coordinator
from ..coordinator.outcome import Outcome
from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .asked import Asked
from .steering import Passage
from .waiting import TIMEOUT_SECONDS, BarrierTimeout

if TYPE_CHECKING:
    from .group import Group
    from .kafka import Kafka
    from .members import Member

# As Kafka's admin client says it when it removes a member; what follows is the caller's.
_BY_ADMIN = "member was removed by an admin: "


class Hold:
    """Requests of one API of a group that wait at the door until `release`; whatever their clients
    send after them waits, too. To the coordinator they have not arrived: sessions go on.
    `with group.hold_syncs() as held:` releases at its end."""

    def __init__(self, kafka: "Kafka", api: str, group_id: str) -> None:
        self._kafka = kafka
        self._api, self._group_id = api, group_id
        self._passages: list[Passage] = []
        kafka.ask(lambda _broker: kafka.steering.keepers.append(self._meet))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def requests(self) -> list[Asked]:
        """Those that wait."""
        return [passage.asked for passage in list(self._passages)]

    def wait(self, count: int = 1, timeout: float = TIMEOUT_SECONDS) -> list[Asked]:
        """Until so many requests wait; returns them."""
        if not self._kafka.until(lambda: len(self._passages) >= count, timeout):
            raise BarrierTimeout(
                f"{count} × {self._api} of {self._group_id} was waited for {timeout:g} s to be "
                f"held, in vain: {len(self._passages)} came.\n"
                f"{self._kafka.group(self._group_id).story()}"
            )
        return self.requests

    def release(self) -> None:
        """Let those that wait go on, in the order of their arrival, and hold no more."""

        def release() -> None:
            if self._meet in self._kafka.steering.keepers:
                self._kafka.steering.keepers.remove(self._meet)
            passages, self._passages = self._passages, []
            for passage in passages:
                passage.asked.is_held = False
                passage.go_on()

        self._kafka.ask(lambda _broker: release())

    def _meet(self, passage: Passage) -> bool:
        asked = passage.asked
        if asked.api != self._api or self._group_id not in asked.groups:
            return False
        if self._api == "JoinGroup" and _comes_for_its_id(asked):
            return False  # Nobody has joined yet.
        passage.keep()
        asked.is_held = True
        self._passages.append(passage)
        # It may have been kept elsewhere before, and not come just now.
        self._kafka.changes.tell()
        return True


def _comes_for_its_id(asked: Asked) -> bool:
    """KIP-394. Who has an instance id needs none for that."""
    return asked.member_id is None and asked.instance_id is None and asked.version >= 4


class Loading:
    """A coordinator that reads its log for as long as the test wants: clients are answered
    COORDINATOR_LOAD_IN_PROGRESS. `with group.loading():` lets it go on at its end."""

    def __init__(self, group: "Group") -> None:
        self._group = group
        self._is_over = False
        group.kafka.ask(lambda _broker: self._begin())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """It has read its log: the group is served."""

        def finish() -> None:
            if not self._is_over:
                self._is_over = True
                self._door.let_go(self._partition)

        self._group.kafka.ask(lambda _broker: finish())

    def _begin(self) -> None:
        groups = self._group.node.coordinators
        door = groups.when_read
        if not isinstance(door, _Door):
            door = groups.when_read = _Door()
        self._door, self._partition = door, groups.partition_of(self._group.group_id)
        door.hold(self._partition)
        groups.unload(self._partition)
        groups.load([self._partition])


def is_loading(group: "Group") -> bool:
    """Whether a test lets the group's coordinator load. On the broker's loop."""
    groups = group.node.coordinators
    door = groups.when_read
    return isinstance(door, _Door) and door.holds(groups.partition_of(group.group_id))


class _Door:
    """What a node's partitions pass when they have been read. There is one, however many groups
    are `Loading`: they end in any order, and two may be of one partition."""

    def __init__(self) -> None:
        self._held = Counter[int]()
        self._waiting: dict[int, list[Callable[[], None]]] = {}

    def __call__(self, partition: int, go: Callable[[], None]) -> None:
        if self._held[partition]:
            self._waiting.setdefault(partition, []).append(go)
        else:
            go()

    def holds(self, partition: int) -> bool:
        return self._held[partition] > 0

    def hold(self, partition: int) -> None:
        self._held[partition] += 1

    def let_go(self, partition: int) -> None:
        self._held[partition] -= 1
        if not self._held[partition]:
            for go in self._waiting.pop(partition, ()):
                go()


def rebalance(group: "Group", reason: str, leader: "Member | None") -> None:
    """Raises ValueError where the group is not in a state that can be left for a new round."""
    member_id = None if leader is None else leader.member_id
    why = RebalanceReason(Cause.REQUESTED_BY_TEST, reason)

    def decide(coordinator: Coordinator, now: int) -> Outcome:
        return coordinator.rebalance(group.group_id, why, member_id, now)

    _carry_out(group, decide)


def expire(group: "Group", member: "Member") -> None:
    def decide(coordinator: Coordinator, now: int) -> Outcome:
        return coordinator.expire_session(group.group_id, member.member_id, now)

    _carry_out(group, decide)


def evict(group: "Group", member: "Member", reason: str) -> None:
    """Raises ValueError where its coordinator refuses."""
    leaving = LeavingMember(member.member_id, member.instance_id, _BY_ADMIN + reason)
    command = LeaveGroup(group.group_id, (leaving,))

    async def submit() -> LeaveResult:
        left: asyncio.Future[LeaveResult] = asyncio.get_running_loop().create_future()
        with group.kafka.history.by_test():
            group.node.coordinators.submit(
                command, lambda _context, said: left.set_result(said), None
            )
            return await left

    left = group.kafka.run(submit())
    errors = {left.error, *(each.error for each in left.members)} - {ErrorCode.none}
    if errors:
        raise ValueError(f"{member.member_id} was not evicted: {errors.pop().name.upper()}")


def _carry_out(group: "Group", decide: Callable[[Coordinator, int], Outcome]) -> None:
    def carry_out() -> bool:
        with group.kafka.history.by_test():
            return group.node.coordinators.carry_out(group.group_id, decide)

    if not group.kafka.ask(lambda _broker: carry_out()):
        raise ValueError(f"{group.group_id} has no coordinator that serves it: {group.explain()}")


class FastEviction:
    """Members whose connection dies are out at once instead of after their session timeout: for
    tests of what the others do then. Kafka itself waits, and so does the broker by default."""

    def __init__(self, kafka: "Kafka") -> None:
        self._kafka = kafka
        self._watched: set[tuple[int, str, str]] = set()

    def meet(self, passage: Passage) -> bool:
        """A keeper that keeps nothing: it learns which connection speaks for which member."""
        asked = passage.asked
        if asked.api in ("Heartbeat", "SyncGroup") and asked.member_id and asked.group:
            key = id(passage.connection), asked.group, asked.member_id
            if key not in self._watched:
                self._watched.add(key)
                passage.connection.on_lost.append(partial(self._lost, key))
        return False

    def _lost(self, key: tuple[int, str, str]) -> None:
        self._watched.discard(key)
        if self._kafka.is_going_down:
            return  # It is the broker that goes.
        _, group_id, member_id = key
        group = self._kafka.group(group_id)

        def decide(coordinator: Coordinator, now: int) -> Outcome:
            return coordinator.expire_session(group_id, member_id, now)

        with self._kafka.history.by_test():
            group.node.coordinators.carry_out(group_id, decide)
