"""Why members left, from the log alone. Each limit is tested just below and at its value."""

import pytest
from history_builder import (
    A_ALONE,
    LEFT_AT_MS,
    MINUTE,
    A,
    B,
    HistoryBuilder,
    last_cause,
    last_rebalance,
    member,
    partitions,
    without_b,
)
from kohort.pipeline.diagnosis.group_history import Member
from kohort.pipeline.diagnosis.rebalances import explain

# --- 6 and 7: silent for at least a timeout


@pytest.mark.parametrize(
    ("silence_ms", "cause"),
    [
        (310_000, "SLOW_POLL"),
        (294_000, "SLOW_POLL"),  # 0.98 of max.poll.interval.ms
        (293_999, "SESSION_TIMEOUT"),
        (45_000, "SESSION_TIMEOUT"),
        (43_500, "SESSION_TIMEOUT"),  # 0.9 of the session, and 3 s until a noticed the rebalance
        (37_000, "LEFT_CLEANLY"),
        (1_000, "LEFT_CLEANLY"),
    ],
)
def test_the_length_of_the_silence_gives_the_cause(silence_ms: int, cause: str) -> None:
    assert last_cause(without_b(silence_ms)) == (cause, "medium")


@pytest.mark.parametrize(
    ("lag", "rejoined", "confidence"),
    [(500, True, "high"), (500, False, "medium"), (None, True, "medium")],
)
def test_a_slow_poll_has_high_confidence_with_records_to_read_and_a_rejoin(
    lag: int | None, rejoined: bool, confidence: str
) -> None:
    history = without_b(310_000, lag=lag)
    if rejoined:
        history.generation(A, B._replace(member_id="b-2"), at=LEFT_AT_MS + MINUTE)
    row = explain(history.build()).rebalances[1]
    assert (row.cause, row.confidence, row.client_id) == ("SLOW_POLL", confidence, "b")


@pytest.mark.parametrize("silence_ms", [310_000, 60_000])
def test_the_silence_of_an_idle_member_is_no_evidence(silence_ms: int) -> None:
    assert last_cause(without_b(silence_ms, lag=0)) == ("LEFT_UNKNOWN", "low")


@pytest.mark.parametrize(
    ("sampled_ms", "lag", "cause"),
    [
        (LEFT_AT_MS - 200_000, 0, "SLOW_POLL"),  # before the silence, or early in it: no evidence
        (LEFT_AT_MS - 40_000, 0, "SLOW_POLL"),
        (LEFT_AT_MS - 20_000, 0, "LEFT_UNKNOWN"),
        (LEFT_AT_MS + 600_000, 0, "LEFT_UNKNOWN"),  # log ends only grow
        (LEFT_AT_MS + 600_000, 9, "SLOW_POLL"),  # the time of the records is unknown
        (LEFT_AT_MS - 200_000, 9, "SLOW_POLL"),
    ],
)
def test_only_a_late_sample_shows_that_there_were_no_records_to_read(
    sampled_ms: int, lag: int, cause: str
) -> None:
    history = without_b(76_000, B._replace(rebalance_timeout_ms=76_000))
    history.log_end(sampled_ms, lag, 1)
    assert last_cause(history)[0] == cause


def test_the_silence_of_an_idle_member_with_periodic_commits_is_evidence() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, until=LEFT_AT_MS - 3_000)
    history.commits(B, until=LEFT_AT_MS - 310_000, idle=True)
    history.log_end(LEFT_AT_MS - 100_000, 0, 1)
    history.generation(A_ALONE, at=LEFT_AT_MS)
    assert last_cause(history) == ("SLOW_POLL", "medium")


@pytest.mark.parametrize(
    ("rebalance_ms", "silence_ms", "cause"),
    [
        # A session of 45 s ends after a silence of 40.5 to 55 s: with a gap of 5 s between commits,
        # and 5 s until the others notice.
        (45_000, 44_500, "TIMEOUT_AMBIGUOUS"),  # aiokafka
        (45_000, 55_000, "TIMEOUT_AMBIGUOUS"),
        (45_000, 55_001, "SLOW_POLL"),
        (51_020, 50_000, "TIMEOUT_AMBIGUOUS"),
        (51_021, 50_000, "SESSION_TIMEOUT"),
        (60_000, 59_000, "SLOW_POLL"),
        (67_500, 50_000, "SESSION_TIMEOUT"),
        # Java allows a max.poll.interval.ms below the session.
        (30_000, 35_000, "SLOW_POLL"),
        (30_000, 50_000, "SESSION_TIMEOUT"),
        (30_000, 56_000, "SLOW_POLL"),
        # Records of version 0 have no rebalance timeout: the session timeout is used.
        (-1, 50_000, "TIMEOUT_AMBIGUOUS"),
    ],
)
def test_similar_timeouts_are_distinguished_if_only_one_matches_the_silence(
    rebalance_ms: int, silence_ms: int, cause: str
) -> None:
    assert (
        last_cause(without_b(silence_ms, B._replace(rebalance_timeout_ms=rebalance_ms)))[0] == cause
    )


@pytest.mark.parametrize(
    ("silence_ms", "cause"),
    [(345_000, "SLOW_POLL"), (324_000, "SLOW_POLL"), (323_999, "SESSION_TIMEOUT")],
)
def test_a_slow_static_member_is_removed_when_its_session_expires(
    silence_ms: int, cause: str
) -> None:
    assert last_cause(without_b(silence_ms, member("b", 1, instance="b-1")))[0] == cause


@pytest.mark.parametrize(
    ("max_poll_s", "session_s", "heartbeat_s"),
    [(60, 10, 3), (30, 10, 3), (300, 45, 15), (300, 45, 3)],
)
def test_the_session_of_a_static_member_starts_at_its_last_heartbeat(
    max_poll_s: int, session_s: int, heartbeat_s: int
) -> None:
    """Its last heartbeat was sent `heartbeat_s` before max.poll.interval.ms ended."""
    times = {"rebalance_ms": 1_000 * max_poll_s, "session_ms": 1_000 * session_s}
    b = member("b", 1, instance="b-1", **times)  # type: ignore[arg-type]
    slow = without_b(1_000 * (max_poll_s - heartbeat_s + session_s), b)
    assert last_cause(slow)[0] == "SLOW_POLL"
    # A crash: the silence is longer by the time since the last commit and until others notice.
    for more_s in (0, 5, 8):
        crash = without_b(1_000 * (session_s + more_s), b)
        assert last_cause(crash)[0] == "SESSION_TIMEOUT"


@pytest.mark.parametrize(
    ("silence_ms", "cause"),
    [
        (16_400, "SESSION_TIMEOUT"),
        (18_000, "TIMEOUT_AMBIGUOUS"),
        (20_001, "SLOW_POLL"),  # later than any session of 10 s would show
    ],
)
def test_timeouts_of_a_static_member_may_be_ambiguous(silence_ms: int, cause: str) -> None:
    b = member("b", 1, instance="b-1", rebalance_ms=10_000, session_ms=10_000)
    assert last_cause(without_b(silence_ms, b))[0] == cause


def background_commits(lag: int, stuck_ms: int) -> HistoryBuilder:
    """b commits periodically until it leaves, without progress for `stuck_ms`."""
    b = B._replace(rebalance_timeout_ms=10_000, session_timeout_ms=10_000)
    history = HistoryBuilder(A, b)
    history.commits(A, until=LEFT_AT_MS - 3_000)
    history.commits(b, until=LEFT_AT_MS - 1_000)
    history.activities[-1] = history.activities[-1]._replace(
        repeats=9,
        last_advance_ms=history.activities[-1].last_commit_ms + 1_000 - stuck_ms,
    )
    history.log_end(LEFT_AT_MS - stuck_ms, lag, 1)
    history.generation(A_ALONE, at=LEFT_AT_MS)
    return history


def test_a_stuck_member_that_was_silent_for_its_session_has_crashed() -> None:
    history = background_commits(50, 60_000)
    shift = 12_000
    activity = history.activities[-1]
    history.activities[-1] = activity._replace(last_commit_ms=activity.last_commit_ms - shift)
    history.records[0] = history.records[0]._replace(
        members=tuple(m._replace(rebalance_timeout_ms=30_000) for m in history.records[0].members)
    )
    assert last_cause(history)[0] == "SESSION_TIMEOUT"


@pytest.mark.parametrize(
    ("lag", "stuck_ms", "cause"),
    [(50, 25_000, "SLOW_POLL"), (50, 24_999, "LEFT_CLEANLY"), (0, 90_000, "LEFT_CLEANLY")],
)
def test_background_commits_without_progress_are_a_slow_poll(
    lag: int, stuck_ms: int, cause: str
) -> None:
    assert last_cause(background_commits(lag, stuck_ms))[0] == cause


def test_a_member_that_repeated_offsets_before_its_session_expired_has_crashed() -> None:
    """A commit does not renew the session of a consumer group's member, so the session may expire
    in less than its length after the last commit."""
    b = B._replace(rebalance_timeout_ms=20_000)
    history = HistoryBuilder(A, b)
    history.commits(A, until=LEFT_AT_MS)
    history.commits(b, until=LEFT_AT_MS - 43_000, idle=True)
    history.log_end(LEFT_AT_MS - 50_000, 50, 1)
    history.records[0] = history.records[0]._replace(protocol="consumer")
    history.epoch(A_ALONE, at=LEFT_AT_MS, number=2)
    assert last_cause(history)[0] == "SESSION_TIMEOUT"


def test_a_short_silence_is_a_clean_leave_with_ambiguous_timeouts_too() -> None:
    assert (
        last_cause(without_b(2_000, B._replace(rebalance_timeout_ms=45_000)))[0] == "LEFT_CLEANLY"
    )


def test_a_silence_of_usual_length_is_no_evidence() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, until=LEFT_AT_MS - 3_000)
    history.commits(B, until=LEFT_AT_MS - 55_000, every=MINUTE)
    history.generation(A_ALONE, at=LEFT_AT_MS)
    assert last_cause(history) == ("LEFT_UNKNOWN", "low")


def test_the_silence_of_a_member_may_last_since_the_previous_generation() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, B, until=MINUTE)
    history.generation(A, B, at=MINUTE + 100)
    history.commits(A, until=6 * MINUTE)
    history.generation(A_ALONE, at=MINUTE + 305_000)
    assert last_cause(history) == ("SLOW_POLL", "low")
    history.log_end(3 * MINUTE, 50, 1)
    assert last_cause(history) == ("SLOW_POLL", "medium")


@pytest.mark.parametrize(("number", "cause"), [(1, "SLOW_POLL"), (2, "LEFT_UNKNOWN")])
def test_a_member_without_commits_had_records_to_read_if_the_history_is_complete(
    number: int, cause: str
) -> None:
    """If the history begins later, its partitions may have been idle."""
    history = HistoryBuilder(A, B, number=number)
    history.commits(A, until=305_000)
    history.samples(50, 1, until=310_000)
    history.generation(A_ALONE, at=305_000)
    assert last_cause(history)[0] == cause


def test_a_crash_is_a_crash_if_the_client_rejoins_in_the_same_rebalance() -> None:
    history = without_b(50_000, back=True)
    assert last_cause(history)[0] == "SESSION_TIMEOUT"
    assert "SESSION_TIMEOUT_REJOINED" in last_rebalance(history).evidence


