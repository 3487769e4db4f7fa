"""Why members went, from the log alone: just under and just over each limit, among their
neighbours."""

import pytest
from group_stories import (
    A_ALONE,
    MINUTE,
    WAS_AT_MS,
    A,
    B,
    Tale,
    last,
    member,
    parts,
    told,
    without_b,
)
from kohort.pipeline.diagnosis.rebalances import exits, rebalances

# --- 6 and 7: silent for a timeout


@pytest.mark.parametrize(
    ("silence_ms", "cause"),
    [
        (310_000, "SLOW_POLL"),
        (294_000, "SLOW_POLL"),  # 0.98 of max.poll.interval.ms
        (293_999, "SESSION_TIMEOUT"),
        (45_000, "SESSION_TIMEOUT"),
        (43_500, "SESSION_TIMEOUT"),  # 0.9 of the session, and 3 s in which a has heard of it
        (37_000, "LEFT_CLEANLY"),
        (1_000, "LEFT_CLEANLY"),
    ],
)
def test_how_long_a_member_was_silent_says_how_it_went(silence_ms: int, cause: str) -> None:
    assert told(without_b(silence_ms)) == (cause, "medium")


@pytest.mark.parametrize(
    ("ahead", "came_back", "confidence"),
    [(500, True, "high"), (500, False, "medium"), (None, True, "medium")],
)
def test_a_slow_poll_is_sure_if_there_was_work_and_the_member_came_back(
    ahead: int | None, came_back: bool, confidence: str
) -> None:
    tale = without_b(310_000, ahead=ahead)
    if came_back:
        tale.generation(A, B._replace(member_id="b-2"), at=WAS_AT_MS + MINUTE)
    row = rebalances(tale.story())[1]
    assert (row.cause, row.confidence, row.client_id) == ("SLOW_POLL", confidence, "b")


@pytest.mark.parametrize("silence_ms", [310_000, 60_000])
def test_an_idle_member_is_silent_too_and_that_proves_nothing(silence_ms: int) -> None:
    assert told(without_b(silence_ms, ahead=0)) == ("LEFT_UNKNOWN", "low")


@pytest.mark.parametrize(
    ("sampled_ms", "ahead", "cause"),
    [
        (WAS_AT_MS - 200_000, 0, "SLOW_POLL"),  # before the silence, or early in it: says nothing
        (WAS_AT_MS - 40_000, 0, "SLOW_POLL"),
        (WAS_AT_MS - 20_000, 0, "LEFT_UNKNOWN"),
        (WAS_AT_MS + 600_000, 0, "LEFT_UNKNOWN"),  # a log only grows
        (WAS_AT_MS + 600_000, 9, "SLOW_POLL"),  # when they came is not known
        (WAS_AT_MS - 200_000, 9, "SLOW_POLL"),
    ],
)
def test_only_a_sample_from_late_in_a_silence_says_that_nothing_was_to_be_read(
    sampled_ms: int, ahead: int, cause: str
) -> None:
    tale = without_b(76_000, B._replace(rebalance_timeout_ms=76_000))
    tale.log_end(sampled_ms, ahead, 1)
    assert told(tale)[0] == cause


def test_an_idle_member_that_commits_by_the_clock_is_missed_all_the_same() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=WAS_AT_MS - 3_000)
    tale.commits(B, until=WAS_AT_MS - 310_000, idle=True)
    tale.log_end(WAS_AT_MS - 100_000, 0, 1)
    tale.generation(A_ALONE, at=WAS_AT_MS)
    assert told(tale) == ("SLOW_POLL", "medium")


@pytest.mark.parametrize(
    ("rebalance_ms", "silence_ms", "cause"),
    [
        # A session of 45 s shows after 40.5 s, and up to 55 s: a gap of 5 s, and 5 s to hear of it.
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
        # Of records of version 0 the session's is taken.
        (-1, 50_000, "TIMEOUT_AMBIGUOUS"),
    ],
)
def test_timeouts_near_each_other_are_told_apart_where_only_one_explains_the_silence(
    rebalance_ms: int, silence_ms: int, cause: str
) -> None:
    assert told(without_b(silence_ms, B._replace(rebalance_timeout_ms=rebalance_ms)))[0] == cause


@pytest.mark.parametrize(
    ("silence_ms", "cause"),
    [(345_000, "SLOW_POLL"), (324_000, "SLOW_POLL"), (323_999, "SESSION_TIMEOUT")],
)
def test_a_static_member_that_polls_too_slowly_is_out_when_its_session_has_ended_too(
    silence_ms: int, cause: str
) -> None:
    assert told(without_b(silence_ms, member("b", 1, instance="b-1")))[0] == cause


