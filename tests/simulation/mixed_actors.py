"""Consumers of groups in which both protocols are used (KIP-848): members of the classic protocol
with assignments that a coordinator can convert, and members of the consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kohort.coordinator.commands import (
    CommitResult,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatResult,
    JoinResult,
)
from kohort.offsets.records import TopicPartitions
from kohort.protocol.consumer_protocol import decode_assignment
from kohort.protocol.errors import ErrorCode as E
from simulation.actors import COORDINATOR_ERRORS, Consumer
from simulation.config import TOPIC, TOPICS
from simulation.models import Violation
from support.mixed_groups import assignment, consumer_protocols

if TYPE_CHECKING:
    from simulation.config import SlotConfig
    from simulation.simulation import Simulation

Owned = dict[UUID, frozenset[int]]

Subscription = tuple[tuple[str, ...], str]  # names and a regular expression
BY_NAME, BY_REGEX, UNMATCHED = ((TOPIC,), ""), ((), "t|u"), ((), "nothing.*")

# A client ends with one of these errors, and its process is restarted: soon, or, if a classic group
# could not be converted, later, because each attempt ends the waiting joins.
_FATAL = {
    E.fenced_instance_id: 0,
    E.unreleased_instance_id: 1_000,
    E.group_max_size_reached: 5_000,
    E.unknown_server_error: 10_000,
    E.group_id_not_found: 10_000,
}


def partitions_in(encoded: bytes) -> tuple[int, ...]:
    """The partitions of TOPIC in the assignment of a classic member."""
    if not encoded:
        return ()
    return next((p for topic, p in decode_assignment(encoded)[0] if topic == TOPIC), ())


class MixedClassicConsumer(Consumer):
    """A member of the classic protocol. Half of them rebalance cooperatively: they keep their
    partitions while they join."""

    def __init__(self, simulation: Simulation, slot: SlotConfig, number: int) -> None:
        self._is_cooperative = Random(f"{simulation.seed} {slot.name}").random() < 0.5
        super().__init__(simulation, slot, number)

    def _join(self) -> None:
        kept = self.owned if self._is_cooperative else ()
        self._protocols = consumer_protocols(TOPIC, owned={TOPIC: kept} if kept else {})
        super()._join()
        self.owned = kept

    def _assignment(self, partitions: Iterable[int]) -> bytes:
        listed = tuple(partitions)
        return assignment({TOPIC: listed} if listed else {})

    def _partitions(self, encoded: bytes) -> tuple[int, ...]:
        return partitions_in(encoded)

    def _joined(self, result: JoinResult) -> None:
        if result.error_code in (E.unknown_member_id, E.group_max_size_reached):
            self.owned = ()
        super()._joined(result)


class NewConsumer(Consumer):
    """A member of the consumer protocol. It sends one heartbeat at a time, with what has changed;
    after a lost response it sends all fields again."""

    def __init__(self, simulation: Simulation, slot: SlotConfig, number: int) -> None:
        self._assigned: Owned = {}
        self._owned: Owned = {}
        self._has_lost_response = False
        uses_regex = Random(f"{simulation.seed} {slot.name}").random() < 0.2
        self._subscription: Subscription = BY_REGEX if uses_regex else BY_NAME
        self._sent: Subscription | None = None
        super().__init__(simulation, slot, number)

    @property
    def _topic_id(self) -> UUID:
        return self._simulation.topic_id

    # --- requests

    def _join(self) -> None:
        self.member_id, self.generation, self.phase = self.name, 0, "joining"
        self._set_owned({})
        self._assigned = {}
        self._send_heartbeat(is_full=True)

    def _heartbeat(self) -> None:
        if self._waiting_since_ms is not None:
            return
        if self._owned != self._assigned and self._random.random() < 0.7:
            self._commit()
            self._revoke()
        if self._subscription == self._sent == UNMATCHED and not self._assigned:
            own_regex = (), f"t|u|{self.name}"  # not resolved yet
            self._subscription = self._random.choice((BY_NAME, BY_REGEX, own_regex))
        self._send_heartbeat(is_full=self._has_lost_response)
        self._has_lost_response = False

    def _revoke(self) -> None:
        self._set_owned(
            {
                topic: owned & self._assigned.get(topic, frozenset())
                for topic, owned in self._owned.items()
            }
        )

    def _set_owned(self, owned: Owned) -> None:
        self._owned = {topic: each for topic, each in owned.items() if each}
        self.owned = tuple(sorted(self._owned.get(self._topic_id, ())))

    def _send_heartbeat(self, *, is_full: bool) -> None:
        slot = self._slot
        names, regex = self._subscription
        is_changed, self._sent = self._subscription != self._sent, self._subscription
        reports = is_full or self._owned != self._assigned or self._random.random() < 0.5
        owned = tuple(TopicPartitions(t, tuple(sorted(p))) for t, p in self._owned.items())
        self._send(
            ConsumerGroupHeartbeat(
                slot.group_id,
                self.member_id,
                self.generation,
                slot.instance_id,
                None,
                slot.rebalance_timeout_ms if is_full else -1,
                names if is_full or is_changed else None,
                regex if is_full or is_changed else None,
                None,
                owned if reports else None,
                slot.name,
                "/10.0.0.1",
                None,
                True,
            )
        )

    def rejoin(self) -> None:
        """Change the subscription."""
        now_ms = self._simulation.schedule.now_ms()
        if self.phase == "stable" and now_ms >= self._stalled_until_ms:
            others = [each for each in (BY_NAME, BY_REGEX, UNMATCHED) if each != self._subscription]
            self._subscription = self._random.choice(others)

    def _commit(self) -> None:
        names = {self._topic_id: TOPIC}
        owned = [(names[t], p) for t, each in self._owned.items() if t in names for p in each]
        chosen = owned or [(self._random.choice(TOPICS), 0)]
        offsets = [(topic, each, next(self._simulation.offsets)) for topic, each in chosen]
        self._send_commit(offsets, supports_member_epochs=True)

    def leave(self) -> None:
        is_temporary = self._slot.instance_id is not None and self._random.random() < 0.7
        self.generation = -2 if is_temporary else -1
        self._send_heartbeat(is_full=False)
        self.close()

    # --- responses

    def _disconnected(self) -> None:
        self._has_lost_response |= self._waiting_since_ms is not None
        super()._disconnected()

    def _handle(self, member_id: str, generation: int, result: Any) -> None:
        if self.phase == "closed" or (member_id, generation) != (self.member_id, self.generation):
            return
        if isinstance(result, CommitResult):
            return  # the response to the next heartbeat has the error
        assert isinstance(result, ConsumerHeartbeatResult)
        self._waiting_since_ms = None
        error = result.error_code
        if error is E.none:
            self.phase, self.generation = "stable", result.member_epoch
            if result.assignment is not None:
                self._assigned = {t: frozenset(p) for t, p in result.assignment if p}
            if all(p <= self._assigned.get(t, frozenset()) for t, p in self._owned.items()):
                self._set_owned(dict(self._assigned))
        elif error in COORDINATOR_ERRORS:
            self._has_lost_response = True
            if error is E.not_coordinator:
                self._disconnect()
            elif self.phase == "joining":
                self.phase = "idle"
        elif error in (E.fenced_member_epoch, E.unknown_member_id) or (
            error is E.group_id_not_found and generation > 0
        ):
            self._join()
        elif error in _FATAL:
            self._simulation.record("!", self.name, "ends with %s", error.name)
            self.is_fenced, self.restart_ms = True, _FATAL[error]
            self.close()
        else:
            raise Violation(f"I5: {self.name} received {error.name} while {self.phase}")
