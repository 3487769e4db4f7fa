"""Kafka's notations of moments and durations."""

import pytest
from kohort.cli.groups.errors import CommandError
from kohort.cli.groups.times import duration_ms, timestamp_ms

HOUR_MS = 3_600_000
NO_T = "It does not contain a 'T' according to ISO8601 format"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000", 0),
        ("1970-01-01T00:00:01.005", 1_005),
        ("1970-01-02T00:00:00.000Z", 24 * HOUR_MS),
        ("1970-01-01T02:00:00.000+02", 0),
        ("1970-01-01T02:30:00.000+0230", 0),
        ("1969-12-31T22:00:00.000-02:00", 0),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_moment_is_utc_unless_a_zone_follows(text: str, expected: int) -> None:
    assert timestamp_ms(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2020-01-01", f"Error parsing timestamp. {NO_T}"),
        ("2020-01-01T", f"Error parsing timestamp. {NO_T}"),
        ("2020-01-01T00:00:00", 'Unparseable date: "2020-01-01T00:00:00Z"'),
        ("2020-13-01T00:00:00.000", 'Unparseable date: "2020-13-01T00:00:00.000Z"'),
        ("2020-01-01T00:00:00.000+99", 'Unparseable date: "2020-01-01T00:00:00.000+99"'),
    ],
)
def test_a_bad_moment_is_told_in_javas_words(text: str, said: str) -> None:
    with pytest.raises(CommandError) as caught:
        timestamp_ms(text)
    assert str(caught.value) == f"java.text.ParseException: {said}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1H", HOUR_MS),
        ("P1DT2H3M4.5S", 26 * HOUR_MS + 3 * 60_000 + 4_500),
        ("pt90m", 90 * 60_000),
        ("-PT1H", -HOUR_MS),
        ("PT-1.25S", -1_250),
        ("P2D", 48 * HOUR_MS),
    ],
)
def test_a_duration_is_javas(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "P1DT", "PT1.5H", "PT1H "])
def test_a_bad_duration_is_told_in_javas_words(text: str) -> None:
    with pytest.raises(CommandError, match=r"^Text cannot be parsed to a Duration$"):
        duration_ms(text)
