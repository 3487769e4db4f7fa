"""The `.txnindex` files of a log, in Kafka's format: the aborted transactions whose markers are
in the segment.

They are only for Kafka and its tools. kohort derives aborted transactions from the batches whenever
a log is opened, and then rewrites the files that do not match. They are never synced. Upstream:
TransactionIndex.
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from struct import Struct
from typing import Final

from .cache_files import create_empty
from .files import Files
from .producer_state import AbortedTransaction
from .segment import Segment

SUFFIX: Final = ".txnindex"
_VERSION: Final = 0
# Version, producer id, first offset, last offset, last stable offset.
_ENTRY: Final = Struct(">hqqqq")

_log = logging.getLogger("kohort.log")


def append_entry(segment: Segment, aborted: AbortedTransaction) -> None:
    """Add a transaction whose marker was appended to the segment. An error is only logged, because
    the file is written again when the log is opened."""
    path = segment.path.with_suffix(SUFFIX)
    try:
        with closing(segment.files.open(path, create=True)) as file:
            file.append(_encode([aborted]))
    except OSError as error:
        _log.warning("Failed to write %s: %s", path, error)


def write_indexes(
    folder: Path,
    files: Files,
    segments: Iterable[Segment],
    aborted: Sequence[AbortedTransaction],
) -> None:
    """Write each segment's index file if it is missing or does not match `aborted` (which is in the
    order of the markers), and remove index files of segments without aborted transactions. Errors
    are only logged."""
    try:
        stale = {name for name in files.list(folder) if name.endswith(SUFFIX)}
        if not stale and not aborted:
            return  # the usual case
        ends = [each.last_offset for each in aborted]
        for segment in segments:
            first = bisect_left(ends, segment.base_offset)
            last = bisect_left(ends, segment.end_offset)
            if first == last:
                continue
            path = folder / f"{segment.base_offset:020d}{SUFFIX}"
            expected = _encode(aborted[first:last])
            if path.name not in stale or files.read_bytes(path) != expected:
                with closing(create_empty(path, files)) as file:
                    file.append(expected)
            stale.discard(path.name)
        for name in stale:
            files.remove(folder / name)
    except OSError as error:
        _log.warning("Failed to write the transaction indexes of %s: %s", folder, error)


def _encode(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _ENTRY.pack(
            _VERSION,
            each.producer_id,
            each.first_offset,
            each.last_offset,
            each.last_stable_offset,
        )
        for each in transactions
    )
