"""`--cases`: a case a line, an answer a line, in this order. Nothing is gathered.

Each answer leaves at once, so that a program may ask, read, and ask again.
"""

import json
from collections.abc import Iterator
from typing import BinaryIO, Final, TextIO

from .cases import CaseError, assigned, case_of, decoded

# A case of a million partitions, all of them owned, takes as much.
LINE_BYTES_MAX: Final = 32 << 20
SKIPPED_AT_ONCE: Final = 1 << 20  # of a longer line, of which nothing is kept


def answer_all(cases: BinaryIO, answers: TextIO) -> None:
    for line in _lines(cases):
        answers.write(answer(line) + "\n")
        answers.flush()


def answer(line: bytes | None) -> str:
    """The JSON of one answer; None stands for a line that is too long."""
    try:
        if line is None:
            raise CaseError(f"a line of more than {LINE_BYTES_MAX} bytes")
        if line.isspace():
            raise CaseError("an empty line")
        return _ENCODE(assigned(case_of(decoded(line))))
    except CaseError as error:
        return _ENCODE({"error": str(error)})


_ENCODE: Final = json.JSONEncoder().encode


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    while line := stream.readline(LINE_BYTES_MAX + 1):
        if len(line) <= LINE_BYTES_MAX or line.endswith(b"\n"):
            yield line
            continue
        while (rest := stream.readline(SKIPPED_AT_ONCE)) and not rest.endswith(b"\n"):
            pass
        yield None
