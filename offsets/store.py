"""The offsets store: the partitions of `__consumer_offsets`, each a log, written in rounds.

Records come in as what they say (records.py) and are stored in Kafka's own bytes; who appended
them is told when they are durable. What the records add up to is kept by table.py and by the
group coordinator, who rebuild it from `load`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Protocol

from ..log.batch import records as records_of
from ..log.errors import LogError
from ..log.log import Log
from ..log.rounds import Rounds, Settled
from .partitioner import partition_for
from .records import OffsetsRecord, decode, encode

# Enough for the groups that are active at one time; a miss costs a microsecond per ten letters.
GROUPS_REMEMBERED_MAX = 131_072


class StoredPartition(Protocol):
    """Where one partition's log is to be had."""

    @property
    def log(self) -> Log:
        """The log; opened, and so recovered, at first use. May raise OSError, LogError."""

    def reopened(self) -> Log:
        """The log, opened anew from what is on disk."""


class OffsetsStore:
    """`partition(index)` gives one of the offsets topic's partitions, of which there are
    `partitions`."""

    def __init__(
        self, *, partitions: int, partition: Callable[[int], StoredPartition], rounds: Rounds
    ) -> None:
        self.partitions = partitions
        self._partition = partition
        self._rounds = rounds

        @lru_cache(GROUPS_REMEMBERED_MAX)
        def partition_of(group_id: str) -> int:
            return partition_for(group_id, partitions)

        self.partition_of: Callable[[str], int] = partition_of

    def opened(self, partition: int, before: Log | None) -> Log:
        """The partition's log, fit to be loaded. `before`: the log that failed, if one did.

        What was never synced is then cut off: whoever wrote it has been refused, so it must not
        appear later. Raises OSError, LogError while the disk still refuses.
        """
        if before is None:
            before = self._partition(partition).log
            if before.failed is None:
                return before
            # The node that led it before could not mend it.
        if self._rounds.durability == "fsync":
            before.recover()
            return before
        # Nothing is ever synced here, so what the system holds is all there is.
        log = self._partition(partition).reopened()
        if log.end_offset < before.end_offset:
            raise LogError(
                f"{log.folder} ends at {log.end_offset}, and offsets up to {before.end_offset} "
                "were acknowledged: it was changed under the broker"
            )
        return log

    def append(self, log: Log, records: Iterable[OffsetsRecord], now_ms: int) -> object:
        """Gather `records` for the next round of a partition's log: one batch, all or none.
        Returns what stands for that round."""
        # Encoded before anything is added: what cannot be encoded must not leave half a batch.
        return self._rounds.append(log, [encode(record) for record in records], now_ms)

    def is_pending(self, log: Log) -> bool:
        """Whether something appended to the log is not durable yet."""
        return self._rounds.is_pending(log)

    def then(self, log: Log, settled: Settled) -> None:
        """Tell when everything appended to the log so far is durable, or why it is not."""
        self._rounds.then(log, settled)

    def load(self, log: Log) -> Iterator[list[OffsetsRecord]]:
        """What a partition's log says, from its start, a batch at a time.

        Raises UndecodableRecord for a record of a known kind that cannot be read: then the
        partition must not be served (upstream: CoordinatorLoaderImpl). Raises OSError, LogError.
        """
        for header, batch in log.batches():
            if not header.is_control:
                yield [decode(record.key, record.value) for record in records_of(batch)]

    def abandon(self, log: Log, error: OSError) -> None:
        """After a failed write or sync: refuse what has gathered meanwhile, it rests on lost
        bytes."""
        self._rounds.abandon(log, error)
