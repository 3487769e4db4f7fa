"""Records that compaction keeps temporarily: tombstones, last batches of producers, transaction
markers."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.log.batch import TRANSACTIONAL, BatchHeader
from kohort.log.cleaner import OffsetMap
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.producer_state import ABORT, COMMIT, ProducerStates
from kohort.log.records import records
from support.log import DAY_MS, NOW_MS, TERMS, compact, content, headers, put, put_marker

from .test_cleaner import FOLDER, opened

LATER = TERMS._replace(now_ms=NOW_MS + DAY_MS // 2)
TOO_LATE = TERMS._replace(now_ms=NOW_MS + DAY_MS)


def by_offset(log: Log) -> dict[int, BatchHeader]:
    return {header.base_offset: header for header in headers(log)}


def test_a_tombstone_stays_until_the_horizon_of_its_first_compaction() -> None:
    log = opened(MemoryFiles())
    put(log, [("a", "1"), ("b", "1")], NOW_MS - 5)
    put(log, [("a", None), ("c", "1")], NOW_MS - 3)
    log.roll()
    compact(log)
    assert content(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert [header.delete_horizon_ms for header in headers(log)] == [None, NOW_MS + DAY_MS]
    times = [record.timestamp for _, whole in log.batches() for record in records(whole)]
    assert times == [NOW_MS - 5, NOW_MS - 3, NOW_MS - 3]
    before = [whole for _, whole in log.batches()]
    compact(log, terms=LATER)
    assert [whole for _, whole in log.batches()] == before
    compact(log, terms=TOO_LATE)
    assert content(log) == [(1, "b", "1"), (3, "c", "1")]
    assert by_offset(log)[2].delete_horizon_ms == NOW_MS + DAY_MS


def test_a_tombstone_that_was_not_compacted_has_no_horizon() -> None:
    log = opened(MemoryFiles())
    put(log, [("a", "1")])
    log.roll()
    put(log, [("a", None)])
    compact(log)
    assert [header.delete_horizon_ms for header in headers(log)] == [None, None]
    assert content(log) == [(0, "a", "1"), (1, "a", None)]


def test_the_last_batch_of_a_run_stays_as_an_empty_one() -> None:
    files = MemoryFiles()
    log = opened(files)
    put(log, [("a", "1")])
    put(log, [(None, "1"), (None, "2")])
    log.roll()
    compact(log)
    assert [(h.base_offset, h.last_offset, h.count) for h in headers(log)] == [(0, 0, 1), (1, 2, 0)]
    log.close()
    files.remove(log.segments[-1].path)  # as if a crash had lost the new, empty file
    assert opened(files).end_offset == 3


def test_a_producer_continues_after_its_records_were_removed() -> None:
    log = opened(MemoryFiles())
    for sequence in (0, 2, 4):
        producer = {"producer_id": 7, "producer_epoch": 3, "base_sequence": sequence}
        put(log, [("a", "x"), ("b", "x")], **producer)
    put(log, [("a", "1"), ("b", "1")])
    log.roll()
    compact(log)
    assert [(h.base_offset, h.count) for h in headers(log)] == [(4, 0), (6, 2)]
    producers = ProducerStates()
    producers.on_batch(headers(log)[0], b"")
    next_batch = headers(log)[0]._replace(base_sequence=6, count=1, last_offset_delta=0)
    producers.validate(next_batch, "orders-0")
    assert headers(log)[0].last_sequence == 5


def test_an_expired_producer_leaves_no_batch() -> None:
    log = opened(MemoryFiles())
    put(log, [("a", "x")], producer_id=7, producer_epoch=3, base_sequence=0)
    put(log, [("a", "1")])
    log.roll()
    compact(log, terms=TOO_LATE)
    assert content(log) == [(1, "a", "1")]
    assert len(headers(log)) == 1


def test_an_aborted_transaction_is_ignored_and_removed() -> None:
    log = opened(MemoryFiles())
    put(log, [("a", "1"), ("b", "1")])
    transaction = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
    put(log, [("a", "never")], base_sequence=0, **transaction)
    put_marker(log, 7, ABORT)
    put(log, [("b", "2")], base_sequence=1, **transaction)
    end = put_marker(log, 7, COMMIT)
    put(log, [("c", "1")])
    log.roll()
    compact(log)
    assert content(log) == [(0, "a", "1"), (4, "b", "2"), (6, "c", "1")]
    found = by_offset(log)
    # This run still found records of the first transaction: its marker is kept for another run.
    assert found[3].is_control
    assert found[3].delete_horizon_ms is None
    assert found[end].delete_horizon_ms is None
    compact(log)
    assert by_offset(log)[3].delete_horizon_ms == NOW_MS + DAY_MS
    assert [each.last_offset for each in log.producers.aborted] == [3]
    compact(log, terms=TOO_LATE)
    assert 3 not in by_offset(log)
    # Without its marker, it would hide the committed records below from readers.
    assert not log.producers.aborted_between(0, log.end_offset)
    assert by_offset(log)[end].count == 1


def test_compaction_ends_at_an_open_transaction() -> None:
    log = opened(MemoryFiles())
    put(log, [("a", "1")])
    put(log, [("a", "2")])
    transaction = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}
    first = put(log, [("a", "perhaps")], base_sequence=0, **transaction)
    put(log, [("a", "3")])
    log.roll()
    done = compact(log)
    assert done.end_offset == first
    assert [offset for offset, _, _ in content(log)] == [1, 2, 3]
    assert compact(log, first).end_offset == first
    put_marker(log, 7, ABORT)
    log.roll()
    assert compact(log, first).end_offset == log.end_offset
    assert [offset for offset, _, _ in content(log)] == [3]


def test_a_marker_alone_keeps_the_epoch_of_its_producer() -> None:
    log = opened(MemoryFiles())
    put(log, [("a", "1")])
    at = put_marker(log, 7, COMMIT, epoch=4)
    put(log, [("b", "1")])
    log.roll()
    for terms in (TERMS, LATER):
        compact(log, terms=terms)
        assert by_offset(log)[at].producer_epoch == 4
        assert by_offset(log)[at].delete_horizon_ms == NOW_MS + DAY_MS
    # The horizon has passed, but the producer is active: the empty batch is kept.
    active = TOO_LATE._replace(producer_expiration_ms=2 * DAY_MS)
    compact(log, terms=active)
    assert by_offset(log)[at].count == 0
    compact(log, terms=TOO_LATE._replace(now_ms=NOW_MS + 3 * DAY_MS))
    assert at not in by_offset(log)


KEYS = st.sampled_from([None, "a", "b", "c", "d"])
PAIRS = st.lists(st.tuples(KEYS, st.sampled_from([None, "1", "2", "x" * 90])), min_size=1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PAIRS, st.integers(0, 4)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("compact"), st.integers(0, 2 * DAY_MS), st.integers(300, 3000)),
        st.tuples(st.just("reopen")),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_newest_record_of_each_key_is_always_there(
    steps: list[tuple],  # type: ignore[type-arg]
) -> None:
    files = MemoryFiles()
    log = opened(files, segment_bytes=500)
    now_ms, cleaned = NOW_MS, 0
    newest: dict[str, tuple[int, str | None]] = {}
    put_at: dict[int, tuple[str | None, str | None]] = {}
    for kind, *how in steps:
        if kind == "put":
            first = put(log, how[0], now_ms, codec=how[1])
            for offset, (key, value) in enumerate(how[0], first):
                put_at[offset] = key, value
                if key is not None:
                    newest[key] = offset, value
        elif kind == "roll":
            log.roll()
        elif kind == "compact":
            now_ms += how[0]
            terms = TERMS._replace(now_ms=now_ms, dedupe_buffer_bytes=how[1])
            if log.segments:
                cleaned = compact(log, cleaned, terms).end_offset
        else:
            log.close()
            log = Log.open(FOLDER, files, LogConfig(segment_bytes=500))
        left = {offset: (key, value) for offset, key, value in content(log)}
        assert left.items() <= put_at.items()
        assert {key: at for key, at in newest.items() if at[1] is not None}.items() <= {
            key: (offset, value) for offset, (key, value) in left.items()
        }.items()
        last = dict(left.values())
        deleted = [key for key, (_, value) in newest.items() if value is None]
        assert all(last.get(key) is None for key in deleted)
        assert log.end_offset == len(put_at)


def test_the_offset_map_uses_no_more_memory_than_it_counts() -> None:
    keys = [b"%020d" % number for number in range(20_000)]
    tracemalloc.start()
    try:
        map_ = OffsetMap(20_000 * 190 // 2)
        before, _ = tracemalloc.get_traced_memory()
        for offset, key in enumerate(keys, 10**12):
            if map_.is_full:
                break
            map_.put(bytes(bytearray(key)), offset)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert map_.newest
    assert len(map_.newest) == pytest.approx(10_000, abs=1)
    assert used < 20_000 * 190 // 2
