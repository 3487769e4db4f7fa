"""The life of a command: ticket, decision, append, apply, durable, reply.

Nothing awaits between a decision and its effect, and no reply leaves before the records that it
rests on are durable; a reply without records waits for what was pending on its partition when it
was decided, so that no client reads what a crash could take back
(upstream: CoordinatorRuntime.append).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ..offsets.store import OffsetsStore
from ..protocol.errors import ErrorCode
from .clock import Clock
from .forgetting import DeletedTopics, Forgetter
from .groups.commands import Command, GroupCommand, ListGroups
from .groups.coordinator import Coordinator, Outcome, Reply
from .groups.describing import listed_together
from .groups.results import append_error, refusal
from .loading import Loader
from .shard import ServedShard, ShardState
from .timers import Timers
from .together import Together

_log = logging.getLogger("kohort.coordinator")

# A partition whose log could not be opened is tried again by the first request after this time.
RETRY_FAILED_MS = 1_000

Respond = Callable[[Any, Any], None]
"""respond(context, result): answers with the result of a command (broker/groups/results.py)."""


class GroupRuntime:
    """Drives the coordinators of the offsets partitions that one node leads.

    `leads(partition)` says whether it does. Who changes that tells `resign` and `load`.
    """

    def __init__(
        self,
        *,
        store: OffsetsStore,
        clock: Clock,
        timers: Timers,
        new_coordinator: Callable[[int], Coordinator],
        call_soon: Callable[[Callable[[], None]], object],
        leads: Callable[[int], bool] = lambda _partition: True,
        deleted_topics: DeletedTopics | None = None,
    ) -> None:
        self._leads = leads
        self._store = store
        self._clock = clock
        self._timers = timers
        self._new_coordinator = new_coordinator
        self._call_soon = call_soon
        self._shards: dict[int, ServedShard] = {}
        self._to_load: deque[int] = deque()
        self._last_ticket = 0
        self._waiting: dict[int, tuple[Command, Respond, Any]] = {}
        self._deleted_topics = DeletedTopics() if deleted_topics is None else deleted_topics
        self._forgetter = Forgetter(
            deleted=self._deleted_topics,
            store=store,
            timers=timers,
            carry_out=lambda shard, outcome: self._carry_out(shard, outcome, clock.now_ms()),
            done=self._has_forgotten,
        )
        self._loader = Loader(
            store=store, call_soon=call_soon, read=self._forgetter.begin, failed=self._fail
        )
        # Told when topics that were deleted are forgotten in a partition, or nobody serves it.
        self.on_forgotten: Callable[[], None] = lambda: None
        # Told after a round has made records of a partition durable.
        self.on_durable: Callable[[int], None] = lambda _partition: None

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
        if shard is None or shard.state is not ShardState.ACTIVE:
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
        parts = Together(len(shards), lambda listed: respond(context, listed_together(listed)))
        for place, shard in enumerate(shards):
            if refused[place] is None:
                self._decide(shard, command, parts.put, place)
            else:
                parts.put(place, refused[place])

    def _is_loading(self) -> bool:
        loading = any(s.state is ShardState.LOADING for s in self._shards.values())
        return loading or self._is_unread()

    def _is_unread(self) -> bool:
        return any(p not in self._shards and self._leads(p) for p in self._to_load)

    def _decide(self, shard: ServedShard, command: Command, respond: Respond, context: Any) -> int:
        self._last_ticket = ticket = self._last_ticket + 1
        self._waiting[ticket] = (command, respond, context)
        now = self._clock.now_ms()
        self._carry_out(shard, shard.coordinator.handle(command, ticket, now), now)
        return ticket

    def forget(self, ticket: int) -> None:
        """Nobody is there any more to take the answer."""
        self._waiting.pop(ticket, None)

    def load(self, partitions: Iterable[int]) -> None:
        """Load `partitions` in the background, so that the sessions of their members are watched;
        a request for one of them loads it at once."""
        self._to_load.extend(partitions)
        self._call_soon(self._load_next)

    def _load_next(self) -> None:
        while self._to_load:
            partition = self._to_load.popleft()
            if partition not in self._shards and self._leads(partition):
                self._open(partition)
                self._call_soon(self._load_next)
                return

    def resign(self, partition: int) -> None:
        """Another node leads it from now on: whoever is parked is told to look for that one.

        Answers that wait for their records still come once these are durable, and the next leader
        reads the log only then.
        """
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.state = ShardState.RESIGNED
            shard.loading = shard.forgetting = None
            shard.disarm()
            self._deliver(shard.coordinator.unload().replies)
        self.on_forgotten()

    def topics_deleted(self) -> None:
        """Tombstones for all that was committed for the newest of the deleted topics; where the
        log is still to be read, once it is and before anyone is answered from it."""
        for shard in list(self._shards.values()):
            if shard.state is ShardState.ACTIVE:
                self._forgetter.begin(shard)

    def has_forgotten(self, count: int) -> bool:
        """Whether the first so many deleted topics have left nothing that could be served."""
        return not self._is_unread() and all(
            shard.state is ShardState.FAILED or self._deleted_topics.forgotten(partition) >= count
            for partition, shard in self._shards.items()
        )

    def _has_forgotten(self, shard: ServedShard) -> None:
        if shard.state is ShardState.LOADING:
            shard.state = ShardState.ACTIVE
            now = self._clock.now_ms()
            self._carry_out(shard, shard.coordinator.loaded(now), now)
        self.on_forgotten()

    def close(self) -> None:
        for shard in self._shards.values():
            shard.loading = shard.forgetting = None
            shard.disarm()
        self._shards.clear()
        self._to_load.clear()
        self._waiting.clear()

    def _not_ready(self, shard: ServedShard, command: Command) -> Any | None:
        if (
            shard.state is ShardState.FAILED
            and self._clock.now_ms() >= shard.failed_ms + RETRY_FAILED_MS
        ):
            self._loader.begin(shard)
        if shard.state is ShardState.ACTIVE:
            return None
        if shard.state is ShardState.FAILED:
            return refusal(command, ErrorCode.not_coordinator)
        return refusal(command, ErrorCode.coordinator_load_in_progress)

    # --- deciding

    def _carry_out(self, shard: ServedShard, outcome: Outcome, now: int) -> None:
        records, replies = outcome
        store, log = self._store, shard.log
        assert log is not None
        if records:
            round_ = store.append(log, records, now)
            apply = shard.coordinator.apply
            for record in records:
                apply(record)
            if shard.gathered is None or shard.round is not round_:
                # While one round is being synced the next one gathers, with answers of its own.
                shard.round = round_
                shard.gathered = []
                store.then(log, partial(self._written, shard, shard.coordinator, shard.gathered))
            shard.gathered.extend(replies)
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
        if shard.state is not ShardState.ACTIVE:
            return
        coordinator = shard.coordinator
        now = self._clock.now_ms()
        # One due deadline at a time: its records are applied before the next one is decided.
        while (deadline := coordinator.next_deadline()) is not None and deadline <= now:
            self._carry_out(shard, coordinator.tick(now), now)
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
        self._settled(shard, coordinator, replies, error)
        if error is None:
            self.on_durable(shard.partition)

    def _settled(
        self,
        shard: ServedShard,
        coordinator: Coordinator,
        replies: Sequence[Reply],
        error: OSError | None,
    ) -> None:
        if error is None:
            self._deliver(replies)
            return
        for reply in replies:
            waiting = self._waiting.pop(reply.ticket, None)
            if waiting is not None:
                command, respond, context = waiting
                respond(context, refusal(command, append_error(ErrorCode.kafka_storage_error)))
        # The first who hears of it; the others that rested on the same bytes come after.
        if shard.coordinator is coordinator:
            self._lose(shard, error)

    def _deliver(self, replies: Sequence[Reply]) -> None:
        waiting = self._waiting
        for ticket, result in replies:
            entry = waiting.pop(ticket, None)
            if entry is not None:
                _, respond, context = entry
                respond(context, result)

    # --- loading and losing a partition

    def _open(self, partition: int) -> ServedShard:
        shard = self._shards[partition] = ServedShard(partition, self._new_coordinator(partition))
        self._loader.begin(shard)
        return shard

    def _lose(self, shard: ServedShard, error: OSError) -> None:
        """What is in memory rests on bytes that are not on disk: let go and read the disk again."""
        _log.error(
            "Partition %d of the offsets topic is read again after: %s", shard.partition, error
        )
        log, lost = shard.log, shard.coordinator
        assert log is not None
        if shard.state is ShardState.RESIGNED:
            # Its next leader waits for the same bytes, and hears of it now.
            self._store.abandon(log, error)
            return
        was_loading = shard.state is ShardState.LOADING
        shard.state = ShardState.LOADING
        shard.gathered = shard.forgetting = None
        shard.coordinator = self._new_coordinator(shard.partition)
        shard.disarm()
        self._store.abandon(log, error)
        if was_loading:
            # What it must forget first cannot be written: not to be tried again without an end.
            self._fail(shard, error)
        else:
            self._loader.begin(shard)
        self._deliver(lost.unload().replies)

    def _fail(self, shard: ServedShard, error: Exception) -> None:
        """The partition cannot be read: it answers NOT_COORDINATOR until a later try succeeds."""
        _log.error("Partition %d of the offsets topic cannot be read: %s", shard.partition, error)
        shard.state = ShardState.FAILED
        shard.failed_ms = self._clock.now_ms()
        shard.loading = None
        shard.coordinator = self._new_coordinator(shard.partition)
        self.on_forgotten()
