"""Snapshots and manifests: they are written in slices, verified against the log, and disposable."""

import contextlib
import errno
import random
from pathlib import Path

import pytest
from kohort.broker.runtime import snapshots
from kohort.broker.runtime.runtime import RETRY_FAILED_MS
from kohort.coordinator.commands import DeleteGroup, TxnOffsetCommit
from kohort.log.batch import BatchProducer, check_crc, read_header
from kohort.log.cache_files import (
    OFFSETS_SNAPSHOT,
    SEGMENT_MANIFEST,
    remove_cache_files,
    temporary_name,
)
from kohort.log.cleaner import CleanerConfig, clean
from kohort.log.log import LogConfig
from kohort.log.producer_state import COMMIT, EndMarker
from kohort.log.tasks import run_synchronously
from kohort.offsets.records import OffsetTombstone
from kohort.offsets.table import OffsetsTable
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed, FaultyFile, FaultyFiles
from support.coordinator import offset_commit
from support.runtime import RuntimeHarness

FOLDER = Path("/data/__consumer_offsets-0")
SNAPSHOT = FOLDER / OFFSETS_SNAPSHOT
GROUPS = [f"g{number}" for number in range(6)]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY_RECORDS", 12)
    monkeypatch.setattr(snapshots, "AT_STOP_RECORDS", 1)
    monkeypatch.setattr("kohort.offsets.snapshot.STEP_OFFSETS", 1)


def filled(harness: RuntimeHarness, *, rounds: int = 3, first: int = 0) -> RuntimeHarness:
    """Commit once for each group in each round, with the offsets first + 1 to first + rounds."""
    for number in range(rounds):
        for group_id in GROUPS:
            harness.commit(f"{group_id}/{first + number}", first + number + 1, group_id=group_id)
        harness.run_loop()
        harness.timers.advance(snapshots.EVERY_MS)
        harness.run_loop()
    return harness


def stopped(harness: RuntimeHarness) -> FaultyFiles:
    harness.run_loop()
    harness.runtime.close()
    return harness.files


