"""Record batches that scenarios produce."""

from collections.abc import Iterable
from typing import NamedTuple

from ..log.batch import (
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Header,
    assemble,
    encode_record,
)
from ..log.codecs import compress


class NewRecord(NamedTuple):
    """A record that has no offset yet."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()


def build(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    codec: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    offset_deltas: Iterable[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """Return a batch of any kind. `attributes` are combined with the codec; `offset_deltas` and
    `last_offset_delta` are for batches with gaps, as compaction leaves them."""
    collected = tuple(records)
    deltas = tuple(range(len(collected)) if offset_deltas is None else offset_deltas)
    times = [record.timestamp_ms for record in collected] or [NO_TIMESTAMP]
    encoded = (
        encode_record(delta, record.timestamp_ms - times[0], *record[:2], record.headers)
        for delta, record in zip(deltas, collected, strict=True)
    )
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if deltas else 0
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes | codec,
        last_offset_delta=last_offset_delta,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(collected),
    )
    return assemble(header, compress(codec, b"".join(encoded)))
