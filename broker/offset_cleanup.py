"""What was committed for a topic goes when the topic is deleted, in every group and any state.

The deletion is durable before this begins, and the topic's name cannot be had again before all of
this is durable (topics/registry.py). So what a crash or a failed write has left undone is done
when the partition is read the next time, before anyone is answered from it: a commit for a name
that is still to be forgotten is never one for a topic that came after. Only a partition that cannot
be read keeps no name from being used; it has served nobody since.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ..coordinator.coordinator import Outcome
from ..offsets.store import OffsetsStore
from ..topics.partition import Partition
from .shard import ServedShard
from .timers import Timers


class DeletedTopics:
    """The names of deleted topics in the order of their deletion, and how many of them each offsets
    partition has forgotten for good. One for all nodes.

    `names`: those that were deleted in an earlier life of the broker; what they have left in a log
    is not known. Names are counted from there, those included that have been let go since.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._gone = 0  # of those that were there before these
        self._forgotten: dict[int, int] = {}

    def add(self, name: str) -> None:
        self._names.append(name)

    def __len__(self) -> int:
        return self._gone + len(self._names)

    def __contains__(self, name: str) -> bool:
        """Whether an offsets partition may still have something of a topic of that name."""
        return name in self._names

    def due(self, partition: int) -> frozenset[str]:
        return frozenset(self._names[max(self.forgotten(partition) - self._gone, 0) :])

    def forgotten(self, partition: int) -> int:
        """So many of the names have left nothing in this partition."""
        return self._forgotten.get(partition, 0)

    def forget(self, partition: int, count: int) -> None:
        self._forgotten[partition] = count

    def let_go(self, partitions: Iterable[Partition]) -> list[str]:
        """Drops the names that none of the offsets partitions has anything of, and returns them."""
        count = min(self._forgotten.values(), default=len(self))
        if count == self._gone:
            return []
        for each in partitions:
            if each.index not in self._forgotten and not _is_empty(each):
                return []  # nobody has looked into it yet, or nobody could
        gone = self._names[: count - self._gone]
        del self._names[: len(gone)]
        self._gone += len(gone)
        return gone


def _is_empty(partition: Partition) -> bool:
    try:
        return not partition.size
    except OSError:
        return False


class OffsetCleanup:
    """Lets the coordinators of one runtime forget. `carry_out(shard, outcome)` writes and applies;
    `done(shard)` hears that nothing is left to forget. It never does when the partition is lost
    meanwhile: whoever loses it sets `shard.forgetting` to None."""

    def __init__(
        self,
        *,
        deleted: DeletedTopics,
        store: OffsetsStore,
        timers: Timers,
        carry_out: Callable[[ServedShard, Outcome], None],
        done: Callable[[ServedShard], None],
        misread: Callable[[ServedShard, OSError], None],
    ) -> None:
        self._deleted = deleted
        self._store = store
        self._timers = timers
        self._carry_out = carry_out
        self._done = done
        self._misread = misread

    def begin(self, shard: ServedShard) -> None:
        """Forget what is due, unless that is under way; what comes to be due meanwhile as well."""
        if shard.forgetting is not None:
            return
        count = len(self._deleted)
        slices = shard.coordinator.topics_deleted(self._deleted.due(shard.partition))
        shard.forgetting = slices
        self._next_slice(shard, slices, count)

    def _next_slice(self, shard: ServedShard, slices: Iterator[Outcome], count: int) -> None:
        if shard.forgetting is not slices:
            return
        try:
            outcome = next(slices, None)
        except OSError as error:
            self._misread(shard, error)
            return
        if outcome is not None:
            self._carry_out(shard, outcome)
            self._timers.in_turn(partial(self._next_slice, shard, slices, count))
            return
        assert shard.log is not None
        self._store.on_durable(shard.log, partial(self._durable, shard, slices, count))

    def _durable(
        self, shard: ServedShard, slices: Iterator[Outcome], count: int, error: OSError | None
    ) -> None:
        if error is not None or shard.forgetting is not slices:
            return
        shard.forgetting = None
        self._deleted.forget(shard.partition, count)
        if count < len(self._deleted):
            self.begin(shard)
        else:
            self._done(shard)
