"""What many answers share. Answers are version-free: any object with kio's field names; the writer
of the request's version takes the fields that this version has."""

from datetime import timedelta

NO_THROTTLE = timedelta(0)
"""kohort knows no quotas, so nobody is ever asked to wait."""

_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND
