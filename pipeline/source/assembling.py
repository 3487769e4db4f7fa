"""Rows as Arrow: plain commits from their columns of numbers, all others from dicts, in order."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log.batch import APPEND_TIME, CONTROL, TRANSACTIONAL
from ...log.records import Record
from ..columns import SOURCE, TIME
from .batches import Sections
from .commits import Commits, Span
from .lockstep import Records
from .records import TIMESTAMP_MS_MAX, Row, content_of, micros

__all__ = ["assembled"]


class Place(NamedTuple):
    """Where records stand: a column for each field."""

    log_offset: Any
    append_ms: Any
    leader_epoch: Any
    producer_id: Any
    txn: Any
    control: Any
    missing_before: Any


def assembled(
    sections: Sections,
    records: Records,
    owner: Any,
    commits: Commits,
    offsets_partition: int,
    next_offset: int,
) -> pa.RecordBatch:
    """A row for each record of sound batches; `owner`: the batch of each."""
    place = _place_of(sections.headers[owner], commits, next_offset)
    plain = commits.plain & ~place.control
    while True:
        rows = np.flatnonzero(plain)
        texts = _texts(sections.data, commits, rows, records.ends)
        odd = [number for column in texts.values() for number in _not_utf8(column)]
        if not odd:
            break
        plain[rows[odd]] = False
    fast = _commit_columns(_of(place, rows), _of(commits, rows), texts, offsets_partition)
    rest = np.flatnonzero(~plain)
    if not len(rest):
        return pa.RecordBatch.from_arrays(fast, schema=SOURCE)
    slow = pa.RecordBatch.from_pylist(
        [
            _row(sections.data, commits, place, number, offsets_partition)
            for number in rest.tolist()
        ],
        schema=SOURCE,
    )
    order = np.empty(len(plain), np.int64)
    order[rows], order[rest] = np.arange(len(rows)), np.arange(len(rows), len(plain))
    columns = [
        pa.concat_arrays(pair).take(pa.array(order))
        for pair in zip(fast, slow.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SOURCE)


def _place_of(headers: Any, commits: Commits, next_offset: int) -> Place:
    attributes = headers["attributes"]
    log_offset = headers["base_offset"] + commits.offset_delta
    append_ms = headers["base_timestamp"] + commits.timestamp_delta
    if (attributes & APPEND_TIME).any():
        append_ms = np.where(attributes & APPEND_TIME, headers["max_timestamp"], append_ms)
    expected = np.concatenate(([next_offset], log_offset[:-1] + 1))
    return Place(
        log_offset,
        append_ms,
        headers["leader_epoch"],
        headers["producer_id"],
        (attributes & TRANSACTIONAL) != 0,
        (attributes & CONTROL) != 0,
        np.maximum(log_offset - expected, 0),
    )


def _of(columns: Any, rows: Any) -> Any:
    """The same columns of fewer rows; the spans of texts are cut out by `_texts`."""
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
        "group": _gathered(data, commits.group, rows),
        "topic": _gathered(data, commits.topic, rows),
        "metadata": _gathered(data, metadata, rows, commits.tombstone[rows]),
    }


def _gathered(data: bytes, span: Span, rows: Any, null: Any = None) -> pa.Array:
    """The bytes of each span as text. To Arrow the data are texts and the gaps between them, in
    turn, of which every second one is taken: no byte is looked at by numpy."""
    count = len(rows)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2], offsets[1::2] = span.begins[rows], span.ends[rows]
    offsets[-1] = offsets[-2] if count else 0
    both = pa.Array.from_buffers(
        pa.string(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return both.take(pa.array(np.arange(0, 2 * count, 2), mask=null))


def _not_utf8(column: pa.Array) -> list[int]:
    found = []
    for number in np.flatnonzero(~_filled(pc.string_is_ascii(column))).tolist():
        try:
            column[number].as_buffer().to_pybytes().decode()
        except UnicodeDecodeError:
            found.append(number)
    return found


def _filled(flags: pa.Array) -> Any:
    return flags.fill_null(True).to_numpy(zero_copy_only=False)


def _commit_columns(
    place: Place, commits: Commits, texts: dict[str, pa.Array], offsets_partition: int
) -> list[pa.Array]:
    count = len(place.log_offset)
    gone = commits.tombstone if commits.tombstone.any() else None
    columns = {
        "kind": pa.repeat("commit", count),
        "offsets_partition": pa.repeat(pa.scalar(offsets_partition, pa.int32()), count),
        "log_offset": _numbers(place.log_offset),
        "append_ts": _times(place.append_ms),
        "leader_epoch_batch": _numbers(place.leader_epoch, np.int32),
        "producer_id": _numbers(place.producer_id),
        "txn": pa.array(place.txn),
        "missing_before": _numbers(place.missing_before),
        **texts,
        "partition": _numbers(commits.partition, np.int32),
        "offset": _numbers(commits.offset, null=gone),
        "leader_epoch": _numbers(
            commits.leader_epoch, np.int32, null=commits.tombstone | (commits.leader_epoch == -1)
        ),
        "commit_ts": _times(commits.commit_ms, gone),
        "expire_ts": _times(commits.expire_ms, gone),
        "value_version": _numbers(commits.version, np.int16, null=gone),
        "tombstone": pa.array(commits.tombstone),
        "control": pa.repeat(False, count),
    }
    return [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in SOURCE
    ]


def _numbers(values: Any, kind: Any = np.int64, null: Any = None) -> pa.Array:
    return pa.array(values.astype(kind, copy=False), mask=null)


def _times(ms: Any, null: Any = None) -> pa.Array:
    never = (ms < 0) | (ms > TIMESTAMP_MS_MAX)
    if null is not None:
        never |= null
    if not never.any():
        return pa.array(ms * 1000).view(TIME)
    return pa.array(np.where(never, 0, ms) * 1000, mask=never).view(TIME)


def _row(data: bytes, commits: Commits, place: Place, number: int, offsets_partition: int) -> Row:
    key, value = (
        None if end < begin else data[begin:end]
        for begin, end in (
            (span.begins[number], span.ends[number]) for span in (commits.key, commits.value)
        )
    )
    record = Record(int(place.log_offset[number]), int(place.append_ms[number]), key, value)
    return {
        "offsets_partition": offsets_partition,
        "log_offset": record.offset,
        "append_ts": micros(record.timestamp),
        "leader_epoch_batch": int(place.leader_epoch[number]),
        "producer_id": int(place.producer_id[number]),
        "txn": bool(place.txn[number]),
        "missing_before": int(place.missing_before[number]),
        **content_of(record, control=bool(place.control[number])),
    }
