"""The committed offsets in memory, and their eviction to files.

The table maps groups and partitions to commit values, using about 120 bytes per offset. Each group
has a flat dict of strings and bytes, which the garbage collector does not track. Its keys are
partition names ("topic-partition"), shared by all groups. A dict per topic would need 20 % more.

Evicted groups exist only in a file. They can be listed and counted, but must be loaded before their
offsets are read or changed.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import chain
from typing import Final

from ..log.files import File
from .record_codec import decode_commit_value
from .records import OffsetAndMetadata, OffsetCommitRecord, OffsetTombstone
from .spill import Extent, GroupOffsets, append_block, read_block

_log: Final = logging.getLogger("kohort.coordinator")

# Maximum number of interned partition names (about 20 MiB). The cache is cleared when it is full,
# because a broker that has seen more partitions has probably deleted many of them.
_NAMES_MAX = 100_000  # not Final, so that a test can lower it in compiled code too
_NONE: Final[GroupOffsets] = {}


class OffsetsTable:
    """The offsets of one offsets partition. With `grown`, the number of offsets in memory is
    limited: the table calls `grown` with the number of added offsets, and tracks the LRU order for
    `evict`."""

    def __init__(self, grown: Callable[[int], None] | None = None) -> None:
        self._groups: dict[str, GroupOffsets] = {}
        self._names: dict[tuple[str, int], str] = {}
        self.topics: set[str] = set()
        """All topics that have ever had an offset."""
        self._grown = grown
        # Extents of groups on disk. Groups in memory keep their extents until they are modified.
        self._extents: dict[str, Extent] = {}
        # Extents in the snapshot being written.
        self._new_extents: dict[str, Extent] | None = None
        self._files: list[File] = []
        self._spill: File | None = None
        self.held = 0  # number of offsets in memory
        self.is_closed = False

    # --- changes

    def put(self, record: OffsetCommitRecord) -> None:
        group_id, topic, partition, value, _ = record
        try:
            offsets = self._groups[group_id]
            name = self._names[topic, partition]
        except KeyError:
            # An evicted group must be loaded first (`load`), or its other offsets would be lost.
            assert group_id in self._groups or group_id not in self._extents
            offsets = self._groups.setdefault(group_id, {})
            name = self._name(topic, partition)
        before = len(offsets)
        offsets[name] = value
        if self._extents or self._new_extents:
            self._drop_extent(group_id)
        if len(offsets) != before:
            self._grow(1)

    def remove(self, record: OffsetTombstone) -> None:
        """Remove an offset if it exists. Compaction may have removed its commit."""
        group_id = record.group_id
        offsets = self._groups.get(group_id)
        if offsets is None or offsets.pop(f"{record.topic}-{record.partition}", None) is None:
            return
        self.held -= 1
        self._drop_extent(group_id)
        if not offsets:
            del self._groups[group_id]

    def _drop_extent(self, group_id: str) -> None:
        self._extents.pop(group_id, None)
        if self._new_extents is not None:
            self._new_extents.pop(group_id, None)

    def _grow(self, offsets: int) -> None:
        self.held += offsets
        if self._grown is not None:
            self._grown(offsets)

    def _name(self, topic: str, partition: int) -> str:
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self.topics.add(topic)
        # Names are interned, so that the tables of all offsets partitions share the strings.
        name = self._names[topic, partition] = sys.intern(f"{topic}-{partition}")
        return name

    # --- queries

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        offsets = self._groups.get(group_id)
        if offsets is None:
            return None
        value = offsets.get(f"{topic}-{partition}")
        return None if value is None else decode_commit_value(value)

    def of_group(self, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
        """Return the offsets by topic and partition; empty for an unknown group."""
        topics: dict[str, dict[int, OffsetAndMetadata]] = {}
        for name, value in self._groups.get(group_id, _NONE).items():
            topic, partition = _split(name)
            topics.setdefault(topic, {})[partition] = decode_commit_value(value)
        return topics

    def records(self, group_id: str) -> Iterator[OffsetCommitRecord]:
        """Yield the newest commit of each partition. Do not modify the table while iterating."""
        return _records(group_id, self._groups.get(group_id, _NONE))

    def is_loaded(self, group_id: str) -> bool:
        """Whether the group's offsets are in memory, or the group has none."""
        return group_id in self._groups or group_id not in self._extents

    def count(self, group_id: str) -> int:
        offsets = self._groups.get(group_id)
        if offsets is not None:
            return len(offsets)
        extent = self._extents.get(group_id)
        return 0 if extent is None else extent.offsets

    def has_group(self, group_id: str) -> bool:
        return group_id in self._groups or group_id in self._extents

    def groups(self) -> Iterator[str]:
        return chain(self._groups, self._evicted())

    def __len__(self) -> int:
        """Number of offsets. Takes about 10 ms for 100,000 groups."""
        return self.held + sum(self._extents[group_id].offsets for group_id in self._evicted())

    def _evicted(self) -> Iterator[str]:
        return (group_id for group_id in self._extents if group_id not in self._groups)

    # --- files: all methods raise OSError, and UnreadableBlock for a corrupted block

    def load(self, group_id: str) -> None:
        """Ensure that the group's offsets are in memory, and mark them as recently used."""
        offsets = self._groups.get(group_id)
        if offsets is None:
            extent = self._extents.get(group_id)
            if extent is not None:
                offsets = self._groups[group_id] = read_block(group_id, extent)
                self._grow(len(offsets))
        elif self._grown is not None:
            del self._groups[group_id]
            self._groups[group_id] = offsets

    def read(self, group_id: str) -> Iterator[OffsetCommitRecord]:
        """Iterate over the group's offsets without loading them."""
        return _records(group_id, self._read(group_id))

    def _read(self, group_id: str) -> Mapping[str, bytes]:
        offsets = self._groups.get(group_id)
        if offsets is not None:
            return offsets
        extent = self._extents.get(group_id)
        return _NONE if extent is None else read_block(group_id, extent)

    @property
    def has_spill_file(self) -> bool:
        """Whether groups were evicted to the spill file, which grows until the next snapshot."""
        return self._spill is not None

    def attach(self, file: File, extents: Mapping[str, Extent], topics: Set[str]) -> None:
        """Initialize the table with the groups in `file`, and take ownership of the file."""
        self._files.append(file)
        self._extents = dict(extents)
        self.topics.update(topics)

    def write(self, file: File) -> Iterator[tuple[str, Extent]]:
        """Append all groups to `file`, one per step, and take ownership of the file. The table may
        change between steps. After the last step, `file` replaces the table's older files. After an
        error, the table keeps its older files."""
        extents = self._new_extents = {}
        old_files, self._files = self._files, [*self._files, file]
        try:
            for group_id in list(self.groups()):
                offsets = self._read(group_id)
                if offsets:  # otherwise, the group was deleted in the meantime
                    extent = extents[group_id] = append_block(file, group_id, offsets)
                    yield group_id, extent
            self._extents = extents
            self._files = [file]
            self._spill = None
            for each in old_files:
                each.close()
        except BaseException:
            self._release(file)
            raise
        finally:
            self._new_extents = None

    def _release(self, file: File) -> None:
        """Close a file that could not be written, unless evicted groups use it."""
        if file in self._files and all(each.file is not file for each in self._extents.values()):
            self._files.remove(file)
            file.close()

    def evict(self, offsets: int, new_spill: Callable[[], File]) -> None:
        """Evict whole groups, least recently used first, with at least this many offsets in total.
        The most recently used group stays in memory. Groups without an extent are written to the
        snapshot in progress, or to a spill file if there is none."""
        victims: list[str] = []
        for group_id, held in self._groups.items():
            if offsets <= 0 or len(victims) == len(self._groups) - 1:
                break
            victims.append(group_id)
            offsets -= len(held)
        for group_id in victims:
            if group_id not in self._extents:
                self._extents[group_id] = self._spill_group(group_id, new_spill)
            self.held -= len(self._groups.pop(group_id))

    def _spill_group(self, group_id: str, new_spill: Callable[[], File]) -> Extent:
        offsets = self._groups[group_id]
        if self._new_extents is not None:
            extent = append_block(self._files[-1], group_id, offsets)
            self._new_extents[group_id] = extent
            return extent
        if self._spill is None:
            self._spill = new_spill()
            self._files.append(self._spill)
        return append_block(self._spill, group_id, offsets)

    def close(self) -> None:
        """Drop all offsets and close the files."""
        self.is_closed = True
        files, self._files = self._files, []
        for file in files:
            file.close()
        self._groups.clear()
        self._extents.clear()
        self.held = 0