def test_a_clean_leave_is_not_blamed_for_the_wait_for_another_member() -> None:
    """c leaves. a rejoins after 3 s; b processes for two more minutes and commits before it
    rejoins."""
    c = member("c", 2)
    history = HistoryBuilder(A, B, c)
    history.commits(c, until=5 * MINUTE)
    history.commits(A, until=5 * MINUTE + 2_000)
    history.commits(B, until=7 * MINUTE - 100)
    history.samples(300, 0, 1, 2, since=4 * MINUTE, until=8 * MINUTE)
    history.generation(A_ALONE, B, at=7 * MINUTE)
    row = last_rebalance(history)
    assert (row.cause, row.client_id) == ("LEFT_CLEANLY", "c")
    assert row.waited_for == "b-1"
    assert row.wait_ms == 2 * MINUTE - 7_000  # a's usual 5 s after its last commit
    assert "the others waited" in row.evidence


def test_a_member_that_crashes_while_others_wait_has_not_left_cleanly() -> None:
    c = member("c", 2)
    history = HistoryBuilder(A, B)
    history.commits(A, B, until=5 * MINUTE)
    history.samples(300, 0, 1, since=4 * MINUTE, until=7 * MINUTE)
    history.generation(A, c._replace(assigned=partitions(1)), at=5 * MINUTE + 50_000)
    assert (last_rebalance(history).cause, last_rebalance(history).waited_for) == (
        "SESSION_TIMEOUT",
        "b-1",
    )


@pytest.mark.parametrize(("restarted_ms", "waited_for"), [(10_000, "b-1"), (38_000, None)])
def test_a_restart_before_the_session_expires_does_not_hide_the_crash(
    restarted_ms: int, waited_for: str | None
) -> None:
    """b crashes, and its new process starts a rebalance, which lasts until the session of its
    previous member id has expired."""
    crashed = LEFT_AT_MS - 46_000
    history = HistoryBuilder(A, B)
    history.commits(B, until=crashed)
    history.commits(A, until=crashed + restarted_ms)
    history.samples(300, 0, 1, since=4 * MINUTE, until=LEFT_AT_MS)
    history.generation(A, B._replace(member_id="b-2"), at=LEFT_AT_MS)
    row = last_rebalance(history)
    assert (row.cause, row.waited_for) == ("SESSION_TIMEOUT", waited_for)
    assert "b on 10.0.0.98 did not commit for 46.0 s" in row.evidence


# --- records that arrive after a time without any


def idle_until(silence_ms: int, since_commit_ms: int, b: Member = B) -> HistoryBuilder:
    """b leaves `since_commit_ms` after its last commit; it had nothing to read until `silence_ms`
    before."""
    history = HistoryBuilder(A, b)
    history.commits(A, until=LEFT_AT_MS - 3_000)
    history.commits(b, until=LEFT_AT_MS - since_commit_ms)
    history.log_end(LEFT_AT_MS - silence_ms, 0, 1)
    history.log_end(LEFT_AT_MS - 1_000, 50, 1)
    history.generation(A_ALONE, at=LEFT_AT_MS)
    return history


@pytest.mark.parametrize(
    ("silence_ms", "since_commit_ms", "cause", "confidence"),
    [
        (310_000, 500_000, "SLOW_POLL", "medium"),
        (46_000, 500_000, "SESSION_TIMEOUT", "medium"),
        (20_000, 500_000, "LEFT_UNKNOWN", "low"),
        # librdkafka commits what it has polled, so its slow poll starts with the last commit.
        (46_000, 302_000, "TIMEOUT_AMBIGUOUS", "low"),
        (200_000, 302_000, "SLOW_POLL", "medium"),
    ],
)
def test_silence_starts_when_there_is_something_to_read(
    silence_ms: int, since_commit_ms: int, cause: str, confidence: str
) -> None:
    assert last_cause(idle_until(silence_ms, since_commit_ms)) == (cause, confidence)


