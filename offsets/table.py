"""The committed offsets: the cache that OffsetFetch is answered from.

Groups -> partitions -> the bytes of the commit, about 100 bytes an offset. A partition is keyed by
its name as Kafka prints it, "topic-partition": one string shared by all groups, in a flat dict of
strings and bytes, which is the smallest that Python has and which its garbage collector never has
to visit; a dict for each topic of each group would cost a fifth more.

A group may be cold: then only its place in a file is known, and it comes into memory when it is
asked for. What does not touch the disk on a hit may on a miss: everything that looks at a group
raises OSError where its place cannot be read (cold.py).
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import chain

from ..log.files import File
from .commit_value import decode_commit_value
from .records import OffsetAndMetadata, OffsetCommitRecord, OffsetTombstone
from .spill import Offsets, Place, append_piece, read_piece

# Names are remembered up to here (some 20 MiB), then begun anew: a broker that has had more
# partitions than that in its life has most likely deleted them again.
_NAMES_MAX = 100_000
_NONE: Offsets = {}


class OffsetsTable:
    """Who has committed what. One writer: whoever applies records.

    `grown(count)` hears that more offsets have come into memory; with it the table remembers who
    was used last, for `evict`.
    """

    __slots__ = (
        "_files",
        "_groups",
        "_grown",
        "_names",
        "_places",
        "_spill",
        "_topics",
        "_written",
        "in_memory",
        "is_closed",
    )

    def __init__(self, grown: Callable[[int], None] | None = None) -> None:
        self._groups: dict[str, Offsets] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._topics: set[str] = set()
        self._grown = grown
        # Where groups stand as they are; those in memory keep their place until they change.
        self._places: dict[str, Place] = {}
        # The same for a snapshot that is being written.
        self._written: dict[str, Place] | None = None
        self._files: list[File] = []
        self._spill: File | None = None
        self.in_memory = 0
        """How many offsets are in memory."""
        self.is_closed = False

    # --- changing

    def put(self, record: OffsetCommitRecord) -> None:
        group_id, topic, partition, value, _ = record
        try:
            offsets = self._groups[group_id]
            name = self._names[topic, partition]
        except KeyError:
            offsets = self._of(group_id) or self._groups.setdefault(group_id, {})
            name = self._name(topic, partition)
        if self._grown is not None:
            self._use(group_id, offsets)
        before = len(offsets)
        offsets[name] = value
        if self._places or self._written:
            self._has_changed(group_id)
        if len(offsets) != before:
            self._grow(1)

    def forget(self, record: OffsetTombstone) -> None:
        """Forgetting what was never committed is no fault: compaction leaves such tombstones."""
        group_id = record.group_id
        offsets = self._of(group_id)
        if offsets is None or offsets.pop(f"{record.topic}-{record.partition}", None) is None:
            return
        self.in_memory -= 1
        self._has_changed(group_id)
        if not offsets:
            del self._groups[group_id]

    def _has_changed(self, group_id: str) -> None:
        self._places.pop(group_id, None)
        if self._written is not None:
            self._written.pop(group_id, None)

    def _grow(self, offsets: int) -> None:
        self.in_memory += offsets
        if self._grown is not None:
            self._grown(offsets)

    # --- looking

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        offsets = self._of(group_id)
        if offsets is None:
            return None
        value = offsets.get(f"{topic}-{partition}")
        return None if value is None else decode_commit_value(value)

    def of_group(self, group_id: str) -> dict[str, dict[int, OffsetAndMetadata]]:
        """All that a group has committed, topic -> partition -> what; empty for a group unknown."""
        topics: dict[str, dict[int, OffsetAndMetadata]] = {}
        for name, value in (self._of(group_id) or _NONE).items():
            topic, partition = _split(name)
            topics.setdefault(topic, {})[partition] = decode_commit_value(value)
        return topics

    def records(self, group_id: str) -> Iterator[OffsetCommitRecord]:
        """The newest commit of each partition, as it was put. Don't change the table meanwhile.
        Here and below nothing comes into memory: those who look at all groups ask."""
        for name, value in self._seen(group_id).items():
            yield OffsetCommitRecord(group_id, *_split(name), value)

    def of_topics(self, group_id: str, topics: Set[str]) -> list[OffsetTombstone]:
        """What forgets all that a group has committed for these topics. Looks at every offset of
        the group, some 15 ms for 100,000."""
        found = []
        for name in self._seen(group_id):
            topic, partition = _split(name)
            if topic in topics:
                found.append(OffsetTombstone(group_id, topic, partition))
        return found

    def has_had(self, topic: str) -> bool:
        """Whether there has ever been an offset of this topic. Does not look at them."""
        return topic in self._topics

    @property
    def topics(self) -> Set[str]:
        """Those that have ever had an offset."""
        return self._topics

    def count(self, group_id: str) -> int:
        """How many offsets a group has."""
        offsets = self._groups.get(group_id)
        if offsets is not None:
            return len(offsets)
        place = self._places.get(group_id)
        return 0 if place is None else place.offsets

    def has(self, group_id: str) -> bool:
        """Whether the group has any committed offset."""
        return group_id in self._groups or group_id in self._places

    def groups(self) -> Iterator[str]:
        """The groups that have committed offsets."""
        return chain(self._groups, self._cold())

    def __len__(self) -> int:
        """How many offsets there are; counted when asked, some 10 ms for 100,000 groups."""
        return self.in_memory + sum(self._places[group_id].offsets for group_id in self._cold())

    def _cold(self) -> Iterator[str]:
        return (group_id for group_id in self._places if group_id not in self._groups)

    def _of(self, group_id: str) -> Offsets | None:
        """The offsets of a group, in memory from now on."""
        offsets = self._groups.get(group_id)
        if offsets is not None:
            if self._grown is not None:
                self._use(group_id, offsets)
            return offsets
        place = self._places.get(group_id)
        if place is not None:
            offsets = self._groups[group_id] = read_piece(group_id, place)
            self._grow(len(offsets))
        return offsets

    def _use(self, group_id: str, offsets: Offsets) -> None:
        """It is the last to be evicted."""
        self._groups.pop(group_id, None)
        self._groups[group_id] = offsets

    def _seen(self, group_id: str) -> Mapping[str, bytes]:
        offsets = self._groups.get(group_id)
        if offsets is not None:
            return offsets
        place = self._places.get(group_id)
        return _NONE if place is None else read_piece(group_id, place)

    def _name(self, topic: str, partition: int) -> str:
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._topics.add(topic)
        # Interned, so that the tables of all offsets partitions share one string.
        name = self._names[topic, partition] = sys.intern(f"{topic}-{partition}")
        return name

    # --- files

    @property
    def is_spilt(self) -> bool:
        """Whether groups stand in a file that grows with each eviction, until all is written."""
        return self._spill is not None

    def stand_at(self, file: File, places: Mapping[str, Place], topics: Set[str]) -> None:
        """All that there is stands at these places of `file`, which is the table's from now on.
        For a table that has nothing yet."""
        self._files.append(file)
        self._places = dict(places)
        self._topics.update(topics)

    def write(self, file: File) -> Iterator[tuple[str, Place]]:
        """Writes each group at the end of `file`, one at a time; between two the table may change.
        With the last the groups that have not changed stand there, and nothing stands elsewhere;
        the file is the table's. Raises OSError, after which all stands where it stood."""
        written = self._written = {}
        before, self._files = self._files, [*self._files, file]
        try:
            for group_id in list(self.groups()):
                offsets = self._seen(group_id)
                if offsets:  # else it is gone meanwhile
                    place = written[group_id] = append_piece(file, group_id, offsets)
                    yield group_id, place
            self._places = written
            self._files = [file]
            self._spill = None
            for each in before:
                each.close()
        except BaseException:
            self._let_go_of(file)
            raise
        finally:
            self._written = None

    def _let_go_of(self, file: File) -> None:
        """Nothing more is written to it; it stays as long as a group that was evicted stands in
        it."""
        if file in self._files and all(place.file is not file for place in self._places.values()):
            self._files.remove(file)
            file.close()

    def evict(self, offsets: int, new_spill: Callable[[], File]) -> None:
        """Takes so many offsets out of memory at least: whole groups, those first that were used
        longest ago; never the last one. What stands nowhere is written to a file of its own, or
        to the one that is being written. Raises OSError."""
        victims: list[str] = []
        for group_id, held in self._groups.items():
            if offsets <= 0 or len(victims) == len(self._groups) - 1:
                break
            victims.append(group_id)
            offsets -= len(held)
        for group_id in victims:
            if group_id not in self._places:
                self._put_down(group_id, new_spill)
            self.in_memory -= len(self._groups.pop(group_id))

    def _put_down(self, group_id: str, new_spill: Callable[[], File]) -> None:
        offsets = self._groups[group_id]
        if self._written is not None:
            place = self._written[group_id] = append_piece(self._files[-1], group_id, offsets)
        else:
            if self._spill is None:
                self._spill = new_spill()
                self._files.append(self._spill)
            place = append_piece(self._spill, group_id, offsets)
        self._places[group_id] = place

    def close(self) -> None:
        """The table is done with, and so are its files."""
        self.is_closed = True
        files, self._files = self._files, []
        for file in files:
            file.close()
        self._groups.clear()
        self._places.clear()
        self.in_memory = 0


def _split(name: str) -> tuple[str, int]:
    # A topic's name may hold dashes, a partition's number cannot.
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)
