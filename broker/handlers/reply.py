"""What many answers share. Answers are version-free: any object with kio's field names; the writer
of the request's version takes the fields that this version has."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from ...protocol.errors import ErrorCode

NO_THROTTLE = timedelta(0)
"""kohort knows no quotas, so nobody is ever asked to wait."""

# What upstream's Errors says of them where nobody says more.
MESSAGES: Final = {
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details."
    ),
}

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


def merged(absent: Sequence[Any], known: Sequence[Any]) -> Sequence[Any]:
    """One answer from the topics that we refuse, wholly or in part, and those that the coordinator
    has decided; both are tuples that end with their partitions.

    In upstream's order (OffsetCommitResponse.Builder, OffsetDeleteResponse.Builder): what does not
    exist comes first, in its topic and before the others. Only where something is refused are the
    entries of a topic that is named twice made one.
    """
    if not absent:
        return known
    partitions: dict[tuple[Any, ...], list[Any]] = {}
    for *names, some in (*absent, *known):
        partitions.setdefault(tuple(names), []).extend(some)
    make = type(absent[0])
    return [make(*names, every) for names, every in partitions.items()]
