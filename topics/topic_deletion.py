"""Removing the folders of deleted topics, a few per turn of the event loop.

Only folders that are known to belong to a deleted topic are removed; any other folder in the way of
a new partition is renamed.
"""

import logging
from collections.abc import Callable, Iterator, Set
from itertools import islice
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.files import Files, suffixed_folder
from ..log.log import Log, LogConfig
from .names import REGISTRY_TOPIC
from .topic import Partition

_log = logging.getLogger("kohort.topics")

# Partitions per turn of the loop: 0.4 ms each, and a sync, if they have a folder.
SLICE_PARTITIONS: Final = 5


class FolderDeletion:
    """`deleted_names`: of topics of which something may be left. `call_soon` calls back from the
    event loop."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        fail_pending: Callable[[Log, OSError], None],
        checkpoints: PartitionCheckpoints,
        deleted_names: Set[str],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._folder = folder
        self._files = files
        self._fail_pending = fail_pending
        self._checkpoints = checkpoints
        self._deleted_names = deleted_names
        self._call_soon = call_soon
        self.failed: set[str] = set()
        """The topics of which something could not be removed since the broker was started."""

    def remove(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        """Remove the partitions with their folders, then call `done`. A folder that cannot be
        removed is logged, and removed before another topic of the name is created."""
        self._call_soon(lambda: self._remove_slice(partitions, done))

    def _remove_slice(self, partitions: Iterator[Partition], done: Callable[[], None]) -> None:
        slice_ = list(islice(partitions, SLICE_PARTITIONS))
        for partition in slice_:
            if partition.opened_log is not None:
                self._fail_pending(partition.opened_log, OSError("the topic was deleted"))
            try:
                partition.delete()
            except OSError as failure:
                self._on_failure(partition.name, failure)
        if len(slice_) < SLICE_PARTITIONS:
            done()
        else:
            self.remove(partitions, done)

    def clear(self, partition: str) -> None:
        """Make way for a new partition: a crash during a deletion leaves records that must not
        appear in a new topic of the same name. Raises OSError."""
        folder = self._folder / partition
        if self._files.exists(folder):
            if self._is_deleted(partition.rpartition("-")[0]):
                _log.warning("Removing %s, which belongs to a deleted topic", folder)
                Log(folder, self._files, LogConfig(), read_only=True).delete()
            else:
                self._rename(folder)
        self._checkpoints.remove(partition)

    def _is_deleted(self, topic: str) -> bool:
        """Unknown if the registry has lost its end: the topic may have been created again."""
        registry = self._files.list(self._folder / f"{REGISTRY_TOPIC}-0")
        return topic in self._deleted_names and not any(name.endswith(".cut") for name in registry)

    def _rename(self, folder: Path) -> None:
        """As Kafka does with folders of unknown topics (upstream: LogManager, "stray")."""
        number = 0
        while self._files.exists(stray := suffixed_folder(folder, number, "stray")):
            number += 1
        self._files.rename(folder, stray)
        self._files.sync_folder(self._folder)
        _log.warning("Renaming %s, which belongs to no known topic, to %s", folder, stray.name)

    def clear_all(self, topics: Set[str]) -> None:
        """At the start: remove what is left of these deleted topics."""
        for folder in self._files.list(self._folder) if topics else ():
            name, _, index = folder.rpartition("-")
            if name in topics and index.isdecimal():
                try:
                    self.clear(folder)
                except OSError as failure:
                    self._on_failure(folder, failure)

    def _on_failure(self, partition: str, failure: OSError) -> None:
        self.failed.add(partition.rpartition("-")[0])
        _log.error("The folder of %s could not be removed: %s", partition, failure)
