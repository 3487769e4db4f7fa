"""A corrupt registry is rejected; one with a torn tail is opened."""

import uuid

import pytest
from kohort.log.batch import BatchBuilder
from kohort.topics.registry_log import CorruptRegistry, TopicRecord, check_registry, encode
from support.broker import DATA, BrokerHarness

REGISTRY = DATA / "__kohort_topics-0"
FIRST = REGISTRY / f"{0:020}.log"


def batch_of(number: int) -> bytes:
    batch = BatchBuilder()
    batch.add(*encode(TopicRecord(f"topic-{number}", uuid.UUID(int=number), 1, {})), 7)
    return batch.finish(number)


BATCHES = [batch_of(number) for number in range(3)]
STORED = b"".join(BATCHES)
LAST = len(STORED) - len(BATCHES[-1])


def check(*segments: tuple[int, bytes]) -> None:
    """Check a registry with these segments, each (base offset, content)."""
    files = BrokerHarness().files
    files.make_folder(REGISTRY)
    before = {REGISTRY / f"{base:020}.log": bytearray(content) for base, content in segments}
    files.contents.update(before)
    try:
        check_registry(DATA, files)
    finally:
        assert {path: files.contents[path] for path in before} == before


def with_flipped_bit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_valid_or_missing_registry_is_accepted() -> None:
    check()
    check((0, b""))
    check((0, STORED))
    check((0, STORED + bytes(4096)))


def test_a_tail_torn_at_any_byte_is_accepted() -> None:
    for length in range(LAST, len(STORED)):
        check((0, STORED[:length]))
        check((0, STORED[:length] + bytes(len(STORED) - length)))
        check((0, STORED[:length] + bytes(4096)))


def test_a_last_batch_without_any_one_of_its_sectors_is_accepted() -> None:
    for begin in range(LAST, len(STORED), 16):
        check((0, STORED[:begin] + bytes(16) + STORED[begin + 16 :]))


def test_any_other_corrupt_byte_is_rejected() -> None:
    # Leader epochs cannot be verified, nor can the base offset of the first batch.
    unchecked = {*range(8), *range(12, 16), *(len(BATCHES[0]) + at for at in range(12, 16))}
    for at in set(range(LAST)) - unchecked:
        with pytest.raises(CorruptRegistry, match="topic registry is corrupt"):
            check((0, with_flipped_bit(STORED, at)))


def test_garbage_behind_a_corrupt_batch_is_rejected() -> None:
    with pytest.raises(CorruptRegistry):
        check((0, with_flipped_bit(STORED, len(STORED) - 1) + b"garbage"))


def test_a_torn_tail_is_rejected_if_another_segment_follows() -> None:
    check((0, STORED[:LAST]), (2, BATCHES[2]))
    check((0, STORED[:LAST]), (2, BATCHES[2][:-1]))
    with pytest.raises(CorruptRegistry):
        check((0, STORED[: LAST - 1]), (2, BATCHES[2]))
