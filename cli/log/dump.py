"""`kohort log dump`: every record of a log, decoded, in the order of their offsets. Standard output
holds records alone; what is to be said of the log goes to standard error.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ...log.errors import InvalidRecord, UnsupportedMagic
from ...log.files import DiskFiles
from ...topics.names import OFFSETS_TOPIC
from ..errors import UserError
from .cursor import Cursor
from .decoding import UNDECODABLE, Decoded, decoded
from .places import Place, places
from .sweep import Flaw, Sound

# How long --follow waits before it looks again: a person does not notice it, and to look at the 50
# offsets partitions of an idle broker takes a hundredth of it.
FOLLOW_SECONDS: Final = 0.2


def run(args: argparse.Namespace) -> int:
    """0, or 1 when a part of the log could not be read, after all that could. Raises UserError."""
    found = places(args.path, topic=OFFSETS_TOPIC, may_be_empty=args.follow)
    if args.group is not None and not all(place.is_offsets for place in found):
        raise UserError(f"--group is for {OFFSETS_TOPIC}, and {args.path} is another log.")
    dump = Dump(args.format, args.group)
    try:
        if args.follow:
            _follow(args.path, found, dump)
        for place in found:
            cursor = Cursor(place, DiskFiles(), say)
            sound = dump.show(cursor, following=False)
            if not sound and place.segment is not None and dump.flawed:
                raise UserError(f"{args.path} is no log: there is no record batch in it.")
    except KeyboardInterrupt:
        pass
    except UnsupportedMagic as error:
        raise UserError(f"{args.path} cannot be read: {error.reason}.") from error
    except PermissionError as error:
        raise UserError(f"{error.filename} may not be read by this user.") from error
    return 1 if dump.flawed else 0


def _follow(path: Path, found: list[Place], dump: "Dump") -> None:
    """Until Ctrl-C. Partitions that come later are found: a broker makes a folder with the first
    record."""
    cursors: dict[str, Cursor] = {}
    if not found:
        say(f"{path} has nothing yet: waiting")
    while True:
        for place in found:
            if place.name not in cursors:
                cursors[place.name] = Cursor(place, DiskFiles(), say)
        for cursor in cursors.values():
            dump.show(cursor, following=True)
        sys.stdout.flush()
        time.sleep(FOLLOW_SECONDS)
        if path.exists():
            found = places(path, topic=OFFSETS_TOPIC, may_be_empty=True)


def say(text: str) -> None:
    """Word of the log itself."""
    sys.stdout.flush()
    print(f"# {text}", file=sys.stderr)


class Dump:
    """`flawed`: whether anything that lies in the log could not be shown."""

    def __init__(self, shape: str, group: str | None) -> None:
        self._line = as_json if shape == "json" else as_text
        self._group = group
        self._producers: set[int] = set()
        self.flawed = False

    def show(self, cursor: Cursor, *, following: bool) -> int:
        """Prints what is new; how many batches that was."""
        batches = 0
        for path, floor, item in cursor.read():
            if isinstance(item, Flaw):
                if item.next_offset is not None or not following:
                    self._say_flaw(path, item)
                continue
            batches += 1
            self._show_batch(cursor.place, path, item, floor)
        return batches

    def _show_batch(self, place: Place, path: Path, sound: Sound, floor: int) -> None:
        try:
            lines = [
                self._line(record)
                for record in decoded(place, path.name, sound, floor)
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

    def _say_flaw(self, path: Path, flaw: Flaw) -> None:
        if flaw.next_offset is None:
            say(
                f"{path}: the last {flaw.size} bytes, from byte {flaw.position} on, are no whole "
                f"batch ({flaw.reason}): torn by a crash, or just being written"
            )
            self.flawed |= flaw.position == 0
            return
        self.flawed = True
        say(
            f"{path}: {flaw.size} bytes from byte {flaw.position} on are bad ({flaw.reason}); "
            f"passed over to offset {flaw.next_offset}"
        )


def as_json(record: Decoded) -> str:
    return json.dumps(record._asdict(), ensure_ascii=False, separators=(",", ":")) + "\n"


def as_text(record: Decoded) -> str:
    parts = [record.partition, str(record.offset), _time(record.timestamp), record.kind]
    parts.append(_text(record.key))
    parts += ["=", "deleted" if record.value is None else _text(record.value)]
    if record.headers:
        parts.append(f"headers={_json(dict(record.headers))}")
    if record.producer_id >= 0:
        kind = "transaction of" if record.transactional else "by"
        parts.append(f"({kind} producer {record.producer_id}/{record.producer_epoch})")
    if record.error is not None:
        parts.append(f"({record.error})")
    return " ".join(parts) + "\n"


def _time(timestamp_ms: int) -> str:
    try:
        at = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def _text(content: Any) -> str:
    """Fields as `name=value`; what is not plain is JSON."""
    if isinstance(content, Mapping):
        return " ".join(f"{name}={_plain(value)}" for name, value in content.items())
    return _json(content)


def _plain(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "'):
        return value
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
