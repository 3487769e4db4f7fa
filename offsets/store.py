"""The offsets store: the partitions of `__consumer_offsets`, each a log, written in rounds.

Records come in as what they say (records.py) and are stored in Kafka's own bytes; who appended
them is told when they are durable. What the records add up to is kept by table.py and by the
group coordinator, who rebuild it from `load`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Protocol

from ..log.batch import check_crc
from ..log.cache_files import OFFSETS_SNAPSHOT, remove_cache_files
from ..log.errors import CorruptBatch, LogError, RecordsTooLarge
from ..log.files import Files
from ..log.group_commit import GroupCommit, OnDurable
from ..log.log import Log
from ..log.records import records as records_of
from ..log.tasks import run_synchronously
from .partitioner import partition_for
from .record_codec import decode_record, encode_record, encode_records
from .records import OffsetsRecord, ReplayedRecord
from .snapshot import SnapshotWriter, open_snapshot
from .table import OffsetsTable
from .transactions import Transactions

# Enough for the groups that are active at one time; a miss costs a microsecond per ten letters.
GROUPS_REMEMBERED_MAX = 131_072


class StoredPartition(Protocol):
    """Where one partition's log is to be had."""

    @property
    def log(self) -> Log:
        """The log; opened, and so recovered, at first use. May raise OSError, LogError."""

    def reopened(self, end_offset: int | None = None) -> Log:
        """The log, opened anew from what is on disk, and cut to `end_offset` where one is given,
        whatever fails: nobody sees what lies behind it."""


class OffsetsStore:
    """`partition(index)` gives one of the offsets topic's partitions, of which there are
    `partitions`."""

    def __init__(
        self,
        *,
        partitions: int,
        partition: Callable[[int], StoredPartition],
        group_commit: GroupCommit,
        files: Files,
    ) -> None:
        self.partitions = partitions
        self._files = files
        self._partition = partition
        self._group_commit = group_commit

        @lru_cache(GROUPS_REMEMBERED_MAX)
        def partition_of(group_id: str) -> int:
            return partition_for(group_id, partitions)

        self.partition_of: Callable[[str], int] = partition_of

    @property
    def is_kept(self) -> bool:
        """Whether anything of it is there after the process."""
        return self._group_commit.durability != "none"

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
        if self._group_commit.durability == "fsync":
            before.recover()
            return before
        # Nothing is ever synced here, so what the system holds is all there is.
        log = self._partition(partition).reopened(before.end_offset)
        if log.end_offset < before.end_offset:
            raise LogError(
                f"{log.folder} ends at {log.end_offset}, and offsets up to {before.end_offset} "
                "were acknowledged: it was changed under the broker"
            )
        return log

    def append(self, log: Log, records: Sequence[OffsetsRecord], now_ms: int) -> object:
        """Gather `records` for the next round of a partition's log: one batch, all or none.
        Returns what stands for that round. Raises RecordsTooLarge, then nothing is gathered."""
        # Encoded before anything is added: what cannot be encoded must not leave half a batch.
        encoded = encode_records(records)
        try:
            return self._group_commit.append(log, encoded, now_ms, log.config.max_message_bytes)
        except RecordsTooLarge:
            if encoded[0][1] is not None:
                raise
            # Tombstones need not be one batch, so they are never refused (upstream: isAtomic).
            return self._group_commit.append(log, encoded, now_ms)

    def is_pending(self, log: Log) -> bool:
        """Whether something appended to the log is not durable yet."""
        return self._group_commit.is_pending(log)

    def on_durable(self, log: Log, settled: OnDurable) -> None:
        """Tell when everything appended to the log so far is durable, or why it is not."""
        self._group_commit.on_durable(log, settled)

    def load(self, log: Log, table: OffsetsTable) -> tuple[int, Iterator[list[ReplayedRecord]]]:
        """What a partition's log says, a batch at a time. What its snapshot has of offsets goes
        into `table`, which is new, and of the log only what follows is read: from the offset that
        is returned.

        Raises OSError; while reading, UndecodableRecord too for a record of a known kind that
        cannot be read: then the partition must not be served (upstream: CoordinatorLoaderImpl),
        and LogError, of which a CorruptBatch is worth a `distrust`.
        """
        snapshot = open_snapshot(log.folder, self._files, log.start_offset, log.end_offset)
        if snapshot is None:
            return 0, self._records(log, 0, [])
        table.stand_at(snapshot.file, snapshot.places, snapshot.topics)
        return snapshot.begun, self._records(log, snapshot.begun, snapshot.stored)

    def _records(
        self, log: Log, begun: int, stored: list[tuple[bytes, bytes]]
    ) -> Iterator[list[ReplayedRecord]]:
        yield [decode_record(key, value) for key, value in stored]
        transactions = Transactions()
        for header, batch in log.batches(max(begun, log.start_offset)):
            check_crc(
                batch, 0, len(batch)
            )  # a survey had none to look at it (log/segment_manifest.py)
            if header.producer_id >= 0 or transactions:
                yield transactions.read(header, batch)
            elif not header.is_control:
                yield [decode_record(record.key, record.value) for record in records_of(batch)]

    def snapshot(
        self, log: Log, table: OffsetsTable, stored: Iterator[OffsetsRecord]
    ) -> SnapshotWriter:
        """Begin to write down what the log adds up to. Raises OSError."""
        encoded = ((key, value) for key, value in map(encode_record, stored) if value is not None)
        return SnapshotWriter(log.folder, self._files, log.end_offset, table, encoded)

    def distrust(self, partition: int, log: Log, error: OSError | CorruptBatch) -> None:
        """What stands beside the log is not true: the snapshot has a damaged group, or the log a
        damaged batch that its survey hid. It goes, and the log is to be read; in the second case it
        is opened anew, every byte of it. Raises OSError, LogError."""
        if isinstance(error, CorruptBatch):
            run_synchronously(remove_cache_files(log.folder, self._files))
            self._partition(partition).reopened()
        elif self.has_snapshot(log):
            self._files.remove(log.folder / OFFSETS_SNAPSHOT)

    def has_snapshot(self, log: Log) -> bool:
        return self._files.exists(log.folder / OFFSETS_SNAPSHOT)

    def fail_pending(self, log: Log, error: OSError) -> None:
        """After a failed write or sync: refuse what has gathered meanwhile, it rests on lost
        bytes."""
        self._group_commit.fail_pending(log, error)
