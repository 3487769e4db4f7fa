"""What is said of groups; above all of the slow consumer that stops a group again and again."""

import pytest
from group_stories import A_ALONE, MINUTE, START_MS, A, B, Tale, member, parts
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import account
from kohort.pipeline.diagnosis.rows import Diagnosis
from kohort.pipeline.diagnosis.skew import skews
from kohort.pipeline.diagnosis.status import group_status, partition_statuses, state_of
from kohort.pipeline.diagnosis.storms import storms
from kohort.pipeline.diagnosis.story import Commit, LogEnd, Member, Window
from kohort.pipeline.diagnosis.verdict import Findings, diagnose

C = member("billing-3", 2)


def findings(tale: Tale, *windows: Window, as_of: int | None = None) -> Findings:
    story = tale.story(as_of)
    rows, gone = account(story)
    record = next(iter(reversed(story.generations)), None)
    now = story.as_of_ms
    state = state_of(record, windows, now)
    partitions = partition_statuses("test", "payments", windows, record, now, state)
    return Findings(
        "payments",
        now,
        record,
        group_status("test", "payments", record, partitions, rows, now, state),
        partitions,
        rows,
        gone,
        storms(rows, gone),
        skews(story),
        lifecycle(story),
    )


def said(tale: Tale, *windows: Window, as_of: int | None = None) -> Diagnosis:
    return diagnose("test", findings(tale, *windows, as_of=as_of))


def slow_consumer(
    outs: int, *, protocol: str = "range", limit_ms: int = 300_000, rests_ms: int = 4 * MINUTE
) -> Tale:
    """Three members, a record a second; each time billing-3 works for a minute, gets a batch that
    takes it 40 s longer than it may, is out, comes back, and works again."""
    tale = Tale()
    a, b, c = A, B, C._replace(rebalance_timeout_ms=limit_ms)
    tale.generation(a, b, c, protocol=protocol)
    now = 0
    for count in range(1, outs + 1):
        for each in (a, b):
            tale.commits(each, until=now + MINUTE + limit_ms, since=now + 5_000)
        tale.commits(c, until=now + MINUTE, since=now + 5_000)
        now += MINUTE + limit_ms + 3_000
        tale.generation(A._replace(assigned=parts(0, 2)), B, at=now, protocol=protocol)
        tale.commits(A._replace(assigned=parts(0, 2)), until=now + 37_000, since=now + 6_000)
        now += 40_000
        c = c._replace(member_id=f"billing-3-{count + 1}")
        tale.generation(a, b, c, at=now, protocol=protocol)
        for each in (a, b, c):
            tale.commits(each, until=now + rests_ms, since=now + 8_000)
        now += rests_ms
    for at in range(0, now, 30_000):
        tale.log_end(at, 1_000, 0, 1, 2)
    tale.now = now
    return tale


# --- the slow consumer


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
    assert "mostly: member polled too slowly" in row.text
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


# --- other complaints

NOW = 10 * MINUTE


def window(lag: int = 50, owner: Member | None = A, silent: int = 2_000, **of: int) -> Window:
    now = START_MS + NOW
    lags = (
        range(lag - 9 * of.get("grows", 0), lag + 1, of["grows"]) if "grows" in of else [lag] * 10
    )
    commits = tuple(
        Commit(1_000 + 10 * n, now - silent - 5_000 * (9 - n), each) for n, each in enumerate(lags)
    )
    ends = tuple(
        LogEnd("orders", 0, of.get("start", 0), 1_090 + lag - 500 + n * 500, now - 30_000 * (1 - n))
        for n in (0, 1)
    )
    return Window("orders", 0, commits, ends, owner)


def plain(*members: Member) -> Tale:
    tale = Tale()
    tale.generation(*members, number=1)
    tale.now = NOW
    return tale


def test_a_group_that_nothing_is_wrong_with_is_well() -> None:
    row = said(plain(A), window(lag=0))
    assert (row.severity, row.verdict) == (0, "HEALTHY")
    assert row.text == "Group payments reads well: 1 member, lag 0."
    assert (row.evidence, row.advice) == ((), ())


def test_a_group_without_samples_is_not_called_well() -> None:
    assert said(plain(A)).verdict == "LAG_UNKNOWN"


@pytest.mark.parametrize(
    ("of", "verdict", "severity"),
    [
        (window(start=1_200), "DATA_LOST", 3),
        (window(lag=600, silent=60_000), "STUCK_PARTITION", 3),
        (window(owner=None), "NO_OWNER", 3),
        (window(lag=900, grows=90), "FALLS_BEHIND", 2),
    ],
)
def test_a_partition_may_be_what_is_wrong(of: Window, verdict: str, severity: int) -> None:
    row = said(plain(A), of)
    assert (row.verdict, row.severity) == (verdict, severity)
    assert row.text.startswith("Group payments: ")
    assert row.advice


def test_records_that_wait_for_a_group_without_members_are_an_error() -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(at=MINUTE)
    tale.now = NOW
    row = said(tale, window(owner=None))
    assert (row.verdict, row.severity) == ("NO_MEMBERS", 3)
    assert "since 2027-01-15 08:01:00 UTC, and 50 records wait" in row.text
    assert said(tale, window(owner=None, lag=0)).severity == 1


def test_sessions_that_end_are_crashes() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE - 47_000)
    tale.generation(A_ALONE, at=5 * MINUTE)
    row = said(tale)
    assert (row.verdict, row.severity) == ("MEMBERS_CRASH", 2)
    assert row.text == "Group payments: sessions ended without a word: b on 10.0.0.98 once."
    assert any("3 × heartbeat.interval.ms" in line for line in row.advice)


def test_restarts_are_told_with_what_would_make_them_cheap() -> None:
    tale = Tale()
    tale.generation(A, B)
    for count in range(2, 6):
        tale.generation(A, B._replace(member_id=f"b-{count}"), at=count * 8_000)
    tale.now = 20 * MINUTE
    row = said(tale)
    assert row.verdict == "REBALANCE_STORM"
    assert "mostly: member restarted" in row.text
    assert any("group.instance.id" in line for line in row.advice)


def test_members_without_partitions_are_told() -> None:
    row = said(plain(A, C._replace(assigned=())), window(lag=0))
    assert (row.verdict, row.severity) == ("IDLE_MEMBERS", 1)


def test_a_group_that_is_gone_is_said_to_be_gone() -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(at=MINUTE)
    tale.tombstone(at=2 * MINUTE)
    assert said(tale).verdict == "GONE"


def test_what_is_wrong_besides_is_told_after_the_worst() -> None:
    row = said(slow_consumer(2), window(start=1_200))
    assert "DATA_LOST" not in row.verdict
    assert row.text.index("Consumer billing-3") < row.text.index("were deleted before")
