"""`kohort log dump`: print all records, decoded, in offset order.

Messages about the log itself are printed to standard error.
"""

import argparse
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...log.errors import InvalidRecord
from ...log.recovery import Corruption, ValidBatch
from ...printable import printable
from ...topics.names import OFFSETS_TOPIC
from ..errors import UserError
from .decoding import (
    UNDECODABLE,
    DecodedRecord,
    content_text,
    decode_batch,
    format_time,
    to_json,
    value_text,
)
from .partition_logs import Cursor, PartitionLog, find_logs, report

# Reading the 50 offsets partitions of an idle broker takes 1 % of this time.
FOLLOW_SECONDS: Final = 0.2


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if part of the log could not be read. Raises UserError."""
    logs = find_logs(args.path, topic=OFFSETS_TOPIC, may_be_empty=args.follow)
    if args.group is not None and not all(log.is_offsets for log in logs):
        raise UserError(f"--group needs a log of {OFFSETS_TOPIC}; {args.path} has another topic.")
    dump = Dump(args.format, args.group)
    with suppress(KeyboardInterrupt):
        if args.follow:
            _follow(args.path, logs, dump)
        for log in logs:
            batches = dump.print_new(Cursor(log, report), following=False)
            if not batches and log.segment is not None and dump.has_corruption:
                raise UserError(f"{args.path} is not a log: it has no valid record batch.")
    return 1 if dump.incomplete else 0


def _follow(path: Path, logs: list[PartitionLog], dump: "Dump") -> None:
    """Print new records until Ctrl-C. Also follows new partitions, whose folders a broker creates
    with the first record."""
    cursors: dict[str, Cursor] = {}
    if not logs:
        report(f"{path} has no records yet: waiting")
    while True:
        for log in logs:
            if log.name not in cursors:
                cursors[log.name] = Cursor(log, report)
        for cursor in cursors.values():
            dump.print_new(cursor, following=True)
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)
        with suppress(UserError):  # the path was deleted; the cursors report that
            logs = find_logs(path, topic=OFFSETS_TOPIC, may_be_empty=True)


class Dump:
    """Prints records. `incomplete` is True if part of a log could not be printed; a torn tail only
    sets `has_corruption`."""

    def __init__(self, output_format: str, group: str | None) -> None:
        self._json = output_format == "json"
        self._group = group
        # Partition and producer id of the open transactions with commits of the group.
        self._transactions: set[tuple[str, int]] = set()
        self.incomplete = self.has_corruption = False

    def print_new(self, cursor: Cursor, *, following: bool) -> int:
        """Print new records. Return the number of batches."""
        batches = 0
        for path, first_offset, item in cursor.read():
            if isinstance(item, ValidBatch):
                batches += 1
                self._print_batch(cursor.log, path, item, first_offset)
            elif isinstance(item, Corruption):
                self.incomplete = self.has_corruption = True
                following_offset = f"offset {item.next_offset}"
                end = "the next segment" if item.next_offset is None else following_offset
                report(f"{path}: {_describe(item)}; skipped to {end}")
            elif not following:
                self.has_corruption = True
                report(f"{path}: {_describe(item.corruption)}: a torn tail, or being written now")
        return batches

    def _print_batch(
        self, log: PartitionLog, path: Path, batch: ValidBatch, first_offset: int
    ) -> None:
        try:
            lines = [
                to_json(record._asdict()) if self._json else text_line(record)
                for record in decode_batch(log, path.name, batch, first_offset)
                if self._is_selected(record)
            ]
        except InvalidRecord as error:
            self.incomplete = True
            report(f"{path}: the batch at byte {batch.position} cannot be read: {error}")
            return
        sys.stdout.writelines(f"{line}\n" for line in lines)

    def _is_selected(self, record: DecodedRecord) -> bool:
        if record.kind == UNDECODABLE:
            self.incomplete = True
            return True
        if self._group is None:
            return True
        transaction = record.partition, record.producer_id
        if record.control:
            # The end of a transaction with commits of the group is printed as well.
            is_selected = transaction in self._transactions
            self._transactions.discard(transaction)
            return is_selected
        key = record.key
        if self._group not in (key.get("group"), key.get("groupId")):
            return False
        if record.transactional:
            self._transactions.add(transaction)
        return True


def _describe(corruption: Corruption) -> str:
    return f"{corruption.size} corrupt bytes at byte {corruption.position} ({corruption.reason})"


def text_line(record: DecodedRecord) -> str:
    parts = [record.partition, str(record.offset), format_time(record.timestamp), record.kind]
    value = "deleted" if record.value is None else value_text(record.kind, record.value)
    parts += [content_text(record.key), "=", value]
    if record.headers:
        parts.append(f"headers={to_json(dict(record.headers))}")
    if record.producer_id >= 0:
        kind = "transactional, " if record.transactional else ""
        parts.append(f"({kind}producer {record.producer_id}/{record.producer_epoch})")
    if record.error is not None:
        parts.append(f"({record.error})")
    return printable(" ".join(parts))
