"""Reading a partition of the offsets topic: its log, in slices, into its coordinator."""

from collections.abc import Callable
from functools import partial

from ..log.errors import LogError
from ..offsets.cold import UnreadableGroup
from ..offsets.records import UndecodableRecord
from ..offsets.store import OffsetsStore
from .shard import ServedShard, ShardState

# Loading goes on in slices of this many records, about 20 ms, between which other partitions are
# served; a log that fits into the first slice never makes a client wait for a retry.
LOAD_SLICE_RECORDS = 10_000


class Loader:
    """`read(shard)` hears that the log has been read, `failed(shard, error)` that it cannot be,
    `misread(shard, error)` that its snapshot cannot."""

    def __init__(
        self,
        *,
        store: OffsetsStore,
        call_soon: Callable[[Callable[[], None]], object],
        read: Callable[[ServedShard], None],
        failed: Callable[[ServedShard, Exception], None],
        misread: Callable[[ServedShard, OSError], None],
    ) -> None:
        self._store = store
        self._call_soon = call_soon
        self._has_read = read
        self._failed = failed
        self._misread = misread

    def begin(self, shard: ServedShard) -> None:
        """Read the log into the shard's coordinator, which is a new one."""
        shard.state = ShardState.LOADING
        try:
            shard.log = self._store.opened(shard.partition, shard.log)
        except (OSError, LogError) as error:
            self._failed(shard, error)
            return
        if self._store.is_pending(shard.log):
            # Of the node that led it before; what it has been promised must be read too.
            self._store.then(shard.log, partial(self._read, shard))
        else:
            self._read(shard, None)

    def _read(self, shard: ServedShard, error: OSError | None) -> None:
        if shard.state is ShardState.RESIGNED:
            return
        if error is not None:
            self.begin(shard)  # from what is on the disk
            return
        assert shard.log is not None
        try:
            begun, shard.loading = self._store.load(shard.log, shard.coordinator.table)
        except OSError as failure:
            self._failed(shard, failure)
            return
        shard.snapshot_end = begun
        self._next_slice(shard)

    def _next_slice(self, shard: ServedShard) -> None:
        if shard.loading is None:
            return  # The broker was closed meanwhile.
        loaded = 0
        apply = shard.coordinator.apply
        try:
            for records in shard.loading:
                for record in records:
                    apply(record)
                loaded += len(records)
                if loaded >= LOAD_SLICE_RECORDS:
                    self._call_soon(partial(self._next_slice, shard))
                    return
        except UnreadableGroup as error:
            self._misread(shard, error)
            return
        except (OSError, LogError, UndecodableRecord) as error:
            self._failed(shard, error)
            return
        shard.loading = None
        self._has_read(shard)
