"""The vectorized decoder equals the decoder of single records, for any log.

Batches are plain, compressed, compacted or transactional, with headers, all types of records and
versions of values, and malformed.
"""

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.log.batch import (
    APPEND_TIME,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    TRANSACTIONAL,
    read_header,
    seal,
)
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source import vectorized
from kohort.pipeline.source.decoding import decode
from kohort.pipeline.source.records import rows_of
from offset_logs import (
    NOW_MS,
    a_group,
    batch,
    chunk_of,
    offset_key,
    offset_value,
    record,
    text,
)

# --- strategies

TEXTS = ("", "orders", "a group", "Bücher", "数", "x" * 130)
TAGS = (
    b"\0",
    b"\1\0\x10" + bytes(16),
    b"\1\7\2ab",
    b"\2\0\x10" + bytes(16) + b"\7\1x",
    b"\1\0\x10",
)
TIMES = (NOW_MS, NOW_MS + 1, -1, 0, 1 << 60, -(1 << 62))

names = st.sampled_from(TEXTS)
partitions = st.integers(0, 300)
keys = st.builds(offset_key, names, names, partitions, st.sampled_from((1, 1, 1, 0)))
values = st.builds(
    offset_value,
    st.integers(0, 4),
    st.integers(-1, 1 << 40),
    names,
    st.sampled_from(TIMES),
    st.sampled_from(TAGS),
)
group_keys = names.map(lambda name: b"\0\2" + text(name))
groups = st.builds(
    a_group,
    st.sampled_from(("consumer", "consumer", "connect", "")),
    st.integers(0, 3),
    st.sampled_from((None, "i-1")),
    st.sampled_from((b"", b"", b"\0\1", b"\0\1" + b"\0\0\0\1\0\1x" * 3)),
)
commits = st.tuples(keys, values)


def damaged(pair: tuple[bytes, bytes], seed: int) -> tuple[bytes | None, bytes | None]:
    """The pair with one changed byte, with bytes removed or added, or with one side null."""
    key, value = map(bytearray, pair)
    draw = random.Random(seed)
    side = draw.choice((key, value))
    change = draw.randrange(4)
    if change == 0:
        side[draw.randrange(len(side))] = draw.choice((0, 255, 127, 128, 195))
    elif change == 1:
        del side[draw.randrange(len(side)) :]
    elif change == 2:
        side += b"more"
    else:
        return (None, bytes(value)) if side is key else (bytes(key), None)
    return bytes(key), bytes(value)


pairs: Any = st.one_of(
    commits,
    commits,
    commits,
    commits,
    commits,
    st.tuples(keys, st.none()),
    st.tuples(group_keys, st.one_of(groups, st.none())),
    st.tuples(st.sampled_from((b"\0\3\0\1g", b"\0\5", b"\xff\xff")), st.sampled_from((b"v", None))),
    st.builds(damaged, commits, st.integers(0, 1 << 30)),
    st.builds(damaged, st.tuples(group_keys, groups), st.integers(0, 1 << 30)),
)
deltas = st.lists(st.integers(0, 3), max_size=10)
attributes_of = st.builds(
    lambda codec, more: codec | more,
    st.sampled_from((0, 0, 0, 0, 1, 2, 3, 4)),
    st.sampled_from((0, 0, 0, APPEND_TIME, TRANSACTIONAL)),
)


@st.composite
def some_batch(draw: Any, base_offset: int) -> bytes:
    odd = draw(st.integers(0, 4)) == 0
    attributes = draw(attributes_of)
    if draw(st.integers(0, 9)) == 0:
        key = draw(st.sampled_from((b"\0\0\0\0", b"\0\0\0\1", b"\0\0")))
        attributes = CONTROL | TRANSACTIONAL
    offset = 0
    made = []
    for delta in draw(deltas):
        offset += delta
        pair = (key, bytes(6)) if attributes & CONTROL else draw(pairs)
        ms = draw(st.sampled_from((0, 1, -70, 1 << 33, 1 << 36 if odd else 5)))
        made.append(record(*pair, offset, ms, headers=2 * (odd and draw(st.booleans()))))
        offset += 1
    wrong_count = draw(st.sampled_from((len(made) + 1, max(0, len(made) - 1), 1 << 30)))
    found = batch(
        made,
        base_offset=base_offset,
        last_delta=offset + draw(st.integers(0, 2)),
        attributes=attributes,
        count=wrong_count if odd and draw(st.booleans()) else None,
        producer_id=17 if attributes & TRANSACTIONAL else -1,
        base_ms=draw(st.sampled_from((NOW_MS, NOW_MS, NOW_MS, -1, 1 << 61))),
    )
    if odd and draw(st.booleans()) and len(found) > HEADER_BYTES:
        return with_wrong_byte(
            found, draw(st.integers(HEADER_BYTES, len(found) - 1)), draw(st.integers(1, 255))
        )
    return found


def with_wrong_byte(whole: bytes, at: int, change: int) -> bytes:
    """The batch with one changed byte and a valid checksum."""
    changed, header = bytearray(whole), read_header(whole)
    changed[at] ^= change
    return seal(bytes(changed[CRC_START:]), header.base_offset, header.leader_epoch)


@st.composite
def some_log(draw: Any) -> list[bytes]:
    found: list[bytes] = []
    offset = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 5))):
        found.append(draw(some_batch(offset)))
        offset = read_header(found[-1]).next_offset + draw(st.sampled_from((0, 0, 2)))
    return found


# --- tests


def record_by_record(batches: list[bytes], next_offset: int) -> pa.Table:
    rows = []
    for each in batches:
        rows += rows_of(each, 3, next_offset)
        next_offset = rows[-1]["log_offset"] + 1 if rows else next_offset
    return pa.Table.from_pylist(rows, schema=SOURCE)


def vectorized_rows(chunks: list[bytes], next_offset: int) -> pa.Table:
    found = list(decode(map(chunk_of, chunks), 3, next_offset))
    for each in found:
        each.validate(full=True)
    return pa.Table.from_batches(found, schema=SOURCE)


@given(some_log(), st.integers(0, 2), st.sampled_from((1, 3, 150)))
def test_both_decoders_return_the_same_rows(
    batches: list[bytes], next_offset: int, alive_min: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectorized, "ALIVE_MIN", alive_min)
        together = vectorized_rows([b"".join(batches)], next_offset)
    assert together.to_pylist() == record_by_record(batches, next_offset).to_pylist()
    assert vectorized_rows(batches, next_offset).equals(together.combine_chunks())
