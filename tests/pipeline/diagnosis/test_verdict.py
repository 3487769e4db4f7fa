"""What is said of the slow consumer that stops a group again and again."""

from group_findings import C, said, slow_consumer
from group_stories import A_ALONE, MINUTE, A, B, Tale
from kohort.pipeline.diagnosis.rebalances import account


def test_the_slow_consumer_is_named_with_how_often_how_long_why_and_what_to_do() -> None:
    row = said(slow_consumer(4))
    assert (row.severity, row.verdict) == (3, "SLOW_CONSUMER")
    for told in (
        "Consumer billing-3 on 10.0.0.",
        "was out of group payments 4 times between 2027-01-15 08:06:03 UTC and ",
        "did not poll within its max.poll.interval.ms of 5 min",
        "committed nothing for up to 5 min 3 s",
        "For 20 min 12 s in all nobody read its partitions.",
        "came back 4 times, after 40.0 s at the latest",
        "That cost 8 rebalances",
        "stood still for",
        "at the longest",
    ):
        assert told in row.text
    assert all("max.poll.interval.ms" in line for line in row.evidence)


def test_its_advice_has_figures_from_what_was_seen() -> None:
    faster, longer, static, cooperative, session = said(slow_consumer(4)).advice
    assert "max.poll.records" in faster
    assert "less than 5 min" in faster
    # 303 s until it was out and 40 s until it was back, and half as long again: 515 s, rounded up.
    assert "max.poll.interval.ms=540000 (9 min)" in longer
    assert "does not cure slow polls alone" in static
    assert "CooperativeStickyAssignor" in cooperative
    assert "session.timeout.ms ≥ 3 × heartbeat.interval.ms" in session
    assert "heartbeats each 15.0 s or oftener" in session


def test_consumption_stood_still_for_as_long_as_nobody_committed() -> None:
    tale = slow_consumer(2)
    pauses = [row.pause_ms for row in account(tale.story()).rebalances if row.is_rebalance]
    # Out: silent from 6:00 to 6:10. Back: from 6:40 to 6:53. A gap of 5 s is usual.
    assert pauses == [5_000, 8_000, 5_000, 8_000]
    assert "stood still for 26.0 s in all, 8.0 s at the longest" in said(tale).text


def test_pauses_finer_than_commits_are_not_given_in_figures() -> None:
    tale = slow_consumer(1)
    tale.activities = [a._replace(median_gap_ms=20_000) for a in tale.activities]
    text = said(tale).text
    assert "each was over before the group's next commits were due" in text
    assert "stood still" not in text


def test_a_storm_of_one_slow_consumer_is_told_after_it() -> None:
    row = said(slow_consumer(4, limit_ms=75_000, rests_ms=30_000))
    assert row.verdict == "SLOW_CONSUMER"
    assert "mostly: poll interval exceeded" in row.text
    assert len(row.advice) == 5


def test_once_is_a_warning_and_long_ago_is_to_be_known() -> None:
    once = slow_consumer(1)
    assert said(once).severity == 2
    assert "was out of group payments once at" in said(once).text
    assert said(once, as_of=once.now + 60 * MINUTE).severity == 1


def test_cooperative_groups_are_not_told_to_become_so() -> None:
    advice = said(slow_consumer(2, protocol="cooperative-sticky")).advice
    assert not any("CooperativeSticky" in line for line in advice)


def test_a_member_that_only_keeps_the_others_waiting_is_slow_too() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE + 55_000, every=55_000)
    for at in range(0, 7 * MINUTE, 30_000):
        tale.log_end(at, 10_000, 0, 1)
    tale.generation(A, B, C, at=5 * MINUTE + 55_100)
    tale.commits(A, until=7 * MINUTE, since=6 * MINUTE)
    row = said(tale)
    assert row.verdict == "SLOW_CONSUMER"
    assert "Consumer b on 10.0.0.98 keeps group payments waiting." in row.text
    assert "Once a rebalance began while it was still processing" in row.text
    assert "50.1 s at the longest" in row.text


def test_timeouts_that_the_log_cannot_tell_apart_are_told_as_such() -> None:
    tale = Tale()
    b = B._replace(rebalance_timeout_ms=45_000)
    tale.generation(A, b)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(b, until=4 * MINUTE + 10_000)
    tale.generation(A_ALONE, at=5 * MINUTE)
    assert "with its timeouts the log cannot tell" in said(tale).text


def test_refused_commits_are_work_that_is_done_again() -> None:
    tale = slow_consumer(1)
    tale.event("commit_rejected", 6 * MINUTE + 30_000, C, error_code=25)
    tale.event("commit_rejected", 6 * MINUTE + 31_000, C, error_code=22)
    assert "2 commits were refused meanwhile: that work was done again." in said(tale).text


def test_one_refused_commit_is_told_as_one() -> None:
    tale = slow_consumer(1)
    tale.event("commit_rejected", 6 * MINUTE + 30_000, C, error_code=25)
    assert "1 commit was refused meanwhile: that work was done again." in said(tale).text
