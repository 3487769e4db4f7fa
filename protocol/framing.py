"""A stream of bytes becomes request frames: four bytes of size, then that many bytes.

What was received is copied once, as frames outlive the buffer that a socket is read into. Of a
frame that is not whole only the bytes received so far are kept, however large the size that it
announces.
"""

from io import BytesIO
from struct import Struct
from typing import Final

from .errors import FrameTooLarge, InvalidFrameSize, ProtocolError

SIZE: Final = Struct(">i")
_size_at: Final = SIZE.unpack_from
MIB: Final = 1024 * 1024

FRAME_BYTES_MAX: Final = 100 * MIB
"""Kafka's default of socket.request.max.bytes."""

FRAME_BYTES_MIN: Final = 10
"""The smallest request header: key, version, correlation id, length of the client id. Kafka takes
a smaller frame in and fails on its header; what the client sees is the same."""


class Framer:
    """Cuts one connection's stream into frames.

    A size that no request can have spoils the rest of the stream: `error` is set, and whatever
    is fed afterwards is dropped. The frames before it are good and are answered first.
    """

    __slots__ = ("_frame_bytes_max", "_missing", "_partial", "error")

    error: ProtocolError | None
    """Why this stream ended: InvalidFrameSize or FrameTooLarge. None while all is well."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        # The bytes that it gives in the end are those that it has: no copy.
        self._partial: BytesIO | None = None
        self._missing = 0  # bytes that _partial needs before it can be looked at again
        self.error = None

    def feed(self, data: bytes | memoryview) -> list[tuple[bytes, int, int]]:
        """Take what was received, return the frames that it completes: (buffer, start, end).

        The size is not part of start … end. `data` may change afterwards. Raises nothing; look at
        `error` after handling the frames.
        """
        frames: list[tuple[bytes, int, int]] = []
        if self._partial is not None:
            data = self._finish_partial(data, frames)
        if self.error is not None:
            return frames
        received = len(data)
        if received >= 4:
            end: int = 4 + _size_at(data)[0]
            if end == received and FRAME_BYTES_MIN <= end - 4 <= self._frame_bytes_max:
                return [*frames, (bytes(data), 4, end)]  # the usual: one whole frame
            # All at once, unless there is nothing but the beginning of a large frame.
            if end <= received:
                data = bytes(data)
        position = 0
        while received - position >= 4:
            size: int = _size_at(data, position)[0]
            if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
                self.error = self._refusal(size)
                return frames
            end = position + 4 + size
            if end > received:
                self._keep(data, position, end)
                return frames
            frames.append((data, position + 4, end))  # type: ignore[arg-type]  # bytes, by now
            position = end
        if position < received:
            self._keep(data, position, position + 4)
        return frames

    def _keep(self, data: bytes | memoryview, position: int, end: int) -> None:
        """The frame from `position` to `end`, or its size, is not whole."""
        self._partial = BytesIO()
        self._partial.write(memoryview(data)[position:])
        self._missing = end - len(data)

    def _finish_partial(
        self, data: bytes | memoryview, frames: list[tuple[bytes, int, int]]
    ) -> bytes | memoryview:
        """Add to the unfinished frame what belongs to it, return the rest of `data`."""
        partial = self._partial
        assert partial is not None
        if partial.tell() < 4:
            data = self._take_missing(data)
            if self._missing:
                return data
            (size,) = SIZE.unpack(partial.getvalue())
            if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
                self.error = self._refusal(size)
                self._partial = None
                return data
            self._missing = size
        data = self._take_missing(data)
        if not self._missing:
            frames.append((partial.getvalue(), 4, partial.tell()))
            self._partial = None
        return data

    def _take_missing(self, data: bytes | memoryview) -> bytes | memoryview:
        assert self._partial is not None
        view = memoryview(data)
        taken = self._partial.write(view[: self._missing])
        self._missing -= taken
        return view[taken:]

    def _refusal(self, size: int) -> ProtocolError:
        if size > self._frame_bytes_max:
            return FrameTooLarge(
                f"a frame of {size} bytes is above socket.request.max.bytes"
                f" ({self._frame_bytes_max})"
            )
        if size < 0:
            return InvalidFrameSize(f"a frame cannot have the size {size}")
        return InvalidFrameSize(
            f"a frame of {size} bytes is too short for a request header ({FRAME_BYTES_MIN} bytes)"
        )
