"""Eviction of offsets from memory: the responses stay the same."""

from pathlib import Path

import pytest
from kohort.broker.runtime import snapshots
from kohort.log.batch import TRANSACTIONAL, BatchProducer
from kohort.log.cache_files import OFFSETS_SNAPSHOT, SPILL, temporary_name
from kohort.log.files import File
from kohort.log.log import Log
from kohort.log.memory_files import ChunkedFiles
from kohort.log.producer_state import COMMIT, EndMarker
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import OffsetCommitRecord
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from support.coordinator import offset_commit
from support.log import NewRecord, build
from support.running_broker import call, running_broker
from support.runtime import RuntimeHarness

FOLDER = Path("/data/__consumer_offsets-0")


def commit(cache: OffsetsCache, table: OffsetsTable, group: int, offset: int = 7) -> None:
    """Commit as the runtime does."""
    table.load(f"g{group}")
    for partition in range(10):
        value = encode_commit_value(offset, -1, "", 0)
        table.put(OffsetCommitRecord(f"g{group}", "t", partition, value))
    trim(cache)


def get(cache: OffsetsCache, table: OffsetsTable, group: int) -> int:
    table.load(f"g{group}")
    trim(cache)
    committed = table.get(f"g{group}", "t", 3)
    return committed.offset


def trim(cache: OffsetsCache) -> None:
    if cache.needs_eviction:
        cache.evict()


class Disk(FaultyFiles):
    def __init__(self) -> None:
        super().__init__()
        self.make_folder(FOLDER)
        self.spills = 0

    def new_spill(self) -> File:
        self.spills += 1
        return self.open(FOLDER / f"spill-{self.spills}", create=True)


def test_the_limit_applies_to_all_tables_together() -> None:
    disk, cache = Disk(), OffsetsCache(1_000)
    tables = [cache.new_table(disk.new_spill) for _ in range(3)]
    for group in range(300):
        commit(cache, tables[group % 3], group, offset=group)
        assert sum(table.held for table in tables) <= 1_000
    assert sum(map(len, tables)) == 3_000
    for group in range(300):
        assert get(cache, tables[group % 3], group) == group
        assert sum(table.held for table in tables) <= 1_000


def test_groups_are_evicted_beside_a_larger_table_with_a_single_group() -> None:
    disk, cache = Disk(), OffsetsCache(100)
    single, other = (cache.new_table(disk.new_spill) for _ in range(2))
    for partition in range(80):
        single.put(OffsetCommitRecord("g", "t", partition, encode_commit_value(7, -1, "", 0)))
    for group in range(7):
        commit(cache, other, group)
    assert (single.held, other.held) == (80, 10)


def test_recently_used_groups_stay_in_memory() -> None:
    disk, cache = Disk(), OffsetsCache(100)
    table = cache.new_table(disk.new_spill)
    for group in range(50):
        commit(cache, table, group)
        get(cache, table, 0)
    table.evict(80, disk.new_spill)
    assert table.held == 10
    get(cache, table, 0)
    assert table.held == 10, "it was in memory"
    get(cache, table, 1)
    assert table.held == 20, "it was not in memory"


def test_a_closed_table_does_not_count() -> None:
    disk, cache = Disk(), OffsetsCache(100)
    first, second = (cache.new_table(disk.new_spill) for _ in range(2))
    for group in range(9):
        commit(cache, first, group)
    first.close()
    for group in range(9):
        commit(cache, second, group)
    assert second.held == 90


def test_on_a_full_disk_offsets_stay_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    disk, cache = Disk(), OffsetsCache(100)
    table = cache.new_table(disk.new_spill)
    disk.fail("append", times=10_000)
    for group in range(50):
        commit(cache, table, group)
    assert table.held == len(table) == 500
    assert "keeping them in memory" in caplog.text
    disk.heal()
    commit(cache, table, 50)
    assert table.held <= 100
    assert len(table) == 510


def test_a_group_larger_than_the_limit_is_served() -> None:
    disk, cache = Disk(), OffsetsCache(5)
    table = cache.new_table(disk.new_spill)
    for group in range(3):
        commit(cache, table, group)
    assert [len(list(table.read(f"g{group}"))) for group in range(3)] == [10, 10, 10]
    assert table.held == 10


async def test_a_broker_in_memory_writes_no_spill_file() -> None:
    config = {"kohort.cache.offsets": "10", "offsets.topic.num.partitions": "1"}
    files = ChunkedFiles()
    async with running_broker(config, durability="none", files=files) as broker:
        broker.node.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        for number in range(100):
            command = offset_commit(f"g{number}", [("t", 0, number)])
            assert not any((await call(broker.node.coordinators, command)).errors)
        assert SPILL not in {path.name for path in files.contents}
        assert len(broker.node.coordinators.contexts[0].offsets) == 100


def with_open_transaction(files: FaultyFiles) -> FaultyFiles:
    """A log of Kafka with an open transaction, which prevents snapshots."""
    key, value = encode_record(
        OffsetCommitRecord("pending", "t", 0, encode_commit_value(1, -1, "", 0))
    )
    batch = build([NewRecord(key, value, 0)], attributes=TRANSACTIONAL, producer_id=7)
    log = Log.open(FOLDER, files)
    log.append(batch)
    log.sync()
    log.close()
    return files


def test_the_spill_file_does_not_grow_without_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY_RECORDS", 12)
    harness = RuntimeHarness(files=with_open_transaction(Disk()), cache_offsets=2)
    sizes = []
    for offset in range(1, 101):
        for number in range(6):
            harness.commit_and_run(offset, group_id=f"g{number}")
        harness.timers.advance(snapshots.EVERY_MS)
        harness.run_loop()
        sizes.append(len(harness.files.contents[FOLDER / SPILL]))
    assert max(sizes[50:]) <= max(sizes[:50])
    assert not {OFFSETS_SNAPSHOT, temporary_name(OFFSETS_SNAPSHOT)} & set(
        harness.files.list(FOLDER)
    )
    assert [harness.committed_offset(f"g{number}") for number in range(6)] == [100] * 6
    harness.runtime.close()
    again = RuntimeHarness(files=harness.files, cache_offsets=2)
    assert [again.committed_offset(f"g{number}") for number in range(6)] == [100] * 6
    assert again.context.coordinator.pending_offsets


def test_a_transaction_that_ends_during_a_snapshot_keeps_its_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "EVERY_RECORDS", 12)
    monkeypatch.setattr("kohort.offsets.snapshot.STEP_OFFSETS", 1)
    harness = RuntimeHarness(files=with_open_transaction(Disk()), cache_offsets=2)
    for number in range(12):
        harness.commit_and_run(1, group_id=f"g{number}")
    harness.timers.advance(snapshots.EVERY_MS)
    assert harness.context.offsets.has_spill_file
    assert harness.context.snapshot is not None
    harness.run_slice()
    committed: list[ErrorCode] = []
    producer = BatchProducer(7, 0, is_control=True)
    harness.runtime.end_transaction(0, producer, EndMarker(COMMIT, 0), committed.append)
    harness.run_loop()
    assert committed == [ErrorCode.none]
    assert harness.context.snapshot is None
    for each in (harness, RuntimeHarness(files=harness.files, cache_offsets=2)):
        assert each.committed_offset("pending") == 1
