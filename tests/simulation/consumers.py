"""Model clients: what a good consumer does, and what may happen to one.

A consumer is driven by its ticks and by answers. Errors are taken as Java's client takes them
(AbstractCoordinator, ConsumerCoordinator); one that no good client should ever see is a violation.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Literal

from kohort.coordinator.commands import (
    CommitResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
    SyncResult,
)
from kohort.protocol.errors import ErrorCode as E
from simulation.network import Link
from simulation.setting import FLEETING, TOPIC, metadata
from simulation.violation import Violation
from support.coordinator import offset_commit

if TYPE_CHECKING:
    from simulation.setting import Seat
    from simulation.world import World

# What everybody speaks comes first: the log keeps only what was elected, so that after a restart
# whoever does not speak that is refused, by Kafka too.
PROTOCOLS = (("range", "roundrobin"), ("roundrobin", "range"), ("range", "roundrobin", "newest"))
_ELSEWHERE = (E.not_coordinator, E.coordinator_not_available, E.coordinator_load_in_progress)


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    return tuple(map(int, assignment.split(b","))) if assignment else ()


Phase = Literal["idle", "joining", "syncing", "stable", "dead"]


class Consumer:
    """One process. Its seat may have had others before; a stalled one may not know that yet."""

    def __init__(self, world: World, seat: Seat, incarnation: int) -> None:
        self.world = world
        self.seat = seat
        self.is_fenced = False
        self.name = f"{seat.name}.{incarnation}"
        self._chance = Random(f"{world.seed} {self.name}")
        self.member_id = ""
        self.generation = -1
        self.phase: Phase = "idle"
        self.owned: tuple[int, ...] = ()
        self._link: Link | None = None
        self._asked_ms: int | None = None  # since when an answer that it needs is awaited
        self._stalled_until = 0
        self._inbox: list[tuple[Any, Any]] = []
        names = self._chance.choice(PROTOCOLS)
        user_data = self.name.encode() if self._chance.random() < 0.5 else b"same"
        said = metadata(seat.subscription, user_data)
        self.protocols = tuple((name, said) for name in names)
        self._tick()

    # --- time

    def _tick(self) -> None:
        if self.phase == "dead":
            return
        now = self.world.schedule.now_ms()
        self.world.schedule.after(self.seat.session_ms // 3, self._tick)
        if now < self._stalled_until:
            return
        if self._asked_ms is not None and now > self._asked_ms + self._patience_ms():
            self.lose_connection()
        if self._link is None or not self._link.is_open:
            node_id = self.world.coordinator_of(self.seat.group_id, self._chance)
            self._link = Link(self.world, self.name, self._chance, node_id, self._lost)
            if not self._link.is_open:
                return
        if self.phase == "idle":
            self._join()
        elif self.phase == "stable":
            self._beat()
            if self._chance.random() < 0.5:
                self._commit()

    def _patience_ms(self) -> int:
        """As long as Java's request timeouts: a join may wait for a whole round, and so may a sync
        when the round's leader does not come."""
        if self.phase in ("joining", "syncing"):
            return self.seat.rebalance_ms + 5_000
        return self.seat.session_ms

    def stall(self, ms: int) -> None:
        """A long pause: it neither sends nor reads. What it does first when it wakes up is late."""
        now = self.world.schedule.now_ms()
        if self.phase == "dead" or now < self._stalled_until:
            return
        self.world.note("!", self.name, "stalls for %d ms", ms)
        self._stalled_until = now + ms
        self.world.schedule.after(ms, self._wake)

    def _wake(self) -> None:
        if self.phase == "stable" and self._chance.random() < 0.7:
            self._commit()
        if self.phase == "stable" and self._chance.random() < 0.3:
            self._beat()
        inbox, self._inbox = self._inbox, []
        for asked, result in inbox:
            self._take(asked, result)

    # --- asking

    def _ask(self, command: Any, *, awaits: bool = True) -> None:
        if self._link is None or not self._link.is_open:
            self._lost()
            return
        if awaits:
            self._asked_ms = self.world.schedule.now_ms()
        asked = (command, self.member_id, self.generation)
        self._link.send(command, lambda result: self._answered(asked, result))

    def _join(self) -> None:
        seat, self.phase, self.owned = self.seat, "joining", ()
        self._ask(
            JoinGroup(
                seat.group_id,
                self.member_id,
                seat.instance_id,
                seat.name,
                "/10.0.0.1",
                seat.session_ms,
                seat.rebalance_ms,
                "consumer",
                self.protocols,
                seat.version >= 4,
                seat.version >= 9,
                None,
            )
        )

    def rejoin(self) -> None:
        """As a consumer whose subscription changed, or that was told to (enforceRebalance)."""
        if self.phase == "stable" and self.world.schedule.now_ms() >= self._stalled_until:
            self._join()

    def _sync(self, joined: JoinResult) -> None:
        self.phase = "syncing"
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.leader == self.member_id and not joined.skip_assignment:
            members = sorted(joined.members, key=lambda m: m.group_instance_id or m.member_id)
            count = self.world.setting.topic_partitions
            assignments = tuple(
                (m.member_id, ",".join(map(str, range(place, count, len(members)))).encode())
                for place, m in enumerate(members)
            )
        seat = self.seat
        self._ask(
            SyncGroup(
                seat.group_id,
                self.generation,
                self.member_id,
                seat.instance_id,
                None,
                joined.protocol_name,
                assignments,
            )
        )

    def _beat(self) -> None:
        seat = self.seat
        self._ask(
            Heartbeat(seat.group_id, self.generation, self.member_id, seat.instance_id),
            awaits=self._asked_ms is None,
        )

    def _commit(self) -> None:
        offsets = [(TOPIC, each, self.world.new_offset()) for each in self.owned or (0,)]
        if self._chance.random() < 0.2:  # for what it may have read before
            offsets.append((FLEETING, 0, self.world.new_offset()))
        seat = self.seat
        self._ask(
            offset_commit(
                seat.group_id,
                offsets,
                generation=self.generation,
                member_id=self.member_id,
                instance=seat.instance_id,
            ),
            awaits=False,
        )

    def leave(self) -> None:
        """It says goodbye, whatever it is waiting for, and ends."""
        if self.member_id:
            leaving = LeavingMember(self.member_id, self.seat.instance_id, None)
            self._ask(LeaveGroup(self.seat.group_id, (leaving,)))
        self.end()

    def end(self) -> None:
        """The process is no more. Nobody is told but by the end of its connection."""
        self.phase = "dead"
        if self._link is not None:
            self._link.close()

    # --- hearing

    def lose_connection(self) -> None:
        if self._link is not None:
            self._link.close()
        self._lost()

    def _lost(self) -> None:
        self._link = None
        self._asked_ms = None
        if self.phase in ("joining", "syncing"):
            self.phase = "idle"

    def _answered(self, asked: tuple[Any, str, int], result: Any) -> None:
        if self.phase == "dead":
            return
        if self.world.schedule.now_ms() < self._stalled_until:
            self._inbox.append((asked, result))
        else:
            self._take(asked, result)

    def _take(self, asked: tuple[Any, str, int], result: Any) -> None:
        _, member_id, generation = asked
        if self.phase == "dead" or (member_id, generation) != (self.member_id, self.generation):
            return  # for who it is no more
        if isinstance(result, JoinResult) and self.phase == "joining":
            self._asked_ms = None
            self._joined(result)
        elif isinstance(result, SyncResult) and self.phase == "syncing":
            self._asked_ms = None
            if result.error is E.none:
                self.phase = "stable"
                self.owned = partitions_of(result.assignment)
            else:
                self._refused(result.error)
        elif isinstance(result, HeartbeatResult | CommitResult) and self.phase == "stable":
            is_beat = isinstance(result, HeartbeatResult)
            error = result.error if is_beat else result.errors[0]
            if is_beat:
                self._asked_ms = None
            if error is E.rebalance_in_progress and is_beat and self._chance.random() < 0.5:
                self._commit()  # what it has done so far, before it gives up what it owns
            if error is not E.none and (is_beat or error is not E.rebalance_in_progress):
                self._refused(error)

    def _joined(self, result: JoinResult) -> None:
        if result.error is E.none:
            self.generation = result.generation_id
            self.member_id = result.member_id
            if self._chance.random() < 0.1:
                self._commit()  # too early
            self._sync(result)
        elif result.error is E.member_id_required:
            self.member_id = result.member_id
            self._join()
        elif result.error is E.group_max_size_reached:
            self.member_id, self.phase = "", "idle"
        else:
            self._refused(result.error)

    def _refused(self, error: E) -> None:
        if error in _ELSEWHERE:
            if error is E.not_coordinator:
                self.lose_connection()  # and look for the right one
            elif self.phase in ("joining", "syncing"):
                self.phase = "idle"
        elif error is E.fenced_instance_id:
            self.world.note("!", self.name, "is fenced")
            self.is_fenced = True
            self.end()
        elif error is E.unknown_member_id:
            self.member_id, self.generation = "", -1
            self._join()
        elif error in (E.rebalance_in_progress, E.illegal_generation):
            self._join()
        else:
            raise Violation(f"I5: {self.name} never asked for {error.name} while {self.phase}")
