"""Loads offsets partitions by replaying their logs into their coordinators.

Partitions are loaded one at a time, beginning with those that a request needs. Requests are served
between the steps of a load. Upstream: CoordinatorLoaderImpl.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from ...log.errors import CorruptBatch
from ...log.tasks import CooperativeTask
from ...offsets.spill import UnreadableBlock
from ...offsets.store import OffsetsStore
from ..event_loop.scheduler import ScheduledTask, Scheduler
from .context import CoordinatorContext, CoordinatorState

# Shorter logs are loaded in one step, which takes up to 50 ms if each batch contains one group
# record, so that clients need not retry (COORDINATOR_LOAD_IN_PROGRESS).
EAGER_RECORDS = 4_000
# Number of records per step for longer logs. A step takes 5 to 12 ms.
STEP_RECORDS = 1_000


class PartitionLoader:
    """Loads offsets partitions. Callbacks: `loaded(context)`, `failed(context, error)`,
    `corrupted(context, error)` for an invalid cache file, and `open_partition(partition)`, which
    starts loading a partition in the background."""

    def __init__(
        self,
        *,
        store: OffsetsStore,
        scheduler: Scheduler,
        loaded: Callable[[CoordinatorContext], None],
        failed: Callable[[CoordinatorContext, Exception], None],
        corrupted: Callable[[CoordinatorContext, OSError | CorruptBatch], None],
        open_partition: Callable[[int], None],
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._loaded = loaded
        self._failed = failed
        self._corrupted = corrupted
        self._open_partition = open_partition
        self._loading: deque[CoordinatorContext] = deque()
        self.background: deque[int] = deque()
        """The partitions still to be loaded in the background."""
        self._task: ScheduledTask | None = None

    def load_in_background(self, partitions: Iterable[int]) -> None:
        self.background.extend(partitions)
        self._schedule()

    def begin(self, context: CoordinatorContext, *, is_requested: bool = True) -> None:
        """Start loading the log into the context's new coordinator and offsets."""
        context.state = CoordinatorState.LOADING
        try:
            context.log = self._store.open_log(context.partition, context.log)
        except Exception as error:
            self._failed(context, error)
            return
        # Records that the previous leader appended may not be durable yet.
        self._store.on_durable(context.log, partial(self._begin_replay, context, is_requested))

    def prefer(self, context: CoordinatorContext) -> None:
        """Move a partition that a request needs to the front of the queue."""
        if context in self._loading and self._loading[0] is not context:
            self._loading.remove(context)
            self._loading.appendleft(context)

    def close(self) -> None:
        self.background.clear()
        self._loading.clear()

    def _begin_replay(
        self, context: CoordinatorContext, is_requested: bool, error: OSError | None
    ) -> None:
        if context.state is CoordinatorState.CLOSED:
            return
        if error is not None:
            self.begin(context, is_requested=is_requested)  # retry with the data on disk
            return
        assert context.log is not None
        try:
            context.snapshot_end, context.replay = self._store.load(context.log, context.offsets)
        except Exception as failure:
            self._failed(context, failure)
            return
        if not self._replay(context, EAGER_RECORDS):
            if is_requested:
                self._loading.appendleft(context)
            else:
                self._loading.append(context)
            self._schedule()

    def _schedule(self) -> None:
        if self._task is None or self._task.is_done:
            self._task = self._scheduler.spawn(self._run())

    def _run(self) -> CooperativeTask[None]:
        while self._loading or self.background:
            if self._loading:
                context = self._loading[0]
                if self._replay(context, STEP_RECORDS):
                    self._loading.remove(context)
            else:
                self._open_partition(self.background.popleft())
            yield None

    def _replay(self, context: CoordinatorContext, count: int) -> bool:
        """Apply at least `count` records, or all that remain. Return whether the load is over:
        completed, failed or cancelled."""
        if context.replay is None:
            return True  # cancelled in the meantime
        assert context.log is not None
        applied = 0
        apply, load = context.coordinator.apply, context.load_offsets
        try:
            for records in context.replay:
                for record in records:
                    load(record)
                    apply(record)
                applied += len(records)
                if applied >= count:
                    return False
        except UnreadableBlock as error:
            self._corrupted(context, error)
            return True
        except Exception as error:
            if isinstance(error, CorruptBatch) and context.log.manifest_end_offset:
                self._corrupted(context, error)
            else:
                self._failed(context, error)
            return True
        context.replay = None
        self._loaded(context)
        return True
