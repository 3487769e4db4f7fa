"""Records the history of a run as it happens."""

import time
from collections.abc import Iterator
from typing import TypeVar

from ..printable import printable
from .history import Operation, Outcome

Recorded = TypeVar("Recorded", bound=Operation)


class History:
    """The operations of a run, not sorted: `add` appends operations that began earlier."""

    def __init__(self) -> None:
        self.topic = ""
        """The topic of the run; empty until it is created."""
        self.seconds = 0.0
        """Seconds from the start until the clients ended, at most --seconds; 0 until then."""
        self.is_interrupted = False
        """Whether Ctrl-C ended the work early."""
        self.operations: list[Operation] = []
        self._events = 0
        self._start = time.monotonic()
        self._texts: dict[str, str] = {}

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def begin(self, operation: Recorded) -> Recorded:
        """Record that the request is being sent now."""
        operation.began, operation.began_s = self.now()
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome, error: str = "") -> None:
        """Record that the result is known now."""
        operation.ended, operation.ended_s = self.now()
        operation.outcome, operation.error = outcome, error

    def add(self, operation: Recorded, began: tuple[int, float]) -> Recorded:
        """Record a successful operation that began at an earlier `now()`."""
        operation.began, operation.began_s = began
        self.operations.append(operation)
        self.end(operation, "ok")
        return operation

    def now(self) -> tuple[int, float]:
        """Return the next position in the order of events, and the seconds since the start."""
        self._events += 1
        return self._events, time.monotonic() - self._start

    def text(self, encoded: bytes) -> str:
        """Decode a value as printable text, even if no client sent the value. Equal values are one
        object, because each is read many times."""
        value = printable(encoded.decode("utf-8", "backslashreplace"))
        return self._texts.setdefault(value, value)
