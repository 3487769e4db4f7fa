"""Record batches as Arrow, for every source: regular commits vectorized, all other records one by
one, with the same result."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log.batch import APPEND_TIME, CONTROL, TRANSACTIONAL, read_header
from ...log.records import Record
from ...protocol.primitives import uuid_text
from ..columns import SOURCE, TIME
from .batches import Chunk, Sections, sections_of
from .records import TIMESTAMP_MS_MAX, Row, content_of, micros, rows_of
from .vectorized import TOPIC_ID_BYTES, Commits, RecordBounds, Span, decode_commits, find_records


def decode(
    chunks: Iterable[Chunk], offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    """Yield the records of valid batches, in order, as Arrow batches with the schema
    columns.SOURCE. Chunks of a few MiB are fastest. `next_offset`: the offset after the last
    record before them."""
    for chunk in chunks:
        rest = chunk
        while rest.starts:
            sections = sections_of(rest)
            count = len(sections.begins)
            current = rest._replace(starts=rest.starts[:count])
            rest = rest._replace(starts=rest.starts[count:])
            for rows in _decoded(current, sections, offsets_partition, next_offset):
                if len(rows):
                    next_offset = rows["log_offset"][-1].as_py() + 1
                    yield rows


def within(rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Drop the records outside of a split."""
    offsets = rows["log_offset"]
    if not len(offsets) or start <= offsets[0].as_py() <= offsets[-1].as_py() < end:
        return rows
    return rows.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))


