"""Time lag, trend and rates."""

import pytest
from kohort.pipeline.diagnosis.group_history import LogEnd
from kohort.pipeline.diagnosis.lag import log_end_at, rate, since, time_lag_ms, trend


def samples(*ends: tuple[int, int]) -> list[LogEnd]:
    return [LogEnd("orders", 0, 0, end, at) for at, end in ends]


TEN_A_SECOND = samples((0, 0), (30_000, 300), (60_000, 600))


@pytest.mark.parametrize(
    ("committed", "lag_ms"),
    [(600, 0), (700, 0), (599, 100), (450, 15_000), (300, 30_000), (0, 60_000)],
)
def test_time_lag_is_the_time_since_the_log_ended_at_the_committed_offset(
    committed: int, lag_ms: int
) -> None:
    assert time_lag_ms(committed, TEN_A_SECOND, 60_000) == lag_ms


def test_before_all_samples_the_time_lag_follows_from_their_rate_up_to_a_limit() -> None:
    late = samples((60_000, 600), (90_000, 900))
    assert time_lag_ms(300, late, 90_000) == 60_000
    slow = samples((0, 1_000_000_000), (30_000, 1_000_000_001))
    assert time_lag_ms(0, slow, 30_000) == 7 * 24 * 3_600_000


def test_the_rate_is_taken_from_where_the_log_grows() -> None:
    assert time_lag_ms(50, samples((0, 100), (10_000, 100), (20_000, 200)), 20_000) == 30_000


@pytest.mark.parametrize("known", [samples(), samples((0, 100)), samples((0, 100), (1, 100))])
def test_without_growth_in_the_samples_the_time_lag_is_unknown(known: list[LogEnd]) -> None:
    assert time_lag_ms(50, known, 1_000) is None


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ((100, 110, 120, 130), "GROWING"),
        ((130, 120, 110, 100), "SHRINKING"),
        ((100, 100, 100, 100), "FLAT"),
        ((0, 0, 0, 0), "FLAT"),
        ((100, 101, 102, 105), "FLAT"),  # less than 5 % of the median
        ((100, 102, 104, 107), "GROWING"),
        ((100, 110, 9_000, 120, 130), "GROWING"),  # an outlier
        ((500, 500, 0, 500, 500), "FLAT"),
        ((1, 2), None),
    ],
)
def test_the_trend_is_the_median_slope_outside_a_dead_band(
    lags: tuple[int, ...], expected: str | None
) -> None:
    assert trend([(60_000 * at, lag) for at, lag in enumerate(lags)]) == expected


def test_samples_of_one_time_have_no_trend() -> None:
    assert trend([(0, 1), (0, 5), (0, 9)]) is None


@pytest.mark.parametrize(
    ("at_ms", "end"),
    [(0, 0), (15_000, 150), (30_000, 300), (59_999, 600), (60_000, 600), (60_001, None)],
)
def test_log_ends_are_interpolated_between_samples(at_ms: int, end: int | None) -> None:
    assert log_end_at(at_ms, TEN_A_SECOND) == end
    assert log_end_at(at_ms, TEN_A_SECOND[1:]) == (end if at_ms >= 30_000 else None)


@pytest.mark.parametrize(
    ("at_ms", "first_ms"),
    [(-1, 0), (29_999, 0), (30_000, 30_000), (50_000, 30_000), (90_000, 30_000)],
)
def test_samples_since_a_time_include_the_one_before_it(at_ms: int, first_ms: int) -> None:
    assert since(at_ms, TEN_A_SECOND)[0].sampled_ms == first_ms
    assert since(at_ms, []) == []


def test_rates_are_records_per_second_and_ignore_rewinds() -> None:
    points = [(sample.sampled_ms, sample.log_end) for sample in TEN_A_SECOND]
    assert rate(points) == 10
    assert rate(points[:1]) is None
    assert rate([(0, 0), (1_000, 100), (2_000, 50), (4_000, 150)]) == 50
