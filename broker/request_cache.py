"""The request cache: repeated requests are recognised by their bytes instead of being decoded.

Between two rebalances a consumer sends the same heartbeats and offset fetches, to the last byte of
their bodies, and commits that differ only in the offsets. A frame is split into its constant bytes
and its numbers: the correlation id, and the handler's VARYING_FIELD. Lengths and counts are
constant bytes, so frames that agree in these are the same request with other numbers, and only the
numbers need to be read. Pipelined frames of the same request are returned together.

Switching it off (`kohort.request.cache=false`) changes nothing but speed.
"""

from collections.abc import Sequence
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple, TypeAlias

from .request import Numbers, Route

Frame: TypeAlias = tuple[bytes, int, int]
"""Buffer, start and end of what follows the size."""

# What one connection may keep: enough for a consumer of two thousand partitions, or for some sixty
# small requests. Beyond that the cache is emptied.
CACHE_BYTES_MAX: Final = 64 * 1024
# Roughly what an entry takes besides its bytes: message, command, encoded response.
ENTRY_BYTES: Final = 1024


class CachedRequest(NamedTuple):
    """A repeated request: the arguments of its RequestContext."""

    route: Route
    client_id: str | None
    request: Any
    """The first message of its kind, with the numbers of that time."""
    prepared: Any
    """The `prepared` of its context."""


class RequestCache:
    """The repeated requests of one connection."""

    __slots__ = ("_bytes", "_entries", "_layouts")

    def __init__(self) -> None:
        # A frame's first eight bytes (size, key, version) -> how to split it; then its constant
        # bytes -> the entry.
        self._layouts: dict[bytes, Struct] = {}
        self._entries: dict[tuple[bytes, ...], CachedRequest] = {}
        self._bytes = 0

    def get(
        self, frames: Sequence[Frame], index: int
    ) -> tuple[CachedRequest, Numbers, Sequence[Numbers]] | None:
        """The entry of the frame at `index`, with the correlation ids and the varying numbers of it
        and of the frames right behind it that have the same entry; None if it must be decoded."""
        buffer, start, end = frames[index]
        start -= 4
        layout = self._layouts.get(buffer[start : start + 8])
        if layout is None:
            return None
        pieces = layout.unpack_from(buffer, start)
        entry = self._entries.get(pieces[::2])
        if entry is None:
            return None
        # Only if the next frame begins alike: with alternating requests nothing is gained.
        if index + 1 < len(frames) and buffer.startswith(pieces[2], end + 12):
            size = end - start
            count = _same_size(frames[index : index + entry.route.pipelined_max], size)
            run = memoryview(buffer)[start : start + count * size]
            columns = list(zip(*layout.iter_unpack(run), strict=True))
            count = min(map(_same_bytes, columns[::2]))
            return entry, columns[1][:count], [numbers[:count] for numbers in columns[3::2]]
        return entry, pieces[1:2], [(number,) for number in pieces[3::2]]

    def put(self, entry: CachedRequest, buffer: bytes, start: int, body: int, end: int) -> None:
        """Recognise later frames that differ from this one only in their numbers."""
        start -= 4
        self._bytes += end - start + ENTRY_BYTES
        if self._bytes > CACHE_BYTES_MAX:
            self._layouts.clear()
            self._entries.clear()
            self._bytes = end - start + ENTRY_BYTES
            if self._bytes > CACHE_BYTES_MAX:
                return
        numbers = entry.route.find_varying(buffer, body, end)
        formats, position = [">8si"], start + 12
        for number, letter in numbers:
            formats.append(f"{number - position}s{letter}")
            position = number + calcsize(f">{letter}")
        if position > end:
            return
        layout = Struct(f"{''.join(formats)}{end - position}s")
        self._layouts[buffer[start : start + 8]] = layout
        self._entries[layout.unpack_from(buffer, start)[::2]] = entry


def _same_size(frames: Sequence[Frame], size: int) -> int:
    """How many of `frames` may have the size of the first, judged by where the last one ends. One
    between may differ: then its size stands where the constant bytes have another."""
    buffer, _, end = frames[0]
    count = len(frames)
    while frames[count - 1][0] is not buffer or frames[count - 1][2] != end + (count - 1) * size:
        count -= 1
    return count


def _same_bytes(pieces: Sequence[bytes]) -> int:
    """How many equal the first, up to the first that does not."""
    first = pieces[0]
    if pieces.count(first) == len(pieces):
        return len(pieces)
    return next(index for index, piece in enumerate(pieces) if piece != first)
