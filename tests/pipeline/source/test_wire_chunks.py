"""What a reader makes of the answers to its fetches: borders, gaps, and logs that change."""

from collections.abc import Mapping

import pytest
from kohort.pipeline.source.batches import Chunk
from kohort.pipeline.source.source import SourceError, Split
from kohort.pipeline.source.wire_batches import chunks_of
from kohort.pipeline.source.wire_cluster import EARLIEST, Fetched, OutOfRange, TopicPartition
from support.log import NewRecord, build


def batch(base_offset: int, count: int = 1) -> bytes:
    return build([NewRecord(b"k", b"v" * 100, 1)] * count, base_offset=base_offset)


class Log:
    """A partition as its leader answers for it: some batches, each with its last offset."""

    def __init__(self, *batches: tuple[int, int], start: int = 0, end: int | None = None) -> None:
        self.batches = [(base + count - 1, batch(base, count)) for base, count in batches]
        self.start = start
        self.end = self.batches[-1][0] + 1 if end is None else end
        self.asked: list[int] = []
        self.ahead: list[int] = []
        self.batches_per_answer = 100
        self.cut_off = 0

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
        self.asked.append(offset)
        if not self.start <= offset <= self.end:
            raise OutOfRange
        found = [data for last, data in self.batches if last >= offset]
        records = b"".join(found[: self.batches_per_answer])
        if self.cut_off and len(found) > self.batches_per_answer:
            records += found[self.batches_per_answer][: self.cut_off]
        return Fetched(records, self.end)

    def fetch_ahead(self, topic: str, partition: int, offset: int, max_bytes: int) -> None:
        self.ahead.append(offset)

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        ((place, when),) = wanted.items()
        return {place: self.start if when == EARLIEST else self.end}


def bytes_of(chunk: Chunk) -> bytes:
    """Batches have one size or another here, and lie back to back."""
    sizes = [12 + int.from_bytes(chunk.data[at + 8 : at + 12], "big") for at in chunk.starts]
    return b"".join(chunk.data[at : at + n] for at, n in zip(chunk.starts, sizes, strict=True))


def chunks(log: Log, start: int, end: int) -> bytes:
    return b"".join(map(bytes_of, chunks_of(log, Split(3, start, end), 0.0)))


def test_each_answer_is_a_chunk_and_the_next_is_asked_for_before_it_is_used() -> None:
    log = Log((0, 2), (2, 2), (4, 2), (6, 2))
    log.batches_per_answer = 2
    found = [len(chunk.starts) for chunk in chunks_of(log, Split(3, 0, 8), 0.0)]
    assert found == [2, 2]
    assert (log.asked, log.ahead) == ([0, 4], [4])


@pytest.mark.parametrize("cut_off", [1, 60, 61, 100])
def test_a_batch_that_is_cut_off_is_asked_for_again(cut_off: int) -> None:
    log = Log((0, 2), (2, 2), (4, 2))
    log.batches_per_answer, log.cut_off = 1, cut_off
    assert chunks(log, 0, 6) == batch(0, 2) + batch(2, 2) + batch(4, 2)
    assert log.asked == [0, 2, 4]


def test_batches_beyond_the_borders_are_left_out_and_those_across_them_come_whole() -> None:
    log = Log((0, 2), (2, 3), (5, 3), (8, 2))
    assert chunks(log, 3, 7) == batch(2, 3) + batch(5, 3)
    assert chunks(log, 2, 8) == batch(2, 3) + batch(5, 3)
    assert chunks(log, 2, 5) == batch(2, 3)


def test_a_batch_of_before_that_an_answer_begins_with_is_left_out() -> None:
    log = Log((0, 2), (2, 2))
    log.batches[0] = (9, batch(0, 2))  # as a broker may that finds batches by a sparse index
    assert chunks(log, 2, 4) == batch(2, 2)


def test_a_gap_that_compaction_left_is_stepped_over() -> None:
    log = Log((0, 2), (50, 2), end=80)
    assert chunks(log, 0, 52) == batch(0, 2) + batch(50, 2)
    assert chunks(log, 2, 40) == b""
    assert chunks(log, 10, 51) == batch(50, 2)


def test_an_end_that_compaction_took_away_is_no_reason_to_wait() -> None:
    log = Log((0, 2), end=80)
    assert chunks(log, 0, 80) == batch(0, 2)


def test_a_start_that_retention_took_away_is_passed_over() -> None:
    log = Log((10, 2), (12, 2), start=10)
    assert chunks(log, 4, 14) == batch(10, 2) + batch(12, 2)
    assert chunks(log, 4, 8) == b""


def test_a_log_that_was_cut_off_is_said() -> None:
    with pytest.raises(SourceError, match=r"Partition 3 .* ends at offset 4, .* up to 9"):
        chunks(Log((0, 4)), 6, 9)
    with pytest.raises(SourceError, match="ends at offset 4"):
        chunks(Log((0, 4)), 0, 9)


def test_a_batch_that_a_network_harmed_is_asked_for_again() -> None:
    harmed = iter([True, False])

    class Harming(Log):
        def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
            answer = super().fetch(topic, partition, offset, max_bytes)
            if offset == 0 and next(harmed, False):
                return answer._replace(records=turned(answer.records, 90))
            return answer

    log = Harming((0, 2), (2, 2))
    assert chunks(log, 0, 4) == batch(0, 2) + batch(2, 2)


def turned(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("at", [20, 30, 90])  # checksum, timestamp, record
def test_a_batch_that_is_bad_for_good_is_left_out_and_said(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log((0, 2), (2, 2), (4, 2))
    log.batches[1] = (3, turned(batch(2, 2), at))
    assert chunks(log, 0, 6) == batch(0, 2) + batch(4, 2)
    assert "Partition 3 of __consumer_offsets: the batch at offset 2 is left out" in caplog.text


def test_what_is_no_batch_at_all_ends_the_reading_with_a_sentence() -> None:
    log = Log((0, 2))
    log.batches[0] = (1, b"\0" * 100)
    with pytest.raises(SourceError, match="has no batch at offset 0: batch length 0"):
        chunks(log, 0, 2)
    log.batches[0] = (1, batch(0, 2)[:80])
    with pytest.raises(SourceError, match="but 80 are left"):
        chunks(log, 0, 2)