def read_records(harness: RuntimeHarness) -> int:
    """Return the number of records that are read from the log for the first request."""
    count = 0

    def counting(batch: bytes, position: int, size: int) -> None:
        nonlocal count
        count += read_header(batch, position).count
        check_crc(batch, position, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kohort.offsets.store.check_crc", counting)
        harness.committed_offset(GROUPS[0])
    return count


@pytest.mark.interpreted
def test_a_start_reads_only_the_log_after_the_snapshot() -> None:
    harness = filled(RuntimeHarness("fsync"))
    assert harness.files.exists(SNAPSHOT)
    assert not harness.files.exists(FOLDER / temporary_name(OFFSETS_SNAPSHOT))
    again = RuntimeHarness("fsync", harness.files)
    assert read_records(again) == 6  # of 18 records, those after the start of the snapshot
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [3] * 6


@pytest.mark.interpreted
def test_a_stopped_broker_leaves_a_complete_snapshot() -> None:
    files = stopped(filled(RuntimeHarness("fsync"), rounds=1))
    again = RuntimeHarness("fsync", files)
    assert read_records(again) == 0
    assert again.committed_offset("unknown") == -1


def test_groups_are_loaded_from_the_snapshot_on_request() -> None:
    again = RuntimeHarness("fsync", stopped(filled(RuntimeHarness("fsync"))))
    again.committed_offset("unknown")
    table = again.context.offsets
    assert (len(table), table.held) == (6, 0)
    again.committed_offset(GROUPS[2])
    again.commit_and_run(9, group_id=GROUPS[3])
    assert (len(table), table.held) == (6, 2)
    assert again.committed_offset(GROUPS[3]) == 9


def with_a_snapshot_in_progress() -> RuntimeHarness:
    """Commit for 12 groups, g0 to g11, until a snapshot begins."""
    harness = RuntimeHarness("fsync")
    for number in range(12):
        harness.commit(f"first {number}", 1, group_id=f"g{number}")
    while not harness.files.exists(FOLDER / temporary_name(OFFSETS_SNAPSHOT)):
        harness.due.pop(0)()
        harness.timers.advance(0)
    return harness


def test_commits_during_a_snapshot_are_not_lost() -> None:
    harness = with_a_snapshot_in_progress()
    # Run the slices of the snapshot, with a commit between two slices.
    for number in range(12):
        harness.commit(f"second {number}", 2, group_id=f"g{number}")
        harness.run_slice()
        while harness.due:
            harness.due.pop(0)()
    harness.run_loop()
    assert harness.files.exists(SNAPSHOT)
    for again in (harness, RuntimeHarness("fsync", harness.files)):
        assert [again.committed_offset(f"g{number}") for number in range(12)] == [2] * 12


def test_a_transaction_that_begins_during_a_snapshot_does_not_prevent_it() -> None:
    harness = with_a_snapshot_in_progress()
    harness.submit("in", TxnOffsetCommit(offset_commit("g1", [("t", 0, 2)]), 7, 0))
    harness.run_loop()
    assert harness.files.exists(SNAPSHOT)
    again = RuntimeHarness("fsync", harness.files)
    assert again.committed_offset("g1") == 1
    producer = BatchProducer(7, 0, is_control=True)
    again.runtime.end_transaction(0, producer, EndMarker(COMMIT, 0), lambda _error: None)
    assert again.committed_offset("g1") == 2


@pytest.mark.interpreted
def test_a_snapshot_is_published_only_once_its_records_are_durable() -> None:
    harness = RuntimeHarness("fsync")
    for number in range(12):
        harness.commit(f"first {number}", 1, group_id=f"g{number}")
    while not harness.files.exists(FOLDER / temporary_name(OFFSETS_SNAPSHOT)):
        harness.due.pop(0)()
        harness.timers.advance(0)
    harness.group_commit._sync_seconds = 1.0  # a slow disk: the sync runs in a thread
    harness.commit("second", 2, group_id="g11")
    harness.due.pop(0)()  # written; the sync is pending
    while harness.slices:
        harness.run_slice()
    assert "second" not in harness.results
    assert not harness.files.exists(SNAPSHOT)
    harness.run_loop()
    assert harness.files.exists(SNAPSHOT)


@pytest.mark.interpreted
@pytest.mark.parametrize("end", [1, 20, 60, 120])
def test_a_torn_snapshot_is_ignored(end: int) -> None:
    files = stopped(filled(RuntimeHarness("fsync")))
    del files.contents[SNAPSHOT][-end:]
    again = RuntimeHarness("fsync", files)
    assert read_records(again) == 18
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [3] * 6


def test_a_flipped_bit_in_a_snapshot_loses_nothing() -> None:
    files = stopped(filled(RuntimeHarness("fsync")))
    whole = bytes(files.contents[SNAPSHOT])
    for position in range(len(whole)):
        files.contents[SNAPSHOT] = bytearray(whole)
        files.contents[SNAPSHOT][position] ^= 0x10
        again = RuntimeHarness("fsync", files)
        for group_id in GROUPS:
            # The first request that reads it may get an error; the client retries.
            assert again.committed_offset(group_id) in (3, ErrorCode.coordinator_load_in_progress)
            assert again.committed_offset(group_id) == 3


def test_a_commit_to_a_corrupted_group_is_kept() -> None:
    files = stopped(filled(RuntimeHarness("fsync")))
    files.contents[SNAPSHOT][12] ^= 1  # in the block of the first group
    again = RuntimeHarness("fsync", files)
    again.committed_offset("unknown")
    again.commit("new", 7, group_id=GROUPS[0])
    again.run_loop()
    assert again.results["new"].errors == (ErrorCode.none,)
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [7, 3, 3, 3, 3, 3]
    assert RuntimeHarness("fsync", files).committed_offset(GROUPS[0]) == 7


def test_removal_of_a_corrupted_snapshot_is_retried() -> None:
    files = stopped(filled(RuntimeHarness("fsync")))
    files.contents[SNAPSHOT][12] ^= 1  # in the block of the first group
    again = RuntimeHarness("fsync", files)
    again.committed_offset("unknown")
    again.commit("kept", 7, group_id=GROUPS[1])  # not flushed yet
    files.fail("remove")
    again.fetch("corrupted", GROUPS[0])
    again.fetch("soon after", GROUPS[0])
    again.run_loop()
    assert again.results["corrupted"].error_code is ErrorCode.not_coordinator
    assert again.results["soon after"].error_code is ErrorCode.not_coordinator
    assert again.results["kept"].errors == (ErrorCode.none,)
    again.timers.advance(RETRY_FAILED_MS)
    again.fetch("later", GROUPS[0])  # the snapshot still exists and is corrupted
    again.run_loop()
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [3, 7, 3, 3, 3, 3]


def test_a_snapshot_of_a_truncated_log_is_discarded() -> None:
    files = stopped(filled(RuntimeHarness("fsync")))
    log = RuntimeHarness("fsync", files).partition.log
    log.truncate_to(12)
    log.sync()
    again = RuntimeHarness("fsync", files)
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [2] * 6
    assert not files.exists(SNAPSHOT)


def corrupted_log(durability: str = "fsync") -> FaultyFiles:
    """The files of a stopped broker with a flipped bit in the second of three batches, which the
    manifest lists as valid."""
    config = LogConfig(index_interval_bytes=100, sync_at_open=durability == "fsync")
    files = stopped(filled(RuntimeHarness(durability, log_config=config)))  # type: ignore[arg-type]
    content = files.contents[FOLDER / f"{0:020d}.log"]
    content[len(content) // 2] ^= 1
    return files


def test_a_start_with_a_snapshot_does_not_read_the_log() -> None:
    again = RuntimeHarness("fsync", corrupted_log())
    again.commit_and_run(4, group_id=GROUPS[0])
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [4, 3, 3, 3, 3, 3]
    third = RuntimeHarness("fsync", stopped(again))
    assert [third.committed_offset(group_id) for group_id in GROUPS] == [4, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_corrupt_batch_hidden_by_the_manifest_is_truncated_when_read(
    durability: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = corrupted_log(durability)
    files.contents[SNAPSHOT][-1] ^= 1
    again = RuntimeHarness(durability, files)  # type: ignore[arg-type]
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [1] * 6
    assert (
        "Removing the corrupted cache files of partition 0 of __consumer_offsets: checksum"
        in caplog.text
    )
    assert ", kept in" in caplog.text
    again.commit_and_run(4, group_id=GROUPS[0])
    third = RuntimeHarness(durability, stopped(again))  # type: ignore[arg-type]
    assert [third.committed_offset(group_id) for group_id in GROUPS] == [4, 1, 1, 1, 1, 1]


def test_a_corrupted_group_and_batch_cost_one_read_of_the_log() -> None:
    files = corrupted_log()
    files.contents[SNAPSHOT][12] ^= 1  # in the block of the first group
    again = RuntimeHarness("fsync", files)
    assert again.committed_offset(GROUPS[1]) == 3
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [1] * 6


def test_a_log_read_from_its_start_is_not_scanned_at_the_next_start() -> None:
    harness = filled(RuntimeHarness("fsync"))
    harness.files.contents.pop(FOLDER / SEGMENT_MANIFEST)
    again = RuntimeHarness("fsync", harness.files)
    again.committed_offset("unknown")
    assert again.partition.log.manifest_end_offset == 0
    third = RuntimeHarness("fsync", stopped(again))
    assert third.partition.log.manifest_end_offset == 18


def test_files_in_memory_get_no_manifest() -> None:
    harness = filled(RuntimeHarness("none"))
    assert [harness.committed_offset(group_id) for group_id in GROUPS] == [3] * 6
    files = stopped(harness)
    assert [name for name in files.list(FOLDER) if not name.endswith(".log")] == []


def test_a_full_disk_prevents_the_snapshot_but_no_commit() -> None:
    harness = RuntimeHarness("fsync")
    filled(harness, rounds=1)
    harness.files.fail("create", times=99)
    filled(harness, rounds=2, first=1)
    assert not harness.files.exists(SNAPSHOT)
    assert [harness.committed_offset(group_id) for group_id in GROUPS] == [3] * 6
    harness.files.heal()
    filled(harness, rounds=3, first=3)
    assert harness.files.exists(SNAPSHOT)


def test_a_compaction_during_a_snapshot_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    harness = RuntimeHarness("fsync")
    for number in range(18):
        harness.commit(str(number), number + 1, group_id=GROUPS[0])
        harness.run_loop()
    (context,) = harness.runtime.contexts.values()
    harness.timers.advance(snapshots.EVERY_MS)
    assert context.snapshot is not None
    run_synchronously(remove_cache_files(FOLDER, harness.files))
    harness.run_loop()
    assert (context.snapshot, caplog.messages) == (None, [])
    filled(harness)
    assert harness.files.exists(SNAPSHOT)


@pytest.mark.interpreted
def test_a_failed_snapshot_is_still_due_when_the_broker_stops() -> None:
    harness = filled(RuntimeHarness("fsync"))
    harness.files.fail("create")
    filled(harness, rounds=1, first=3)
    assert not harness.files.exists(FOLDER / temporary_name(OFFSETS_SNAPSHOT))
    assert read_records(RuntimeHarness("fsync", stopped(harness))) == 0


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_crash_at_any_file_operation_loses_no_acknowledged_commit(durability: str) -> None:
    operations = len(stopped(filled(RuntimeHarness(durability))).operations)  # type: ignore[arg-type]
    for crash_at in range(operations):
        files = FaultyFiles()
        files.crash_at = crash_at
        harness = RuntimeHarness(durability, files)  # type: ignore[arg-type]
        with contextlib.suppress(Crashed):
            stopped(filled(harness))
        files.crash_at = None
        if durability == "fsync":
            files.crash(random.Random(crash_at))
        again = RuntimeHarness(durability, files)  # type: ignore[arg-type]
        for group_id in GROUPS:
            acknowledged = max(
                (
                    int(name.partition("/")[2]) + 1
                    for name, result in harness.results.items()
                    if name.startswith(f"{group_id}/") and result.errors == (ErrorCode.none,)
                ),
                default=-1,
            )
            # The first request may find corruption. In this case, the log is read.
            again.committed_offset(group_id)
            assert again.committed_offset(group_id) >= acknowledged, (crash_at, group_id)


def test_deleted_offsets_stay_deleted_when_tombstones_are_removed() -> None:
    harness = RuntimeHarness("fsync")
    harness.partition.log.config = LogConfig(segment_bytes=300)
    filled(harness)
    assert harness.files.exists(SNAPSHOT)
    harness.submit("delete", DeleteGroup(GROUPS[0]))
    harness.run_loop()
    for number in range(8):
        harness.commit_and_run(number, group_id=GROUPS[1])
    log = harness.partition.log
    config = CleanerConfig(harness.clock.ms, 0, 1 << 20, 1 << 20, 0)
    for _ in range(2):  # the first run sets the delete horizon
        run_synchronously(clean(log, 0, log.segments[-1].base_offset, config))
    records = [
        record for batch in harness.runtime._store.load(log, OffsetsTable())[1] for record in batch
    ]
    assert OffsetTombstone(GROUPS[0], "t", 0) not in records
    again = RuntimeHarness("fsync", harness.files)
    assert again.committed_offset(GROUPS[0]) == -1
    assert again.committed_offset(GROUPS[1]) == 7


# --- unreadable snapshots


@pytest.fixture
def files() -> FaultyFiles:
    """The files of a stopped broker with a snapshot: six groups with offset 3."""
    harness = RuntimeHarness("fsync")
    for group_id in GROUPS:
        harness.commit(group_id, 3, group_id=group_id)
    files = stopped(harness)
    assert files.exists(SNAPSHOT)
    return files


class UnreadableSnapshot(FaultyFiles):
    """A snapshot that cannot be opened, or read in a range of bytes."""

    def __init__(self, files: FaultyFiles, unread_from: int, unread_to: int, opens: bool) -> None:
        super().__init__()
        self.contents, self.folders = files.contents, files.folders
        self._unread = range(unread_from, unread_to)
        self._opens = opens

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        if path != SNAPSHOT:
            return super().open(path, create=create, read_only=read_only)
        if not self._opens:
            raise OSError(errno.EIO, "unreadable")
        unread = self._unread

        class BadSectors(FaultyFile):
            def read(self, position: int, size: int) -> bytes:
                if range(max(position, unread.start), min(position + size, unread.stop)):
                    raise OSError(errno.EIO, "bad sectors")
                return super().read(position, size)

        return BadSectors(self, path, self.contents[path])


@pytest.mark.parametrize(("unread", "opens"), [((0, 0), False), ((0, 9999), True), ((0, 20), True)])
def test_an_unreadable_snapshot_loses_nothing(
    files: FaultyFiles, unread: tuple[int, int], opens: bool
) -> None:
    again = RuntimeHarness("fsync", UnreadableSnapshot(files, *unread, opens))
    again.committed_offset("unknown")
    again.commit_and_run(7, group_id=GROUPS[1])
    # The group may be in the bad sectors.
    assert again.committed_offset(GROUPS[0]) in (3, ErrorCode.coordinator_load_in_progress)
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [3, 7, 3, 3, 3, 3]
    assert not again.files.exists(SNAPSHOT)


@pytest.mark.parametrize("group_id", GROUPS)
def test_a_group_that_is_evicted_while_its_partition_is_reloaded_loses_nothing(
    files: FaultyFiles, group_id: str
) -> None:
    unreadable = UnreadableSnapshot(files, 0, 20, opens=True)
    again = RuntimeHarness("fsync", unreadable, cache_offsets=1)
    again.commit_and_run(7, group_id=group_id)
    again.commit_and_run(7, group_id=group_id)
    expected = [7 if each == group_id else 3 for each in GROUPS]
    assert [again.committed_offset(each) for each in GROUPS] == expected


def test_commits_after_an_unreadable_snapshot_are_loaded_from_the_log(files: FaultyFiles) -> None:
    before = RuntimeHarness("fsync", files)
    before.commit("new", 7, group_id=GROUPS[0])
    before.run_loop()  # the broker is then killed
    again = RuntimeHarness("fsync", UnreadableSnapshot(files, 0, 20, opens=True))
    again.committed_offset("unknown")
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [7, 3, 3, 3, 3, 3]
