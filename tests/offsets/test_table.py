"""The table of committed offsets, compared with a plain dict."""

import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kohort.log.files import File
from kohort.offsets.record_codec import decode_commit_value, encode_commit_value
from kohort.offsets.records import OffsetCommitRecord, OffsetTombstone
from kohort.offsets.snapshot import SnapshotWriter, open_snapshot
from kohort.offsets.table import OffsetsTable
from kohort.testing.faults.files import FaultyFiles

FOLDER = Path("/data/offsets-0")
group_ids = st.sampled_from(["", "g", "my-group", "g-1"])
topics = st.sampled_from(["t", "t-1", "t-1-1", "orders"])
partitions = st.integers(0, 12)


class TableAgainstADict(RuleBasedStateMachine):
    """Uses a cache that is nearly always too small, while a snapshot is written."""

    def __init__(self) -> None:
        super().__init__()
        self.files = FaultyFiles()
        self.files.make_folder(FOLDER)
        self.spills = 0
        self.table = OffsetsTable(lambda _grown: None)
        self.model: dict[str, dict[tuple[str, int], bytes]] = {}
        self.writing: SnapshotWriter | None = None
        # The records since the start of the snapshot: the tail of the log.
        self.tail: list[OffsetCommitRecord | OffsetTombstone] = []

    def make_room(self) -> None:
        if self.table.held > 4:
            self.table.evict(self.table.held - 4, self.new_spill)

    def new_spill(self) -> File:
        self.spills += 1
        return self.files.open(FOLDER / f"spill-{self.spills}", create=True)

    @precondition(lambda self: not self.writing)
    @rule()
    def begin_a_snapshot(self) -> None:
        self.writing = SnapshotWriter(FOLDER, self.files, 0, self.table, iter(()), 1)
        self.tail = []

    @precondition(lambda self: self.writing)
    @rule()
    def continue_the_snapshot(self) -> None:
        assert self.writing is not None
        if next(self.writing.steps, self) is self:
            self.writing.finish(10)
            self.writing = None
            self.check_reopened()

    @precondition(lambda self: self.writing)
    @rule()
    def abandon_the_snapshot(self) -> None:
        assert self.writing is not None
        self.writing.abandon()
        self.writing = None

    def check_reopened(self) -> None:
        """Check that a start restores the model from the snapshot and the tail."""
        snapshot = open_snapshot(FOLDER, self.files, 0, 10)
        assert snapshot is not None
        table = OffsetsTable()
        table.attach(snapshot.file, snapshot.extents, snapshot.topics)
        for record in self.tail:
            table.load(record.group_id)
            if isinstance(record, OffsetCommitRecord):
                table.put(record)
            else:
                table.remove(record)
        for group_id, offsets in self.model.items():
            assert dict(offsets) == {
                (topic, partition): value for _, topic, partition, value, _ in table.read(group_id)
            }
            assert all(topic in table.topics for topic, _ in offsets)
        assert set(table.groups()) == set(self.model)
        table.close()

    @rule(group_id=group_ids, topic=topics, partition=partitions, offset=st.integers(0, 1 << 40))
    def put(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        value = encode_commit_value(offset, -1, "m" * (offset % 3), 1_700_000_000_000)
        record = OffsetCommitRecord(group_id, topic, partition, value)
        self.table.load(group_id)
        self.table.put(record)
        self.make_room()
        self.tail.append(record)
        self.model.setdefault(group_id, {})[topic, partition] = value

    @rule(group_id=group_ids, topic=topics, partition=partitions)
    def remove(self, group_id: str, topic: str, partition: int) -> None:
        record = OffsetTombstone(group_id, topic, partition)
        self.table.load(group_id)
        self.table.remove(record)
        self.make_room()
        self.tail.append(record)
        offsets = self.model.get(group_id, {})
        offsets.pop((topic, partition), None)
        if not offsets:
            self.model.pop(group_id, None)

    @rule(group_id=group_ids, topic=topics, partition=partitions)
    def get(self, group_id: str, topic: str, partition: int) -> None:
        value = self.model.get(group_id, {}).get((topic, partition))
        expected = None if value is None else decode_commit_value(value)
        self.table.load(group_id)
        assert self.table.get(group_id, topic, partition) == expected
        self.make_room()

    @invariant()
    def table_equals_the_dict(self) -> None:
        assert set(self.table.groups()) == set(self.model)
        assert len(self.table) == sum(map(len, self.model.values()))
        assert self.table.held <= max([4, *map(len, self.model.values())])
        for group_id in ("", "g", "my-group", "g-1"):
            offsets = self.model.get(group_id, {})
            assert self.table.has_group(group_id) == bool(offsets)
            assert self.table.count(group_id) == len(offsets)
            assert list(self.table.read(group_id)) == [
                OffsetCommitRecord(group_id, topic, partition, value)
                for (topic, partition), value in offsets.items()
            ]
            if not self.table.is_loaded(group_id):
                continue
            assert {
                (topic, partition): committed
                for topic, of_topic in self.table.of_group(group_id).items()
                for partition, committed in of_topic.items()
            } == {key: decode_commit_value(value) for key, value in offsets.items()}


TestTableAgainstADict = TableAgainstADict.TestCase


@pytest.mark.interpreted
def test_the_cache_of_partition_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.offsets.table._NAMES_MAX", 8)
    table = OffsetsTable()
    value = encode_commit_value(1, -1, "", 0)
    for partition in range(100):
        table.put(OffsetCommitRecord("g", "t", partition, value))
        assert len(table._names) <= 8
    assert len(table) == 100


def test_an_offset_takes_at_most_110_bytes() -> None:
    # Like a broker with many groups, but scaled down. Each group commits ten partitions of a topic.
    table = OffsetsTable()
    groups, offsets_of_group = 500, 10
    for number in range(groups):
        for partition in range(offsets_of_group):
            value = encode_commit_value(number, -1, "", 1_700_000_000_000 + number)
            table.put(OffsetCommitRecord(f"group-{number:06}", "orders", partition, value))
    size = sys.getsizeof(table._groups)
    for group_id, offsets in table._groups.items():
        # The allocator rounds up to 16 bytes.
        size += sum(-(-sys.getsizeof(part) // 16) * 16 for part in offsets.values())
        size += sys.getsizeof(group_id) + sys.getsizeof(offsets)
    assert size / (groups * offsets_of_group) <= 110
