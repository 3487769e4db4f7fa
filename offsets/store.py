"""The offsets store: the partitions of `__consumer_offsets`, whose logs use Kafka's record format.

The store appends records by group commit, and loads partitions from their snapshots and logs. The
table holds the resulting offsets, and the coordinator holds the groups.
"""

from collections.abc import Iterator, Sequence

from ..log.batch import BatchHeader, BatchProducer, check_crc
from ..log.cache_files import OFFSETS_SNAPSHOT, remove_cache_files
from ..log.errors import CorruptBatch, RecordsTooLarge
from ..log.log import Log
from ..log.producer_state import ABORT, COMMIT, EndMarker, encode_marker, read_marker
from ..log.records import records as records_of
from ..log.tasks import run_synchronously
from .coordinator_topic import CoordinatorTopic
from .record_codec import decode_record, encode_record, encode_records
from .records import (
    GroupMetadataRecord,
    OffsetCommitRecord,
    OffsetsRecord,
    TransactionalOffsetCommit,
    TransactionEnd,
)
from .snapshot import SnapshotWriter, open_snapshot
from .table import OffsetsTable

# Encoding more records than this takes more than a millisecond.
MANY_RECORDS = 1000
# Size of the framing and the key in a commit's record with empty strings.
COMMIT_BYTES_MIN = 7 + 10


class OffsetsStore(CoordinatorTopic):
    """The partitions of the offsets topic."""

    @property
    def is_persistent(self) -> bool:
        """Whether the data outlives the process."""
        return self._group_commit.durability != "none"

    def append(self, log: Log, records: Sequence[OffsetsRecord], now_ms: int) -> object:
        """Add `records` to the next flush of a log, and return a token of that flush. The records
        are in one batch; only tombstones are split over several if one would be too large. Raises
        RecordsTooLarge without adding a record."""
        if len(records) > MANY_RECORDS or type(records[0]) is GroupMetadataRecord:
            _reject_too_large(records, log.config.max_message_bytes)
        # Encode first, because a record that cannot be encoded must not leave half a batch.
        first, producer = records[0], None
        if isinstance(first, TransactionEnd):
            kind = COMMIT if first.is_commit else ABORT
            encoded: Sequence[tuple[bytes, bytes | None]] = [
                encode_marker(EndMarker(kind, first.coordinator_epoch))
            ]
            producer = BatchProducer(first.producer_id, first.producer_epoch, is_control=True)
        elif isinstance(first, TransactionalOffsetCommit):
            # All records of a decision belong to the same transaction.
            encoded = [
                encode_record(each.commit)
                for each in records
                if isinstance(each, TransactionalOffsetCommit)
            ]
            producer = BatchProducer(first.producer_id, first.producer_epoch)
        else:
            encoded = encode_records(records)
        bytes_max = log.config.max_message_bytes
        try:
            return self._group_commit.append(log, encoded, now_ms, bytes_max, producer)
        except RecordsTooLarge:
            if any(value is not None for _, value in encoded):
                raise
            # A deletion consists of tombstones only, which may be split over several batches
            # (upstream: isAtomic).
            token: object = None
            for each in encoded:
                try:
                    token = self._group_commit.append(log, [each], now_ms, bytes_max)
                except RecordsTooLarge:  # a single tombstone is allowed to exceed the limit
                    token = self._group_commit.append(log, [each], now_ms)
            return token

    # --- loading

    def load(self, log: Log, table: OffsetsTable) -> tuple[int, Iterator[list[OffsetsRecord]]]:
        """Attach the snapshot to the empty `table`. Return the start offset of the replay, and the
        records to apply, batch by batch.

        Raises OSError. The iterator also raises LogError and UndecodableRecord; in that case, the
        partition must not be served (upstream: CoordinatorLoaderImpl). After a CorruptBatch, call
        `invalidate`.
        """
        snapshot = open_snapshot(log.folder, log.files, log.start_offset, log.end_offset)
        if snapshot is None:
            return 0, self._replay(log, 0, [])
        table.attach(snapshot.file, snapshot.extents, snapshot.topics)
        return snapshot.start_offset, self._replay(log, snapshot.start_offset, snapshot.metadata)

    def _replay(
        self, log: Log, start_offset: int, metadata: list[tuple[bytes, bytes]]
    ) -> Iterator[list[OffsetsRecord]]:
        # The groups' metadata is loaded from the snapshot; the table reads their offsets from it on
        # demand.
        yield [decode_record(key, value) for key, value in metadata]
        for header, batch in log.batches(max(start_offset, log.start_offset)):
            # Opening a log with a segment manifest does not check its batches.
            check_crc(batch, 0, len(batch))
            yield decode_batch(header, batch)

    # --- cache files

    def begin_snapshot(
        self, log: Log, table: OffsetsTable, metadata: Iterator[OffsetsRecord]
    ) -> SnapshotWriter:
        """Start writing a snapshot. Raises OSError."""
        encoded = ((key, value) for key, value in map(encode_record, metadata) if value is not None)
        return SnapshotWriter(log.folder, log.files, log.end_offset, table, encoded)

    def has_snapshot(self, log: Log) -> bool:
        return log.files.exists(log.folder / OFFSETS_SNAPSHOT)

    def invalidate(self, partition: int, log: Log, error: OSError | CorruptBatch) -> None:
        """Remove the corrupted cache file, so that the log is read instead. After a CorruptBatch,
        which the segment manifest had hidden, also reopen the log, which verifies all of its
        batches. Raises OSError and LogError."""
        if isinstance(error, CorruptBatch):
            run_synchronously(remove_cache_files(log.folder, log.files))
            self._partition(partition).reopen()
        elif self.has_snapshot(log):
            log.files.remove(log.folder / OFFSETS_SNAPSHOT)


def decode_batch(header: BatchHeader, batch: bytes) -> list[OffsetsRecord]:
    """Return the records of a batch. Raises UndecodableRecord and InvalidRecord."""
    if header.is_control:
        marker = read_marker(batch)
        if marker is None or marker.kind not in (ABORT, COMMIT):
            return []
        producer = header.producer_id, header.producer_epoch
        is_commit = marker.kind == COMMIT
        return [TransactionEnd(*producer, marker.coordinator_epoch, is_commit)]
    records = [decode_record(record.key, record.value) for record in records_of(batch)]
    if header.producer_id >= 0:  # upstream also ignores the transactional flag
        records = [_in_transaction(header, record) for record in records]
    return records


def _in_transaction(header: BatchHeader, record: OffsetsRecord) -> OffsetsRecord:
    if not isinstance(record, OffsetCommitRecord):
        return record
    return TransactionalOffsetCommit(header.producer_id, header.producer_epoch, record)


def _reject_too_large(records: Sequence[OffsetsRecord], bytes_max: int) -> None:
    """Raise RecordsTooLarge for records that cannot fit into a batch, without encoding them,
    because a group of many members can be hundreds of times too large."""
    first = records[0]
    size = 0
    if isinstance(first, GroupMetadataRecord):
        size = sum(len(each.subscription) + len(each.assignment) for each in first.value.members)
    elif isinstance(first, OffsetCommitRecord | TransactionalOffsetCommit):
        size = len(records) * COMMIT_BYTES_MIN
        for each in records:
            commit = each.commit if isinstance(each, TransactionalOffsetCommit) else each
            if isinstance(commit, OffsetCommitRecord):
                size += len(commit.value)
    if size > bytes_max:
        raise RecordsTooLarge(f"a batch of more than {size} bytes exceeds {bytes_max} bytes")
