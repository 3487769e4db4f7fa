"""The request cache: repeated requests are recognized by their bytes instead of being decoded.

Between rebalances, a consumer repeats byte-identical heartbeats and offset fetches, and commits
that differ only in offsets. Each frame is split into constant bytes and numbers (correlation id,
VARYING_FIELD). Frames with equal constant bytes are repeated requests, of which only the numbers
are parsed. Consecutive pipelined frames of the same request are returned together.

With an authorizer, a request is cached only if its client is authorized for all of it. When the
ACLs have changed, the cache is cleared, so that repeated requests are authorized again.

Disabling the cache (`kohort.request.cache=false`) affects only the speed.
"""

from collections.abc import Sequence
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple, TypeAlias

from ...topics.acls import Acls
from .request import Numbers, Route

Frame: TypeAlias = tuple[bytes, int, int]
"""(buffer, start, end) of a frame without its size."""

# Cache size per connection, enough for a consumer with 2,000 partitions or for about sixty small
# requests. The cache is cleared when it is full.
CACHE_BYTES_MAX: Final = 64 * 1024
# Approximate size of an entry besides its bytes: message, command, encoded response.
ENTRY_BYTES: Final = 1024


class CachedRequest(NamedTuple):
    """The arguments of a repeated request's RequestContext."""

    route: Route
    client_id: str | None
    request: Any
    """The first decoded request with these constant bytes; its numbers are stale."""
    prepared: Any
    """The `prepared` object of its context."""


class RequestCache:
    """The repeated requests of one connection. `acls` is None without an authorizer."""

    __slots__ = ("_acls", "_acls_version", "_bytes", "_entries", "_layouts")

    def __init__(self, acls: Acls | None = None) -> None:
        self._acls = acls
        self._acls_version = 0 if acls is None else acls.version
        # Layouts by the first eight bytes (size, key, version); entries by constant bytes.
        self._layouts: dict[bytes, Struct] = {}
        self._entries: dict[tuple[bytes, ...], CachedRequest] = {}
        self._bytes = 0

    def get(
        self, frames: Sequence[Frame], index: int
    ) -> tuple[CachedRequest, Numbers, Sequence[Numbers]] | None:
        """Look up the frame at `index`. Return its entry, and the correlation ids and varying
        numbers of this and the following frames with the same entry; None on a miss."""
        acls = self._acls
        if acls is not None and acls.version != self._acls_version:
            self._acls_version = acls.version
            self._clear()
        buffer, start, end = frames[index]
        start -= 4  # the length field; a layout begins with 8 bytes: length, API key, version
        layout = self._layouts.get(buffer[start : start + 8])
        if layout is None:
            return None
        # Constant bytes alternate with numbers, of which the first is the correlation id.
        pieces = layout.unpack_from(buffer, start)
        entry = self._entries.get(pieces[::2])
        if entry is None:
            return None
        # Batch only if the next frame starts with the same bytes; batching does not help
        # alternating requests.
        if index + 1 < len(frames) and buffer.startswith(pieces[2], end + 12):
            size = end - start
            count = _count_same_size(frames[index : index + entry.route.pipelined_max], size)
            run = memoryview(buffer)[start : start + count * size]
            columns = list(zip(*layout.iter_unpack(run), strict=True))
            count = min(map(_equal_prefix_length, columns[::2]))
            return entry, columns[1][:count], [numbers[:count] for numbers in columns[3::2]]
        return entry, pieces[1:2], [(number,) for number in pieces[3::2]]

    def put(self, entry: CachedRequest, buffer: bytes, start: int, body: int, end: int) -> None:
        """Add an entry, for later frames that differ from this one only in their numbers."""
        start -= 4
        self._bytes += end - start + ENTRY_BYTES
        if self._bytes > CACHE_BYTES_MAX:
            self._clear()
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

    def _clear(self) -> None:
        self._layouts.clear()
        self._entries.clear()
        self._bytes = 0


def _count_same_size(frames: Sequence[Frame], size: int) -> int:
    """Return the largest n for which the first n frames take n × `size` bytes. If the frames' sizes
    differ, comparing the constant bytes detects this."""
    buffer, _, end = frames[0]
    count = len(frames)
    while frames[count - 1][0] is not buffer or frames[count - 1][2] != end + (count - 1) * size:
        count -= 1
    return count


def _equal_prefix_length(pieces: Sequence[bytes]) -> int:
    """Return how many pieces at the beginning are equal."""
    first = pieces[0]
    if pieces.count(first) == len(pieces):
        return len(pieces)
    return next(index for index, piece in enumerate(pieces) if piece != first)
