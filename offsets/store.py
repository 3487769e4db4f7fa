"""The offsets store: the partitions of `__consumer_offsets`, each a log in Kafka's record format.

Appends records by group commit and loads partitions from snapshot and log. The resulting state is
held by the table (offsets) and the coordinator (groups).
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
from .records import GroupMetadataRecord, OffsetCommitRecord, OffsetsRecord, ReplayedRecord
from .snapshot import SnapshotWriter, open_snapshot
from .table import OffsetsTable
from .transactions import Transactions

# Number of group ids whose partition is cached; a miss costs a microsecond per ten characters.
_CACHED_GROUPS_MAX = 131_072
# Encoding more records takes more than a millisecond.
MANY_RECORDS = 1000
# The record of a commit with empty strings, without its value: its framing and its key.
COMMIT_BYTES_MIN = 7 + 10


class StoredPartition(Protocol):
    """A partition of the offsets topic."""

    @property
    def log(self) -> Log:
        """The log, opened and recovered at first use. Raises OSError, LogError."""

    def reopen(self, end_offset: int | None = None) -> Log:
        """Reopen the log, truncated to `end_offset` if given."""


class OffsetsStore:
    """The partitions of the offsets topic; `partition(index)` returns one of them."""

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

        @lru_cache(_CACHED_GROUPS_MAX)
        def partition_of(group_id: str) -> int:
            return partition_for(group_id, partitions)

        self.partition_of: Callable[[str], int] = partition_of

    @property
    def is_persistent(self) -> bool:
        """Whether the data outlives the process."""
        return self._group_commit.durability != "none"

    # --- logs

    def open_log(self, partition: int, failed: Log | None) -> Log:
        """Return the log of a partition, ready to read. `failed`: the log that failed before, if
        any. Unsynced bytes of a failed log are truncated: their requests were rejected, so they
        must not reappear. Raises OSError, LogError while the disk still fails."""
        if failed is None:
            log = self._partition(partition).log
            if log.failed is None:
                return log
            failed = log  # failed while another node led the partition
        if self._group_commit.durability == "fsync":
            failed.reopen()
            return failed
        # Durability os: the page cache is authoritative.
        log = self._partition(partition).reopen(failed.end_offset)
        if log.end_offset < failed.end_offset:
            raise LogError(
                f"{log.folder} ends at offset {log.end_offset}, but offsets up to "
                f"{failed.end_offset} were acknowledged: the file was changed under the broker"
            )
        return log

    def append(self, log: Log, records: Sequence[OffsetsRecord], now_ms: int) -> object:
        """Add `records` to the next flush of a log as one batch, all or nothing. Return a token of
        that flush. Raises RecordsTooLarge; then nothing is added."""
        if len(records) > MANY_RECORDS or type(records[0]) is GroupMetadataRecord:
            _check_bytes_min(records, log.config.max_message_bytes)
        # Encode first: a record that cannot be encoded must not leave half a batch.
        encoded = encode_records(records)
        try:
            return self._group_commit.append(log, encoded, now_ms, log.config.max_message_bytes)
        except RecordsTooLarge:
            if encoded[0][1] is not None:
                raise
            # Tombstones need not be one batch, so they are never rejected (upstream: isAtomic).
            return self._group_commit.append(log, encoded, now_ms)

    def on_durable(self, log: Log, callback: OnDurable) -> None:
        """Call `callback` once all records appended so far are durable, or with the OSError."""
        self._group_commit.on_durable(log, callback)

    def fail_pending(self, log: Log, error: OSError) -> None:
        """Fail everything waiting for the next flush, after a failed write or sync."""
        self._group_commit.fail_pending(log, error)

    # --- loading

    def load(self, log: Log, table: OffsetsTable) -> tuple[int, Iterator[list[ReplayedRecord]]]:
        """Attach the snapshot to the empty `table`. Return the start offset of the replay, and the
        records to apply, batch by batch.

        Raises OSError; the iterator also LogError and UndecodableRecord, in which case the
        partition must not be served (upstream: CoordinatorLoaderImpl). After a CorruptBatch call
        `invalidate`.
        """
        snapshot = open_snapshot(log.folder, self._files, log.start_offset, log.end_offset)
        if snapshot is None:
            return 0, self._replay(log, 0, [])
        table.attach(snapshot.file, snapshot.extents, snapshot.topics)
        return snapshot.start_offset, self._replay(log, snapshot.start_offset, snapshot.metadata)

    def _replay(
        self, log: Log, start_offset: int, metadata: list[tuple[bytes, bytes]]
    ) -> Iterator[list[ReplayedRecord]]:
        yield [decode_record(key, value) for key, value in metadata]
        transactions = Transactions()
        for header, batch in log.batches(max(start_offset, log.start_offset)):
            # Opening a log with a segment manifest does not check its batches.
            check_crc(batch, 0, len(batch))
            if header.producer_id >= 0 or transactions:
                yield transactions.read(header, batch)
            elif not header.is_control:
                yield [decode_record(record.key, record.value) for record in records_of(batch)]

    # --- cache files

    def begin_snapshot(
        self, log: Log, table: OffsetsTable, metadata: Iterator[OffsetsRecord]
    ) -> SnapshotWriter:
        """Start writing a snapshot. Raises OSError."""
        encoded = ((key, value) for key, value in map(encode_record, metadata) if value is not None)
        return SnapshotWriter(log.folder, self._files, log.end_offset, table, encoded)

    def has_snapshot(self, log: Log) -> bool:
        return self._files.exists(log.folder / OFFSETS_SNAPSHOT)

    def invalidate(self, partition: int, log: Log, error: OSError | CorruptBatch) -> None:
        """Remove the corrupted cache file, so that the log is read instead. After a CorruptBatch,
        which the segment manifest had hidden, the log is reopened and completely verified. Raises
        OSError, LogError."""
        if isinstance(error, CorruptBatch):
            run_synchronously(remove_cache_files(log.folder, self._files))
            self._partition(partition).reopen()
        elif self.has_snapshot(log):
            self._files.remove(log.folder / OFFSETS_SNAPSHOT)


def _check_bytes_min(records: Sequence[OffsetsRecord], bytes_max: int) -> None:
    """Raise RecordsTooLarge for records that cannot fit into a batch, without encoding them: a
    group of many members can be hundreds of times too large."""
    first = records[0]
    size = 0
    if isinstance(first, GroupMetadataRecord):
        size = sum(len(each.subscription) + len(each.assignment) for each in first.value.members)
    elif isinstance(first, OffsetCommitRecord):
        values = (each.value for each in records if isinstance(each, OffsetCommitRecord))
        size = len(records) * COMMIT_BYTES_MIN + sum(map(len, values))
    if size > bytes_max:
        raise RecordsTooLarge(f"a batch of more than {size} bytes exceeds {bytes_max} bytes")