def test_the_reported_silence_is_the_one_that_matches_a_timeout() -> None:
    for silence_ms, since_commit_ms, reported_ms, text in (
        (310_000, 500_000, 310_000, "did not commit for 5 min 10 s"),
        (200_000, 302_000, 302_000, "there were records to read during the last 3 min 20 s"),
        (20_000, 500_000, 20_000, "its partitions were idle until 20.0 s before it left"),
    ):
        [exit_] = explain(idle_until(silence_ms, since_commit_ms).build()).exits
        assert exit_.silence_ms == reported_ms
        assert text in exit_.evidence


@pytest.mark.parametrize("back", [False, True])
def test_a_silence_with_a_compaction_gap_is_unknown(*, back: bool) -> None:
    """Compaction removed the records of an hour, including possible commits of b."""
    history = HistoryBuilder()
    generation = history.generation(A, B)
    history.commits(A, B, until=5 * MINUTE)
    for at in range(60):
        history.log_end(at * MINUTE, 300 * at, 0, 1)
    new = (B._replace(member_id="b-2"),) if back else ()
    history.generation(A_ALONE, *new, at=60 * MINUTE, history_complete=False)
    [exit_] = explain(history.build()).exits
    assert (exit_.cause, exit_.confidence) == ("SLOW_POLL", "high" if back else "medium")

    after_the_commits = generation.log_offset + 6
    history.records[-1] = history.records[-1]._replace(last_gap=after_the_commits)
    [exit_] = explain(history.build()).exits
    assert (exit_.cause, exit_.confidence, exit_.silence_ms) == ("LEFT_UNKNOWN", "low", None)
    assert exit_.evidence.endswith(
        "left: the log does not show when, so the length of its silence is unknown"
    )
    row = last_rebalance(history)
    if back:
        assert row.evidence.count("rejoined") == 1
    assert (row.started_at_est, row.waited_for, row.wait_ms) == (None, None, None)

    # A gap before the commits hides nothing of the silence.
    history.records[-1] = history.records[-1]._replace(last_gap=after_the_commits - 1)
    assert explain(history.build()).exits[0].cause == "SLOW_POLL"


# --- 8 to 10: a short or unknown silence


def test_a_member_that_rejoins_in_the_same_rebalance_was_restarted() -> None:
    row = last_rebalance(without_b(1_000, back=True))
    assert (row.cause, row.confidence, row.moved) == ("RESTARTED", "medium", 0)


def test_one_new_member_is_the_restart_of_only_one_member_that_left() -> None:
    one, two = (
        member("rdkafka", number, id_=f"rdkafka-{number}")._replace(client_host="/10.0.0.1")
        for number in (0, 1)
    )
    history = HistoryBuilder(one, two)
    history.commits(one, two, until=MINUTE)
    history.generation(one._replace(member_id="rdkafka-9"), at=MINUTE + 500)
    found = {row.member_id: row.cause for row in explain(history.build()).exits}
    assert found == {"rdkafka-0": "RESTARTED", "rdkafka-1": "LEFT_CLEANLY"}


def test_no_session_expires_in_a_generation_younger_than_the_session() -> None:
    history = HistoryBuilder(A, B)
    history.generation(A_ALONE, at=40_000)  # b has not committed anything
    assert last_cause(history) == ("LEFT_CLEANLY", "medium")


def test_a_session_may_expire_in_a_generation_of_about_its_length() -> None:
    """A static member is killed right after it joined; its session expires."""
    history = HistoryBuilder(A, member("b", 1, instance="b-1"))
    history.generation(A_ALONE, at=44_900)
    assert last_cause(history) == ("LEFT_UNKNOWN", "low")


@pytest.mark.parametrize("assigned", [(), None])
def test_the_exit_of_a_member_without_partitions_is_unknown(assigned: tuple[()] | None) -> None:
    history = HistoryBuilder(A_ALONE, B._replace(assigned=assigned))
    history.generation(A_ALONE, at=MINUTE)
    assert last_cause(history) == ("LEFT_UNKNOWN", "low")
