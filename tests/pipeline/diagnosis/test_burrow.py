"""Burrow's rules. The windows are modeled on its own tests (caching_test.go)."""

import pytest
from kohort.pipeline.diagnosis.burrow import group_status, merged, partition_status
from kohort.pipeline.diagnosis.group_history import Commit

GROWS = (40, 80, 120, 160, 200)
SECOND = 1_000


def window(offsets: tuple[int, ...], lags: tuple[int | None, ...]) -> list[Commit]:
    """Commits 60 s apart, the first at 60 s; the last at 300 s."""
    return [
        Commit(offset, 60 * SECOND * number, lag)
        for number, (offset, lag) in enumerate(zip(offsets, lags, strict=True), 1)
    ]


STEADY = (700, 1400, 2100, 2800, 3500)
STILL = (700,) * 5


@pytest.mark.parametrize(
    ("name", "offsets", "lags", "log_ends", "now_s", "status"),
    [
        ("lag was zero", STEADY, (0, 40, 80, 120, 160), (3660,), 360, "OK"),
        ("silent as long as the window", STEADY, (0, 40, 80, 120, 160), (3660,), 540, "OK"),
        (
            "silent for longer, in spite of a zero lag",
            STEADY,
            (0, *GROWS[:4]),
            (3660,),
            541,
            "STOP",
        ),
        ("silent for longer, always with lag", STEADY, GROWS, (3700,), 541, "STOP"),
        ("repeats an offset after a zero lag", STILL, (0, 40, 80, 120, 160), (860,), 360, "OK"),
        ("repeats an offset, lag grows", STILL, GROWS, (900,), 360, "STALL"),
        ("repeats an offset, lag is constant", STILL, (40,) * 5, (740,), 360, "STALL"),
        ("no lag now, silent", STEADY, GROWS, (3500,), 999, "OK"),
        ("records came, silent", STEADY, (0,) * 5, (4000, 4100, 4200), 999, "STOP"),
        ("a record has just come", STEADY, (0,) * 5, (3500, 3500, 3501), 999, "OK"),
        ("unknown lags do not count", STEADY, (0, None, 80, None, 160), (3660,), 360, "OK"),
        ("lag grows, some lags unknown", STEADY, (40, None, 80, None, 80), (3600,), 360, "WARN"),
        ("lag grows", STEADY, GROWS, (3700,), 360, "WARN"),
        ("lag shrinks once", STEADY, (40, 80, 79, 120, 160), (3700,), 360, "OK"),
        ("rewind", (700, 1400, 2100, 900, 1000), GROWS, (3700,), 360, "REWIND"),
        ("rewind and return", (700, 1400, 900, 1400, 1500), GROWS, (1700,), 360, "WARN"),
        ("rewind after a zero lag", (700, 1400, 2100, 0, 100), (0,) * 5, (2100,), 360, "REWIND"),
        ("rewind, then silent", (700, 1400, 2100, 0, 100), GROWS, (2100,), 999, "STOP"),
        ("one commit, with lag", (700,), (40,), (740,), 61, "STOP"),
        ("one commit just now", (700,), (40,), (740,), 60, "STALL"),
    ],
)
def test_the_status_of_a_window_is_burrows(
    name: str,
    offsets: tuple[int, ...],
    lags: tuple[int | None, ...],
    log_ends: tuple[int, ...],
    now_s: int,
    status: str,
) -> None:
    assert partition_status(window(offsets, lags), log_ends, now_s * SECOND) == status, name


def test_without_commits_or_samples_the_status_is_ok() -> None:
    assert partition_status([], [900], 360_000) == "OK"
    assert partition_status(window(STILL, GROWS), [], 360_000) == "OK"


def test_only_the_last_ten_commits_count() -> None:
    old = [Commit(9_999, 0, 0)]
    recent = [Commit(700, 60_000 * n, 40) for n in range(1, 11)]
    assert partition_status(old + recent, [740], 660_000) == "STALL"


def test_commits_within_the_minimum_distance_are_merged() -> None:
    commits = [Commit(1, 0, 5), Commit(2, 999, 4), Commit(3, 1_000, 3), Commit(4, 2_500, 2)]
    assert merged(commits) == [Commit(2, 0, 4), Commit(3, 1_000, 3), Commit(4, 2_500, 2)]


def test_a_window_of_frequent_commits_covers_seconds() -> None:
    commits = [Commit(n, 100 * n, 0) for n in range(100)]
    assert [commit.commit_ms for commit in merged(commits)] == [1_000 * n for n in range(10)]


@pytest.mark.parametrize(
    ("partitions", "status"),
    [
        ((), "NOTFOUND"),
        (("OK", "OK"), "OK"),
        (("OK", "WARN"), "WARN"),
        (("WARN", "STOP"), "ERR"),
        (("STALL",), "ERR"),
        (("REWIND", "OK"), "ERR"),
    ],
)
def test_the_status_of_a_group_is_that_of_its_worst_partition(
    partitions: tuple[str, ...], status: str
) -> None:
    assert group_status(partitions) == status
