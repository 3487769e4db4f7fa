"""Kafka's notations of a moment and of a stretch of time, to milliseconds. Reads no clock."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from .errors import CommandError

# SimpleDateFormat "yyyy-MM-dd'T'HH:mm:ss.SSSX": milliseconds have to be there (Utils.getDateTime).
MOMENT: Final = re.compile(
    r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d{1,3})(Z|[+-]\d\d(?::?\d\d)?)", re.ASCII
)
# java.time.Duration.parse.
DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?"
    r"(?:T(?=[+-]?\d)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970 of `2026-11-21T14:00:00.000`, UTC unless a zone follows; raises
    CommandError."""
    _, t, time = text.partition("T")
    if not t or not time:
        raise CommandError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' "
            "according to ISO8601 format"
        )
    zoned = text if any(sign in time for sign in "+-Z") else f"{text}Z"
    unparseable = CommandError(f'java.text.ParseException: Unparseable date: "{zoned}"')
    match = MOMENT.fullmatch(zoned)
    if match is None:
        raise unparseable
    year, month, day, hour, minute, second, ms = map(int, match.groups()[:7])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(match[8]))
    except ValueError as error:
        raise unparseable from error
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) + ms


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def duration_ms(text: str) -> int:
    """Milliseconds of `PT1H30M` or `P1DT2.5S`; raises CommandError."""
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:5]):
        raise CommandError("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    thousandths = int((fraction or "")[:3].ljust(3, "0"))
    if (seconds or "").startswith("-"):
        thousandths = -thousandths
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60
    total = (whole + int(seconds or 0)) * 1000 + thousandths
    return -total if sign == "-" else total
