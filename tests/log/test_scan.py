"""Scanning a corrupt segment finds all valid batches and the positions of the corrupt ones."""

import random

from kohort.log.memory_files import MemoryFile
from kohort.log.recovery import Corruption, ValidBatch, scan_segment
from kohort.log.segment import CHUNK_BYTES
from support.log import NewRecord, build

BATCHES = [build([NewRecord(b"k", b"v" * 50 * n, 1)] * n, base_offset=10 * n) for n in range(1, 7)]
STARTS = [sum(map(len, BATCHES[:n])) for n in range(len(BATCHES) + 1)]
CONTENT = b"".join(BATCHES)


def scan(content: bytes, base_offset: int = 0) -> tuple[list[bytes], list[Corruption]]:
    found = list(scan_segment(MemoryFile(bytearray(content)), base_offset))
    assert [item.position for item in found] == sorted(item.position for item in found)
    valid = [item for item in found if isinstance(item, ValidBatch)]
    return [item.batch for item in valid], [item for item in found if isinstance(item, Corruption)]


def test_a_flipped_byte_loses_only_its_batch() -> None:
    """The checksum covers neither the leader epoch (bytes 12 to 15), which cannot be verified, nor
    the base offset, which is compared with the adjacent batches."""
    for position in range(len(CONTENT)):
        number = max(n for n, start in enumerate(STARTS) if start <= position)
        at = position - STARTS[number]
        if 12 <= at < 16:
            continue
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(CONTENT)
            changed[position] ^= flip
            if at < 8 and number in (0, len(BATCHES) - 1):
                continue  # not always detectable: there is only one adjacent batch
            valid, corruptions = scan(bytes(changed))
            kept = [batch for n, batch in enumerate(BATCHES) if n != number]
            if not corruptions:
                # The base offset still fits into the gap, as in a compacted log.
                assert at < 8
                continue
            assert valid == kept, (position, flip)
            (corruption,) = corruptions
            assert (corruption.position, corruption.size) == (STARTS[number], len(BATCHES[number]))
            after = 10 * (number + 2) if number + 1 < len(BATCHES) else None
            assert corruption.next_offset == after


def test_garbage_loses_only_the_batches_it_covers() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        start = chance.randrange(len(CONTENT))
        size = chance.randint(1, 400)
        filling = chance.choice(
            [bytes(size), b"\xff" * size, b"\x02" * size, chance.randbytes(size)]
        )
        changed = (CONTENT[:start] + filling + CONTENT[start + size :])[: len(CONTENT)]
        whole = [
            b for b, at in zip(BATCHES, STARTS, strict=False) if changed[at : at + len(b)] == b
        ]
        epoch_or_offset_only = [
            at
            for b, at in zip(BATCHES, STARTS, strict=False)
            if changed[at : at + len(b)] != b and changed[at + 16 : at + len(b)] == b[16:]
        ]
        valid, _ = scan(changed)
        assert len(valid) >= len(whole)
        if not epoch_or_offset_only:
            assert valid == whole


def test_what_is_cut_out_of_a_segment_leaves_the_rest_valid() -> None:
    changed = CONTENT[: STARTS[1] + 20] + CONTENT[STARTS[2] + 7 :]
    valid, (corruption,) = scan(changed)
    assert valid == [BATCHES[0], *BATCHES[3:]]
    assert (corruption.first_offset, corruption.next_offset) == (11, 40)


def test_zeros_at_the_end_are_no_corruption_and_a_torn_batch_is_one() -> None:
    assert scan(CONTENT + bytes(5000)) == (BATCHES, [])
    valid, (corruption,) = scan(CONTENT[:-1])
    assert valid == BATCHES[:-1]
    assert (corruption.first_offset, corruption.next_offset) == (55, None)
    valid, (corruption,) = scan(CONTENT[:-5] + bytes(7) + b"\x01")
    assert (valid, corruption.size) == (BATCHES[:-1], len(BATCHES[-1]) + 3)


def test_a_batch_inside_a_corrupt_record_is_not_part_of_the_log() -> None:
    inner = build([NewRecord(b"inner", b"x", 1)], base_offset=25)
    outer = build([NewRecord(b"outer", inner, 1)], base_offset=20)
    changed = bytearray(BATCHES[0] + outer + BATCHES[2])
    changed[len(BATCHES[0]) + 61 + 5] ^= 1
    valid, (corruption,) = scan(bytes(changed))
    assert valid == [BATCHES[0], BATCHES[2]]
    assert (corruption.first_offset, corruption.next_offset) == (11, 30)


def test_batches_behind_a_large_corrupt_one_are_found() -> None:
    large = build([NewRecord(None, bytes(range(256)) * (CHUNK_BYTES // 100), 1)], base_offset=2)
    small = build([NewRecord(None, b"x", 1)], base_offset=3)
    for at in (8, 70, len(large) - 3):
        changed = bytearray(build([NewRecord(None, b"x", 1)] * 2) + large + small)
        changed[len(changed) - len(small) - len(large) + at] ^= 0xFF
        valid, (corruption,) = scan(bytes(changed))
        assert valid[-1] == small
        assert (corruption.size, corruption.first_offset, corruption.next_offset) == (
            len(large),
            2,
            3,
        )


def test_a_segment_with_nothing_valid_is_one_corruption() -> None:
    text = b"to be or not to be\n" * 100
    valid, (corruption,) = scan(text)
    assert (valid, corruption.position, corruption.size, corruption.next_offset) == (
        [],
        0,
        len(text),
        None,
    )
