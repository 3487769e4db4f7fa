"""The batch that is left of one when records have gone out of it, byte for byte as Kafka writes it.

Base and last offset stay, so that offsets never move and a producer's sequence can be told; so do
leader epoch, producer, codec and timestamp type. Upstream: MemoryRecords.filterTo,
buildRetainedRecordsInto; DefaultRecordBatch.writeEmptyHeader.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from ..protocol.primitives import varint
from .builder import seal
from .header import CODEC_MASK, DELETE_HORIZON, BatchHeader
from .raw_records import RawRecord
from .tasks import CooperativeTask

_REST = Struct(">hiqqqhii")
NO_TIMESTAMP = -1
# Some 300 us.
RECORDS_PER_STEP = 128


def rebuilt_records(
    header: BatchHeader, data: bytes, kept: Sequence[RawRecord], horizon_ms: int | None
) -> CooperativeTask[tuple[tuple[int, int], bytes]]:
    """(base and largest timestamp), the records' bytes of what is kept of `data`, the records of
    a batch, decompressed.

    `horizon_ms`: from when on tombstones may go; it takes the place of the base timestamp, and
    the records' deltas count from it (KIP-534).
    """
    if header.timestamp_type:
        times = [header.max_timestamp] * len(kept)
    else:
        times = [header.base_timestamp + record.timestamp_delta for record in kept]
    base = times[0] if horizon_ms is None else horizon_ms
    parts: list[bytes] = []
    for number, (record, timestamp) in enumerate(zip(kept, times, strict=True)):
        if number % RECORDS_PER_STEP == RECORDS_PER_STEP - 1:
            yield None
        body = b"\0%b%b" % (varint(timestamp - base), data[record.at : record.end])
        parts += (varint(len(body)), body)
    return (base, max(times)), b"".join(parts)


def rebuilt(
    header: BatchHeader,
    times: tuple[int, int],
    count: int,
    payload: bytes,
    horizon_ms: int | None,
) -> bytes:
    """The whole batch. `times`: base and largest; `payload`: the records, compressed."""
    attributes = header.attributes & ~DELETE_HORIZON
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
    return _sealed(header, attributes, times, count, payload)


def emptied(header: BatchHeader) -> bytes:
    """The header alone, without records: for what has to be known of a batch after them."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC_MASK)
    return _sealed(header, attributes, (NO_TIMESTAMP, header.max_timestamp), 0, b"")


def _sealed(
    header: BatchHeader, attributes: int, times: tuple[int, int], count: int, payload: bytes
) -> bytes:
    rest = _REST.pack(
        attributes,
        header.last_offset_delta,
        *times,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    return seal(rest + payload, header.base_offset, header.leader_epoch)
