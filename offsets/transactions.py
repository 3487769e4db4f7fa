"""Offsets that transactions commit, while a log is read: pending until the producer's marker comes.

Here no transaction begins, so all there is to say of them lies in a log of Kafka's. One that is
still open at its end stays so: only a marker of its coordinator's, or a tombstone, could end it.
Upstream: CoordinatorLoaderImpl, OffsetMetadataManager.replay and replayEndTransactionMarker.
"""

from collections.abc import Iterator
from struct import Struct
from typing import TypeAlias

from ..log.batch import BatchHeader
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

__all__ = ["Transactions"]

# A control record's key: an int16 version and its type (upstream: ControlRecordType).
_CONTROL = Struct(">hh")
_ABORT, _COMMIT = 0, 1


Where: TypeAlias = tuple[str, str, int]


class Transactions:
    """The transactions of one log; its batches come in their order."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        # Producer id -> partition -> (offset of the record, the record; None once a newer commit
        # counts whatever comes of the transaction).
        self._open: dict[int, dict[Where, tuple[int, OffsetCommitRecord | None]]] = {}

    def __bool__(self) -> bool:
        """Whether any is open."""
        return bool(self._open)

    def read(self, header: BatchHeader, batch: bytes) -> list[ReplayedRecord]:
        """What a batch of any kind says. Raises UndecodableRecord, InvalidRecord."""
        if header.is_control:
            return [
                each
                for record in records_of(batch)
                for each in self._end(header.producer_id, record.key or b"")
            ]
        # Upstream looks at the producer, not at the batch's transactional flag.
        producer_id = header.producer_id if header.producer_id >= 0 else None
        return [
            each
            for record in records_of(batch)
            for each in self._read(
                producer_id, record.offset, decode_record(record.key, record.value)
            )
        ]

    def _read(
        self, producer_id: int | None, offset: int, record: OffsetsRecord
    ) -> Iterator[ReplayedRecord]:
        if isinstance(record, OffsetCommitRecord):
            where = record[:3]
            if producer_id is not None:
                self._open.setdefault(producer_id, {})[where] = (offset, record)
                yield PendingTransactionalOffset(*where)
                return
            self._overtake(where, offset)
        elif isinstance(record, OffsetTombstone):
            # Whoever wrote it: with the committed offset all that is pending goes.
            for producer, pending in list(self._open.items()):
                pending.pop(record, None)
                if not pending:
                    del self._open[producer]
        yield record

    def _end(self, producer_id: int, key: bytes) -> Iterator[ReplayedRecord]:
        if len(key) < _CONTROL.size:
            return
        _, kind = _CONTROL.unpack_from(key)
        if kind not in (_ABORT, _COMMIT):
            return
        for where, (offset, record) in self._open.pop(producer_id, {}).items():
            if kind == _COMMIT and record is not None:
                self._overtake(where, offset)
                yield record
            if not any(where in pending for pending in self._open.values()):
                yield TransactionalOffsetEnd(*where)

    def _overtake(self, where: Where, offset: int) -> None:
        """Older commits of the partition do not count any more, but are still to be settled."""
        for pending in self._open.values():
            if where in pending and pending[where][0] < offset:
                pending[where] = (offset, None)
