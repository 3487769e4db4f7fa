"""The event log: what the coordinators tell, as JSON lines in `<data>/events/`, one file after
another. docs/events.md lists the types and the columns.

It is a witness, not a store: nothing waits for it, nothing is synced, and a disk that fails costs
its lines and nothing else. A file is named after the number of its first line (`seq`), as Kafka
names its logs after their first offset.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Final, TypeAlias

from ..coordinator.outcome import Event, GroupEvent, LogLine
from ..log.files import File, Files

_log = logging.getLogger("kohort.events")

FOLDER: Final = "events"
# A size that editors and one Spark task still take whole.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# Where the last whole line is looked for; a line has some 400 bytes, and what clients say in it.
TAIL_BYTES_MAX: Final = 1024 * 1024

_NAME: Final = re.compile(r"\d{20}\.jsonl")
_SEQ: Final = re.compile(rb'^\{"cluster":"[^"]*","ts":"[^"]*","seq":(\d{1,20}),', re.MULTILINE)
_json: Final = json.JSONEncoder(separators=(",", ":")).encode


_groups_log: Final = logging.getLogger("kohort.groups")

Listener: TypeAlias = Callable[[GroupEvent], None]
"""Called for each event when it is decided; it must be fast and must not raise."""


class EventPublisher:
    """Writes log lines with Kafka's prefix "[GroupCoordinator id=0 …]", and passes events on."""

    __slots__ = ("_listeners", "_prefix")

    def __init__(self, context: str, listeners: Sequence[Listener] = ()) -> None:
        self._prefix = f"[{context}] " if context else ""
        self._listeners = listeners

    def publish(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, LogLine):
                level, message, arguments = event
                if _groups_log.isEnabledFor(level):
                    _groups_log.log(level, self._prefix + message, *arguments)
            else:
                for listener in self._listeners:
                    listener(event)


class EventLog:
    """`now_ms` stamps events, `call_soon` calls back after this turn of the loop. When there are
    more than `files_max` files (0: never) the oldest go. Never raises."""

    def __init__(
        self,
        data_folder: Path,
        files: Files,
        *,
        cluster_id: str,
        now_ms: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        files_max: int,
        file_bytes_max: int = FILE_BYTES_MAX,
    ) -> None:
        self._folder = data_folder / FOLDER
        self._files = files
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._call_soon = call_soon
        self._file_bytes_max = file_bytes_max
        self._files_max = files_max
        self._file: File | None = None
        self._next_seq = 0
        self._gathered: list[tuple[int, int, GroupEvent]] = []
        self._lost = 0

    def listener(self, node_id: int) -> Listener:
        """What the coordinators of this node tell to."""

        def listen(event: GroupEvent) -> None:
            if not self._gathered:
                self._call_soon(self.flush)
            self._gathered.append((self._now_ms(), node_id, event))

        return listen

    def flush(self) -> None:
        """Write what was told since the last time."""
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        try:
            file = self._file or self._reopened()
            first = self._next_seq
            data = b"".join(
                line_of(self._cluster_id, seq, *told) for seq, told in enumerate(gathered, first)
            )
            if file.size and file.size + len(data) > self._file_bytes_max:
                file = self._rolled(file)
            file.append(data)
        except OSError as error:
            self._lose(len(gathered), error)
            return
        self._next_seq += len(gathered)
        if self._lost:
            _log.warning("Events are written again; %d are missing.", self._lost)
            self._lost = 0

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lose(self, count: int, error: OSError) -> None:
        if not self._lost:
            _log.warning(
                "Events cannot be written to %s and are lost until they can: %s",
                self._folder,
                error,
            )
        self._lost += count
        # A number for each, so that a reader of the rest sees the gap.
        self._next_seq += count
        file, self._file = self._file, None
        if file is not None:
            _close(file)

    def _rolled(self, file: File) -> File:
        self._file = None
        _close(file)
        self._file = self._opened(self._next_seq)
        return self._file

    def _opened(self, first_seq: int) -> File:
        file = self._files.open(self._folder / f"{first_seq:020}.jsonl", create=True)
        if self._files_max:
            self._remove_all_but(self._files_max)
        return file

    def _remove_all_but(self, newest: int) -> None:
        try:
            for name in self._names()[:-newest]:
                self._files.remove(self._folder / name)
        except OSError as error:
            _log.warning("Old files of events cannot be removed: %s", error)

    def _names(self) -> list[str]:
        """The files of events, the oldest first."""
        return sorted(name for name in self._files.list(self._folder) if _NAME.fullmatch(name))

    def _reopened(self) -> File:
        """The newest file without a line that was cut off: by a crash, or by a failed write."""
        self._files.make_folder(self._folder)
        names = self._names()
        if not names:
            self._file = self._opened(self._next_seq)
            return self._file
        first_seq = int(names[-1].partition(".")[0])
        file = self._file = self._opened(first_seq)
        start = max(0, file.size - TAIL_BYTES_MAX)
        tail = file.read(start, TAIL_BYTES_MAX)
        seen = _SEQ.findall(tail)
        # What cannot be read counts as a line for each byte: numbers may be left out, not repeated.
        follows = int(seen[-1]) + 1 if seen else first_seq + file.size
        self._next_seq = max(self._next_seq, follows)
        end = tail.rfind(b"\n") + 1
        if end or not start:
            file.truncate(start + end)
            return file
        return self._rolled(file)


def line_of(cluster_id: str, seq: int, ms: int, node_id: int, event: GroupEvent) -> bytes:
    """One line with the columns of docs/events.md; in ASCII, so that nobody guesses an encoding.

    Put together by hand: a group of a thousand members tells a thousand at a time, and json.dumps
    takes ten times as long.
    """
    what, group_id, member_id, instance_id, client_id, client_host, client_software = event[:7]
    generation, state_from, state_to, error, reason, duration_ms, cause, detail = event[7:]
    if cause is not None:
        detail = {**detail, "cause": cause.name}
    return (
        f'{{"cluster":{_text(cluster_id)},"ts":"{_time(ms)}","seq":{seq},"node":{node_id},'
        f'"type":"{what.value}","group":{_text(group_id)},'
        f'"member_id":{_text(member_id)},"instance_id":{_text(instance_id)},'
        f'"client_id":{_text(client_id)},"client_host":{_text(client_host)},'
        f'"client_software":{_text(client_software)},'
        f'"generation":{_number(generation)},"state_from":{_text(state_from)},'
        f'"state_to":{_text(state_to)},"error_code":{_number(error)},'
        f'"reason":{_text(reason)},"duration_ms":{_number(duration_ms)},'
        f'"detail":{_json(detail) if detail else "{}"}}}\n'
    ).encode()


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring_ascii(value)


def _number(value: int | None) -> str:
    return "null" if value is None else f"{value:d}"


@lru_cache(1)
def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _close(file: File) -> None:
    try:
        file.close()
    except OSError as error:
        _log.warning("A file of events cannot be closed: %s", error)
