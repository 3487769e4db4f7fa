"""What is found in a segment with bad bytes: all that is sound, and where the rest lies."""

import random

from kohort.log.batch import NewRecord, build
from kohort.log.memory_files import MemoryFile
from kohort.log.recovery import Corruption, ValidBatch, scan_segment
from kohort.log.segment import CHUNK_BYTES

BATCHES = [build([NewRecord(b"k", b"v" * 50 * n, 1)] * n, base_offset=10 * n) for n in range(1, 7)]
STARTS = [sum(map(len, BATCHES[:n])) for n in range(len(BATCHES) + 1)]
CONTENT = b"".join(BATCHES)


def swept(content: bytes, base_offset: int = 0) -> tuple[list[bytes], list[Corruption]]:
    found = list(scan_segment(MemoryFile(bytearray(content)), base_offset))
    assert [item.position for item in found] == sorted(item.position for item in found)
    sound = [item for item in found if isinstance(item, ValidBatch)]
    return [item.batch for item in sound], [item for item in found if isinstance(item, Corruption)]


def test_a_flipped_byte_anywhere_costs_its_batch_alone() -> None:
    """Bytes 12 to 15, the leader's epoch, are outside the checksum and bound to nothing; the base
    offset, outside as well, is judged by the batches around it."""
    for position in range(len(CONTENT)):
        number = max(n for n, start in enumerate(STARTS) if start <= position)
        at = position - STARTS[number]
        if 12 <= at < 16:
            continue
        for flip in (0x01, 0x80, 0xFF):
            bent = bytearray(CONTENT)
            bent[position] ^= flip
            if at < 8 and number in (0, len(BATCHES) - 1):
                continue  # nothing before or behind it contradicts some of these
            sound, flaws = swept(bytes(bent))
            kept = [batch for n, batch in enumerate(BATCHES) if n != number]
            if not flaws:
                # A base offset that still fits into the gap: what a compacted log looks like.
                assert at < 8
                continue
            assert sound == kept, (position, flip)
            (flaw,) = flaws
            assert (flaw.position, flaw.size) == (STARTS[number], len(BATCHES[number]))
            after = 10 * (number + 2) if number + 1 < len(BATCHES) else None
            assert flaw.next_offset == after


def test_a_stretch_of_garbage_costs_what_it_covers() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        start = chance.randrange(len(CONTENT))
        size = chance.randint(1, 400)
        filling = chance.choice(
            [bytes(size), b"\xff" * size, b"\x02" * size, chance.randbytes(size)]
        )
        bent = (CONTENT[:start] + filling + CONTENT[start + size :])[: len(CONTENT)]
        whole = [b for b, at in zip(BATCHES, STARTS, strict=False) if bent[at : at + len(b)] == b]
        epoch_or_offset_only = [
            at
            for b, at in zip(BATCHES, STARTS, strict=False)
            if bent[at : at + len(b)] != b and bent[at + 16 : at + len(b)] == b[16:]
        ]
        sound, _ = swept(bent)
        assert len(sound) >= len(whole)
        if not epoch_or_offset_only:
            assert sound == whole


def test_what_is_cut_out_of_a_segment_leaves_the_rest_sound() -> None:
    bent = CONTENT[: STARTS[1] + 20] + CONTENT[STARTS[2] + 7 :]
    sound, (flaw,) = swept(bent)
    assert sound == [BATCHES[0], *BATCHES[3:]]
    assert (flaw.first_offset, flaw.next_offset) == (11, 40)


def test_zeros_at_the_end_are_no_flaw_and_a_torn_batch_is_one() -> None:
    assert swept(CONTENT + bytes(5000)) == (BATCHES, [])
    sound, (flaw,) = swept(CONTENT[:-1])
    assert sound == BATCHES[:-1]
    assert (flaw.first_offset, flaw.next_offset) == (55, None)
    sound, (flaw,) = swept(CONTENT[:-5] + bytes(7) + b"\x01")
    assert (sound, flaw.size) == (BATCHES[:-1], len(BATCHES[-1]) + 3)


def test_a_batch_inside_a_bad_record_is_not_taken_for_one_of_the_log() -> None:
    inner = build([NewRecord(b"inner", b"x", 1)], base_offset=25)
    outer = build([NewRecord(b"outer", inner, 1)], base_offset=20)
    bent = bytearray(BATCHES[0] + outer + BATCHES[2])
    bent[len(BATCHES[0]) + 61 + 5] ^= 1
    sound, (flaw,) = swept(bytes(bent))
    assert sound == [BATCHES[0], BATCHES[2]]
    assert (flaw.first_offset, flaw.next_offset) == (11, 30)


def test_batches_beyond_a_chunk_are_found_again() -> None:
    large = build([NewRecord(None, bytes(range(256)) * (CHUNK_BYTES // 100), 1)], base_offset=2)
    small = build([NewRecord(None, b"x", 1)], base_offset=3)
    for at in (8, 70, len(large) - 3):
        bent = bytearray(build([NewRecord(None, b"x", 1)] * 2) + large + small)
        bent[len(bent) - len(small) - len(large) + at] ^= 0xFF
        sound, (flaw,) = swept(bytes(bent))
        assert sound[-1] == small
        assert (flaw.size, flaw.first_offset, flaw.next_offset) == (len(large), 2, 3)


def test_a_segment_with_nothing_sound_is_one_flaw() -> None:
    text = b"to be or not to be\n" * 100
    sound, (flaw,) = swept(text)
    assert (sound, flaw.position, flaw.size, flaw.next_offset) == ([], 0, len(text), None)
