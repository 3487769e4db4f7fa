"""A stream of bytes becomes request frames: four bytes of size, then that many bytes.

Nothing is copied while frames lie whole in what was received; of a frame that does not, only the
bytes received so far are kept, however large the size that it announces.
"""

from struct import Struct

from .errors import FrameTooLarge, InvalidFrameSize, ProtocolError

SIZE = Struct(">i")
_size_at = SIZE.unpack_from
MIB = 1024 * 1024

FRAME_BYTES_MAX = 100 * MIB
"""Kafka's default of socket.request.max.bytes."""

FRAME_BYTES_MIN = 10
"""The smallest request header: key, version, correlation id, length of the client id. Kafka takes
a smaller frame in and fails on its header; what the client sees is the same."""


class Framer:
    """Cuts one connection's stream into frames.

    A size that no request can have spoils the rest of the stream: `error` is set, and whatever
    is fed afterwards is dropped. The frames before it are good and are answered first.
    """

    __slots__ = ("_frame_bytes_max", "_partial", "_wanted", "error")

    error: ProtocolError | None
    """Why this stream ended: InvalidFrameSize or FrameTooLarge. None while all is well."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._partial: bytearray | None = None
        self._wanted = 4  # bytes that _partial must have before it can be looked at again
        self.error = None

    @property
    def buffered_bytes(self) -> int:
        """How much of an unfinished frame is kept."""
        return 0 if self._partial is None else len(self._partial)

    def feed(self, data: bytes) -> list[tuple[bytes, int, int]]:
        """Take what was received, return the frames that it completes: (buffer, start, end).

        The size is not part of start … end. The buffer is `data` itself, unless the frame began
        in what was fed before. Raises nothing; look at `error` after handling the frames.
        """
        frames: list[tuple[bytes, int, int]] = []
        position = 0
        if self._partial is not None:
            position = self._finish_partial(data, frames)
        if self.error is not None:
            return frames
        received = len(data)
        while received - position >= 4:
            (size,) = _size_at(data, position)
            if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
                self.error = self._refusal(size)
                return frames
            end = position + 4 + size
            if end > received:
                self._wanted = 4 + size
                self._partial = bytearray(memoryview(data)[position:])
                return frames
            frames.append((data, position + 4, end))
            position = end
        if position < received:
            self._wanted = 4
            self._partial = bytearray(memoryview(data)[position:])
        return frames

    def _finish_partial(self, data: bytes, frames: list[tuple[bytes, int, int]]) -> int:
        """Add to the unfinished frame what belongs to it, return how much of `data` that was."""
        partial = self._partial
        assert partial is not None
        position = 0
        if self._wanted == 4:
            position = 4 - len(partial)
            partial += data[:position]
            if len(partial) < 4:
                return len(data)
            (size,) = SIZE.unpack(partial)
            if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
                self.error = self._refusal(size)
                self._partial = None
                return len(data)
            self._wanted = 4 + size
        end = position + self._wanted - len(partial)
        partial += memoryview(data)[position:end]
        if len(partial) < self._wanted:
            return len(data)
        # kio reads only what cannot change under it, hence the one copy.
        frames.append((bytes(partial), 4, self._wanted))
        self._partial = None
        return end

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
