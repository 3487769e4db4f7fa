"""The checks of a diagnosis, except the slow consumer."""

import pytest
from history_builder import (
    A_ALONE,
    MINUTE,
    START_MS,
    A,
    B,
    C,
    HistoryBuilder,
    diagnosis_of,
    facts_of,
    member,
    slow_consumer,
)
from kohort.pipeline.diagnosis.checks import diagnose
from kohort.pipeline.diagnosis.group_history import Commit, LogEnd, Member, PartitionWindow

NOW = 10 * MINUTE


def window(
    lag: int = 50, owner: Member | None = A, silent: int = 2_000, **options: int
) -> PartitionWindow:
    now = START_MS + NOW
    lags = (
        range(lag - 9 * options.get("grows", 0), lag + 1, options["grows"])
        if "grows" in options
        else [lag] * 10
    )
    commits = tuple(
        Commit(1_000 + 10 * n, now - silent - 5_000 * (9 - n), each) for n, each in enumerate(lags)
    )
    ends = tuple(
        LogEnd(
            "orders",
            0,
            options.get("start", 0),
            1_090 + lag - 500 + n * 500,
            now - 30_000 * (1 - n),
        )
        for n in (0, 1)
    )
    return PartitionWindow("orders", 0, commits, ends, owner)


def healthy(*members: Member) -> HistoryBuilder:
    history = HistoryBuilder(*members, number=1)
    history.now = NOW
    return history


def test_a_group_without_problems_is_healthy() -> None:
    row = diagnosis_of(healthy(A), window(lag=0))
    assert (row.severity, row.verdict) == (0, "HEALTHY")
    assert row.text == "Group payments is healthy: 1 member, lag 0."
    assert (row.evidence, row.advice) == ((), ())


def test_without_samples_the_verdict_is_lag_unknown() -> None:
    assert diagnosis_of(healthy(A)).verdict == "LAG_UNKNOWN"


@pytest.mark.parametrize(
    ("partition", "verdict", "severity"),
    [
        (window(start=1_200), "DATA_LOST", 3),
        (window(lag=600, silent=60_000), "STUCK_PARTITION", 3),
        (window(owner=None), "NO_OWNER", 3),
        (window(lag=900, grows=90), "FALLS_BEHIND", 2),
    ],
)
def test_problems_of_a_partition_are_the_verdict(
    partition: PartitionWindow, verdict: str, severity: int
) -> None:
    row = diagnosis_of(healthy(A), partition)
    assert (row.verdict, row.severity) == (verdict, severity)
    assert row.text.startswith("Group payments: ")
    assert row.advice


def test_an_empty_group_with_lag_is_an_error() -> None:
    history = HistoryBuilder(A)
    history.generation(at=MINUTE)
    history.now = NOW
    row = diagnosis_of(history, window(owner=None))
    assert (row.verdict, row.severity) == ("NO_MEMBERS", 3)
    assert "since 2027-01-15 08:01:00 UTC. Its lag is 50." in row.text
    assert diagnosis_of(history, window(owner=None, lag=0)).severity == 1


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        ([window(owner=None, lag=0)], "no members and no lag."),
        ([window(owner=None)._replace(log_ends=())], "no members and an unknown lag."),
        ([], "no members and no committed offsets."),
    ],
)
def test_the_text_about_an_empty_group_states_its_lag_or_that_it_is_unknown(
    windows: list[PartitionWindow], text: str
) -> None:
    history = HistoryBuilder(A)
    history.generation(at=MINUTE)
    history.now = NOW
    row = diagnosis_of(history, *windows)
    assert (row.verdict, row.severity) == ("NO_MEMBERS", 1)
    assert row.text == f"Group payments has {text}"


def crash() -> HistoryBuilder:
    """The session of B expires; A continues alone."""
    history = HistoryBuilder(A, B)
    history.commits(A, until=5 * MINUTE)
    history.commits(B, until=5 * MINUTE - 47_000)
    history.generation(A_ALONE, at=5 * MINUTE)
    return history


def test_expired_sessions_are_crashes() -> None:
    history = crash()
    row = diagnosis_of(history)
    assert (row.verdict, row.severity) == ("MEMBERS_CRASH", 2)
    assert row.text == "Group payments: members stopped responding: b on 10.0.0.98 once."
    assert any("3 × heartbeat.interval.ms" in line for line in row.advice)


def test_the_text_about_crashes_has_the_longest_absence() -> None:
    history = crash()
    history.commits(A_ALONE, until=7 * MINUTE - 1_000)
    history.generation(A, B._replace(member_id="b-2"), at=7 * MINUTE)
    row = diagnosis_of(history)
    assert row.verdict == "MEMBERS_CRASH"
    assert row.text.endswith("b on 10.0.0.98 once. Each member rejoined within 2 min.")


def test_the_advice_for_restarts_is_static_membership() -> None:
    history = HistoryBuilder(A, B)
    for count in range(2, 6):
        history.generation(A, B._replace(member_id=f"b-{count}"), at=count * 8_000)
    history.now = 20 * MINUTE
    row = diagnosis_of(history)
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 1)
    assert "main cause: member restarted. No member was evicted" in row.text
    assert any("group.instance.id" in line for line in row.advice)


def start_and_stop() -> HistoryBuilder:
    """Four members join one by one, read for a minute and are closed."""
    history = HistoryBuilder()
    members = [member(name, n) for n, name in enumerate("abcd")]
    for n in range(4):
        history.generation(*members[: n + 1], at=10_000 * n)
        history.commits(*members[: n + 1], until=10_000 * (n + 1) + MINUTE * (n == 3) - 1_000)
    history.generation(at=MINUTE + 40_000)
    return history