@pytest.mark.parametrize(
    ("max_poll_s", "session_s", "heartbeat_s"),
    [(60, 10, 3), (30, 10, 3), (300, 45, 15), (300, 45, 3)],
)
def test_a_static_members_session_counts_from_its_last_heartbeat(
    max_poll_s: int, session_s: int, heartbeat_s: int
) -> None:
    """The last one was sent so long before max.poll.interval.ms was over."""
    times = {"rebalance_ms": 1_000 * max_poll_s, "session_ms": 1_000 * session_s}
    b = member("b", 1, instance="b-1", **times)  # type: ignore[arg-type]
    slow = without_b(1_000 * (max_poll_s - heartbeat_s + session_s), b)
    assert told(slow)[0] == "SLOW_POLL"
    # It has crashed: its commits, each 5 s, and the others' heartbeats make it seem longer.
    for more_s in (0, 5, 8):
        crash = without_b(1_000 * (session_s + more_s), b)
        assert told(crash)[0] == "SESSION_TIMEOUT"


@pytest.mark.parametrize(
    ("silence_ms", "cause"),
    [
        (16_400, "SESSION_TIMEOUT"),
        (18_000, "TIMEOUT_AMBIGUOUS"),
        (20_001, "SLOW_POLL"),  # no session of 10 s shows later than a gap and 5 s after its end
    ],
)
def test_timeouts_of_a_static_member_may_be_near_each_other_too(
    silence_ms: int, cause: str
) -> None:
    b = member("b", 1, instance="b-1", rebalance_ms=10_000, session_ms=10_000)
    assert told(without_b(silence_ms, b))[0] == cause


def background_commits(ahead: int, stuck_ms: int) -> Tale:
    """b commits by the clock until it goes, and has not gone ahead for `stuck_ms`."""
    b = B._replace(rebalance_timeout_ms=10_000, session_timeout_ms=10_000)
    tale = Tale()
    tale.generation(A, b)
    tale.commits(A, until=WAS_AT_MS - 3_000)
    tale.commits(b, until=WAS_AT_MS - 1_000)
    tale.activities[-1] = tale.activities[-1]._replace(
        repeats=9,
        last_advance_ms=tale.activities[-1].last_commit_ms + 1_000 - stuck_ms,
    )
    tale.log_end(WAS_AT_MS - stuck_ms, ahead, 1)
    tale.generation(A_ALONE, at=WAS_AT_MS)
    return tale


def test_who_was_stuck_and_then_fell_silent_for_a_session_has_crashed() -> None:
    tale = background_commits(50, 60_000)
    shift = 12_000
    last_one = tale.activities[-1]
    tale.activities[-1] = last_one._replace(last_commit_ms=last_one.last_commit_ms - shift)
    tale.records[0] = tale.records[0]._replace(
        members=tuple(m._replace(rebalance_timeout_ms=30_000) for m in tale.records[0].members)
    )
    assert told(tale)[0] == "SESSION_TIMEOUT"


@pytest.mark.parametrize(
    ("ahead", "stuck_ms", "cause"),
    [(50, 25_000, "SLOW_POLL"), (50, 24_999, "LEFT_CLEANLY"), (0, 90_000, "LEFT_CLEANLY")],
)
def test_who_commits_in_the_background_and_goes_ahead_no_more_is_busy(
    ahead: int, stuck_ms: int, cause: str
) -> None:
    assert told(background_commits(ahead, stuck_ms))[0] == cause


def test_ambiguous_timeouts_do_not_make_a_clean_leave_ambiguous() -> None:
    assert told(without_b(2_000, B._replace(rebalance_timeout_ms=45_000)))[0] == "LEFT_CLEANLY"


def test_a_silence_that_is_usual_for_a_member_proves_nothing() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=WAS_AT_MS - 3_000)
    tale.commits(B, until=WAS_AT_MS - 55_000, every=MINUTE)
    tale.generation(A_ALONE, at=WAS_AT_MS)
    assert told(tale) == ("LEFT_UNKNOWN", "low")


def test_a_member_that_commits_nothing_since_the_generation_began_was_slow_from_the_start() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=MINUTE)
    tale.commits(B, until=MINUTE)
    tale.generation(A, B, at=MINUTE + 100)
    tale.commits(A, until=6 * MINUTE)
    tale.generation(A_ALONE, at=MINUTE + 305_000)
    assert told(tale) == ("SLOW_POLL", "low")
    tale.log_end(3 * MINUTE, 50, 1)
    assert told(tale) == ("SLOW_POLL", "medium")


@pytest.mark.parametrize(("number", "cause"), [(1, "SLOW_POLL"), (2, "LEFT_UNKNOWN")])
def test_who_has_never_committed_had_work_only_if_the_story_begins_with_the_group(
    number: int, cause: str
) -> None:
    """In a story that begins later its partitions may have been idle ever since."""
    tale = Tale()
    tale.generation(A, B, number=number)
    tale.commits(A, until=305_000)
    for at in range(0, 310_000, 30_000):
        tale.log_end(at, 50, 1)
    tale.generation(A_ALONE, at=305_000)
    assert told(tale)[0] == cause


