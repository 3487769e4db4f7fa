"""Rates and token buckets: the same throttle times as Kafka 4.3's metrics.

The sequences were recorded from Rate and TokenBucket of kafka-clients 4.3.0 with random values.
"""

import pytest
from kohort.broker.security.rates import Rate, TokenBucket, Window
from kohort.topics.configs.config_def import INT_MAX

Recorded = tuple[int, float, int]  # time, value, throttle time

SEQUENCES: list[tuple[Window, float, list[Recorded]]] = [
    (
        Window(5, 3000),
        486.0,
        [
            (14380, 2254.0, 0),
            (14429, 2850.0, 0),
            (14429, 2712.0, 4033),
            (23340, 1495.0, 4198),
            (23501, 738.0, 8556),
            (23780, 2842.0, 14125),
            (32663, 1051.0, 282),
            (32967, 1239.0, 2527),
            (33443, 1811.0, 5778),
        ],
    ),
    (
        Window(11, 1000),
        637.0,
        [
            (10352, 882.0, 0),
            (10734, 798.0, 0),
            (10951, 2511.0, 0),
            (19382, 2925.0, 1141),
            (21624, 2509.0, 3838),
            (21982, 1968.0, 1020),
            (22204, 1427.0, 3038),
            (22263, 1959.0, 6055),
            (22296, 31.0, 6070),
        ],
    ),
    (
        Window(1, 2000),
        801.0,
        [
            (4834, 1089.0, 1359),
            (5369, 695.0, 1692),
            (5503, 1685.0, 3662),
            (13781, 1183.0, 1476),
            (13818, 2266.0, 4269),
            (13875, 2388.0, 7193),
            (14300, 608.0, 7527),
            (14618, 2732.0, 10620),
            (28046, 2485.0, 3101),
        ],
    ),
]


@pytest.mark.parametrize(("window", "limit", "recorded"), SEQUENCES)
def test_throttle_times_are_those_of_kafka(
    window: Window, limit: float, recorded: list[Recorded]
) -> None:
    rate = Rate(window)
    for now_ms, value, throttle_ms in recorded:
        rate.record(value, now_ms)
        assert rate.throttle_ms(limit, now_ms) == throttle_ms


def test_after_its_throttle_time_a_client_is_within_its_quota() -> None:
    rate = Rate(Window(11, 1000))
    rate.record(50_000, 0)
    throttle_ms = rate.throttle_ms(1000, 0)
    assert throttle_ms == 40_000, "50,000 bytes of which 10,000 were within the window"
    assert rate.throttle_ms(1000, throttle_ms) == 0


def test_a_rate_is_idle_and_zero_after_its_window() -> None:
    rate = Rate(Window(11, 1000))
    assert rate.is_idle(0)
    rate.record(5, 0)
    assert (rate.is_idle(10_999), rate.is_idle(11_000)) == (False, True)
    assert rate.measure(11_000) == 0


@pytest.mark.parametrize("limit", [float("nan"), float("inf")])
def test_limits_that_are_no_numbers_never_throttle(limit: float) -> None:
    rate, bucket = Rate(Window(11, 1000)), TokenBucket(Window(11, 1000))
    rate.record(1e9, 0)
    bucket.record(1e9, limit, 0)
    assert (rate.throttle_ms(limit, 0), bucket.throttle_ms(limit, 0)) == (0, 0)


@pytest.mark.parametrize("limit", [0.001, 1e-310], ids=["finite", "infinite"])
def test_a_tiny_limit_throttles_for_the_longest_time_of_the_protocol(limit: float) -> None:
    rate, bucket = Rate(Window(11, 1000)), TokenBucket(Window(11, 1000))
    rate.record(1e12, 0)
    bucket.record(1e12, limit, 0)
    assert (rate.throttle_ms(limit, 0), bucket.throttle_ms(limit, 0)) == (INT_MAX, INT_MAX)


def test_a_token_bucket_can_be_overdrawn_and_is_refilled_at_the_rate() -> None:
    bucket = TokenBucket(Window(11, 1000))
    bucket.record(12, 1, 0)
    assert bucket.throttle_ms(1, 0) == 1000, "11 tokens at most"
    assert (bucket.throttle_ms(1, 400), bucket.throttle_ms(1, 1000)) == (600, 0)


def test_a_token_bucket_is_idle_when_it_is_full_again() -> None:
    bucket = TokenBucket(Window(11, 1000))
    assert bucket.is_idle(0)
    bucket.record(12, 1, 0)
    assert (bucket.is_idle(11_999), bucket.is_idle(12_000)) == (False, True)
    bucket.record(3, 1, 30_000)
    assert (bucket.is_idle(32_999), bucket.is_idle(33_000)) == (False, True)
    bucket.record(1e9, float("nan"), 40_000)
    assert bucket.is_idle(40_000)
