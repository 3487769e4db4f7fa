"""Removes the folders of deleted topics, a few per iteration of the event loop.

Only folders known to belong to a deleted topic are removed. Any other folder that conflicts with a
new partition is renamed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.files import Files, suffixed_folder
from ..log.log import Log, LogConfig
from .names import REGISTRY_TOPIC
from .topic import Partition

_log = logging.getLogger("kohort.topics")

# Number of partitions in one iteration. Each takes 0.4 ms, plus a sync if it has a folder.
SLICE_PARTITIONS: Final = 5

# For up to this many folders, one lookup of 20 µs each is faster than listing the data folder.
LOOKED_UP_MAX: Final = 100


@dataclass
class FolderDeletion:
    """Removes the folders of partitions."""

    folder: Path
    files: Files
    fail_pending: Callable[[Log, OSError], None]
    checkpoints: PartitionCheckpoints
    deleted_names: Set[str]  # deleted topics that may still have folders
    call_soon: Callable[[Callable[[], None]], object]  # schedules a callback on the event loop
    # Folders of deleted topics that could not be removed since startup.
    failed: set[str] = field(default_factory=set)

    def has_failed(self, topic: str) -> bool:
        """Whether a folder of a deleted topic could not be removed, and still exists."""
        return any(folder.rpartition("-")[0] == topic for folder in self.failed)

    def remove(self, partitions: Sequence[Partition], done: Callable[[], None]) -> None:
        """Remove the partitions and their folders, then call `done`. A folder whose removal fails
        is removed before a topic of the same name is created."""
        # Remove all checkpoint entries in one write. Deleting a partition retries this.
        with suppress(OSError):
            self.checkpoints.remove(*(each.name for each in partitions))
        self._remove_next(iter(partitions), done)

    def _remove_next(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        self.call_soon(lambda: self._remove_slice(partitions, done))

    def _remove_slice(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        slice_ = list(islice(partitions, SLICE_PARTITIONS))
        for partition in slice_:
            if partition.opened_log is not None:
                self.fail_pending(partition.opened_log, OSError("the topic was deleted"))
            try:
                partition.delete()
            except OSError as failure:
                self._on_failure(partition.name, failure)
        if len(slice_) < SLICE_PARTITIONS:
            done()
        else:
            self._remove_next(partitions, done)

    def clear_all(self, topic: str, indexes: range) -> None:
        """Like `clear`, for new partitions of a topic."""
        names = [f"{topic}-{index}" for index in indexes]
        if len(names) > LOOKED_UP_MAX:
            existing = set(self.files.list(self.folder))
            self.checkpoints.remove(*names)
            names = [name for name in names if name in existing]
        for name in names:
            self.clear(name)

    def clear(self, partition: str) -> None:
        """Remove the leftover folder of a deleted topic, or rename the folder of an unknown topic.
        Raises OSError."""
        folder = self.folder / partition
        if self.files.exists(folder):
            if self._is_deleted(partition.rpartition("-")[0]):
                _log.warning("Removing leftover folder %s of a deleted topic", folder)
                Log(folder, self.files, LogConfig(), read_only=True).delete()
            else:
                rename_stray(folder, self.files)
        self.failed.discard(partition)
        self.checkpoints.remove(partition)

    def _is_deleted(self, topic: str) -> bool:
        """Whether the folder belongs to a deleted topic. False if the registry lost its tail,
        because the topic may have been recreated."""
        registry = self.files.list(self.folder / f"{REGISTRY_TOPIC}-0")
        return topic in self.deleted_names and not any(name.endswith(".cut") for name in registry)

    def remove_all_leftovers(self, topics: Set[str]) -> None:
        """On startup, remove leftover folders of deleted topics."""
        for folder in self.files.list(self.folder) if topics else ():
            name, _, index = folder.rpartition("-")
            if name in topics and index.isdecimal():
                try:
                    self.clear(folder)
                except OSError as failure:
                    self._on_failure(folder, failure)

    def _on_failure(self, partition: str, failure: OSError) -> None:
        self.failed.add(partition)
        _log.error("Failed to remove the folder of %s: %s", partition, failure)


def rename_stray(folder: Path, files: Files) -> None:
    """Rename a folder of an unknown topic, as Kafka does (upstream: LogManager, "stray")."""
    names = (suffixed_folder(folder, number, "stray") for number in count())
    stray = next(name for name in names if not files.exists(name))
    files.rename(folder, stray)
    files.sync_folder(folder.parent)
    _log.warning("Renamed %s, which belongs to no known topic, to %s", folder, stray.name)
