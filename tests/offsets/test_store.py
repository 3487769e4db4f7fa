"""The offsets store: appending within the limit of a batch, loading, removing cache files."""

from collections.abc import Callable

import pytest
from kohort.log.batch import CONTROL, TRANSACTIONAL
from kohort.log.cache_files import OFFSETS_SNAPSHOT
from kohort.log.errors import RecordsTooLarge
from kohort.log.group_commit import GroupCommit
from kohort.log.log import LogConfig
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
    OffsetCommitRecord,
    OffsetTombstone,
    TransactionalOffsetCommit,
    TransactionEnd,
)
from kohort.offsets.store import MANY_RECORDS, OffsetsStore
from kohort.offsets.table import OffsetsTable
from kohort.testing.faults.files import FaultyFiles
from support.log import NewRecord, build, sync_each
from support.runtime import FOLDER, OffsetsPartition

NOW_MS = 1_700_000_000_000
COMMIT = OffsetCommitRecord("g", "t", 0, encode_commit_value(7, -1, "", 0))


class Fixture:
    def __init__(self, max_message_bytes: int = 200) -> None:
        self.files = FaultyFiles()
        self.files.make_folder(FOLDER)
        self.flushes: list[Callable[[], None]] = []
        group_commit = GroupCommit(
            durability="fsync",
            call_soon=self.flushes.append,
            sync_all=lambda syncs, done: done(sync_each(syncs)),
        )
        partition = OffsetsPartition(self.files, LogConfig(max_message_bytes=max_message_bytes))
        self.store = OffsetsStore(
            partitions=1, partition=lambda _: partition, group_commit=group_commit
        )
        self.log = self.store.open_log(0, None)

    def flush(self) -> None:
        while self.flushes:
            self.flushes.pop()()

    def load(self) -> tuple[OffsetsTable, list[object]]:
        table = OffsetsTable()
        _, batches = self.store.load(self.log, table)
        return table, [record for records in batches for record in records]


def test_commits_larger_than_a_batch_are_rejected_and_leave_nothing() -> None:
    fixture = Fixture()
    with pytest.raises(RecordsTooLarge):
        fixture.store.append(fixture.log, [COMMIT] * 20, NOW_MS)
    fixture.flush()
    assert fixture.load()[1] == []


def test_a_group_that_cannot_fit_into_a_batch_is_rejected_without_being_encoded() -> None:
    fixture = Fixture()
    # Lone surrogates cannot be encoded.
    member = MemberMetadata("m", None, "\ud800", "/h", 1, 1, bytes(10_000), b"")
    group = GroupMetadata("consumer", 1, "range", "m", NOW_MS, (member,))
    with pytest.raises(RecordsTooLarge, match="more than 10000 bytes exceeds"):
        fixture.store.append(fixture.log, [GroupMetadataRecord("g", group)], NOW_MS)
    commits = [COMMIT, *[COMMIT._replace(group_id="\ud800")] * MANY_RECORDS]
    with pytest.raises(RecordsTooLarge):
        fixture.store.append(fixture.log, commits, NOW_MS)
    fixture = Fixture(max_message_bytes=1_000_000)
    commits = [each._replace(value=bytes(1000)) for each in commits]
    with pytest.raises(RecordsTooLarge, match="more than"):
        fixture.store.append(fixture.log, commits, NOW_MS)
    in_transaction = [TransactionalOffsetCommit(7, 0, each) for each in commits]
    with pytest.raises(RecordsTooLarge, match="more than"):
        fixture.store.append(fixture.log, in_transaction, NOW_MS)


def test_tombstones_are_split_over_batches_of_the_message_size_limit() -> None:
    fixture = Fixture()
    fixture.store.append(fixture.log, [COMMIT], NOW_MS)
    tombstones = [OffsetTombstone("g", "t", partition) for partition in range(20)]
    fixture.store.append(fixture.log, tombstones, NOW_MS)
    fixture.flush()
    assert fixture.load()[1] == [COMMIT, *tombstones]
    sizes = [len(batch) for _, batch in fixture.log.batches()]
    assert len(sizes) > 1
    assert max(sizes) <= 200


def test_a_tombstone_may_exceed_the_message_size_limit() -> None:
    fixture = Fixture()
    tombstones = [OffsetTombstone("g" * 300, "t", 0), OffsetTombstone("g", "t", 0)]
    fixture.store.append(fixture.log, tombstones, NOW_MS)
    fixture.flush()
    assert fixture.load()[1] == tombstones


def test_records_after_a_tombstone_are_rejected_if_the_batch_is_too_large() -> None:
    fixture = Fixture()
    with pytest.raises(RecordsTooLarge):
        fixture.store.append(fixture.log, [GroupTombstone("g"), *[COMMIT] * 20], NOW_MS)
    fixture.flush()
    assert fixture.load()[1] == []


def test_a_log_that_failed_on_another_node_is_recovered_when_opened() -> None:
    fixture = Fixture()
    fixture.store.append(fixture.log, [COMMIT], NOW_MS)
    fixture.flush()
    fixture.log.mark_failed_from(fixture.log.end_offset, OSError("the disk of the previous leader"))
    assert fixture.store.open_log(0, None).failed is None
    assert fixture.load()[1] == [COMMIT]


def test_a_marker_without_an_open_transaction_has_no_records() -> None:
    fixture = Fixture()
    marker = NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", NOW_MS)
    fixture.log.append(build([marker], attributes=TRANSACTIONAL | CONTROL, producer_id=7))
    fixture.log.append(build([marker], attributes=CONTROL, base_offset=1))
    assert TransactionEnd(7, -1, 0, is_commit=True) in fixture.load()[1]


def test_group_records_are_applied_while_a_transaction_is_open() -> None:
    fixture = Fixture()
    key, value = encode_record(COMMIT)
    commit = NewRecord(key, value, NOW_MS)
    fixture.log.append(build([commit], attributes=TRANSACTIONAL, producer_id=7))
    fixture.store.append(fixture.log, [GroupTombstone("g")], NOW_MS)
    fixture.flush()
    assert fixture.load()[1] == [TransactionalOffsetCommit(7, -1, COMMIT), GroupTombstone("g")]


def test_an_unreadable_snapshot_is_removed_and_the_log_is_read() -> None:
    fixture = Fixture()
    fixture.store.append(fixture.log, [COMMIT], NOW_MS)
    fixture.flush()
    table = OffsetsTable()
    table.put(COMMIT)
    writer = fixture.store.begin_snapshot(fixture.log, table, iter(()))
    assert list(writer.steps) == []
    writer.finish(fixture.log.end_offset)
    table, records = fixture.load()
    assert (list(table.groups()), records) == (["g"], [])
    for _ in range(2):  # the second time, there is no snapshot
        fixture.store.invalidate(0, fixture.log, OSError("input/output error"))
        assert not fixture.files.exists(FOLDER / OFFSETS_SNAPSHOT)
    assert fixture.load()[1] == [COMMIT]


def test_offsets_of_a_transaction_and_its_marker_are_loaded_as_they_were_appended() -> None:
    fixture = Fixture()
    for is_commit in (True, False):
        commits = [TransactionalOffsetCommit(5, 1, COMMIT._replace(partition=n)) for n in range(2)]
        end = TransactionEnd(5, 1, 3, is_commit)
        fixture.store.append(fixture.log, commits, NOW_MS)
        fixture.store.append(fixture.log, [end], NOW_MS)
        fixture.flush()
        assert fixture.load()[1][-3:] == [*commits, end]
