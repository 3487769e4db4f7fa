"""`kohort log dump`: every record of a log, decoded, in the order of their offsets. Standard output
holds records alone; what is to be said of the log goes to standard error.
"""

import argparse
import io
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ...log.errors import InvalidRecord
from ...log.files import DiskFiles
from ...log.recovery import Corruption, ValidBatch
from ...topics.names import OFFSETS_TOPIC
from ..errors import UserError
from .cursor import Cursor
from .decoding import UNDECODABLE, Decoded, decoded
from .sources import Source, sources
from .text import json_text, line_of, say

# How long --follow waits before it looks again: a person does not notice it, and to look at the 50
# offsets partitions of an idle broker takes a hundredth of it.
FOLLOW_SECONDS: Final = 0.2


def run(args: argparse.Namespace) -> int:
    """0, or 1 when a part of the log could not be read, after all that could. Raises UserError."""
    found = sources(args.path, topic=OFFSETS_TOPIC, may_be_empty=args.follow)
    if args.group is not None and not all(source.is_offsets for source in found):
        raise UserError(f"--group is for {OFFSETS_TOPIC}, and {args.path} is another log.")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a terminal's encoding lacks, and half a surrogate pair in JSON, must end no dump.
        sys.stdout.reconfigure(errors="backslashreplace")
    dump = Dump(args.format, args.group)
    # Ctrl-C is how to end it.
    with suppress(KeyboardInterrupt):
        if args.follow:
            _follow(args.path, found, dump)
        for source in found:
            cursor = Cursor(source, DiskFiles(), say)
            sound = dump.show(cursor, following=False)
            if not sound and source.segment is not None and dump.flawed:
                raise UserError(f"{args.path} is no log: there is no record batch in it.")
    return 1 if dump.flawed else 0


def _follow(path: Path, found: list[Source], dump: "Dump") -> None:
    """Until Ctrl-C. Partitions that come later are found: a broker makes a folder with the first
    record."""
    cursors: dict[str, Cursor] = {}
    if not found:
        say(f"{path} has nothing yet: waiting")
    while True:
        for source in found:
            if source.name not in cursors:
                cursors[source.name] = Cursor(source, DiskFiles(), say)
        for cursor in cursors.values():
            dump.show(cursor, following=True)
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)
        with suppress(UserError):  # the path is gone; the cursors say so
            found = sources(path, topic=OFFSETS_TOPIC, may_be_empty=True)


class Dump:
    """`flawed`: whether anything that lies in the log could not be shown."""

    def __init__(self, shape: str, group: str | None) -> None:
        self._line = json_of if shape == "json" else line_of
        self._group = group
        self._producers: set[int] = set()
        self.flawed = False

    def show(self, cursor: Cursor, *, following: bool) -> int:
        """Prints what is new; how many batches that was."""
        batches = 0
        for path, floor, item in cursor.read():
            if isinstance(item, ValidBatch):
                batches += 1
                self._show_batch(cursor.source, path, item, floor)
            elif isinstance(item, Corruption):
                self.flawed = True
                say(f"{path}: {_bad(item)}; passed over to {_to(item)}")
            elif not following:
                self.flawed |= item.flaw.position == 0
                say(f"{path}: {_bad(item.flaw)}: torn by a crash, or just being written")
        return batches

    def _show_batch(self, source: Source, path: Path, sound: ValidBatch, floor: int) -> None:
        try:
            lines = [
                self._line(record)
                for record in decoded(source, path.name, sound, floor)
                if self._is_wanted(record)
            ]
        except InvalidRecord as error:
            self.flawed = True
            say(f"{path}: the batch at byte {sound.position} cannot be read: {error}")
            return
        sys.stdout.writelines(lines)

    def _is_wanted(self, record: Decoded) -> bool:
        if record.kind == UNDECODABLE:
            self.flawed = True
            return True
        if self._group is None:
            return True
        if record.control:
            # The end of a transaction tells what becomes of the group's commits in it.
            return record.producer_id in self._producers
        key = record.key
        if self._group not in (key.get("group"), key.get("groupId")):
            return False
        if record.transactional:
            self._producers.add(record.producer_id)
        return True


def _bad(flaw: Corruption) -> str:
    size = f"{flaw.size} bytes from byte {flaw.position} on"
    return f"{size} are no sound batch ({flaw.reason})"


def _to(flaw: Corruption) -> str:
    return "the next segment" if flaw.next_offset is None else f"offset {flaw.next_offset}"


def json_of(record: Decoded) -> str:
    return json_text(record._asdict()) + "\n"
