"""What is said of groups that something else is wrong with than a slow consumer."""

import pytest
from group_findings import C, findings, said, slow_consumer
from group_stories import A_ALONE, MINUTE, START_MS, A, B, Tale, member
from kohort.pipeline.diagnosis.story import Commit, LogEnd, Member, Window
from kohort.pipeline.diagnosis.verdict import diagnose

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


@pytest.mark.parametrize(
    ("windows", "says"),
    [
        ([window(owner=None, lag=0)], "and nothing waits for it."),
        (
            [window(owner=None)._replace(log_ends=())],
            "and whether records wait for it is not known",
        ),
        ([], "and no commit of it is known."),
    ],
)
def test_that_nothing_waits_for_an_empty_group_is_said_only_if_its_lag_is_known(
    windows: list[Window], says: str
) -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(at=MINUTE)
    tale.now = NOW
    row = said(tale, *windows)
    assert (row.verdict, row.severity) == ("NO_MEMBERS", 1)
    assert f"the group has no members, {says}" in row.text


def tale_of_a_crash() -> Tale:
    """B's session ends, and A goes on alone."""
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE - 47_000)
    tale.generation(A_ALONE, at=5 * MINUTE)
    return tale


def test_sessions_that_end_are_crashes() -> None:
    tale = tale_of_a_crash()
    row = said(tale)
    assert (row.verdict, row.severity) == ("MEMBERS_CRASH", 2)
    assert row.text == "Group payments: sessions ended without a word: b on 10.0.0.98 once."
    assert any("3 × heartbeat.interval.ms" in line for line in row.advice)


def test_of_crashed_members_that_came_back_the_longest_absence_is_told() -> None:
    tale = tale_of_a_crash()
    tale.commits(A_ALONE, until=7 * MINUTE - 1_000)
    tale.generation(A, B._replace(member_id="b-2"), at=7 * MINUTE)
    row = said(tale)
    assert row.verdict == "MEMBERS_CRASH"
    assert row.text.endswith("b on 10.0.0.98 once. Each came back, after 2 min at the latest.")


def test_restarts_are_told_with_what_would_make_them_cheap() -> None:
    tale = Tale()
    tale.generation(A, B)
    for count in range(2, 6):
        tale.generation(A, B._replace(member_id=f"b-{count}"), at=count * 8_000)
    tale.now = 20 * MINUTE
    row = said(tale)
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 1)
    assert "mostly: member restarted. Nobody was thrown out" in row.text
    assert any("group.instance.id" in line for line in row.advice)


def start_and_stop() -> Tale:
    """Four members come one by one, read for a minute, and are closed."""
    tale = Tale()
    members = [member(name, n) for n, name in enumerate("abcd")]
    for n in range(4):
        tale.generation(*members[: n + 1], at=10_000 * n)
        for each in members[: n + 1]:
            tale.commits(each, until=10_000 * (n + 1) + MINUTE * (n == 3) - 1_000)
    tale.generation(at=MINUTE + 40_000)
    return tale


def test_an_ordinary_start_and_stop_is_a_storm_to_be_known_only() -> None:
    row = said(start_and_stop())
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 1)
    assert "Nobody was thrown out: members were started and stopped." in row.text
    assert any("group.initial.rebalance.delay.ms" in line for line in row.advice)


def test_a_storm_of_starts_in_which_somebody_was_thrown_out_is_an_error() -> None:
    tale = start_and_stop()
    known = findings(tale)
    assert any(row.cause == "LEFT_CLEANLY" for row in known.exits)
    exits = [row._replace(cause="SESSION_TIMEOUT") for row in known.exits]
    row = diagnose("test", known._replace(exits=exits))
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 3)
    assert "Nobody was thrown out" not in row.text


def storm_of_crashes(*, protocol: str, instances: bool) -> Tale:
    a = member("a", 0, instance="a" if instances else None)
    tale = Tale()
    tale.generation(a, B._replace(instance_id="b" if instances else None), protocol=protocol)
    for count in range(1, 5):
        b = member(f"b{count}", 1, instance=f"b{count}" if instances else None)
        tale.commits(a, until=count * MINUTE - 1_000)
        tale.commits(tale.records[-1].members[1], until=count * MINUTE - 47_000)
        tale.generation(a, b, at=count * MINUTE, protocol=protocol)
    return tale


@pytest.mark.parametrize("is_out", [False, True])
def test_advice_goes_by_the_last_members_also_after_an_outage(is_out: bool) -> None:
    tale = storm_of_crashes(protocol="cooperative-sticky", instances=True)
    if is_out:
        tale.generation(at=5 * MINUTE)
    row = said(tale)
    assert (row.verdict, row.severity) == ("REBALANCE_STORM", 3)
    assert (
        "All members are static: a restart within session.timeout.ms costs no rebalance."
        in row.advice
    )
    assert not any("CooperativeSticky" in line for line in row.advice)
    assert not any("group.instance.id" in line for line in row.advice)


def test_members_that_are_neither_static_nor_cooperative_are_told_to_become_so() -> None:
    advice = said(storm_of_crashes(protocol="range", instances=False)).advice
    assert any("CooperativeSticky" in line for line in advice)
    assert any("group.instance.id" in line for line in advice)
    assert not any("All members are static" in line for line in advice)


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


def test_refused_commits_are_counted() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.generation(A, B, C, at=MINUTE)
    known = findings(tale)
    for count, says in ((1, "1 commit came"), (2, "2 commits came")):
        rows = [row._replace(rejected_commits=count) for row in known.rebalances[-1:]]
        row = diagnose("test", known._replace(rebalances=rows))
        assert row.verdict == "COMMITS_REFUSED"
        assert f"{says} too late and" in row.text
