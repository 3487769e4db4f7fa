"""Commits in transactions, pending until the marker, compared with a model of upstream's replay.

A log is a list of steps, which is read batch by batch, as in the store.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from kohort.log.batch import CONTROL, TRANSACTIONAL, check
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.producer_state import ABORT, COMMIT
from kohort.offsets.pending import PendingOffsets
from kohort.offsets.record_codec import encode_commit_value, encode_record
from kohort.offsets.records import (
    OffsetCommitRecord,
    OffsetTombstone,
    TransactionalOffsetCommit,
    TransactionEnd,
)
from kohort.offsets.store import decode_batch
from support.log import TERMS, NewRecord, build, compact, marker

NOW_MS = 1_700_000_000_000


class Step(NamedTuple):
    """A marker, which ends the transaction of `producer`, or a commit or tombstone of `partition`.
    `producer` is -1 without a transaction."""

    producer: int
    partition: int = 0
    marker: int | None = None
    is_tombstone: bool = False


def batch_of(offset: int, step: Step) -> bytes:
    settings: dict[str, Any] = {"base_offset": offset}
    if step.producer >= 0:
        settings |= {"producer_id": step.producer, "producer_epoch": 0}
        settings |= {"attributes": TRANSACTIONAL}
    if step.marker is not None:
        return marker(step.marker, step.producer, base_offset=offset)
    if step.is_tombstone:
        key_value = encode_record(OffsetTombstone("g", "t", step.partition))
    else:
        value = encode_commit_value(offset, -1, "", NOW_MS)
        key_value = encode_record(OffsetCommitRecord("g", "t", step.partition, value))
    return build([NewRecord(*key_value, NOW_MS)], **settings)


def read(steps: Iterable[Step]) -> tuple[dict[int, int], set[int]]:
    """Return (partition -> offset of the commit that counts, partitions with pending commits)."""
    return read_batches(batch_of(offset, step) for offset, step in enumerate(steps))


def read_batches(batches: Iterable[bytes]) -> tuple[dict[int, int], set[int]]:
    pending = PendingOffsets()
    committed: dict[int, int] = {}

    def commit(record: OffsetCommitRecord) -> None:
        committed[record.partition] = int.from_bytes(record.value[2:10], "big")

    for batch in batches:
        for record in decode_batch(check(batch, 0, len(batch)), batch):
            match record:
                case OffsetCommitRecord():
                    commit(record)
                    pending.supersede(record[:3])
                case OffsetTombstone(_, _, partition):
                    committed.pop(partition, None)
                    pending.remove(record)
                case TransactionalOffsetCommit():
                    pending.add(record)
                case TransactionEnd(producer_id, _, _, is_commit):
                    for each in pending.end(producer_id, is_commit=is_commit):
                        commit(each)
    unstable = {partition for _, _, partition in pending}
    assert bool(pending) == bool(unstable) == pending.has_group("g")
    return committed, unstable


def replayed_by_upstream(steps: Iterable[Step]) -> tuple[dict[int, int], set[int]]:
    """Return the same values by the rules of OffsetMetadataManager."""
    committed: dict[int, int] = {}
    pending: dict[int, dict[int, int]] = {}
    for offset, (producer, partition, ended_by, is_tombstone) in enumerate(steps):
        if ended_by is not None:
            ended = pending.pop(producer, {})
            for each, at in ended.items() if ended_by == COMMIT else ():
                if at > committed.get(each, -1):
                    committed[each] = at
        elif is_tombstone:
            committed.pop(partition, None)
            for offsets in pending.values():
                offsets.pop(partition, None)
        elif producer < 0:
            committed[partition] = offset
        else:
            pending.setdefault(producer, {})[partition] = offset
    return committed, {each for offsets in pending.values() for each in offsets}


def test_commit_counts_once_its_transaction_is_committed() -> None:
    assert read([Step(7)]) == ({}, {0})
    assert read([Step(7), Step(7, marker=COMMIT)]) == ({0: 0}, set())
    assert read([Step(7), Step(7, marker=ABORT)]) == ({}, set())


def test_marker_does_not_restore_a_replaced_commit() -> None:
    assert read([Step(7), Step(-1), Step(7, marker=COMMIT)]) == ({0: 1}, set())
    assert read([Step(-1), Step(7), Step(7, marker=COMMIT)]) == ({0: 1}, set())
    both = [Step(7), Step(8), Step(8, marker=COMMIT), Step(7, marker=COMMIT)]
    assert read(both) == ({0: 1}, set())


def test_tombstone_deletes_pending_commits() -> None:
    steps = [Step(7), Step(-1), Step(-1, is_tombstone=True)]
    assert read(steps) == ({}, set())
    assert read([*steps, Step(7, marker=COMMIT)]) == ({}, set())
    both = [Step(7), Step(7, 1), Step(-1, is_tombstone=True)]
    assert read([*both, Step(7, marker=COMMIT)]) == ({1: 1}, set())


def test_tombstone_of_another_partition_keeps_pending_commits() -> None:
    assert read([Step(7), Step(-1, 1, is_tombstone=True)]) == ({}, {0})


def test_a_marker_with_a_short_key_ends_nothing() -> None:
    assert read([Step(7)]) == ({}, {0})
    attributes = TRANSACTIONAL | CONTROL
    short = build([NewRecord(b"\0", b"", NOW_MS)], producer_id=7, attributes=attributes)
    assert decode_batch(check(short, 0, len(short)), short) == []


def test_markers_of_other_types_and_producers_are_ignored() -> None:
    assert read([Step(7), Step(7, marker=2), Step(9, marker=COMMIT)]) == ({}, {0})


def test_empty_control_batch_left_by_compaction_is_ignored() -> None:
    empty = build([], producer_id=7, attributes=TRANSACTIONAL | CONTROL, last_offset_delta=0)
    assert decode_batch(check(empty, 0, len(empty)), empty) == []


STEPS = (
    st.builds(
        Step,
        st.integers(-1, 2),
        st.integers(0, 1),
        st.none(),
    )
    | st.just(Step(-1, is_tombstone=True))
    | st.builds(Step, st.integers(0, 2), marker=st.sampled_from([ABORT, COMMIT]))
)


@given(st.lists(STEPS, max_size=25))
def test_any_log_is_replayed_as_by_upstream(steps: list[Step]) -> None:
    assert read(steps) == replayed_by_upstream(steps)


@given(st.lists(STEPS, min_size=1, max_size=25), st.integers(1, 3))
def test_compaction_does_not_change_the_result(steps: list[Step], times: int) -> None:
    """A segment has about three batches. All segments but the newest are compacted several times,
    up to the first open transaction, with expired tombstones."""
    folder = Path("/data/__consumer_offsets-0")
    files = MemoryFiles()
    files.make_folder(folder.parent)
    log = Log.open(folder, files, LogConfig(segment_bytes=400))
    for offset, step in enumerate(steps):
        log.append(batch_of(offset, step))
    for number in range(times):
        compact(log, terms=TERMS._replace(now_ms=NOW_MS + 10 * number, delete_retention_ms=1))
    assert read_batches(batch for _, batch in log.batches()) == replayed_by_upstream(steps)


def test_commits_that_a_newer_commit_has_replaced_are_not_committed() -> None:
    pending = PendingOffsets()
    commits = [OffsetCommitRecord("g", "t", partition, b"") for partition in (0, 1, 2)]
    for producer_id, record in zip((7, 7, 8), commits, strict=True):
        pending.add(TransactionalOffsetCommit(producer_id, 0, record))
    pending.supersede(("g", "t", 1))
    assert pending.to_commit(7) == commits[:1]
    assert pending.to_commit(9) == []
    assert pending.partitions_of("g") == {7: [("g", "t", 0)], 8: [("g", "t", 2)]}
    assert pending.partitions_of("other") == {}
