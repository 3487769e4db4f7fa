"""Reading a partition of the offsets topic: its log, in slices, into its coordinator."""

from collections import deque
from collections.abc import Callable
from functools import partial

from ..log.errors import CorruptBatch, LogError
from ..offsets.errors import UndecodableRecord
from ..offsets.spill import UnreadableGroup
from ..offsets.store import OffsetsStore
from .shard import ServedShard, ShardState

# A log of no more records is read at once, in some 50 ms, so that no client is told to come again.
AT_ONCE_RECORDS = 10_000
# Of a longer one so many at a time, some 5 ms, between which others are served.
SLICE_RECORDS = 1_000


class Loader:
    """Reads one log after the other: first those that somebody has asked for.

    `read(shard)` hears that the log has been read, `failed(shard, error)` that it cannot be,
    `misread(shard, error)` that what stands beside it misleads; `idle()` that there is nothing to
    read.
    """

    def __init__(
        self,
        *,
        store: OffsetsStore,
        call_soon: Callable[[Callable[[], None]], object],
        read: Callable[[ServedShard], None],
        failed: Callable[[ServedShard, Exception], None],
        misread: Callable[[ServedShard, OSError | CorruptBatch], None],
        idle: Callable[[], None],
    ) -> None:
        self._store = store
        self._call_soon = call_soon
        self._has_read = read
        self._failed = failed
        self._misread = misread
        self._idle = idle
        self._waiting: deque[ServedShard] = deque()
        self._turn_is_due = False

    def begin(self, shard: ServedShard, *, is_asked_for: bool = True) -> None:
        """Read the log into the shard's coordinator, which is a new one."""
        shard.state = ShardState.LOADING
        try:
            shard.log = self._store.opened(shard.partition, shard.log)
        except (OSError, LogError) as error:
            self._failed(shard, error)
            return
        if self._store.is_pending(shard.log):
            # Of the node that led it before; what it has been promised must be read too.
            self._store.on_durable(shard.log, partial(self._read, shard, is_asked_for))
        else:
            self._read(shard, is_asked_for, None)

    def prefer(self, shard: ServedShard) -> None:
        """Somebody has asked for it."""
        if shard in self._waiting and self._waiting[0] is not shard:
            self._waiting.remove(shard)
            self._waiting.appendleft(shard)

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def _read(self, shard: ServedShard, is_asked_for: bool, error: OSError | None) -> None:
        if shard.state is ShardState.RESIGNED:
            return
        if error is not None:
            self.begin(shard, is_asked_for=is_asked_for)  # from what is on the disk
            return
        assert shard.log is not None
        try:
            begun, shard.loading = self._store.load(shard.log, shard.coordinator.table)
        except OSError as failure:
            self._failed(shard, failure)
            return
        shard.snapshot_end = begun
        if not self._is_over(shard, AT_ONCE_RECORDS):
            if is_asked_for:
                self._waiting.appendleft(shard)
            else:
                self._waiting.append(shard)
            self._arm()

    def _arm(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_due = False
        if self._waiting:
            shard = self._waiting.popleft()
            if not self._is_over(shard, SLICE_RECORDS):
                self._waiting.appendleft(shard)
        if self._waiting:
            self._arm()
        else:
            self._idle()

    def _is_over(self, shard: ServedShard, count: int) -> bool:
        """Read so many records more; whether there is nothing left to read."""
        if shard.loading is None:
            return True  # given up meanwhile
        assert shard.log is not None
        loaded = 0
        apply = shard.coordinator.apply
        try:
            for records in shard.loading:
                for record in records:
                    apply(record)
                loaded += len(records)
                if loaded >= count:
                    return False
        except UnreadableGroup as error:
            self._misread(shard, error)
            return True
        except (OSError, LogError, UndecodableRecord) as error:
            if isinstance(error, CorruptBatch) and shard.log.manifest_end_offset:
                self._misread(shard, error)
            else:
                self._failed(shard, error)
            return True
        shard.loading = None
        self._has_read(shard)
        return True
