"""What kafka-python's describe_groups keeps of a broker's error: one text, for whoever asks a real
cluster (real_cluster.py, and `kohort groups`)."""

import re
from typing import Final, NamedTuple

_ERROR: Final = re.compile(r"\[Error (-?\d+)\] \w+(?:: (.*))?", re.DOTALL)


class DescribeError(NamedTuple):
    code: int
    message: str | None
    """What the broker says itself; or kafka-python, where it says nothing."""


def describe_error(said: str | None) -> DescribeError | None:
    """Of `[Error 69] GroupIdNotFoundError: Group g not found.`; None where there is none."""
    if not said:
        return None
    match = _ERROR.fullmatch(said)
    assert match is not None, said
    return DescribeError(int(match[1]), match[2])
