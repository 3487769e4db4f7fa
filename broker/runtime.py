"""The life of a command: ticket, decision, append, apply, durable, reply.

Nothing awaits between a decision and its effect, and no reply leaves before the records that it
rests on are durable; a reply without records waits for what was pending on its partition when it
was decided, so that no client reads what a crash could take back
(upstream: CoordinatorRuntime.append).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ..coordinator.commands import Command, GroupCommand, ListGroups
from ..coordinator.coordinator import Coordinator, Outcome, Reply
from ..coordinator.describing import listed_together
from ..coordinator.results import append_error, refusal
from ..log.errors import RecordsTooLarge
from ..offsets.records import OffsetsRecord
from ..protocol.errors import ErrorCode
from .gather import Gather
from .led import LedPartitions, Respond
from .shard import ACTIVE, ServedShard

_log = logging.getLogger("kohort.coordinator")


class GroupRuntime(LedPartitions):
    """Drives the coordinators of the offsets partitions that one node leads (led.py)."""

    _last_ticket = 0

    def partition_of(self, group_id: str) -> int:
        """The offsets partition whose leader coordinates this group."""
        return self._store.partition_of(group_id)

    def submit(self, command: GroupCommand, respond: Respond, context: Any) -> int:
        """Decide `command`; `respond(context, result)` is called now or later, exactly once. (Or
        never, when a member's later request takes the place of its parked one.)

        Returns the ticket, for `forget`.
        """
        partition = self._store.partition_of(command.group_id)
        shard = self._shards.get(partition)
        if shard is None or shard.state is not ACTIVE:
            if shard is None and not self._leads(partition):
                respond(context, refusal(command, ErrorCode.not_coordinator))
                return 0
            shard = shard or self._open(partition)
            if (refused := self._not_ready(shard, command)) is not None:
                respond(context, refused)
                return 0
        return self._decide(shard, command, respond, context)

    def submit_to_all(self, command: ListGroups, respond: Respond, context: Any) -> None:
        """Decide `command` in every partition; `respond(context, result)` hears all their answers
        as one. While any partition is being read, or is still to be, the whole is refused."""
        # Reading what lies on the disk was begun at the start; what is not there has no groups.
        shards = [self._shards[partition] for partition in sorted(self._shards)]
        refused = [self._not_ready(shard, command) for shard in shards]
        if self._is_loading():
            respond(context, refusal(command, ErrorCode.coordinator_load_in_progress))
            return
        parts = Gather(len(shards), lambda listed: respond(context, listed_together(listed)))
        for place, shard in enumerate(shards):
            if refused[place] is None:
                self._decide(shard, command, parts.put, place)
            else:
                parts.put(place, refused[place])

    def _decide(self, shard: ServedShard, command: Command, respond: Respond, context: Any) -> int:
        self._last_ticket = ticket = self._last_ticket + 1
        self._waiting[ticket] = (command, respond, context)
        now = self._clock.now_ms()
        try:
            outcome = shard.coordinator.handle(command, ticket, now)
        except OSError as error:
            self._misread(shard, error)
            refused = refusal(command, ErrorCode.coordinator_load_in_progress)
            self._deliver(((ticket, refused),))
        else:
            self._carry_out(shard, outcome, now)
        return ticket

    def carry_out(self, group_id: str, decide: Callable[[Coordinator, int], Outcome]) -> bool:
        """Carry out what nobody has asked for; `decide(coordinator, now)`. For who steers a broker
        in a test. False: the group's partition is not served here, or not yet."""
        shard = self._shards.get(self._store.partition_of(group_id))
        if shard is None or shard.state is not ACTIVE:
            return False
        now = self._clock.now_ms()
        self._carry_out(shard, decide(shard.coordinator, now), now)
        return True

    def forget(self, ticket: int) -> None:
        """Nobody is there any more to take the answer."""
        self._waiting.pop(ticket, None)

    # --- deciding

    def _carry_out(self, shard: ServedShard, outcome: Outcome, now: int) -> None:
        records, replies = outcome
        store, log = self._store, shard.log
        assert log is not None
        if records:
            try:
                round_ = store.append(log, records, now)
            except RecordsTooLarge as error:
                _log.error("Records of %s cannot be stored: %s", log.folder.name, error)
                self._carry_out(shard, shard.coordinator.refuse(outcome, now), now)
                return
            misread = _apply(shard.coordinator, records)
            gathered = shard.gathered
            if gathered is None or shard.round is not round_:
                # While one round is being synced the next one gathers, with answers of its own.
                shard.round = round_
                shard.gathered = gathered = []
                store.on_durable(log, partial(self._written, shard, shard.coordinator, gathered))
            gathered.extend(replies)
            if misread is not None:
                self._misread(shard, misread)
                return
        elif replies:
            # What is pending on this log are records of this coordinator: while there are none,
            # nobody has to wait.
            if shard.gathered is not None:
                shard.gathered.extend(replies)
            else:
                self._deliver(replies)
        deadline = shard.coordinator.next_deadline()
        # An earlier timer finds nothing due and then waits for the right time.
        if deadline is not None and (shard.timer is None or deadline < shard.timer.deadline_ms):
            shard.arm(self._timers, deadline, partial(self._tick, shard))

    def _tick(self, shard: ServedShard) -> None:
        shard.timer = None
        if shard.state is not ACTIVE:
            return
        coordinator = shard.coordinator
        now = self._clock.now_ms()
        # One due deadline at a time: its records are applied before the next one is decided.
        while (deadline := coordinator.next_deadline()) is not None and deadline <= now:
            try:
                outcome = coordinator.tick(now)
            except OSError as error:
                self._misread(shard, error)
                return
            self._carry_out(shard, outcome, now)
            if shard.coordinator is not coordinator or coordinator.is_expiring:
                return
        if deadline is not None:
            shard.arm(self._timers, deadline, partial(self._tick, shard))

    # --- answering

    def _written(
        self,
        shard: ServedShard,
        coordinator: Coordinator,
        replies: list[Reply],
        error: OSError | None,
    ) -> None:
        """A round with records of this shard is over."""
        if shard.gathered is replies:
            shard.gathered = None
        if error is not None:
            self._refuse(shard, coordinator, replies, error)
            return
        self._deliver(replies)
        shard.waiters.wake_all()
        if shard.state is ACTIVE:
            self._snapshots.look_at(shard)

    def _refuse(
        self,
        shard: ServedShard,
        coordinator: Coordinator,
        replies: Sequence[Reply],
        error: OSError,
    ) -> None:
        for ticket, _ in replies:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None:
                command, respond, context = waiting
                respond(context, refusal(command, append_error(ErrorCode.kafka_storage_error)))
        # The first who hears of it; the others that rested on the same bytes come after.
        if shard.coordinator is coordinator:
            self._lose(shard, error)


def _apply(coordinator: Coordinator, records: Iterable[OffsetsRecord]) -> OSError | None:
    """Take in what was decided; the error, if a group could not be read from its file."""
    try:
        for record in records:
            coordinator.apply(record)
    except OSError as error:
        return error
    return None