def _records(group_id: str, offsets: Mapping[str, bytes]) -> Iterator[OffsetCommitRecord]:
    for name, value in offsets.items():
        yield OffsetCommitRecord(group_id, *_split(name), value)


def _split(name: str) -> tuple[str, int]:
    # Topic names may contain dashes, but partition numbers cannot.
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


class OffsetsCache:
    """Limits the number of offsets in memory across all partitions (`kohort.cache.offsets`).
    Eviction is I/O, so it is not done while records are applied. The owner calls `evict` when
    `needs_eviction` is true."""

    # An eviction frees this fraction of `offsets_max`, so that not every commit causes an eviction.
    STEP: Final = 0.01

    def __init__(self, offsets_max: int) -> None:
        self._offsets_max = offsets_max
        self._step = max(1, int(offsets_max * self.STEP))
        self._growth = 0
        self.needs_eviction = False
        self._tables: dict[OffsetsTable, Callable[[], File]] = {}

    def new_table(self, new_spill: Callable[[], File]) -> OffsetsTable:
        """Return an empty table. `new_spill` creates a file for evicted groups."""
        if not self._offsets_max:
            return OffsetsTable()
        table = OffsetsTable(self._grow)
        self._tables[table] = new_spill
        return table

    def _grow(self, offsets: int) -> None:
        self._growth += offsets
        if self._growth >= self._step:
            self.needs_eviction = True

    def evict(self) -> None:
        """Evict offsets until the total is at least STEP (1 %) below `offsets_max`."""
        self._growth = 0
        self.needs_eviction = False
        self._tables = {t: spill for t, spill in self._tables.items() if not t.is_closed}
        excess = sum(table.held for table in self._tables) + self._step - self._offsets_max
        tables = list(self._tables)
        while excess > 0 and tables:
            table = max(tables, key=lambda each: each.held)
            before = table.held
            try:
                table.evict(min(excess, max(1, before // 2)), self._tables[table])
            except OSError as error:
                _log.warning("Failed to evict offsets; keeping them in memory: %s", error)
                return
            if table.held == before:
                tables.remove(table)  # its only group stays in memory
            excess -= before - table.held
