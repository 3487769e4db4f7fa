"""The batches of a segment, and what is bad between them. A broker has to end its log at the first
bad byte; who looks at the files, or mends them, wants to know what comes behind.
"""

from collections.abc import Iterator
from struct import error as struct_error
from typing import Final, NamedTuple

from .batch import BatchHeader, check_crc, check_extent, read_header
from .errors import CorruptBatch, UnsupportedMagic
from .files import File
from .header import HEADER_BYTES
from .recovery import is_zero
from .segment import CHUNK_BYTES, check_place, walk

__all__ = ["Corruption", "ValidBatch", "extent", "sweep"]

# Where the magic byte lies in a batch: what a search looks for.
MAGIC: Final = b"\x02"
MAGIC_AT: Final = 16
# A segment's offsets span no more, in Kafka and here.
OFFSETS_SPAN_MAX: Final = 0x7FFFFFFF


class ValidBatch(NamedTuple):
    """A whole batch whose checksum is right and whose offsets follow those before it."""

    position: int
    header: BatchHeader
    batch: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.batch)


class Corruption(NamedTuple):
    """Bytes that are no sound batch. `next_offset`: where the log goes on behind them; None when
    nothing sound comes behind (a torn tail, or a batch that is just being written)."""

    position: int
    size: int
    reason: str
    first_offset: int
    next_offset: int | None

    @property
    def end(self) -> int:
        return self.position + self.size


def sweep(
    file: File, base_offset: int, *, position: int = 0, offset: int | None = None
) -> Iterator[ValidBatch | Corruption]:
    """All of a segment from `position` on, where `offset` is the lowest that may come next.

    Zeros at the end are room that was allocated ahead, and no flaw. Raises OSError, and
    UnsupportedMagic for what brokers before Kafka 0.11 wrote.
    """
    lowest = before = base_offset if offset is None else offset
    held: ValidBatch | None = (
        None  # judged by what follows: the checksum leaves out the base offset
    )
    while position < file.size:
        try:
            for sound in _whole_batches(file, position, base_offset):
                if sound.header.base_offset < lowest:
                    if held is None or not _leads_astray(held, before, sound, file):
                        raise CorruptBatch(sound.position, _out_of_order(sound.header, lowest))
                    yield Corruption(
                        held.position,
                        len(held.batch),
                        f"{_out_of_order(held.header, before)}, and lower ones follow",
                        before,
                        sound.header.base_offset,
                    )
                elif held is not None:
                    yield held
                    before = lowest
                held, lowest, position = sound, sound.header.next_offset, sound.end
            break
        except UnsupportedMagic:
            raise
        except CorruptBatch as error:
            if held is not None:
                yield held
                held, before = None, lowest
            flaw = _flaw(file, error, base_offset, lowest)
            if flaw is not None:
                yield flaw
            if flaw is None or flaw.next_offset is None:
                return
            position = flaw.end
    if held is not None:
        yield held


def _whole_batches(file: File, position: int, base_offset: int) -> Iterator[ValidBatch]:
    """Raises CorruptBatch at the first that is none."""
    for place in walk(file, position, file.size):
        check_place(file, place)
        header = read_header(place.buffer, place.at)
        _check_offsets(place.position, header, base_offset)
        if place.at + place.size <= len(place.buffer):
            batch = place.buffer[place.at : place.at + place.size]
        else:
            batch = file.read(place.position, place.size)
        yield ValidBatch(place.position, header, batch)


def _check_offsets(position: int, header: BatchHeader, base_offset: int) -> None:
    if header.last_offset_delta < 0 or header.count < 0:
        raise CorruptBatch(
            position,
            f"{header.count} records and a last offset delta of {header.last_offset_delta}",
        )
    if header.last_offset - base_offset > OFFSETS_SPAN_MAX:
        raise CorruptBatch(position, f"offset {header.last_offset} is too far for its segment")


def _out_of_order(header: BatchHeader, lowest: int) -> str:
    return f"offsets {header.base_offset}..{header.last_offset} where {lowest} comes next"


def _leads_astray(held: ValidBatch, before: int, sound: ValidBatch, file: File) -> bool:
    """Two batches contradict each other. Whether it is the first whose offsets are wrong: there is
    room for it between those around it, and who comes third leaves none for the second."""
    if sound.header.base_offset - before <= held.header.last_offset_delta:
        return False
    third = extent(file, sound.end)
    if third is None or third.base_offset < held.header.next_offset:
        return True
    return third.base_offset - held.header.next_offset <= sound.header.last_offset_delta


def _flaw(file: File, error: CorruptBatch, base_offset: int, lowest: int) -> Corruption | None:
    """None for zeros up to the end."""
    start = error.position
    found = _behind(file, start, base_offset, lowest)
    if found is not None:
        position, header = found
        return Corruption(start, position - start, error.reason, lowest, header.base_offset)
    if is_zero(file, start):
        return None
    return Corruption(start, file.size - start, error.reason, lowest, None)


def _behind(
    file: File, start: int, base_offset: int, lowest: int
) -> tuple[int, BatchHeader] | None:
    """Where the log goes on behind a bad batch, and with what."""
    position = start
    # Its length may be right: what lies in its records is not mistaken for a batch then.
    while (header := extent(file, position)) is not None:
        position += header.size
        found = _sound_at(file, position, base_offset, lowest)
        if found is not None:
            return position, found
        if position == file.size:
            return None
    position = start + 1
    while file.size - position >= HEADER_BYTES:
        chunk = file.read(position, CHUNK_BYTES)
        at = chunk.find(MAGIC, MAGIC_AT)
        while 0 <= at <= len(chunk) - HEADER_BYTES + MAGIC_AT:
            base = int.from_bytes(chunk[at - MAGIC_AT : at - MAGIC_AT + 8], "big")
            # A cheap sieve: the offset is the least probable to fit by chance.
            if lowest <= base <= base_offset + OFFSETS_SPAN_MAX:
                found = _sound_at(file, position + at - MAGIC_AT, base_offset, lowest)
                if found is not None:
                    return position + at - MAGIC_AT, found
            at = chunk.find(MAGIC, at + 1)
        position += max(1, len(chunk) - HEADER_BYTES + 1)
    return None


def extent(file: File, position: int) -> BatchHeader | None:
    """The header at a position where a batch could begin."""
    data = file.read(position, HEADER_BYTES)
    try:
        check_extent(data, 0, file.size - position)
    except (CorruptBatch, struct_error):
        return None
    return read_header(data)


def _sound_at(file: File, position: int, base_offset: int, lowest: int) -> BatchHeader | None:
    header = extent(file, position)
    if header is None or header.base_offset < lowest:
        return None
    try:
        _check_offsets(position, header, base_offset)
        check_crc(file.read(position, header.size), 0, header.size)
    except (CorruptBatch, struct_error):
        return None
    return header
