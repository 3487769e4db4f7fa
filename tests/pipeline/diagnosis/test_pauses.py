"""How long nothing was read: both prices of a slow member."""

from group_stories import A_ALONE, MINUTE, A, B, Tale, last, member, parts
from kohort.pipeline.diagnosis.story import Member


def busy(tale: Tale, until: int, *numbers: int) -> None:
    for at in range(0, until, 30_000):
        tale.log_end(at, 10_000, *numbers)


def test_a_member_that_goes_costs_the_others_one_heartbeat_interval() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE - 300_000)
    busy(tale, 6 * MINUTE, 0, 1)
    tale.generation(A_ALONE, at=5 * MINUTE + 3_000)
    tale.commits(A_ALONE, until=6 * MINUTE, since=5 * MINUTE + 8_000)
    row = last(tale)
    # 5:00 to 5:10 without a commit; 5 s of that are the usual gap.
    assert (row.pause_ms, row.wait_ms, row.waited_for) == (5_000, None, None)


def still_processing(c: Member) -> Tale:
    """c comes at five minutes; a stops at once, b is busy for 55 s, commits and joins."""
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=5 * MINUTE)
    tale.commits(B, until=5 * MINUTE + 55_000, every=55_000)
    busy(tale, 7 * MINUTE, 0, 1, 2)
    tale.generation(A, B, c, at=5 * MINUTE + 55_100)
    tale.commits(A, until=7 * MINUTE, since=6 * MINUTE)
    return tale


def test_a_round_that_begins_while_a_member_is_processing_costs_what_that_one_takes() -> None:
    row = last(still_processing(member("c", 2)))
    assert row.waited_for == "b-1"
    assert row.wait_ms == 55_100 - 5_000
    # From a's last commit, not from b's, to the first one after: one minute, less the usual gap.
    assert row.pause_ms == MINUTE - 5_000
    assert "waited 50.1 s for b" in row.evidence


def test_an_idle_group_does_not_stand_still() -> None:
    tale = Tale()
    tale.generation(A_ALONE)
    tale.commits(A_ALONE, until=MINUTE)
    tale.log_end(2 * MINUTE, 0, 0, 1)
    tale.log_end(3 * MINUTE, 0, 0, 1)
    tale.generation(A, B, at=2 * MINUTE)
    tale.commits(A, until=30 * MINUTE, since=29 * MINUTE)
    assert last(tale).pause_ms is None


def test_without_samples_the_pause_is_what_commits_say() -> None:
    tale = Tale()
    tale.generation(A_ALONE)
    tale.commits(A_ALONE, until=MINUTE)
    tale.generation(A, B, at=MINUTE + 1_000)
    tale.commits(A, until=2 * MINUTE, since=MINUTE + 20_000)
    assert last(tale).pause_ms == 15_000


def test_a_generation_without_commits_has_no_pause_yet() -> None:
    tale = Tale()
    tale.generation(A_ALONE)
    tale.commits(A_ALONE, until=MINUTE)
    tale.generation(A, B, at=2 * MINUTE)
    assert last(tale).pause_ms is None


def test_where_compaction_took_commits_no_pause_is_known() -> None:
    tale = Tale()
    tale.generation(A_ALONE)
    tale.commits(A_ALONE, until=MINUTE)
    tale.activities[0] = tale.activities[0]._replace(history_complete=False)
    tale.generation(A, B, at=MINUTE + 1_000)
    tale.commits(A, until=3 * MINUTE)
    assert last(tale).pause_ms is None


def test_a_static_replacement_is_no_pause() -> None:
    tale = Tale()
    static = member("s", 0, instance="s-1")
    tale.generation(static)
    tale.commits(static, until=MINUTE)
    again = static._replace(member_id="s-2", assigned=parts(0))
    tale.generation(again, at=2 * MINUTE, number=1)
    tale.commits(again, until=4 * MINUTE)
    assert last(tale).pause_ms is None


def test_what_an_administrator_commits_for_an_empty_group_ends_no_pause() -> None:
    tale = Tale()
    tale.generation(A_ALONE)
    tale.commits(A_ALONE, until=MINUTE)
    busy(tale, 10 * MINUTE, 0, 1)
    tale.generation(at=MINUTE + 1_000)
    # It has no members, and its offsets are reset meanwhile.
    reset = Tale()
    reset.records = tale.records
    reset.commits(A_ALONE, until=5 * MINUTE, since=5 * MINUTE)
    tale.activities += reset.activities
    assert last(tale).pause_ms is None
    tale.generation(A_ALONE, at=6 * MINUTE)
    tale.commits(A_ALONE, until=7 * MINUTE, since=6 * MINUTE + 1_000)
    assert last(tale).pause_ms is None