def test_a_crash_whose_client_is_back_in_the_same_round_is_a_crash() -> None:
    tale = without_b(50_000, back=True)
    assert told(tale)[0] == "SESSION_TIMEOUT"
    assert "SESSION_TIMEOUT_REJOINED" in last(tale).evidence


def test_who_left_cleanly_is_not_blamed_for_a_round_that_waited_for_another() -> None:
    """c leaves; a has heard of it after 3 s, b is processing for another two minutes, and commits
    right before it joins."""
    c = member("c", 2)
    tale = Tale()
    tale.generation(A, B, c)
    tale.commits(c, until=5 * MINUTE)
    tale.commits(A, until=5 * MINUTE + 2_000)
    tale.commits(B, until=7 * MINUTE - 100)
    for at in range(4, 8):
        tale.log_end(at * MINUTE, 300, 0, 1, 2)
    tale.generation(A_ALONE, B, at=7 * MINUTE)
    row = last(tale)
    assert (row.cause, row.client_id) == ("LEFT_CLEANLY", "c")
    assert row.waited_for == "b-1"
    assert row.wait_ms == 2 * MINUTE - 7_000  # a's usual 5 s after its last commit
    assert "the others waited" in row.evidence


def test_a_member_that_dies_while_others_wait_for_it_has_not_left_cleanly() -> None:
    c = member("c", 2)
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE)
    for at in range(4, 7):
        tale.log_end(at * MINUTE, 300, 0, 1)
    tale.generation(A, c._replace(assigned=parts(1)), at=5 * MINUTE + 50_000)
    assert (last(tale).cause, last(tale).waited_for) == ("SESSION_TIMEOUT", "b-1")


@pytest.mark.parametrize("back", [False, True])
def test_a_silence_that_the_log_has_a_hole_in_is_none(*, back: bool) -> None:
    """Compaction has taken all of an hour: what b committed in it, and when a stopped."""
    tale = Tale()
    generation = tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE)
    for at in range(60):
        tale.log_end(at * MINUTE, 300 * at, 0, 1)
    new = (B._replace(member_id="b-2"),) if back else ()
    tale.generation(A_ALONE, *new, at=60 * MINUTE, history_complete=False)
    [gone] = exits(tale.story())
    assert (gone.cause, gone.confidence) == ("SLOW_POLL", "high" if back else "medium")

    after_the_commits = generation.log_offset + 6
    tale.records[-1] = tale.records[-1]._replace(last_gap=after_the_commits)
    [gone] = exits(tale.story())
    assert (gone.cause, gone.confidence, gone.silence_ms) == ("LEFT_UNKNOWN", "low", None)
    assert gone.evidence.endswith("went: the log does not say when")
    row = last(tale)
    if back:  # told once
        assert row.evidence.count("back") == 1
    assert (row.started_at_est, row.waited_for, row.wait_ms) == (None, None, None)

    # What lies before the commits hides nothing of the silence.
    tale.records[-1] = tale.records[-1]._replace(last_gap=after_the_commits - 1)
    assert exits(tale.story())[0].cause == "SLOW_POLL"


# --- 8 to 10: went with its silence short, or unknown


def test_a_member_that_is_back_at_once_was_restarted() -> None:
    row = last(without_b(1_000, back=True))
    assert (row.cause, row.confidence, row.moved) == ("RESTARTED", "medium", 0)


def test_clients_of_one_name_on_one_host_are_paired_one_by_one() -> None:
    one, two = (
        member("rdkafka", number, id_=f"rdkafka-{number}")._replace(client_host="/10.0.0.1")
        for number in (0, 1)
    )
    tale = Tale()
    tale.generation(one, two)
    tale.commits(one, until=MINUTE)
    tale.commits(two, until=MINUTE)
    tale.generation(one._replace(member_id="rdkafka-9"), at=MINUTE + 500)
    found = {row.member_id: row.cause for row in exits(tale.story())}
    assert found == {"rdkafka-0": "RESTARTED", "rdkafka-1": "LEFT_CLEANLY"}


def test_a_generation_younger_than_the_session_has_lost_nobody_to_a_timeout() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.generation(A_ALONE, at=40_000)  # b has not committed anything
    assert told(tale) == ("LEFT_CLEANLY", "medium")


@pytest.mark.parametrize("assigned", [(), None])
def test_of_a_member_without_partitions_the_log_says_nothing(assigned: tuple[()] | None) -> None:
    tale = Tale()
    tale.generation(A_ALONE, B._replace(assigned=assigned))
    tale.generation(A_ALONE, at=MINUTE)
    assert told(tale) == ("LEFT_UNKNOWN", "low")
