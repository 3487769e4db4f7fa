"""Offsets committed in transactions, when a log is loaded: pending until the producer's marker.

kohort starts no transactions; all of them were written by Kafka. A transaction still open at the
end of the log remains open: only a transaction marker or a tombstone could end it. Upstream:
CoordinatorLoaderImpl, OffsetMetadataManager.replay and replayEndTransactionMarker.
"""

from collections.abc import Iterator
from typing import TypeAlias

from ..log.batch import BatchHeader
from ..log.producer_state import ABORT, COMMIT, marker_type
from ..log.records import records as records_of
from .record_codec import decode_record
from .records import (
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
    PendingTransactionalOffset,
    ReplayedRecord,
    TransactionalOffsetEnd,
)

OffsetKey: TypeAlias = tuple[str, str, int]
"""Group id, topic, partition."""


class Transactions:
    """The transactions of one log, whose batches are decoded in order."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        # Producer id -> partition -> (record offset, record; None once superseded by a newer
        # commit, whatever the outcome of the transaction).
        self._open: dict[int, dict[OffsetKey, tuple[int, OffsetCommitRecord | None]]] = {}

    def __bool__(self) -> bool:
        """Whether any transaction is open."""
        return bool(self._open)

    def read(self, header: BatchHeader, batch: bytes) -> list[ReplayedRecord]:
        """Decode a batch of any kind. Return the records to apply and changes to pending offsets.
        Raises UndecodableRecord, InvalidRecord."""
        if header.is_control:
            return list(self._end(header.producer_id, marker_type(batch)))
        # Upstream checks the producer id instead of the transactional flag.
        producer_id = header.producer_id if header.producer_id >= 0 else None
        return [
            each
            for record in records_of(batch)
            for each in self._replay(
                producer_id, record.offset, decode_record(record.key, record.value)
            )
        ]

    def _replay(
        self, producer_id: int | None, offset: int, record: OffsetsRecord
    ) -> Iterator[ReplayedRecord]:
        if isinstance(record, OffsetCommitRecord):
            key = record[:3]
            if producer_id is not None:
                self._open.setdefault(producer_id, {})[key] = (offset, record)
                yield PendingTransactionalOffset(*key)
                return
            self._replace_pending(key, offset)
        elif isinstance(record, OffsetTombstone):
            # A tombstone also deletes pending offsets of all producers.
            for producer, pending in list(self._open.items()):
                pending.pop(record, None)
                if not pending:
                    del self._open[producer]
        yield record

    def _end(self, producer_id: int, marker: int | None) -> Iterator[ReplayedRecord]:
        if marker not in (ABORT, COMMIT):
            return
        for offset_key, (offset, record) in self._open.pop(producer_id, {}).items():
            if marker == COMMIT and record is not None:
                self._replace_pending(offset_key, offset)
                yield record
            if not any(offset_key in pending for pending in self._open.values()):
                yield TransactionalOffsetEnd(*offset_key)

    def _replace_pending(self, key: OffsetKey, offset: int) -> None:
        """Mark older pending commits of the partition as superseded."""
        for pending in self._open.values():
            if key in pending and pending[key][0] < offset:
                pending[key] = (offset, None)
