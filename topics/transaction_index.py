"""Transactions that were aborted in a partition that Kafka wrote: whoever reads committed records
only is told of them, and passes their records over.

Kafka lists them beside each segment, in a file `.txnindex`: for each an int16 version (0) and four
int64, the producer id, its first and its last offset, and where records were stable then. Here no
transaction begins, so the list does not grow. Upstream: TransactionIndex, AbortedTxn.
"""

import logging
from pathlib import Path
from struct import Struct

from ..log.files import Files
from ..log.producer_state import AbortedTransaction

__all__ = ["aborted_in"]

_log = logging.getLogger("kohort.topics")
_ENTRY = Struct(">hqqqq")


def aborted_in(folder: Path, files: Files) -> tuple[AbortedTransaction, ...]:
    """By their first offsets. What is behind an unreadable entry is passed over, and the log says
    so. Raises OSError."""
    found: list[AbortedTransaction] = []
    for name in files.list(folder):
        if not name.endswith(".txnindex"):
            continue
        data = files.read_bytes(folder / name)
        for at in range(0, len(data), _ENTRY.size):
            entry = data[at : at + _ENTRY.size]
            if len(entry) < _ENTRY.size or entry[:2] != b"\0\0":
                _log.warning("%s is unreadable from byte %d on", folder / name, at)
                break
            _, producer_id, first_offset, last_offset, _ = _ENTRY.unpack(entry)
            found.append(AbortedTransaction(first_offset, producer_id, last_offset))
    return tuple(sorted(found))
