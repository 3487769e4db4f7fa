"""Reading a partition by fetches: limits of splits, gaps, corrupted batches."""

from collections.abc import Mapping

import pytest
from kohort.pipeline.source.batches import Chunk
from kohort.pipeline.source.source import SourceError, Split
from kohort.pipeline.source.wire_cluster import EARLIEST, Fetched, OutOfRange, TopicPartition
from kohort.pipeline.source.wire_source import chunks_of
from support.log import NewRecord, build


def batch(base_offset: int, count: int = 1) -> bytes:
    return build([NewRecord(b"k", b"v" * 100, 1)] * count, base_offset=base_offset)


class Log:
    """The leader of a partition with batches of (base offset, number of records)."""

    def __init__(self, *batches: tuple[int, int], start: int = 0, end: int | None = None) -> None:
        self.batches = [(base + count - 1, batch(base, count)) for base, count in batches]
        self.start = start
        self.end = self.batches[-1][0] + 1 if end is None else end
        self.fetched: list[int] = []
        self.prefetched: list[int] = []
        self.batches_per_response = 100
        self.cut_off = 0

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
        self.fetched.append(offset)
        if not self.start <= offset <= self.end:
            raise OutOfRange
        found = [data for last, data in self.batches if last >= offset]
        records = b"".join(found[: self.batches_per_response])
        if self.cut_off and len(found) > self.batches_per_response:
            records += found[self.batches_per_response][: self.cut_off]
        return Fetched(records, self.end)

    def prefetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> None:
        self.prefetched.append(offset)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        ((tp, time),) = wanted.items()
        return {tp: self.start if time == EARLIEST else self.end}


def bytes_of(chunk: Chunk) -> bytes:
    """The batches of a chunk, without what lies between them."""
    sizes = [12 + int.from_bytes(chunk.data[at + 8 : at + 12], "big") for at in chunk.starts]
    return b"".join(chunk.data[at : at + n] for at, n in zip(chunk.starts, sizes, strict=True))


def chunks(log: Log, start: int, end: int) -> bytes:
    return b"".join(map(bytes_of, chunks_of(log, Split(3, start, end), 0.0)))


def test_each_response_is_a_chunk_and_the_next_fetch_is_sent_before_it_is_used() -> None:
    log = Log((0, 2), (2, 2), (4, 2), (6, 2))
    log.batches_per_response = 2
    found = [len(chunk.starts) for chunk in chunks_of(log, Split(3, 0, 8), 0.0)]
    assert found == [2, 2]
    assert (log.fetched, log.prefetched) == ([0, 4], [4])


@pytest.mark.parametrize("cut_off", [1, 60, 61, 100])
def test_a_partial_batch_is_fetched_again(cut_off: int) -> None:
    log = Log((0, 2), (2, 2), (4, 2))
    log.batches_per_response, log.cut_off = 1, cut_off
    assert chunks(log, 0, 6) == batch(0, 2) + batch(2, 2) + batch(4, 2)
    assert log.fetched == [0, 2, 4]


def test_batches_outside_a_split_are_omitted_and_overlapping_ones_are_whole() -> None:
    log = Log((0, 2), (2, 3), (5, 3), (8, 2))
    assert chunks(log, 3, 7) == batch(2, 3) + batch(5, 3)
    assert chunks(log, 2, 8) == batch(2, 3) + batch(5, 3)
    assert chunks(log, 2, 5) == batch(2, 3)


def test_a_batch_before_the_fetch_offset_is_omitted() -> None:
    log = Log((0, 2), (2, 2))
    log.batches[0] = (9, batch(0, 2))  # as a broker with a sparse index may return
    assert chunks(log, 2, 4) == batch(2, 2)


def test_gaps_of_compaction_are_skipped() -> None:
    log = Log((0, 2), (50, 2), end=80)
    assert chunks(log, 0, 52) == batch(0, 2) + batch(50, 2)
    assert chunks(log, 2, 40) == b""
    assert chunks(log, 10, 51) == batch(50, 2)


def test_reading_ends_where_compaction_removed_the_end() -> None:
    log = Log((0, 2), end=80)
    assert chunks(log, 0, 80) == batch(0, 2)


def test_reading_starts_at_the_log_start_offset_after_retention() -> None:
    log = Log((10, 2), (12, 2), start=10)
    assert chunks(log, 4, 14) == batch(10, 2) + batch(12, 2)
    assert chunks(log, 4, 8) == b""


def test_a_truncated_log_is_an_error() -> None:
    with pytest.raises(SourceError, match=r"Partition 3 .* ends at offset 4, before 9"):
        chunks(Log((0, 4)), 6, 9)
    with pytest.raises(SourceError, match="ends at offset 4"):
        chunks(Log((0, 4)), 0, 9)


def test_a_batch_corrupted_in_transit_is_fetched_again() -> None:
    is_corrupted = iter([True, False])

    class CorruptingOnce(Log):
        def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
            response = super().fetch(topic, partition, offset, max_bytes)
            if offset == 0 and next(is_corrupted, False):
                return response._replace(records=with_flipped_bit(response.records, 90))
            return response

    log = CorruptingOnce((0, 2), (2, 2))
    assert chunks(log, 0, 4) == batch(0, 2) + batch(2, 2)


def with_flipped_bit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("at", [20, 30, 90])  # checksum, timestamp, record
def test_a_permanently_corrupted_batch_is_skipped_with_a_warning(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log((0, 2), (2, 2), (4, 2))
    log.batches[1] = (3, with_flipped_bit(batch(2, 2), at))
    assert chunks(log, 0, 6) == batch(0, 2) + batch(4, 2)
    assert "Partition 3 of __consumer_offsets: skipping batch at offset 2" in caplog.text


def test_data_that_is_not_a_batch_is_an_error() -> None:
    log = Log((0, 2))
    log.batches[0] = (1, b"\0" * 100)
    with pytest.raises(SourceError, match="has no batch at offset 0: batch length 0"):
        chunks(log, 0, 2)
    log.batches[0] = (1, batch(0, 2)[:80])
    with pytest.raises(SourceError, match="but only 80 bytes are left"):
        chunks(log, 0, 2)
