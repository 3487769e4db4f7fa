"""Requests that come again. What a consumer sends between two rebalances repeats itself: its
heartbeats and its fetches of offsets to the last byte of their bodies, its commits but for the
offsets. So what such a frame asks is worked out once; from then on it is known by its bytes.

A frame is cut into what stays, and the numbers that may change: the correlation id, and the fields
that the handler names in CHANGES. Lengths and counts are among what stays. So frames that agree in
it are the same request with other numbers, and nothing has to be read but those. Those that came
together, one behind the other, are one question with several numbers.
"""

from collections.abc import Callable, Sequence
from struct import Struct, calcsize
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ..protocol.errors import UndecodableBody

if TYPE_CHECKING:
    from .request import RequestContext
    from .routes import Route

Numbers: TypeAlias = Sequence[int]
"""A field that may change: what it is in each of the requests of a call."""
RepeatHandler: TypeAlias = Callable[["RequestContext", Any, Sequence[Numbers]], None]
"""again(call, node, changes): what a handler returns to be asked in this way from now on. The call
is requests that were sent one behind the other, at most `route.run_max`; `changes` are the fields
that may change, in their order."""
Frame: TypeAlias = tuple[bytes, int, int]
"""Buffer, start and end of what follows its size."""

# So many requests are decided together at most: twice that brings nothing, and they share a turn.
RUN_MAX: Final = 32

# What one connection may make us remember: enough for a consumer of two thousand partitions, or
# for some sixty small requests. When more comes, all is forgotten and learnt anew.
BYTES_MAX: Final = 64 * 1024
# What a shape takes besides its bytes, roughly: its message, its command, its answer.
SHAPE_BYTES: Final = 1024


class CachedRequest(NamedTuple):
    """All that is known of a frame whose bytes, but for the numbers, have been seen before."""

    route: "Route"
    client_id: str | None
    request: Any
    """The first message of this shape. Its numbers are those of that time."""
    again: RepeatHandler


class RequestCache:
    """The shapes of one connection's requests."""

    __slots__ = ("_bytes", "_cuts", "_known")

    def __init__(self) -> None:
        # A frame's first eight bytes (size, key, version) -> how to cut it; then what stays -> all
        # that is known of it.
        self._cuts: dict[bytes, Struct] = {}
        self._known: dict[tuple[bytes, ...], CachedRequest] = {}
        self._bytes = 0

    def recall(
        self, frames: Sequence[Frame], place: int
    ) -> tuple[CachedRequest, Numbers, Sequence[Numbers]] | None:
        """The shape of the frame at `place`, and the correlation ids and numbers of it and of
        frames right behind it that are of the same shape; None: it is to be read."""
        buffer, start, end = frames[place]
        start -= 4
        cut = self._cuts.get(buffer[start : start + 8])
        if cut is None:
            return None
        pieces = cut.unpack_from(buffer, start)
        shape = self._known.get(pieces[::2])
        if shape is None:
            return None
        # Only where the next looks like it as well: with requests that take turns nothing is won.
        if place + 1 < len(frames) and buffer.startswith(pieces[2], end + 12):
            size = end - start
            count = _in_steps(frames[place : place + shape.route.run_max], size)
            run = memoryview(buffer)[start : start + count * size]
            columns = list(zip(*cut.iter_unpack(run), strict=True))
            count = min(map(_alike, columns[::2]))
            return shape, columns[1][:count], [numbers[:count] for numbers in columns[3::2]]
        return shape, pieces[1:2], [(number,) for number in pieces[3::2]]

    def learn(self, shape: CachedRequest, buffer: bytes, start: int, body: int, end: int) -> None:
        """Know the next frame that differs from this one in its numbers alone."""
        start -= 4
        self._bytes += end - start + SHAPE_BYTES
        if self._bytes > BYTES_MAX:
            self._cuts.clear()
            self._known.clear()
            self._bytes = end - start + SHAPE_BYTES
            if self._bytes > BYTES_MAX:
                return
        try:
            numbers = shape.route.find_changes(buffer, body, end)
        except UndecodableBody:
            return  # only the lenient reader understands it
        layout, at = [">8si"], start + 12
        for number, letter in numbers:
            layout.append(f"{number - at}s{letter}")
            at = number + calcsize(f">{letter}")
        if at > end:
            return
        cut = Struct(f"{''.join(layout)}{end - at}s")
        self._cuts[buffer[start : start + 8]] = cut
        self._known[cut.unpack_from(buffer, start)[::2]] = shape


def _in_steps(frames: Sequence[Frame], step: int) -> int:
    """How many of `frames` may be of the size of the first: the last of so many ends where it
    should. Those between need not, but then a size stands where none should."""
    buffer, _, end = frames[0]
    count = len(frames)
    while frames[count - 1][0] is not buffer or frames[count - 1][2] != end + (count - 1) * step:
        count -= 1
    return count


def _alike(pieces: Sequence[bytes]) -> int:
    """How many are as the first is, up to the first that is not."""
    first = pieces[0]
    if pieces.count(first) == len(pieces):
        return len(pieces)
    return next(place for place, piece in enumerate(pieces) if piece != first)
