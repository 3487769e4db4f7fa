"""The segments of a log that nothing is appended to any more: retention takes the oldest away, and
compaction puts others into the place of those that it has cleaned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .config import LogConfig
from .deletion import delete_below
from .errors import CleaningStopped, OffsetOutOfRange
from .files import Files
from .reader import LogReader
from .segment import Segment
from .swapping import Swap, set_aside
from .tasks import CooperativeTask, nothing


class ClosedSegments(LogReader):
    """What `Log` has of them."""

    def __init__(self, folder: Path, files: Files, config: LogConfig) -> None:
        super().__init__(config)
        self.folder = folder
        self.files = files
        self.closed = False
        self.failed: OSError | None = None  # after it nothing is accepted; see Log.recover
        self._swap: Swap | None = None

    def delete_before(self, offset: int) -> None:
        """Nothing below `offset` is given to readers any more, and segments wholly below it go.

        That outlives the log only if `open` is told so again: note it durably first.
        Raises OffsetOutOfRange beyond the end; OSError when a segment could not be removed.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        self._deleted_before = max(offset, self._deleted_before)
        with self._syncing:
            delete_below(self._segments, offset, self.files)

    def take_before(self, offset: int) -> list[str] | None:
        """Lets go of the closed segments wholly below `offset`, where the log begins from now on
        (note that durably first). Returns names in its folder that are to be removed, which may
        take long, in a thread. None while a sync uses the files: try again. Raises OSError.
        """
        if not self._syncing.acquire(blocking=False):
            return None
        try:
            self._deleted_before = max(offset, self._deleted_before)
            segments = self._segments
            taken: list[str] = []
            while len(segments) > 1 and segments[1].base_offset <= offset:
                segments[0].close()
                taken += set_aside(self.files, segments[0])
                del segments[0]
        finally:
            self._syncing.release()
        return taken

    def exchange(self, old: Sequence[Segment], cleaned: Segment) -> bool:
        """Puts `cleaned`, whose file has the suffix `.swap`, into the place of closed segments;
        `finish_swap` does the rest on the disk. False while a sync uses the files: try again.

        Raises CleaningStopped when they are not there any more.
        """
        if not self._syncing.acquire(blocking=False):
            return False
        try:
            number = self.number_of_closed(old)
            for segment in old:
                segment.close()
            self._segments[number : number + len(old)] = [cleaned]
            # recover() ends it as well, and then the names of the old ones are other files'.
            swap = Swap(self.files, cleaned, old, lambda: self.closed or self._swap is not swap)
            self._swap = swap
        finally:
            self._syncing.release()
        return True

    def number_of_closed(self, run: Sequence[Segment]) -> int:
        """Where this run of closed segments begins. Raises CleaningStopped."""
        segments = self._segments
        if not self.closed and self.failed is None and run[0] in segments[:-1]:
            number = segments.index(run[0])
            if segments[number : min(number + len(run), len(segments) - 1)] == list(run):
                return number
        raise CleaningStopped(f"{self.folder} has changed under its compaction")

    def finish_swap(self) -> CooperativeTask[None]:
        """Ends on the disk what `exchange` began, if that is still to be done. Raises OSError; then
        it is to be called again before anything else is exchanged.

        No generator of its own: a compiled one hands an error on in a way that Python 3.12 and
        later warn of, and where warnings are errors the error would be lost."""
        return nothing() if self._swap is None else self._swap.finish(self._swapped)

    def _swapped(self) -> None:
        self._swap = None
