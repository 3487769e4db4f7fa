"""Where records lie in many batches at once.

Only the length of a record tells where the next one begins, so a batch has to be walked record by
record. What can be done is to walk many of them in step: record 0 of all batches by one numpy
gather, then record 1 of all that have one, and so on. That pays while enough of them are alive;
the long ones that are left over are walked one after the other.

All that does not look as it should is only marked: what is wrong with it others find out.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from ...protocol.primitives import read_varint

__all__ = ["ALIVE_MIN", "PAD_BYTES", "RECORD_BYTES_MIN", "Records", "find_records", "varints"]

# With fewer batches a step costs more than it saves: thirty calls of numpy take what Python takes
# for as many records.
ALIVE_MIN: Final = 150
# How far behind the last record a wrong position may look: it is stopped at the end of its batch
# before more is added than a few numbers and a fixed layout.
PAD_BYTES: Final = 128
# Length, attributes, two deltas, two lengths and a count.
RECORD_BYTES_MIN: Final = 7
# 35 bits: more than any length or offset delta has, and a timestamp delta of 198 days.
VARINT_BYTES_MAX: Final = 5

Numbers = Any  # np.ndarray of int64


class Records(NamedTuple):
    """`begins`, `ends`: of each record, behind its length; batch by batch. `sound`: of each batch,
    whether its records fill it."""

    begins: Numbers
    ends: Numbers
    sound: Any


def find_records(data: bytes, begins: Numbers, ends: Numbers, counts: Numbers) -> Records:
    """The `counts` records of batches whose records lie from `begins` to `ends` in `data`, which
    has PAD_BYTES behind the last. A batch with a wild count has to be left out before."""
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    found = Records(
        np.zeros(total, np.int64), np.zeros(total, np.int64), np.ones(len(begins), bool)
    )
    at = begins.copy()
    number = 0
    alive = np.flatnonzero(counts > 0)
    numbers = np.frombuffer(data, np.uint8)
    while len(alive) >= ALIVE_MIN:
        length, here = varints(numbers, at[alive], found.sound, alive)
        behind = here + length
        wrong = (length < 0) | (behind > ends[alive])
        if wrong.any():
            found.sound[alive[wrong]] = False
            behind = np.where(wrong, ends[alive], behind)
            here = np.minimum(here, behind)
        found.begins[first[alive] + number] = here
        found.ends[first[alive] + number] = behind
        at[alive] = behind
        number += 1
        alive = alive[counts[alive] > number]
    for batch in alive.tolist():
        place = int(first[batch]) + number
        at[batch] = _walk(
            data, int(at[batch]), int(ends[batch]), int(counts[batch]) - number, place, found
        )
    found.sound[at != ends] = False
    return found


def _walk(data: bytes, at: int, end: int, count: int, place: int, found: Records) -> int:
    """The `count` records of one batch from `at` on; where they end, -1 if they do not fit."""
    begins, ends = [], []
    try:
        for _ in range(count):
            length = data[at]
            if length < 128:
                at += 1
                length = (length >> 1) ^ -(length & 1)
            else:
                length, at = read_varint(data, at)
            begins.append(at)
            at += length
            if length < 0 or at > end:
                return -1
            ends.append(at)
    except (IndexError, ValueError):
        return -1
    found.begins[place : place + count] = begins
    found.ends[place : place + count] = ends
    return at


def varints(data: Any, at: Numbers, sound: Any, owner: Numbers) -> tuple[Numbers, Numbers]:
    """(the zig-zag numbers at the positions `at`, where they end). `sound[owner]` becomes false
    where one is longer than five bytes."""
    raw = data[at].astype(np.int64)
    behind = at + 1
    longer = np.flatnonzero(raw >= 128)
    if len(longer):
        raw[longer] &= 0x7F
        for place in range(1, VARINT_BYTES_MAX):
            byte = data[behind[longer]].astype(np.int64)
            raw[longer] |= (byte & 0x7F) << (7 * place)
            behind[longer] += 1
            longer = longer[byte >= 128]
            if not len(longer):
                break
        sound[owner[longer]] = False
    return (raw >> 1) ^ -(raw & 1), behind
