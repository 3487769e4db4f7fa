"""The end of deleted topics: the folders of their partitions, a few in a turn of the loop."""

import logging
from collections.abc import Callable, Iterator, Set
from itertools import islice
from pathlib import Path
from typing import Final

from ..log.files import Files
from ..log.log import Log, LogConfig
from ..log.rounds import Rounds
from .partition import Partition
from .start_offsets import StartOffsets

__all__ = ["Removal"]

_log = logging.getLogger("kohort.topics")

# Others are served between so many partitions: 0.4 ms each, besides a sync, with a folder.
SLICE_PARTITIONS: Final = 5


class Removal:
    """`in_turn` calls back in another turn of the loop."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        rounds: Rounds,
        start_offsets: StartOffsets,
        in_turn: Callable[[Callable[[], None]], object],
    ) -> None:
        self._folder = folder
        self._files = files
        self._rounds = rounds
        self._start_offsets = start_offsets
        self._in_turn = in_turn

    def remove(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        """Removes them with all that is in them; what cannot be is told in the log, and goes
        before another topic of the name is made."""
        self._in_turn(lambda: self._remove_slice(partitions, done))

    def _remove_slice(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        slice_ = list(islice(partitions, SLICE_PARTITIONS))
        for partition in slice_:
            if partition.opened_log is not None:
                self._rounds.abandon(partition.opened_log, OSError("the topic was deleted"))
            try:
                partition.delete()
            except OSError as failure:
                _log.error("The folder of %s could not be removed: %s", partition.name, failure)
        if len(slice_) < SLICE_PARTITIONS:
            done()
        else:
            self.remove(partitions, done)

    def clear(self, partition: str) -> None:
        """A crash between a deletion and the end of its folders leaves records that must not
        show up in a new topic of the same name. Raises OSError."""
        folder = self._folder / partition
        if self._files.exists(folder):
            _log.warning("%s belongs to a topic that was deleted, and is removed", folder)
            Log(folder, self._files, LogConfig(), read_only=True).delete()
        self._start_offsets.forget(partition)

    def clear_all(self, topics: Set[str]) -> None:
        """What a crash, or the end of the broker, left of these topics."""
        for folder in self._files.list(self._folder) if topics else ():
            name, _, index = folder.rpartition("-")
            if name in topics and index.isdecimal():
                try:
                    self.clear(folder)
                except OSError as failure:
                    _log.error("The folder of %s could not be removed: %s", folder, failure)
