"""A node's transaction runtime: decides commands of transactional ids, appends and applies their
records, replies once the records are durable, and starts writing markers.

It works like the coordinator runtime (runtime.py), but for __transaction_state, whose logs are
usually short enough to be read in one step.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from ...coordinator.commands import FAILED_WRITE_ERROR
from ...coordinator.outcome import LogLine
from ...coordinator.transactions.commands import (
    EndTransaction,
    InitProducerId,
    Markers,
    TransactionCommand,
    TransactionEvent,
    TransactionOutcome,
    TransactionResult,
    transaction_error,
)
from ...coordinator.transactions.coordinator import TransactionCoordinator
from ...coordinator.transactions.states import Transaction
from ...log.batch import check_crc
from ...log.errors import LogError
from ...log.group_commit import GroupCommit
from ...log.log import Log
from ...log.records import records as records_of
from ...log.tasks import CooperativeTask
from ...offsets.coordinator_topic import CoordinatorTopic
from ...offsets.records import UndecodableRecord
from ...offsets.transaction_codec import decode_transaction, encode_transaction
from ...protocol.errors import ErrorCode
from ...topics.registry import TopicRegistry
from ..event_loop.scheduler import Scheduler
from ..event_loop.timers import Clock, Timer, Timers
from .context import RETRY_FAILED_MS, CoordinatorState, Respond
from .loader import STEP_RECORDS
from .transaction_markers import MarkerWriter

_log = logging.getLogger("kohort.transactions")

# Maximum number of a partition's transactions that time out in one call of its timer, which takes
# about 10 ms with their markers.
TIMEOUTS_PER_TURN: Final = 50


Reply: TypeAlias = Callable[[TransactionResult | ErrorCode | None], None]
"""reply(result): responds to the command that caused the decision, if any."""


@dataclass(eq=False, slots=True)
class TransactionContext:
    """A partition of __transaction_state: its log and its coordinator."""

    partition: int
    coordinator: TransactionCoordinator
    state: CoordinatorState = CoordinatorState.LOADING
    log: Log | None = None
    has_failed: bool = False
    timer: Timer | None = None
    """The timer for the coordinator's next deadline, or for the next attempt to load a failed
    partition."""
    expiration_timer: Timer | None = None

    def is_still(self, state: CoordinatorState, coordinator: TransactionCoordinator) -> bool:
        """Whether the partition still has this state and this coordinator."""
        return self.state is state and self.coordinator is coordinator

    def cancel_timers(self) -> None:
        for timer in (self.timer, self.expiration_timer):
            if timer is not None:
                timer.cancel()
        self.timer = self.expiration_timer = None


class TransactionRuntime:
    """Drives the coordinators of the partitions of __transaction_state that a node leads.

    `leads(partition)` returns whether this node leads the partition. When the leader changes, call
    `load` or `unload`. A decision that may allocate a producer id waits until the next id is
    durable (TopicRegistry.has_durable_producer_id). Otherwise, a crash could leave a record with an
    id that is allocated again.
    """

    def __init__(
        self,
        *,
        topic: CoordinatorTopic,
        group_commit: GroupCommit,
        clock: Clock,
        timers: Timers,
        scheduler: Scheduler,
        new_coordinator: Callable[[], TransactionCoordinator],
        leads: Callable[[int], bool],
        markers: MarkerWriter,
        topics: TopicRegistry,
        expiration_interval_ms: int,
    ) -> None:
        self._topic = topic
        self._group_commit = group_commit
        self._clock = clock
        self._timers = timers
        self._scheduler = scheduler
        self._new_coordinator = new_coordinator
        self._leads = leads
        self._markers = markers
        self._topics = topics
        self._expiration_interval_ms = expiration_interval_ms
        self.contexts: dict[int, TransactionContext] = {}
        """Contexts by partition. Only the runtime changes them."""
        self._unopened: deque[int] = deque()  # still to be loaded
        # Called with the events of each decision.
        self.listeners: Sequence[Callable[[TransactionEvent], None]] = ()

    # --- commands

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of __transaction_state that coordinates this id."""
        return self._topic.partition_of(transactional_id)

    def submit(self, command: TransactionCommand, respond: Respond, request: Any) -> None:
        """Decide `command`, and call `respond(request, result)` once its records are durable and,
        if it ends a transaction, the markers have been written (`_write_markers`)."""
        reply = partial(_respond, command, respond, request)
        self._submit(command, reply, is_synced=False)

    def _submit(
        self,
        command: TransactionCommand,
        reply: Reply,
        error: OSError | None = None,
        *,
        is_synced: bool,
    ) -> None:
        """Decide the command. If it may need a new producer id, or commits records that are not
        synced, first wait for a durable producer id or for the sync; this method is then called
        again, with the `error` of the flush."""
        context: TransactionContext | ErrorCode = FAILED_WRITE_ERROR
        if error is None:
            context = self._active(self._topic.partition_of(command.transactional_id))
        if isinstance(context, ErrorCode):
            reply(context)
            return
        allocates = isinstance(command, InitProducerId | EndTransaction)
        if allocates and not self._topics.has_durable_producer_id:
            again = partial(self._submit, command, reply, is_synced=is_synced)
            self._topics.reserve_producer_ids(again)
            return
        if isinstance(command, EndTransaction) and command.commit and not is_synced:
            transaction = context.coordinator.transactions.get(command.transactional_id)
            if transaction is not None and self._markers.must_sync(transaction.partitions):
                # Otherwise, a power loss could undo records of a committed transaction.
                synced = partial(self._submit, command, reply, is_synced=True)
                self._markers.sync(transaction.partitions, synced)
                return
        now = self._clock.now_ms()
        try:
            outcome = context.coordinator.handle(command, now)
            self._append(context, outcome, now)
        except Exception:
            reply(FAILED_WRITE_ERROR)  # after a wait, no connection handles the exception
            raise
        self._reply_once_durable(context, outcome, reply)

    def list(self) -> Sequence[Transaction] | ErrorCode:
        """Return the transactions of this node, or an error while they are loading."""
        transactions: list[Transaction] = []
        if any(each not in self.contexts and self._leads(each) for each in self._unopened):
            return ErrorCode.coordinator_load_in_progress
        for context in self.contexts.values():
            if context.state is CoordinatorState.LOADING:
                return ErrorCode.coordinator_load_in_progress
            if context.state is CoordinatorState.ACTIVE:
                transactions += context.coordinator.transactions.values()
        return transactions

    def carry_out(
        self,
        transactional_id: str,
        decide: Callable[[TransactionCoordinator, int], TransactionOutcome],
    ) -> bool:
        """Apply the outcome of `decide(coordinator, now)`. Return False if the id's partition is
        not active on this node. For tests."""
        context = self._active(self._topic.partition_of(transactional_id))
        if isinstance(context, ErrorCode):
            return False
        now = self._clock.now_ms()
        self._carry_out(context, decide(context.coordinator, now), now)
        return True

    def _active(self, partition: int) -> TransactionContext | ErrorCode:
        """Return the context of an active partition, or the error for the client."""
        context = self.contexts.get(partition)
        if context is None:
            if not self._leads(partition):
                return ErrorCode.not_coordinator
            context = self._open(partition)
        if context.state is CoordinatorState.ACTIVE:
            return context
        if context.state is CoordinatorState.FAILED:
            return ErrorCode.not_coordinator
        return ErrorCode.coordinator_load_in_progress

    # --- decisions

    def _carry_out(
        self, context: TransactionContext, outcome: TransactionOutcome, now: int
    ) -> None:
        self._append(context, outcome, now)
        self._reply_once_durable(context, outcome, lambda _result: None)

    def _append(self, context: TransactionContext, outcome: TransactionOutcome, now: int) -> None:
        """Append and apply the records of an outcome."""
        coordinator, log = context.coordinator, context.log
        assert log is not None
        with self._reload_on_error(context):
            if outcome.records:
                self._group_commit.append(log, list(map(encode_transaction, outcome.records)), now)
                for record in outcome.records:
                    coordinator.apply(record)
            for event in outcome.events:
                self._publish(event)
        deadline = coordinator.next_deadline()
        if deadline is not None and (context.timer is None or deadline < context.timer.deadline_ms):
            self._arm(context, deadline)

    def _reply_once_durable(
        self, context: TransactionContext, outcome: TransactionOutcome, reply: Reply
    ) -> None:
        assert context.log is not None
        flushed = partial(self._on_flushed, context, context.coordinator, outcome, reply)
        self._topic.on_durable(context.log, flushed)

    def _publish(self, event: TransactionEvent | LogLine) -> None:
        if isinstance(event, LogLine):
            _log.log(event.level, event.message, *event.arguments)
            return
        _log.debug(
            "TransactionalId %s: %s -> %s, producerId=%d, producerEpoch=%d (%s)",
            *(event.transactional_id, event.state_from, event.state_to),
            *(event.producer_id, event.producer_epoch, event.cause),
        )
        for listener in self.listeners:
            listener(event)

    def _arm(self, context: TransactionContext, deadline_ms: int) -> None:
        if context.timer is not None:
            context.timer.cancel()
        context.timer = self._timers.call_at(deadline_ms, partial(self._tick, context))

    def _tick(self, context: TransactionContext) -> None:
        context.timer = None
        if context.state is not CoordinatorState.ACTIVE:
            return
        coordinator, now = context.coordinator, self._clock.now_ms()
        try:
            for _ in range(TIMEOUTS_PER_TURN):
                deadline = coordinator.next_deadline()
                is_due = deadline is not None and deadline <= now
                if not is_due or not self._topics.has_durable_producer_id:
                    break
                self._carry_out(context, coordinator.tick(now), now)
        finally:
            # Even if a decision has raised an exception, later deadlines must expire.
            if context.is_still(CoordinatorState.ACTIVE, coordinator):
                self._arm_next(context, now)

    def _arm_next(self, context: TransactionContext, now: int) -> None:
        """Arm the timer for the next deadline. If it is due, reserve producer ids first."""
        deadline = context.coordinator.next_deadline()
        if deadline is None:
            return
        if deadline > now or self._topics.has_durable_producer_id:
            self._arm(context, deadline)
            return

        def reserved(error: OSError | None) -> None:
            if context.state is CoordinatorState.ACTIVE:
                self._arm(context, now if error is None else now + RETRY_FAILED_MS)

        self._topics.reserve_producer_ids(reserved)

    # --- replies and markers

    def _on_flushed(
        self,
        context: TransactionContext,
        coordinator: TransactionCoordinator,
        outcome: TransactionOutcome,
        reply: Reply,
        error: OSError | None,
    ) -> None:
        if error is not None:
            if context.coordinator is coordinator:
                self._reload(context, error)
            reply(FAILED_WRITE_ERROR)
            return
        if not outcome.markers:
            reply(outcome.reply)
            return

        def write_all() -> CooperativeTask[None]:
            for place, markers in enumerate(outcome.markers):
                if place:  # several transactions only after a log has been loaded
                    yield None
                self._write_markers(context, coordinator, markers, partial(reply, outcome.reply))

        self._scheduler.spawn(write_all(), eager=True)

    def _write_markers(
        self,
        context: TransactionContext,
        coordinator: TransactionCoordinator,
        markers: Markers,
        reply: Callable[[], None],
    ) -> None:
        """Write the markers, then complete the transaction. The client gets its reply when the
        markers have been written or the first attempt has failed. The reply does not wait until the
        Complete record is durable.

        Once the partition has moved or been reloaded, only the new coordinator writes markers. A
        retry by the old coordinator could end the producer's next transaction."""

        def is_current() -> bool:
            return context.is_still(CoordinatorState.ACTIVE, coordinator)

        waiting = [reply]

        def done(*, is_complete: bool) -> None:
            try:
                if is_complete and is_current():
                    now = self._clock.now_ms()
                    with self._reload_on_error(context):
                        self._carry_out(context, coordinator.markers_written(markers, now), now)
            finally:
                while waiting:  # only in the first call
                    waiting.pop()()

        epoch = 0 if context.log is None else context.log.config.leader_epoch
        if is_current():
            self._markers.write(markers, epoch, done, is_current)
        else:
            reply()

    # --- loading and unloading partitions

    def load(self, partitions: Iterable[int]) -> None:
        """Load partitions, so that their transactions can time out or be completed. Short logs are
        loaded immediately, and long logs in steps. A request for a partition that is still waiting
        starts loading it immediately."""
        self._unopened.extend(partitions)
        self._scheduler.spawn(self._open_all(), eager=True)

    def _open_all(self) -> CooperativeTask[None]:
        count = 0
        while self._unopened:
            partition = self._unopened.popleft()
            if partition in self.contexts or not self._leads(partition):
                continue
            log = self._open(partition).log
            if log is not None:
                count += log.end_offset - log.start_offset
            if count >= STEP_RECORDS:
                count = 0
                yield None

    def unload(self, partition: int) -> None:
        """Unload a partition that another node leads now."""
        context = self.contexts.pop(partition, None)
        if context is not None:
            self._close(context)

    def close(self) -> None:
        for context in self.contexts.values():
            self._close(context)
        self.contexts.clear()
        self._unopened.clear()

    def _close(self, context: TransactionContext) -> None:
        context.state = CoordinatorState.CLOSED
        context.cancel_timers()

    def _open(self, partition: int) -> TransactionContext:
        context = TransactionContext(partition, self._new_coordinator())
        self.contexts[partition] = context
        self._begin_loading(context)
        return context

    def _begin_loading(self, context: TransactionContext) -> None:
        context.state = CoordinatorState.LOADING
        context.cancel_timers()
        try:
            context.log = self._topic.open_log(context.partition, context.log)
        except Exception as error:
            self._fail(context, error)
            return
        # Records that the previous leader appended may not be durable yet.
        self._topic.on_durable(context.log, partial(self._load, context))

    def _load(self, context: TransactionContext, error: OSError | None) -> None:
        if context.state is CoordinatorState.CLOSED:
            return
        if error is not None:
            self._begin_loading(context)
            return
        log = context.log
        assert log is not None
        task = self._read(context, context.coordinator, log)
        # Eager, so that a short log is loaded before the next request.
        self._scheduler.spawn(task, eager=True)

    def _read(
        self, context: TransactionContext, coordinator: TransactionCoordinator, log: Log
    ) -> CooperativeTask[None]:
        count = 0
        try:
            for header, batch in log.batches():
                if header.is_control:
                    continue
                check_crc(batch, 0, len(batch))
                for each in records_of(batch):
                    record = decode_transaction(each.key, each.value)
                    if record is not None:
                        coordinator.apply(record)
                    count += 1
                    if count >= STEP_RECORDS:
                        count = 0
                        yield None
                        if not context.is_still(CoordinatorState.LOADING, coordinator):
                            return
            context.state = CoordinatorState.ACTIVE
            self._schedule_expiration(context)
            self._carry_out(context, coordinator.loaded(), self._clock.now_ms())
            context.has_failed = False
        except Exception as error:
            self._fail(context, error)

    def _fail(self, context: TransactionContext, error: Exception) -> None:
        """Load the partition again after a while, even without a request, because its transactions
        must end. Until then, requests fail with NOT_COORDINATOR."""
        is_loading = context.state is CoordinatorState.LOADING
        is_expected = is_loading and isinstance(error, OSError | LogError | UndecodableRecord)
        if not context.has_failed:
            context.has_failed = True
            _log.error(
                "Partition %d of __transaction_state will be loaded again after an error: %s",
                context.partition,
                error,
                exc_info=None if is_expected else error,
            )
        if not is_expected:
            # The log itself has not failed, so the next attempt must not truncate it.
            context.log = None
        context.coordinator = self._new_coordinator()
        context.state = CoordinatorState.FAILED
        context.cancel_timers()
        retry = partial(self._begin_loading, context)
        context.timer = self._timers.call_at(self._clock.now_ms() + RETRY_FAILED_MS, retry)

    @contextmanager
    def _reload_on_error(self, context: TransactionContext) -> Iterator[None]:
        """Reload the partition after an unexpected exception, because its state may differ from its
        log, or nothing may write the markers of a prepared transaction."""
        coordinator = context.coordinator
        try:
            yield
        except Exception as error:
            if context.is_still(CoordinatorState.ACTIVE, coordinator):
                self._fail(context, error)  # not _reload: the exception might be raised again
            raise

    def _reload(self, context: TransactionContext, error: OSError) -> None:
        """Reload the partition after a failed flush, because its records are only in memory."""
        assert context.log is not None
        is_closed = context.state is CoordinatorState.CLOSED
        context.coordinator = self._new_coordinator()
        self._topic.fail_pending(context.log, error)
        if not is_closed:
            self._begin_loading(context)

    # --- expiration of transactional ids

    def _schedule_expiration(self, context: TransactionContext) -> None:
        def expire() -> None:
            context.expiration_timer = None
            self._scheduler.spawn(self._expire(context, context.coordinator))

        due_ms = self._clock.now_ms() + self._expiration_interval_ms
        context.expiration_timer = self._timers.call_at(due_ms, expire)

    def _expire(
        self, context: TransactionContext, coordinator: TransactionCoordinator
    ) -> CooperativeTask[None]:
        try:
            for outcome in coordinator.expired_ids(self._clock.now_ms()):
                if not context.is_still(CoordinatorState.ACTIVE, coordinator):
                    return
                self._carry_out(context, outcome, self._clock.now_ms())
                yield None
        finally:  # even after an unexpected exception
            if context.is_still(CoordinatorState.ACTIVE, coordinator):
                self._schedule_expiration(context)


def _respond(
    command: TransactionCommand,
    respond: Respond,
    request: Any,
    result: TransactionResult | ErrorCode | None,
) -> None:
    if isinstance(result, ErrorCode):
        respond(request, transaction_error(command, result))
    else:
        respond(request, result)
