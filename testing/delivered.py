"""How far a client can have come in a partition, by what it asked and what it was answered."""

import struct
from collections.abc import Iterator
from typing import Any

from ..log.batch import read_header
from ..protocol.messages import response_decoder
from .asked import Asked, TopicPartition

Positions = Iterator[tuple[TopicPartition, int]]


def asked_from(fetch: Asked) -> Positions:
    """Where a Fetch wants to go on."""
    for topic, each, index in fetch.named(fetch.message):
        yield (topic, int(index)), int(each.fetch_offset)


def told_by(asked: Asked) -> Positions:
    """What an answer lets its client stand at: behind the records of a Fetch, at an offset of
    ListOffsets, at what an OffsetFetch says is committed."""
    if not asked.answer:
        return
    # Not `asked.response`, which is kept: records would be held twice.
    response = response_decoder(asked.key, asked.version)(asked.answer)
    for topic, each, index in asked.named(response):
        offset = _end_of(each.records) if asked.api == "Fetch" else _offset_in(each)
        if offset is not None:
            yield (topic, int(index)), offset


def _offset_in(each: Any) -> int | None:
    for name in ("offset", "committed_offset"):
        if hasattr(each, name):
            return int(getattr(each, name))
    return max(each.old_style_offsets, default=None)  # ListOffsets v0


def _end_of(records: bytes | None) -> int | None:
    """The offset after the last whole batch: a Fetch may cut off the one behind it."""
    end, position = None, 0
    while records and position < len(records):
        try:
            header = read_header(records, position)
        except struct.error:
            break
        position += header.size
        if position <= len(records):
            end = header.next_offset
    return end
