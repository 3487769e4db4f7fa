"""The log of `kohort serve`, on standard error. A thread writes it, because the event loop must not
wait for the reader of a pipe."""

import argparse
import json
import logging
import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..broker.config.broker_config import BrokerConfig
from ..printable import printable, printable_json

STDERR: Final = 2
# Maximum size in bytes of the lines queued for the thread: a few thousand lines. Further lines are
# dropped and counted.
PENDING_BYTES_MAX: Final = 1024 * 1024
# The time limit for writing the remaining lines when the broker stops.
CLOSE_SECONDS: Final = 1.0

_log = logging.getLogger("kohort.serve")


@contextmanager
def logging_to_stderr(args: argparse.Namespace, config: BrokerConfig) -> Iterator[None]:
    """Log to standard error, beginning with the warnings about the configuration."""
    logging.addLevelName(logging.WARNING, "WARN")  # log4j's name
    handler = ThreadedHandler(STDERR)
    handler.setFormatter(JsonFormatter() if args.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(args.log_level.upper())
    for warning in config.warnings():
        _log.warning(warning)
    try:
        yield
    finally:
        handler.close()


class TextFormatter(logging.Formatter):
    """One line in Kafka's log4j pattern `[%d] %p %m (%c)%n`, and indented lines for a traceback.
    Lines are escaped, because they may contain names chosen by clients."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (overrides)
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 (overrides)
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"    {printable(line)}" for line in lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message and, with an exception, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, ensure_ascii=False))


class ThreadedHandler(logging.Handler):
    """Writes to a file descriptor in a thread. Drops lines if the thread falls behind."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._pending_bytes = 0
        self._dropped = 0
        self._closed = False
        self._thread = threading.Thread(target=self._write, name="kohort-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record).encode(errors="backslashreplace") + b"\n"
        with self._changed:
            if self._pending_bytes + len(line) > PENDING_BYTES_MAX:
                self._dropped += 1
                return
            self._lines.append(line)
            self._pending_bytes += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Write the remaining lines, unless that takes too long."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS)
        super().close()

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closed)
                lines, self._lines = self._lines, []
            if not lines:
                return
            is_written = self._write_all(b"".join(lines))
            with self._changed:
                self._pending_bytes -= sum(map(len, lines))
                dropped = self._dropped
                self._dropped = 0 if is_written else dropped + len(lines)
            if is_written and dropped:
                _log.warning(
                    "%d log lines were dropped: standard error was not read or could not be "
                    "written",
                    dropped,
                )

    def _write_all(self, data: bytes) -> bool:
        """Return False if the write fails, for example because of a full disk or a closed pipe."""
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process has made the descriptor non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True
