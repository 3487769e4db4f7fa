"""Burrow's rules. The windows follow those that its own tests call the proof of its correctness
(caching_test.go), with other figures."""

import pytest
from kohort.pipeline.diagnosis.burrow import completeness, group_status, merged, partition_status
from kohort.pipeline.diagnosis.story import Commit

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
    ("says", "offsets", "lags", "log_ends", "now_s", "status"),
    [
        ("the lag was zero somewhere", STEADY, (0, 40, 80, 120, 160), (3660,), 360, "OK"),
        ("silent as long as the window", STEADY, (0, 40, 80, 120, 160), (3660,), 540, "OK"),
        ("silent for longer, a zero does not help", STEADY, (0, *GROWS[:4]), (3660,), 541, "STOP"),
        ("silent for longer, never without lag", STEADY, GROWS, (3700,), 541, "STOP"),
        ("repeats itself after a zero", STILL, (0, 40, 80, 120, 160), (860,), 360, "OK"),
        ("repeats itself and falls behind", STILL, GROWS, (900,), 360, "STALL"),
        ("repeats itself, with the same lag", STILL, (40,) * 5, (740,), 360, "STALL"),
        ("no lag now, though silent", STEADY, GROWS, (3500,), 999, "OK"),
        ("records came, and it does not read", STEADY, (0,) * 5, (4000, 4100, 4200), 999, "STOP"),
        ("a record has only just come", STEADY, (0,) * 5, (3500, 3500, 3501), 999, "OK"),
        ("lags not known do not count", STEADY, (0, None, 80, None, 160), (3660,), 360, "OK"),
        (
            "falls behind, some lags not known",
            STEADY,
            (40, None, 80, None, 80),
            (3600,),
            360,
            "WARN",
        ),
        ("falls behind", STEADY, GROWS, (3700,), 360, "WARN"),
        ("catches up once", STEADY, (40, 80, 79, 120, 160), (3700,), 360, "OK"),
        ("went back", (700, 1400, 2100, 900, 1000), GROWS, (3700,), 360, "REWIND"),
        (
            "went back, and was there again",
            (700, 1400, 900, 1400, 1500),
            GROWS,
            (1700,),
            360,
            "WARN",
        ),
        ("went back after a zero", (700, 1400, 2100, 0, 100), (0,) * 5, (2100,), 360, "REWIND"),
        ("went back and stopped", (700, 1400, 2100, 0, 100), GROWS, (2100,), 999, "STOP"),
        ("one commit, and lag", (700,), (40,), (740,), 61, "STOP"),
        ("one commit, at once", (700,), (40,), (740,), 60, "STALL"),
    ],
)
def test_a_window_is_judged_as_burrow_judges_it(
    says: str,
    offsets: tuple[int, ...],
    lags: tuple[int | None, ...],
    log_ends: tuple[int, ...],
    now_s: int,
    status: str,
) -> None:
    assert partition_status(window(offsets, lags), log_ends, now_s * SECOND) == status, says


def test_a_window_that_is_not_full_enough_is_not_judged() -> None:
    short = window((700,) * 5, GROWS)
    assert completeness(short) == 0.5
    assert partition_status(short, [900], 360_000, minimum_complete=0.5) == "STALL"
    assert partition_status(short, [900], 360_000, minimum_complete=0.51) == "OK"


def test_a_lag_that_is_allowed_is_none() -> None:
    assert partition_status(window(STILL, GROWS), [900], 360_000, allowed_lag=199) == "OK"
    assert partition_status(window(STILL, (300,) * 5), [900], 360_000, allowed_lag=199) == "STALL"
    assert partition_status(window(STILL, GROWS), [901], 360_000, allowed_lag=201) == "OK"


def test_without_commits_or_samples_nothing_is_wrong() -> None:
    assert partition_status([], [900], 360_000) == "OK"
    assert partition_status(window(STILL, GROWS), [], 360_000) == "OK"


def test_only_the_last_commits_are_looked_at() -> None:
    old = [Commit(9_999, 0, 0)]
    recent = [Commit(700, 60_000 * n, 40) for n in range(1, 11)]
    assert partition_status(old + recent, [740], 660_000) == "STALL"


def test_commits_nearer_than_the_distance_replace_the_one_before_and_keep_its_time() -> None:
    commits = [Commit(1, 0, 5), Commit(2, 999, 4), Commit(3, 1_000, 3), Commit(4, 2_500, 2)]
    assert merged(commits) == [Commit(2, 0, 4), Commit(3, 1_000, 3), Commit(4, 2_500, 2)]
    assert merged(commits, min_distance_ms=0) == commits


def test_who_commits_all_the_time_has_a_window_all_the_same() -> None:
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
def test_a_group_is_as_bad_as_its_worst_partition(partitions: tuple[str, ...], status: str) -> None:
    assert group_status(partitions) == status
