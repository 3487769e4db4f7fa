"""Publishes the coordinators' events as log lines, and as JSON lines in `<data>/events/`.

docs/events.md describes event types and columns. The event log is not synced, no request waits for
it, and events that cannot be written are dropped. Files are named after the sequence number (`seq`)
of their first line, as Kafka's segments are named after their first offset.
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

from ..coordinator.outcome import Event, EventType, GroupEvent, LogLine
from ..coordinator.transactions.commands import TransactionEvent
from ..log.files import File, Files
from ..log.tasks import CooperativeTask

_log: Final = logging.getLogger("kohort.events")
_groups_log: Final = logging.getLogger("kohort.groups")

FOLDER: Final = "events"
# Small enough for an editor and for a single Spark task.
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# Number of bytes that are searched for the last complete line of a file. A line takes about 400
# bytes, plus strings supplied by clients.
TAIL_BYTES_MAX: Final = 1024 * 1024
# Number of log lines that are written in one step, which takes about 2 ms.
LINES_PER_STEP: Final = 200

_NAME: Final = re.compile(r"\d{20}\.jsonl")
_SEQ: Final = re.compile(rb'^\{"cluster":"[^"]*","ts":"[^"]*","seq":(\d{1,20}),', re.MULTILINE)
_json: Final = json.JSONEncoder(separators=(",", ":")).encode

CoordinatorEvent: TypeAlias = GroupEvent | TransactionEvent
Listener: TypeAlias = Callable[[CoordinatorEvent], None]
"""Called with each event when it is decided. It must be fast and must not raise."""


class EventPublisher:
    """Writes log lines with Kafka's prefix "[GroupCoordinator id=0 …]", and passes other events to
    the listeners."""

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

    def publish_in_steps(self, events: Sequence[Event]) -> CooperativeTask[None]:
        """Publish the events of a whole partition. Only the log lines are written in steps, because
        the order of other events matters."""
        self.publish(event for event in events if not isinstance(event, LogLine))
        lines = [event for event in events if isinstance(event, LogLine)]
        for start in range(0, len(lines), LINES_PER_STEP):
            if start:
                yield None
            self.publish(lines[start : start + LINES_PER_STEP])


class EventLog:
    """Buffers events and writes them once per iteration of the event loop (`call_soon`). `now_ms`
    is the clock of the `ts` field. If there are more than `files_max` files, the oldest are removed
    (0 means unlimited). Never raises; events that cannot be written are dropped."""

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
        self._buffer: list[tuple[int, int, CoordinatorEvent]] = []
        self._lost = 0

    def listener(self, node_id: int) -> Listener:
        """Return the listener for the coordinators of one node."""

        def listen(event: CoordinatorEvent) -> None:
            if not self._buffer:
                self._call_soon(self.flush)
            self._buffer.append((self._now_ms(), node_id, event))

        return listen

    def flush(self) -> None:
        """Write the buffered events."""
        buffer, self._buffer = self._buffer, []
        if not buffer:
            return
        try:
            file = self._file or self._reopen()
            first = self._next_seq
            data = b"".join(
                encode_line(self._cluster_id, seq, *entry)
                for seq, entry in enumerate(buffer, first)
            )
            if file.size and file.size + len(data) > self._file_bytes_max:
                file = self._roll()
            file.append(data)
        except OSError as error:
            self._drop(len(buffer), error)
            return
        self._next_seq += len(buffer)
        if self._lost:
            _log.warning("Resumed writing the event log; %d events were lost", self._lost)
            self._lost = 0

    def close(self) -> None:
        self.flush()
        self._close_file()

    def _drop(self, count: int, error: OSError) -> None:
        if not self._lost:
            _log.warning(
                "Failed to write the event log in %s; events are dropped: %s", self._folder, error
            )
        self._lost += count
        # The sequence numbers of lost events are skipped, so that the gap is visible.
        self._next_seq += count
        self._close_file()

    def _roll(self) -> File:
        self._close_file()
        self._file = self._open(self._next_seq)
        return self._file

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                _log.warning("Failed to close a file of the event log: %s", error)

    def _open(self, first_seq: int) -> File:
        """Open or create a file, and remove the oldest files."""
        file = self._files.open(self._folder / f"{first_seq:020}.jsonl", create=True)
        if self._files_max:
            try:
                for name in self._names()[: -self._files_max]:
                    self._files.remove(self._folder / name)
            except OSError as error:
                _log.warning("Failed to remove old files of the event log: %s", error)
        return file

    def _names(self) -> list[str]:
        """Return the file names, oldest first."""
        return sorted(name for name in self._files.list(self._folder) if _NAME.fullmatch(name))

    def _reopen(self) -> File:
        """Open the newest file, and remove its last line if a crash left it incomplete."""
        self._files.make_folder(self._folder)
        names = self._names()
        if not names:
            self._file = self._open(self._next_seq)
            return self._file
        first_seq = int(names[-1].partition(".")[0])
        file = self._file = self._open(first_seq)
        start = max(0, file.size - TAIL_BYTES_MAX)
        tail = file.read(start, TAIL_BYTES_MAX)
        numbers = _SEQ.findall(tail)
        # Sequence numbers may be skipped, but must not be reused. If no line can be parsed, skip as
        # many numbers as the file has bytes, because the file cannot contain more lines.
        next_seq = int(numbers[-1]) + 1 if numbers else first_seq + file.size
        self._next_seq = max(self._next_seq, next_seq)
        end = tail.rfind(b"\n") + 1
        if end or not start:
            file.truncate(start + end)
            return file
        return self._roll()


def encode_line(cluster_id: str, seq: int, ms: int, node_id: int, event: CoordinatorEvent) -> bytes:
    """Encode one line with the columns of docs/events.md, in ASCII. json.dumps would take ten times
    as long, and a rebalance of a thousand members produces thousands of events."""
    if isinstance(event, TransactionEvent):
        event = with_columns(event)
    type_, group_id, member_id, instance_id, client_id, client_host, client_software = event[:7]
    generation, state_from, state_to, error, reason, duration_ms, cause, detail = event[7:]
    if cause is not None:
        detail = {**detail, "cause": cause.name}
    return (
        f'{{"cluster":{_text(cluster_id)},"ts":"{_time(ms)}","seq":{seq},"node":{node_id},'
        f'"type":"{type_.value}","group":{_text(group_id)},'
        f'"member_id":{_text(member_id)},"instance_id":{_text(instance_id)},'
        f'"client_id":{_text(client_id)},"client_host":{_text(client_host)},'
        f'"client_software":{_text(client_software)},'
        f'"generation":{_number(generation)},"state_from":{_text(state_from)},'
        f'"state_to":{_text(state_to)},"error_code":{_number(error)},'
        f'"reason":{_text(reason)},"duration_ms":{_number(duration_ms)},'
        f'"detail":{_json(detail) if detail else "{}"}}}\n'
    ).encode()


def with_columns(event: TransactionEvent) -> GroupEvent:
    """Return the event as a GroupEvent, whose fields are the columns of a line. The group columns
    are empty."""
    detail = {
        "transactional_id": event.transactional_id,
        "producer_id": str(event.producer_id),
        "producer_epoch": str(event.producer_epoch),
        "partitions": ",".join(f"{topic}-{index}" for topic, index in sorted(event.partitions)),
    }
    return GroupEvent(
        EventType.TRANSACTION_CHANGED,
        "",
        state_from=event.state_from,
        state_to=event.state_to,
        reason=event.cause,
        detail=detail,
    )


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring_ascii(value)


def _number(value: int | None) -> str:
    return "null" if value is None else f"{value:d}"


@lru_cache(1)
def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
