"""A node's coordinator runtime: decides commands, appends and applies their records, and replies
once the records are durable.

There is no await between a decision and its effects, and no reply is sent before its records are
durable. A reply without records waits for all pending records of its partition, so that no client
reads data that a crash could undo (upstream: CoordinatorRuntime.append).
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from ...coordinator.admin import merge_lists
from ...coordinator.commands import (
    FAILED_WRITE_ERROR,
    Command,
    GroupCommand,
    ListGroups,
    error_result,
)
from ...coordinator.coordinator import Coordinator
from ...coordinator.offset_cleanup import ReadGroup, Sweep
from ...coordinator.outcome import Outcome, RegexQuery, Reply
from ...log.batch import BatchProducer
from ...log.errors import CorruptBatch, LogError, RecordsTooLarge
from ...log.producer_state import COMMIT, EndMarker
from ...log.tasks import CooperativeTask, begin
from ...offsets.records import OffsetTombstone, TransactionEnd, UndecodableRecord
from ...offsets.store import OffsetsStore
from ...offsets.table import OffsetsCache, OffsetsTable
from ...protocol.budgets import REGEX_MATCHES_MAX, ConcurrencyLimit
from ...protocol.errors import ErrorCode
from ..event_loop.scheduler import Scheduler
from ..event_loop.timers import Clock, Timers
from ..gather import Gather
from .context import ACTIVE, RETRY_FAILED_MS, CoordinatorContext, CoordinatorState, Respond
from .deleted_topics import DeletedTopics
from .loader import PartitionLoader
from .snapshots import Snapshots
from .transaction_markers import Written, marker_error

_log = logging.getLogger("kohort.coordinator")

# Maximum number of expired deadlines per iteration of the event loop. Each takes about 50 µs.
DEADLINES_PER_ITERATION: Final = 40


class CoordinatorRuntime:
    """Drives the coordinators of the offsets partitions that a node leads.

    `leads(partition)` returns whether this node leads the partition. When the leader changes, call
    `load` or `unload`. `new_context(partition)` creates the context of a partition.
    `new_coordinator(partition)` creates a coordinator and its offsets when a partition is reloaded.
    """

    def __init__(
        self,
        *,
        store: OffsetsStore,
        cache: OffsetsCache,
        clock: Clock,
        timers: Timers,
        scheduler: Scheduler,
        new_context: Callable[[int], CoordinatorContext],
        new_coordinator: Callable[[int], tuple[Coordinator, OffsetsTable]],
        leads: Callable[[int], bool],
        deleted_topics: DeletedTopics,
        retention_check_interval_ms: int,
    ) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock
        self._timers = timers
        self._scheduler = scheduler
        self._new_context = new_context
        self._new_coordinator = new_coordinator
        self._leads = leads
        self._deleted_topics = deleted_topics
        self._retention_check_interval_ms = retention_check_interval_ms
        self.contexts: dict[int, CoordinatorContext] = {}
        """Contexts by offsets partition. Only the runtime changes them."""
        # By ticket: command, responder, request.
        self._waiting: dict[int, tuple[Command, Respond, Any]] = {}
        self._last_ticket = 0
        self._loader = PartitionLoader(
            store=store,
            scheduler=scheduler,
            loaded=self._log_loaded,
            failed=self._fail,
            corrupted=self._invalidate,
            open_partition=self._open_in_background,
        )
        self._regex_matches = ConcurrencyLimit(REGEX_MATCHES_MAX)
        self._snapshots = Snapshots(store, clock, timers, scheduler, self._invalidate)
        # Test hook: called when a log has been read. Loading continues when `resume` is called.
        self.on_log_read: Callable[[int, Callable[[], None]], None] = lambda _partition, resume: (
            resume()
        )
        # Called when a partition has cleaned up deleted topics (it then becomes active if it was
        # loading), is unloaded, or fails to load.
        self.on_cleaned_up: Callable[[], None] = lambda: None

    # --- commands

    def partition_of(self, group_id: str) -> int:
        """Return the offsets partition whose leader coordinates this group."""
        return self._store.partition_of(group_id)

    def submit(self, command: GroupCommand, respond: Respond, request: Any) -> int:
        """Decide `command` and call `respond(request, result)` once, now or later. `respond` is not
        called if a later request from the same member supersedes this request, or if the member is
        removed while its SyncGroup waits. Return the ticket for `forget`, or 0 if the partition is
        not active and `respond` was called with the error."""
        partition = self._store.partition_of(command.group_id)
        context = self.contexts.get(partition)
        if context is None or context.state is not ACTIVE:
            if context is None and not self._leads(partition):
                respond(request, error_result(command, ErrorCode.not_coordinator))
                return 0
            context = context or self._open(partition)
            if (error := self._error_unless_active(context, command)) is not None:
                respond(request, error)
                return 0
        try:
            context.offsets.load(command.group_id)
        except OSError as failure:
            self._invalidate(context, failure)
            if (error := self._error_unless_active(context, command)) is not None:
                respond(request, error)
                return 0
            context.offsets.load(command.group_id)  # may have been evicted after it was replayed
        return self._decide(context, command, respond, request)

    def submit_to_all(self, command: ListGroups, respond: Respond, request: Any) -> Iterator[None]:
        """Decide `command` in each partition, one per step, and respond with the merged result. The
        whole command fails while a partition is loading."""
        # All partitions with data begin to load at startup; other partitions have no groups.
        contexts = [self.contexts[partition] for partition in sorted(self.contexts)]
        for context in contexts:
            self._is_active(context)  # reloads a failed partition
        states = (context.state for context in contexts)
        if CoordinatorState.LOADING in states or self._has_unopened():
            respond(request, error_result(command, ErrorCode.coordinator_load_in_progress))
            return
        results = Gather(len(contexts), lambda listed: respond(request, merge_lists(listed)))
        for place, context in enumerate(contexts):
            if context.state is CoordinatorState.CLOSED:  # closed since the first step
                results.put(place, error_result(command, ErrorCode.not_coordinator))
            elif (error := self._error_unless_active(context, command)) is not None:
                results.put(place, error)
            else:
                self._decide(context, command, results.put, place)
            yield

    def carry_out(self, group_id: str, decide: Callable[[Coordinator, int], Outcome]) -> bool:
        """Apply the outcome of `decide(coordinator, now)`. Return False if the group's partition is
        not active on this node. For tests."""
        context = self.contexts.get(self._store.partition_of(group_id))
        if context is None or context.state is not ACTIVE:
            return False
        now = self._clock.now_ms()
        self._carry_out(context, decide(context.coordinator, now), now)
        return True

    def end_transaction(
        self, partition: int, producer: BatchProducer, marker: EndMarker, written: Written
    ) -> ErrorCode | None:
        """Write a marker to an offsets partition, and commit or drop the transaction's offsets.
        Return an error instead of calling `written`, or None."""
        context = self.contexts.get(partition)
        if context is None and self._leads(partition):
            context = self._open(partition)
        if context is None or not self._is_active(context) or context.log is None:
            return ErrorCode.coordinator_load_in_progress
        producer_id, epoch, _ = producer
        is_commit = marker.kind == COMMIT
        end = TransactionEnd(producer_id, epoch, marker.coordinator_epoch, is_commit)
        if (error := marker_error(context.log, producer, marker)) is not ErrorCode.none:
            return error
        try:
            context.load_offsets(end)
        except OSError as failure:
            self._invalidate(context, failure)
            return ErrorCode.coordinator_load_in_progress
        events = context.coordinator.commit_events(producer_id) if is_commit else ()
        self._carry_out(context, Outcome((end,), ()), self._clock.now_ms())

        def on_durable(error: OSError | None) -> None:
            if error is None:
                context.publisher.publish(events)
            written(ErrorCode.none if error is None else ErrorCode.kafka_storage_error)

        self._store.on_durable(context.log, on_durable)
        return None

    def forget(self, ticket: int) -> None:
        """Drop the reply to a disconnected client."""
        self._waiting.pop(ticket, None)

    # --- decisions

    def _decide(
        self, context: CoordinatorContext, command: Command, respond: Respond, request: Any
    ) -> int:
        self._last_ticket = ticket = self._last_ticket + 1
        now = self._clock.now_ms()
        coordinator = context.coordinator
        try:
            outcome = coordinator.handle(command, ticket, now)
        except Exception as error:
            self._decision_failed(context, coordinator, error)
            raise
        self._waiting[ticket] = (command, respond, request)
        self._carry_out(context, outcome, now)
        return ticket

    def _carry_out(self, context: CoordinatorContext, outcome: Outcome, now: int) -> None:
        records, replies, events, queries = outcome
        if events:
            context.publisher.publish(events)
        store, log = self._store, context.log
        assert log is not None
        if records:
            flush = self._append(context, outcome, now)
            if flush is None:
                return
            if self._cache.needs_eviction:
                self._cache.evict()
            waiting = context.replies
            if waiting is None or context.flush is not flush:
                # Earlier replies, if any, wait for a flush that has begun. These replies wait for
                # the next flush.
                context.flush = flush
                context.replies = waiting = []
                on_durable = partial(self._on_flushed, context, context.coordinator, waiting)
                store.on_durable(log, on_durable)
            waiting.extend(replies)
        elif replies:
            # Replies without records wait for pending records, if any, which are all in
            # `context.flush`.
            if context.replies is not None:
                context.replies.extend(replies)
            else:
                self._deliver(replies)
        for query in queries:
            task = self._match_regexes(context, context.coordinator, query)
            # Eager, so that a few expressions are matched immediately, before the next request.
            self._scheduler.spawn(task, eager=True)
        deadline = context.coordinator.next_deadline()
        # If the timer fires early, no deadline is due, and the timer is rescheduled.
        if deadline is not None and (context.timer is None or deadline < context.timer.deadline_ms):
            self._arm(context, deadline)

    def _append(self, context: CoordinatorContext, outcome: Outcome, now: int) -> object | None:
        """Append and apply records. Return the token of their flush, or None if they are too large
        and the coordinator has decided on a replacement."""
        coordinator, log, records = context.coordinator, context.log, outcome.records
        assert log is not None
        apply = coordinator.apply
        try:
            flush = self._store.append(log, records, now)
            for record in records:
                apply(record)
        except RecordsTooLarge as error:
            _log.error("Records of %s cannot be stored: %s", log.folder.name, error)
            self._run(context, partial(coordinator.append_failed, outcome, now), now)
            return None
        except Exception as error:
            self._decision_failed(context, coordinator, error)
            raise
        if changes := coordinator.state_changes():
            context.publisher.publish(changes)
        return flush

    def _run(self, context: CoordinatorContext, decide: Callable[[], Outcome], now: int) -> None:
        """Carry out a decision that no request caused."""
        coordinator = context.coordinator
        try:
            outcome = decide()
        except Exception as error:
            self._decision_failed(context, coordinator, error)
            raise
        self._carry_out(context, outcome, now)

    def _match_regexes(
        self, context: CoordinatorContext, coordinator: Coordinator, query: RegexQuery
    ) -> CooperativeTask[None]:
        yield from begin(self._regex_matches)
        try:
            matched = yield from query.match()
        except Exception as error:
            self._decision_failed(context, coordinator, error)
            raise
        finally:
            self._regex_matches.end()
        if context.coordinator is coordinator and context.state is ACTIVE:
            now = self._clock.now_ms()
            self._run(context, partial(coordinator.regexes_matched, query, matched, now), now)

    def _arm(self, context: CoordinatorContext, deadline_ms: int) -> None:
        if context.timer is not None:
            context.timer.cancel()
        context.timer = self._timers.call_at(deadline_ms, partial(self._tick, context))

    def _tick(self, context: CoordinatorContext) -> None:
        context.timer = None
        if context.state is not ACTIVE:
            return
        coordinator = context.coordinator
        now = self._clock.now_ms()
        try:
            # One deadline at a time, because its records must be applied before the next decision.
            for _ in range(DEADLINES_PER_ITERATION):
                deadline = coordinator.next_deadline()
                if deadline is None or deadline > now:
                    break
                self._run(context, partial(coordinator.tick, now), now)
                if context.coordinator is not coordinator:
                    return
        finally:
            # Even if a response could not be sent, later deadlines must expire.
            is_same = context.coordinator is coordinator
            if is_same and (deadline := coordinator.next_deadline()) is not None:
                self._arm(context, deadline)

    # --- replies

    def _on_flushed(
        self,
        context: CoordinatorContext,
        coordinator: Coordinator,
        replies: list[Reply],
        error: OSError | None,
    ) -> None:
        """Send the replies of a completed flush, or fail them."""
        if context.replies is replies:
            context.replies = None
        if error is not None:
            self._fail_requests(ticket for ticket, _ in replies)
            # If several flushes fail, only the first failure reloads the partition.
            if context.coordinator is coordinator:
                self._reload(context, error)
            return
        self._deliver(replies)
        if context.fetches.waiting:
            context.fetches.complete_all()
        if context.state is ACTIVE:
            self._check_snapshot(context)

    def _check_snapshot(self, context: CoordinatorContext) -> None:
        assert context.log is not None
        if context.log.end_offset - context.snapshot_end >= self._snapshots.every_records:
            self._snapshots.schedule(context)

    def _fail_requests(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            waiting = self._waiting.pop(ticket, None)
            if waiting is not None:
                command, respond, request = waiting
                respond(request, error_result(command, FAILED_WRITE_ERROR))

    def _deliver(self, replies: Sequence[Reply]) -> None:
        """Send all replies, then raise the first exception that occurred."""
        waiting = self._waiting
        failed: Exception | None = None
        for ticket, result in replies:
            entry = waiting.pop(ticket, None)
            if entry is not None:
                _, respond, request = entry
                try:
                    respond(request, result)
                except Exception as error:
                    failed = failed or error
        if failed is not None:
            raise failed

    # --- loading and unloading partitions

    def load(self, partitions: Iterable[int]) -> None:
        """Load partitions in the background, so that the sessions of their members can expire. A
        request loads its partition immediately."""
        self._loader.load_in_background(partitions)

    def is_loading(self, partition: int) -> bool:
        """Whether the partition is loading, or will be loaded in the background."""
        context = self.contexts.get(partition)
        if context is None:
            return partition in self._loader.background
        return context.state is CoordinatorState.LOADING

    def unload(self, partition: int) -> None:
        """Unload a partition that another node leads now. Waiting requests fail with
        NOT_COORDINATOR. Replies that wait for a flush are still sent, and the next leader reads the
        log after that flush."""
        context = self.contexts.pop(partition, None)
        if context is not None:
            self._close(context)
            self._unload(context, context.coordinator)
        self.on_cleaned_up()

    def fail_waiting(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR, before the broker stops."""
        for context in self.contexts.values():
            self._deliver(context.coordinator.fail_waiting(self._clock.now_ms()).replies)

    def close(self) -> None:
        """Write snapshots and close all partitions. All records must be durable."""
        self._snapshots.write_all(self.contexts.values())
        for context in self.contexts.values():
            self._close(context)
        self.contexts.clear()
        self._waiting.clear()
        self._loader.close()

    def _close(self, context: CoordinatorContext) -> None:
        context.state = CoordinatorState.CLOSED
        context.replay = context.cleanup = None
        context.cancel_timers()
        self._snapshots.drop(context)

    def _open(self, partition: int, *, is_requested: bool = True) -> CoordinatorContext:
        context = self.contexts[partition] = self._new_context(partition)
        self._loader.begin(context, is_requested=is_requested)
        return context

    def _open_in_background(self, partition: int) -> None:
        if partition not in self.contexts and self._leads(partition):
            self._open(partition, is_requested=False)

    def _has_unopened(self) -> bool:
        return any(p not in self.contexts and self._leads(p) for p in self._loader.background)

    def _is_active(self, context: CoordinatorContext) -> bool:
        """Whether a partition is active. A failed partition is reloaded after RETRY_FAILED_MS."""
        if (
            context.state is CoordinatorState.FAILED
            and self._clock.now_ms() >= context.failed_ms + RETRY_FAILED_MS
        ):
            self._loader.begin(context)
        return context.state is ACTIVE

    def _error_unless_active(self, context: CoordinatorContext, command: Command) -> Any | None:
        """Return the error of a command if its partition is not active, otherwise None."""
        if self._is_active(context):
            return None
        if context.state is CoordinatorState.FAILED:
            return error_result(command, ErrorCode.not_coordinator)
        self._loader.prefer(context)
        return error_result(command, ErrorCode.coordinator_load_in_progress)

    def _log_loaded(self, context: CoordinatorContext) -> None:
        if self._cache.needs_eviction:
            self._cache.evict()

        def resume() -> None:
            if context.state is CoordinatorState.LOADING:
                self._clean_up(context)

        self.on_log_read(context.partition, resume)

    def _activate(self, context: CoordinatorContext) -> None:
        now = self._clock.now_ms()
        try:
            outcome = context.coordinator.loaded(now)
        except Exception as error:
            self._fail(context, error)
            return
        context.state = CoordinatorState.ACTIVE
        self._publish_all(context, outcome)
        self._carry_out(context, outcome._replace(events=()), now)
        self._schedule_expiration(context)
        self._check_snapshot(context)

    # --- failures

    def _reload(self, context: CoordinatorContext, error: OSError) -> None:
        """Reload the partition after a failed flush, because its records are only in memory."""
        _log.debug(  # GroupCommit has logged the error
            "Reloading partition %d of __consumer_offsets after a failed flush: %s",
            context.partition,
            error,
        )
        assert context.log is not None
        if context.state is CoordinatorState.CLOSED:
            # Fail the flush now, because the next leader would otherwise wait for the lost bytes.
            self._store.fail_pending(context.log, error)
            return
        was_loading = context.state is CoordinatorState.LOADING
        context.state = CoordinatorState.LOADING
        lost = self._reset(context, log_failed=True)
        self._store.fail_pending(context.log, error)
        self._unload(context, lost)
        if was_loading:
            # Flushing a cleanup of deleted topics failed while loading. Do not retry forever.
            self._fail(context, error)
        else:
            self._loader.begin(context)

    def _decision_failed(
        self, context: CoordinatorContext, coordinator: Coordinator, error: Exception
    ) -> None:
        """Reload the partition and fail its waiting requests after an unexpected exception in a
        decision, because the state of its groups may be inconsistent. The caller raises the
        exception again, so that it is logged."""
        if context.coordinator is not coordinator or context.state is CoordinatorState.CLOSED:
            return
        if context.state is CoordinatorState.LOADING:
            self._fail(context, error)  # the same exception might be raised forever
            return
        context.state = CoordinatorState.LOADING
        _log.error(
            "Reloading partition %d of __consumer_offsets after an unexpected exception: %r",
            context.partition,
            error,
        )
        lost = self._reset(context, log_failed=False)
        partition_of = self._store.partition_of
        # ListGroups does not fail, because it waits only for a flush.
        tickets = [
            ticket
            for ticket, (command, _, _) in self._waiting.items()
            if not isinstance(command, ListGroups)
            and partition_of(command.group_id) == context.partition
        ]
        self._fail_requests(tickets)
        self._unload(context, lost)
        self._loader.begin(context)

    def _invalidate(self, context: CoordinatorContext, error: OSError | CorruptBatch) -> None:
        """Remove the partition's cache files, which are corrupted or cannot be read, and load the
        partition from its log."""
        _log.error(
            "Removing the corrupted cache files of partition %d of __consumer_offsets: %s",
            context.partition,
            error,
        )
        log = context.log
        assert log is not None
        lost = self._reset(context, log_failed=False)
        context.state = CoordinatorState.LOADING
        self._unload(context, lost)
        try:
            self._store.invalidate(context.partition, log, error)
        except (OSError, LogError) as failure:
            self._fail(context, failure)
        else:
            self._loader.begin(context)

    def _fail(self, context: CoordinatorContext, error: Exception) -> None:
        """Fail requests with NOT_COORDINATOR until the partition can be loaded."""
        is_expected = isinstance(error, OSError | LogError | UndecodableRecord)
        _log.error(
            "Failed to load partition %d of __consumer_offsets: %s",
            context.partition,
            error,
            exc_info=None if is_expected else error,
        )
        self._reset(context, log_failed=is_expected)
        context.state = CoordinatorState.FAILED
        context.failed_ms = self._clock.now_ms()
        self.on_cleaned_up()

    def _reset(self, context: CoordinatorContext, *, log_failed: bool) -> Coordinator:
        """Replace the coordinator and its offsets with new ones. Return the old coordinator. Unless
        the log has failed, the next load must not truncate its unsynced records."""
        lost = context.coordinator
        self._snapshots.drop(context)
        context.replies = context.cleanup = context.replay = None
        context.coordinator, context.offsets = self._new_coordinator(context.partition)
        context.cancel_timers()
        if not log_failed:
            context.log = None
        return lost

    def _unload(self, context: CoordinatorContext, coordinator: Coordinator) -> None:
        outcome = coordinator.unload()
        self._publish_all(context, outcome)
        self._deliver(outcome.replies)

    def _publish_all(self, context: CoordinatorContext, outcome: Outcome) -> None:
        """Publish the events of all groups of a partition."""
        task = context.publisher.publish_in_steps(outcome.events)
        self._scheduler.spawn(task, eager=True)

    # --- background cleanup: expired offsets, offsets of deleted topics

    def _schedule_expiration(self, context: CoordinatorContext) -> None:
        def expire() -> None:
            context.retention_timer = None
            self._scheduler.spawn(self._expire_offsets(context, context.coordinator))

        due_ms = self._clock.now_ms() + self._retention_check_interval_ms
        context.retention_timer = self._timers.call_at(due_ms, expire)

    def _expire_offsets(
        self, context: CoordinatorContext, coordinator: Coordinator
    ) -> CooperativeTask[None]:
        if context.coordinator is not coordinator:
            return  # reloaded before the first step; `_activate` starts another timer
        try:
            yield from self._run_sweep(context, coordinator.expire_offsets(self._clock.now_ms))
        finally:  # even after an unexpected exception
            if context.coordinator is coordinator and context.state is ACTIVE:
                self._schedule_expiration(context)

    def topics_deleted(self) -> None:
        """Delete the offsets of newly deleted topics. A partition that is still loading cleans up
        before it becomes active."""
        for context in list(self.contexts.values()):
            if context.state is CoordinatorState.ACTIVE:
                self._clean_up(context)

    def has_cleaned_up(self, count: int) -> bool:
        """Whether every partition, except those that failed to load, has removed the offsets of the
        first `count` deleted topics."""
        return not self._has_unopened() and all(
            context.state is CoordinatorState.FAILED
            or self._deleted_topics.cleaned_count(partition) >= count
            for partition, context in self.contexts.items()
        )

    def _clean_up(self, context: CoordinatorContext) -> None:
        """Begin to delete the offsets of deleted topics, unless this is already in progress."""
        if context.cleanup is None:
            token = context.cleanup = object()
            task = self._delete_offsets_of_topics(context, token)
            # Eager, so that a partition without such offsets becomes active immediately.
            self._scheduler.spawn(task, eager=True)

    def _delete_offsets_of_topics(
        self, context: CoordinatorContext, token: object
    ) -> CooperativeTask[None]:
        count = len(self._deleted_topics)
        topics = self._deleted_topics.due(context.partition)
        sweep = context.coordinator.delete_offsets_of_topics(topics)
        try:
            yield from self._run_sweep(context, sweep)
        except Exception:
            if context.cleanup is token:
                context.cleanup = None  # the next deletion repeats the cleanup
            raise
        if context.cleanup is token:
            assert context.log is not None
            cleaned_up = partial(self._cleaned_up, context, token, count)
            self._store.on_durable(context.log, cleaned_up)

    def _cleaned_up(
        self, context: CoordinatorContext, token: object, count: int, error: OSError | None
    ) -> None:
        if error is not None or context.cleanup is not token:
            return
        context.cleanup = None
        self._deleted_topics.set_cleaned(context.partition, count)
        if count < len(self._deleted_topics):
            self._clean_up(context)
            return
        if context.state is CoordinatorState.LOADING:
            self._activate(context)
        self.on_cleaned_up()

    def _run_sweep(self, context: CoordinatorContext, sweep: Sweep) -> CooperativeTask[None]:
        """Carry out a sweep, until the partition is reloaded or unloaded."""
        coordinator = context.coordinator
        try:
            step = next(sweep)
            while True:
                if isinstance(step, ReadGroup):
                    step = sweep.send(context.offsets.read(step.group_id))
                    continue
                for record in step.records:
                    if isinstance(record, OffsetTombstone):
                        context.offsets.load(record.group_id)
                self._carry_out(context, step, self._clock.now_ms())
                yield None
                is_closed = context.state is CoordinatorState.CLOSED
                if is_closed or context.coordinator is not coordinator:
                    return
                step = next(sweep)
        except StopIteration:
            return  # the sweep is complete
        except OSError as error:
            self._invalidate(context, error)
        except Exception as error:
            if context.state is CoordinatorState.LOADING:
                self._fail(context, error)
            if context.state is not CoordinatorState.FAILED:
                raise  # otherwise, `_fail` has logged it, and other partitions continue to load
