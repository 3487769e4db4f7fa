"""The vectorized decoder equals the decoder of single records, for any log."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source import vectorized
from kohort.pipeline.source.decoding import decode
from kohort.pipeline.source.records import rows_of
from offset_logs import chunk_of, some_log


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