def _decoded(
    chunk: Chunk, sections: Sections, offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    counts = np.where(sections.readable, sections.headers["count"], 0).astype(np.int64)
    records = find_records(sections.data, sections.begins, sections.ends, counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    commits = decode_commits(sections.data, records, owner)
    valid = sections.readable & records.valid
    if valid.all():
        yield _to_arrow(sections, records, owner, commits, offsets_partition, next_offset)
        return
    for is_valid, run in groupby(range(len(counts)), key=valid.__getitem__):
        starts = [chunk.starts[number] for number in run]
        if is_valid:
            found = decode([chunk._replace(starts=starts)], offsets_partition, next_offset)
        else:
            found = _one_by_one(chunk.data, starts, offsets_partition, next_offset)
        for rows in found:
            yield rows
            next_offset = rows["log_offset"][-1].as_py() + 1


def _one_by_one(
    data: bytes, starts: list[int], offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    for start in starts:
        batch = data[start : start + read_header(data, start).size]
        rows = list(rows_of(batch, offsets_partition, next_offset))
        if rows:
            next_offset = rows[-1]["log_offset"] + 1
            yield pa.RecordBatch.from_pylist(rows, schema=SOURCE)


# --- from columns of numbers to Arrow


class HeaderColumns(NamedTuple):
    """The columns that depend on batch headers."""

    log_offset: Any
    append_ms: Any
    leader_epoch: Any
    producer_id: Any
    txn: Any
    control: Any
    missing_before: Any


def _to_arrow(
    sections: Sections,
    records: RecordBounds,
    owner: Any,
    commits: Commits,
    offsets_partition: int,
    next_offset: int,
) -> pa.RecordBatch:
    """Return one row for each record of valid batches. `owner`: the batch of each record."""
    positions = _positions(sections.headers[owner], commits, next_offset)
    is_commit = commits.is_commit & ~positions.control
    while True:
        rows = np.flatnonzero(is_commit)
        texts = _texts(sections.data, commits, rows, records.ends)
        invalid = [number for column in texts.values() for number in _not_utf8(column)]
        if not invalid:
            break
        is_commit[rows[invalid]] = False
    fast = _commit_columns(_select(positions, rows), _select(commits, rows), texts)
    fast["topic_id"] = _topic_ids(sections.data, commits.topic_id[rows], commits.tombstone[rows])
    fast["offsets_partition"] = pa.repeat(pa.scalar(offsets_partition, pa.int32()), len(rows))
    columns = [
        fast[field.name] if field.name in fast else pa.nulls(len(rows), field.type)
        for field in SOURCE
    ]
    rest = np.flatnonzero(~is_commit)
    if not len(rest):
        return pa.RecordBatch.from_arrays(columns, schema=SOURCE)
    slow = pa.RecordBatch.from_pylist(
        [
            _row(sections.data, commits, positions, number, offsets_partition)
            for number in rest.tolist()
        ],
        schema=SOURCE,
    )
    order = np.empty(len(is_commit), np.int64)
    order[rows], order[rest] = np.arange(len(rows)), np.arange(len(rows), len(is_commit))
    both = zip(columns, slow.columns, strict=True)
    columns = [pa.concat_arrays(pair).take(pa.array(order)) for pair in both]
    return pa.RecordBatch.from_arrays(columns, schema=SOURCE)


def _positions(headers: Any, commits: Commits, next_offset: int) -> HeaderColumns:
    attributes = headers["attributes"]
    log_offset = headers["base_offset"] + commits.offset_delta
    append_ms = headers["base_timestamp"] + commits.timestamp_delta
    if (attributes & APPEND_TIME).any():
        append_ms = np.where(attributes & APPEND_TIME, headers["max_timestamp"], append_ms)
    expected = np.concatenate(([next_offset], log_offset[:-1] + 1))
    return HeaderColumns(
        log_offset,
        append_ms,
        headers["leader_epoch"],
        headers["producer_id"],
        (attributes & TRANSACTIONAL) != 0,
        (attributes & CONTROL) != 0,
        np.maximum(log_offset - expected, 0),
    )


def _select(columns: Any, rows: Any) -> Any:
    """Return the columns reduced to `rows`; Span columns are unchanged."""
    if len(rows) == len(columns[0]):
        return columns
    return columns._replace(
        **{
            name: column[rows]
            for name, column in columns._asdict().items()
            if not isinstance(column, Span)
        }
    )


def _texts(data: bytes, commits: Commits, rows: Any, ends: Any) -> dict[str, pa.Array]:
    metadata = Span(*(np.where(commits.tombstone, ends, side) for side in commits.metadata))
    return {
        "group": _strings(data, commits.group, rows),
        "topic": _strings(data, commits.topic, rows),
        "metadata": _strings(data, metadata, rows, commits.tombstone[rows]),
    }


def _strings(data: bytes, span: Span, rows: Any, null: Any = None) -> pa.Array:
    """Return the bytes of each span as a string. `data` is wrapped, without a copy, as an array in
    which strings and the gaps between them alternate; every second item is taken."""
    count = len(rows)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2], offsets[1::2] = span.begins[rows], span.ends[rows]
    offsets[-1] = offsets[-2] if count else 0
    both = pa.Array.from_buffers(
        pa.string(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, 2 * count, 2), mask=null))


def _not_utf8(column: pa.Array) -> list[int]:
    is_ascii = pc.string_is_ascii(column).fill_null(True).to_numpy(zero_copy_only=False)
    found = []
    for number in np.flatnonzero(~is_ascii).tolist():
        try:
            column[number].as_buffer().to_pybytes().decode()
        except UnicodeDecodeError:
            found.append(number)
    return found


def _commit_columns(
    positions: HeaderColumns, commits: Commits, texts: dict[str, pa.Array]
) -> dict[str, pa.Array]:
    count = len(positions.log_offset)
    deleted = commits.tombstone if commits.tombstone.any() else None
    no_epoch = commits.tombstone | (commits.leader_epoch == -1)
    return {
        "kind": pa.repeat("commit", count),
        "log_offset": _numbers(positions.log_offset),
        "append_ts": _times(positions.append_ms),
        "leader_epoch_batch": _numbers(positions.leader_epoch, np.int32),
        "producer_id": _numbers(positions.producer_id),
        "txn": pa.array(positions.txn),
        "missing_before": _numbers(positions.missing_before),
        **texts,
        "partition": _numbers(commits.partition, np.int32),
        "offset": _numbers(commits.offset, null=deleted),
        "leader_epoch": _numbers(commits.leader_epoch, np.int32, null=no_epoch),
        "commit_ts": _times(commits.commit_ms, deleted),
        "expire_ts": _times(commits.expire_ms, deleted),
        "value_version": _numbers(commits.version, np.int16, null=deleted),
        "tombstone": pa.array(commits.tombstone),
        "control": pa.repeat(False, count),
    }


def _topic_ids(data: bytes, begins: Any, tombstone: Any) -> pa.Array:
    """Return the ids at these positions as Kafka prints them, or null for a missing id."""
    missing = (begins < 0) | tombstone
    if missing.all():
        return pa.nulls(len(begins), pa.string())
    octets = np.frombuffer(data, np.uint8)
    raw = octets[np.where(missing, 0, begins)[:, None] + np.arange(TOPIC_ID_BYTES)]
    ids = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(TOPIC_ID_BYTES), len(begins), [None, pa.py_buffer(raw.tobytes())]
    ).dictionary_encode()
    names = pa.array([uuid_text(each) for each in ids.dictionary.to_pylist()], pa.string())
    return names.take(pc.if_else(pa.array(missing), None, ids.indices))


def _numbers(values: Any, kind: Any = np.int64, null: Any = None) -> pa.Array:
    return pa.array(values.astype(kind, copy=False), mask=null)


def _times(ms: Any, null: Any = None) -> pa.Array:
    invalid = (ms < 0) | (ms > TIMESTAMP_MS_MAX)
    if null is not None:
        invalid |= null
    if not invalid.any():
        return pa.array(ms * 1000).view(TIME)
    return pa.array(np.where(invalid, 0, ms) * 1000, mask=invalid).view(TIME)


def _row(
    data: bytes, commits: Commits, positions: HeaderColumns, number: int, offsets_partition: int
) -> Row:
    bounds = ((span.begins[number], span.ends[number]) for span in (commits.key, commits.value))
    key, value = (None if end < begin else data[begin:end] for begin, end in bounds)
    record = Record(int(positions.log_offset[number]), int(positions.append_ms[number]), key, value)
    return {
        "offsets_partition": offsets_partition,
        "log_offset": record.offset,
        "append_ts": micros(record.timestamp),
        "leader_epoch_batch": int(positions.leader_epoch[number]),
        "producer_id": int(positions.producer_id[number]),
        "txn": bool(positions.txn[number]),
        "missing_before": int(positions.missing_before[number]),
        **content_of(record, control=bool(positions.control[number])),
    }
