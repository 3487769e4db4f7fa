"""Kafka's small text files: a data folder's offset checkpoints and cluster id, and a partition
folder's topic id and leader epochs.

Upstream: OffsetCheckpointFile, MetaProperties, PartitionMetadataFile, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

import base64
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ..protocol.primitives import uuid_text
from .errors import LogError
from .files import Files

START_OFFSETS_FILE: Final = "log-start-offset-checkpoint"
CLEANED_OFFSETS_FILE: Final = "cleaner-offset-checkpoint"
_META_PROPERTIES: Final = "meta.properties"
_VERSION: Final = "0"
_PARTITION_METADATA: Final = "partition.metadata"
_LEADER_EPOCHS: Final = "leader-epoch-checkpoint"

_log = logging.getLogger("kohort.log")


class OffsetCheckpoint:
    """A checkpoint file with one offset per partition, in Kafka's text format: version (0), entry
    count, then `topic partition offset` per line.

    Kafka writes checkpoints once a minute. Here, a change is durable when `set`, `advance` or
    `remove` returns. Thread-safe. These methods and the constructor raise OSError. After a failed
    change, `get` returns the previous offsets.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._writing = threading.Lock()
        self._offsets = self._read() if files.exists(self._path) else {}

    def get(self, partition: str) -> int:
        """Return the offset of a partition, or 0 if there is no entry."""
        return self._offsets.get(partition, 0)

    def __contains__(self, partition: str) -> bool:
        return partition in self._offsets

    def set(
        self, partition: str, offset: int, is_deleted: Callable[[str], bool] = lambda _name: False
    ) -> None:
        """Set the offset of a partition. Here and in `advance`, `is_deleted(name)` is called under
        the lock. The offset of a deleted partition is not written, so that a new partition of the
        same name does not inherit it."""
        with self._writing:
            if self._offsets.get(partition) != offset and not is_deleted(partition):
                self._write(self._offsets | {partition: offset})

    def advance(
        self, offsets: Mapping[str, int], is_deleted: Callable[[str], bool] = lambda _name: False
    ) -> None:
        """Set the offsets that are higher than the current ones."""
        with self._writing:
            higher = {
                name: offset
                for name, offset in offsets.items()
                if offset > self.get(name) and not is_deleted(name)
            }
            if higher:
                self._write(self._offsets | higher)

    def remove(self, *partitions: str) -> None:
        """Remove entries with a single rewrite of the file."""
        with self._writing:
            removed = self._offsets.keys() & partitions
            if removed:
                self._write({name: at for name, at in self._offsets.items() if name not in removed})

    def _write(self, offsets: dict[str, int]) -> None:
        lines = [_VERSION, str(len(offsets))]
        for name, offset in offsets.items():
            topic, _, index = name.rpartition("-")
            lines.append(f"{topic} {index} {offset}")
        self._files.replace(self._path, "\n".join([*lines, ""]).encode())
        self._offsets = offsets

    def _read(self) -> dict[str, int]:
        text = self._files.read_bytes(self._path).decode(errors="replace")
        if not text:
            return {}  # Kafka creates an empty file
        try:
            version, count, *lines = text.splitlines()
            entries = [line.split(" ") for line in lines]
            offsets = {f"{topic}-{int(index)}": int(at) for topic, index, at in entries}
            if version != _VERSION or int(count) != len(offsets):
                raise ValueError(f"version {version} with {count} entries, found {len(offsets)}")
        except ValueError as error:
            # As in LogManager.loadLogs, deleted records reappear and compaction starts from the
            # beginning, but no record is lost.
            _log.warning("Ignoring unreadable %s: %s", self._path, error)
            return {}
        return offsets


class PartitionCheckpoints:
    """The checkpoint files of a data directory. Raises OSError."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.start_offsets = OffsetCheckpoint(folder / START_OFFSETS_FILE, files)
        """Log start offsets."""
        self.cleaned_offsets = OffsetCheckpoint(folder / CLEANED_OFFSETS_FILE, files)
        """Cleaner offsets, below which all records have been compacted."""

    def remove(self, *partitions: str) -> None:
        """Remove the entries of deleted partitions, so that new partitions do not inherit them."""
        self.start_offsets.remove(*partitions)
        self.cleaned_offsets.remove(*partitions)


def new_cluster_id() -> str:
    """Return a random UUID in Kafka's form, unpadded base64url. It does not begin with a dash,
    because command lines would parse it as an option (upstream: Uuid.randomUuid)."""
    while True:
        cluster_id = uuid_text(uuid.uuid4().bytes)
        if not cluster_id.startswith("-"):
            return cluster_id


def cluster_id_of(folder: Path, files: Files, node_id: int) -> str:
    """Return the cluster id in `meta.properties`. A missing file is created with a new id. Raises
    LogError if an existing file contains no valid id, because clients would treat a broker with a
    new id as another cluster."""
    path = folder / _META_PROPERTIES
    if files.exists(path):
        return _parse_cluster_id(files.read_bytes(path))
    cluster_id = new_cluster_id()
    text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
    files.replace(path, text.encode())
    return cluster_id


def _parse_cluster_id(data: bytes) -> str:
    lines = data.decode(errors="replace").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    cluster_id = values.get("cluster.id", "").strip()
    if not cluster_id or not cluster_id.isascii():
        raise LogError(f"{_META_PROPERTIES} has no valid cluster.id")
    return cluster_id


def read_topic_id(folder: Path, files: Files) -> uuid.UUID | None:
    """Return the topic id from `partition.metadata` (KIP-516), or None if the file is missing
    (Kafka before 2.8 and kohort do not write it) or contains no valid id. Raises OSError."""
    path = folder / _PARTITION_METADATA
    if not files.exists(path):
        return None
    try:
        lines = files.read_bytes(path).decode("ascii", errors="replace").splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        return uuid.UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"].strip() + "=="))
    except (KeyError, ValueError) as error:  # binascii.Error is a ValueError
        _log.warning("%s contains no topic id: %r", path, error)
        return None


def read_last_leader_epoch(folder: Path, files: Files) -> int | None:
    """Return the last epoch in `leader-epoch-checkpoint` (lines of `epoch start`), 0 if it lists no
    epochs, or None if it is missing, empty or unreadable. Raises OSError."""
    path = folder / _LEADER_EPOCHS
    data = files.read_bytes(path) if files.exists(path) else b""
    if not data:
        return None  # Kafka creates an empty file
    try:
        *_, last = data.split(b"\n", 2)[2].split(b"\n")[:-1] or [b"0"]
        return int(last.split()[0])
    except (ValueError, IndexError) as error:
        _log.warning("Ignoring unreadable %s: %s", path, error)
        return None