def test_a_normal_start_and_stop_is_a_storm_of_severity_info() -> None:
    row = diagnosis_of(start_and_stop())
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 1)
    assert "No member was evicted: members were started and stopped." in row.text
    assert any("group.initial.rebalance.delay.ms" in line for line in row.advice)


def test_a_group_that_was_shut_down_with_lag_is_a_warning_that_mentions_its_storm() -> None:
    history = start_and_stop()
    row = diagnosis_of(history, window(owner=None))
    assert (row.verdict, row.severity) == ("NO_MEMBERS", 2)
    assert "; the last ones were closed. Its lag is 50. The group rebalanced 4 times" in row.text
    facts = facts_of(history, window(owner=None))
    exits = [row._replace(cause="SESSION_TIMEOUT") for row in facts.exits]
    assert diagnose("test", facts._replace(exits=exits, storms=())).severity == 3


def test_a_storm_with_evicted_members_is_an_error() -> None:
    history = start_and_stop()
    facts = facts_of(history)
    assert any(row.cause == "LEFT_CLEANLY" for row in facts.exits)
    exits = [row._replace(cause="SESSION_TIMEOUT") for row in facts.exits]
    row = diagnose("test", facts._replace(exits=exits))
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 3)
    assert "No member was evicted" not in row.text


def restarted_repeatedly(times: int) -> HistoryBuilder:
    """One member at a time is started and closed, within two seconds."""
    history = HistoryBuilder()
    for count in range(times):
        each = A._replace(member_id=f"a-{count}")
        history.generation(each, at=2_000 * count)
        history.commits(each, until=2_000 * count + 900, every=100)
        history.generation(at=2_000 * count + 1_000)
    history.now = MINUTE
    return history


def test_repeated_starts_and_stops_lead_the_diagnosis_before_the_lag_of_the_empty_group() -> None:
    history = restarted_repeatedly(10)
    row = diagnosis_of(history, window(owner=None))
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 3)
    [storm] = facts_of(history).storms
    assert f"Group payments rebalanced {storm.rebalances} times in" in row.text
    assert "members were started and stopped repeatedly, at most 1 at a time." in row.text
    assert row.text.endswith("Its lag is 50.")


def test_a_clean_shutdown_with_nothing_behind_is_not_an_error() -> None:
    row = diagnosis_of(restarted_repeatedly(10), window(owner=None, lag=0))
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 2)
    assert diagnosis_of(restarted_repeatedly(2), window(owner=None, lag=0)).severity == 1


def storm_of_crashes(*, protocol: str, instances: bool) -> HistoryBuilder:
    a = member("a", 0, instance="a" if instances else None)
    history = HistoryBuilder(
        a, B._replace(instance_id="b" if instances else None), protocol=protocol
    )
    for count in range(1, 5):
        b = member(f"b{count}", 1, instance=f"b{count}" if instances else None)
        history.commits(a, until=count * MINUTE - 1_000)
        history.commits(history.records[-1].members[1], until=count * MINUTE - 47_000)
        history.generation(a, b, at=count * MINUTE, protocol=protocol)
    return history


@pytest.mark.parametrize("has_outage", [False, True])
def test_advice_considers_the_last_members_even_if_the_group_is_empty_now(has_outage: bool) -> None:
    history = storm_of_crashes(protocol="cooperative-sticky", instances=True)
    if has_outage:
        history.generation(at=5 * MINUTE)
    row = diagnosis_of(history)
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 3)
    assert (
        "All members are static: a restart within session.timeout.ms causes no rebalance."
        in row.advice
    )
    assert not any("CooperativeSticky" in line for line in row.advice)
    assert not any("group.instance.id" in line for line in row.advice)


def test_the_advice_for_storms_is_static_membership_and_cooperative_assignment() -> None:
    advice = diagnosis_of(storm_of_crashes(protocol="range", instances=False)).advice
    assert any("CooperativeSticky" in line for line in advice)
    assert any("group.instance.id" in line for line in advice)
    assert not any("All members are static" in line for line in advice)


def test_members_without_partitions_are_reported() -> None:
    row = diagnosis_of(healthy(A, C._replace(assigned=())), window(lag=0))
    assert (row.verdict, row.severity) == ("IDLE_MEMBERS", 1)


def test_the_verdict_on_a_deleted_group_is_gone() -> None:
    history = HistoryBuilder(A)
    history.generation(at=MINUTE)
    history.tombstone(at=2 * MINUTE)
    assert diagnosis_of(history).verdict == "GONE"


def test_other_problems_follow_the_worst() -> None:
    row = diagnosis_of(slow_consumer(2), window(start=1_200))
    assert "DATA_LOST" not in row.verdict
    assert row.text.index("Consumer billing-3") < row.text.index("were deleted before")


def test_rejected_commits_are_counted() -> None:
    history = HistoryBuilder(A, B)
    history.generation(A, B, C, at=MINUTE)
    facts = facts_of(history)
    for count, text in ((1, "1 commit was"), (2, "2 commits were")):
        rows = [row._replace(rejected_commits=count) for row in facts.rebalances[-1:]]
        row = diagnose("test", facts._replace(rebalances=rows))
        assert row.verdict == "COMMITS_REJECTED"
        assert f"{text} rejected" in row.text
