"""How topics say no: the error code that a client gets and the words beside it."""

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.errors import ErrorCode

__all__ = ["RecordError", "Refused"]


class RecordError(NamedTuple):
    """What is wrong with one record of a batch (KIP-467)."""

    batch_index: int
    batch_index_error_message: str


class Refused(Exception):
    """The request, or one topic or partition of it, gets `error`; `message` is told where the
    response has room for it, and where the partition's log starts if it was looked at."""

    log_start_offset = -1

    def __init__(
        self,
        error: ErrorCode,
        message: str | None = None,
        record_errors: Sequence[RecordError] = (),
    ) -> None:
        super().__init__(f"{error.name}: {message}")
        self.error = error
        self.message = message
        self.record_errors = tuple(record_errors)
