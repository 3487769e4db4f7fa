"""The registry's log: opened, mended after a failure, and written anew when most of it is about
what is gone.

A registry is read as a whole, so without that every topic that ever was would be told of at each
start. It is done at a start, before anybody uses the log, by the swap of a compaction
(log/segment_swap.py): a crash at any moment leaves the old log or the new one.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ..log.batch import BatchBuilder
from ..log.files import Files
from ..log.group_commit import Durability
from ..log.log import Log, LogConfig
from ..log.segment_swap import write_swap
from .records import (
    BrokerConfigsStored,
    LeaderElected,
    ProducerIdsReserved,
    RegistryRecord,
    TopicDeleted,
    TopicGone,
    TopicStored,
    encode,
    stored_in,
)

__all__ = ["compacted", "mended", "newest", "opened"]

_log = logging.getLogger("kohort.topics")

# Fewer records than this are read in 20 ms, and stay as they are.
RECORDS_MIN: Final = 1_000


def opened(folder: Path, files: Files, truncate_to: int | None = None) -> Log:
    return Log.open(
        folder, files, LogConfig(segment_bytes=64 * 1024 * 1024), truncate_to=truncate_to
    )


def mended(journal: Log, durability: Durability) -> Log:
    """The log after a failed write: whoever was refused finds nothing of it. Raises OSError,
    LogError."""
    if durability == "fsync":
        journal.recover()
    elif journal.failed is not None:
        # Nothing is ever synced, so what the system holds is all there is to go back to, but
        # for what was refused and could not be cut off.
        end_offset = journal.end_offset
        journal.close()
        journal = opened(journal.folder, journal.files, end_offset)
    return journal


def newest(stored: Iterable[RegistryRecord]) -> list[RegistryRecord]:
    """Those that still count, in an order in which they say the same as all of them: topics come
    in the order they were made, and who leads a partition after the topic that has it."""
    found: dict[tuple[Any, ...], RegistryRecord] = {}
    for record in stored:
        key = _key(record)
        before = found.get(key)
        match record:
            case TopicStored(_, id_, partitions):
                if isinstance(before, TopicStored) and before.id == id_:
                    record = record._replace(partitions=max(partitions, before.partitions))
                else:
                    found.pop(key, None)  # another topic, made later
            case TopicGone() if isinstance(before, TopicDeleted):
                del found[key]
                continue
            case LeaderElected() if not _is_known(record, found):
                continue
        if not isinstance(record, TopicGone):
            found[key] = record
    return [
        each
        for each in found.values()
        if not isinstance(each, LeaderElected) or _is_known(each, found)
    ]


def _key(record: RegistryRecord) -> tuple[Any, ...]:
    match record:
        case TopicStored(name) | TopicDeleted(name) | TopicGone(name):
            return TopicStored, name
        case LeaderElected():
            return LeaderElected, record.topic_id, record.partition
        case BrokerConfigsStored(resource):
            return BrokerConfigsStored, resource
        case ProducerIdsReserved():
            return (ProducerIdsReserved,)


def _is_known(elected: LeaderElected, found: dict[tuple[Any, ...], RegistryRecord]) -> bool:
    topic = found.get((TopicStored, elected.topic))
    return (
        isinstance(topic, TopicStored)
        and topic.id == elected.topic_id
        and elected.partition < topic.partitions
    )


def compacted(journal: Log, now_ms: int) -> tuple[Log, list[RegistryRecord]]:
    """The log, written anew if that is worth it, and what it says. Raises OSError, LogError,
    UnreadableRecord."""
    stored = list(stored_in(journal))
    counting = newest(stored)
    if len(stored) < RECORDS_MIN or len(stored) < 2 * len(counting):
        return journal, counting
    folder, files = journal.folder, journal.files
    # Never nothing: a registry without a record is that of a folder that nobody had before.
    kept = counting or [ProducerIdsReserved(0)]
    # Where the log ends stays: so it takes the place of all that there is.
    first_offset = journal.end_offset - len(kept)
    base_offset = journal.segments[0].base_offset
    journal.close()
    try:
        batches = [_batch(each, first_offset + n, now_ms) for n, each in enumerate(kept)]
        write_swap(folder, files, base_offset, b"".join(batches))
    except OSError as error:
        _log.warning("The registry of topics stays as long as it is: %s", error)
    return opened(folder, files), counting


def _batch(record: RegistryRecord, offset: int, now_ms: int) -> bytes:
    """Of that record alone: a bad batch at the end of a registry is taken for one that was torn,
    and cut off (damage.py)."""
    batch = BatchBuilder()
    batch.add(*encode(record), now_ms)
    return batch.finish(offset)
