"""The end of deleted topics: the folders of their partitions, a few in a turn of the loop. Only
what is known to be of a deleted topic is removed; any other folder in the way is set aside."""

import logging
from collections.abc import Callable, Iterator, Set
from itertools import islice
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.files import Files, suffixed_folder
from ..log.group_commit import GroupCommit
from ..log.log import Log, LogConfig
from .names import REGISTRY_TOPIC
from .partition import Partition

__all__ = ["Removal"]

_log = logging.getLogger("kohort.topics")

# Others are served between so many partitions: 0.4 ms each, besides a sync, with a folder.
SLICE_PARTITIONS: Final = 5


class Removal:
    """`deleted`: the names of topics that may have left something. `in_turn` calls back in another
    turn of the loop."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        group_commit: GroupCommit,
        checkpoints: PartitionCheckpoints,
        deleted: Set[str],
        in_turn: Callable[[Callable[[], None]], object],
    ) -> None:
        self._folder = folder
        self._files = files
        self._group_commit = group_commit
        self._checkpoints = checkpoints
        self._deleted = deleted
        self._in_turn = in_turn
        self.left: set[str] = set()
        """The topics of which something could not be removed in this life of the broker."""

    def remove(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        """Removes them with all that is in them; what cannot be is told in the log, and goes
        before another topic of the name is made."""
        self._in_turn(lambda: self._remove_slice(partitions, done))

    def _remove_slice(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        slice_ = list(islice(partitions, SLICE_PARTITIONS))
        for partition in slice_:
            if partition.opened_log is not None:
                self._group_commit.fail_pending(
                    partition.opened_log, OSError("the topic was deleted")
                )
            try:
                partition.delete()
            except OSError as failure:
                self._could_not(partition.name, failure)
        if len(slice_) < SLICE_PARTITIONS:
            done()
        else:
            self.remove(partitions, done)

    def clear(self, partition: str) -> None:
        """A crash between a deletion and the end of its folders leaves records that must not
        show up in a new topic of the same name. Raises OSError."""
        folder = self._folder / partition
        if self._files.exists(folder):
            if self._is_deleted(partition.rpartition("-")[0]):
                _log.warning("%s belongs to a topic that was deleted, and is removed", folder)
                Log(folder, self._files, LogConfig(), read_only=True).delete()
            else:
                self._set_aside(folder)
        self._checkpoints.remove(partition)

    def _is_deleted(self, topic: str) -> bool:
        """Nobody knows where the registry has lost its end: there may have been another topic of
        that name since."""
        registry = self._files.list(self._folder / f"{REGISTRY_TOPIC}-0")
        return topic in self._deleted and not any(name.endswith(".cut") for name in registry)

    def _set_aside(self, folder: Path) -> None:
        """As Kafka does with what it does not know (upstream: LogManager, "stray")."""
        number = 0
        while self._files.exists(stray := suffixed_folder(folder, number, "stray")):
            number += 1
        self._files.rename(folder, stray)
        self._files.sync_folder(self._folder)
        _log.warning("%s is of no topic that is known: it is kept as %s", folder, stray.name)

    def clear_all(self, topics: Set[str]) -> None:
        """What a crash, or the end of the broker, left of these topics."""
        for folder in self._files.list(self._folder) if topics else ():
            name, _, index = folder.rpartition("-")
            if name in topics and index.isdecimal():
                try:
                    self.clear(folder)
                except OSError as failure:
                    self._could_not(folder, failure)

    def _could_not(self, partition: str, failure: OSError) -> None:
        self.left.add(partition.rpartition("-")[0])
        _log.error("The folder of %s could not be removed: %s", partition, failure)
