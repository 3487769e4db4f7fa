"""Shares of a generation, and a group's beginning and end."""

import pytest
from group_stories import MINUTE, START_MS, A, B, Tale, member, parts
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.skew import skews
from kohort.pipeline.diagnosis.story import Removal

DAY = 24 * 60 * MINUTE
WEEK = 7 * DAY

# --- skew


def test_shares_of_a_generation_in_all_and_by_topic() -> None:
    tale = Tale()
    both = ("orders", "refunds")
    a = A._replace(topics=both, assigned=(*parts(0, 1, 2), *parts(0, topic="refunds")))
    b = B._replace(topics=("orders",), assigned=parts(3))
    c = member("c", topics=both)
    tale.generation(a, b, c)
    rows = {row.topic: row for row in skews(tale.story())}
    everything = rows[None]
    assert (everything.max_parts, everything.min_parts, everything.ideal) == (4, 0, 2)
    assert (everything.imbalance, everything.idle_members) == (1.0, 1)
    assert (rows["orders"].max_parts, rows["orders"].ideal) == (3, 2)
    # b does not read refunds: it is not idle for want of them.
    assert (rows["refunds"].min_parts, rows["refunds"].idle_members) == (0, 1)


def test_even_shares_have_no_skew() -> None:
    tale = Tale()
    tale.generation(A, B)
    row = skews(tale.story())[0]
    assert (row.imbalance, row.cv, row.idle_members, row.lag_skew) == (0.0, 0.0, 0, None)


def test_one_partition_that_is_behind_skews_the_lag() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=MINUTE)
    tale.commits(B, until=MINUTE)
    tale.log_end(MINUTE, 0, 0)
    tale.log_end(MINUTE, 100, 1)
    assert skews(tale.story(as_of=2 * MINUTE))[0].lag_skew == 2.0


def test_assignments_that_cannot_be_read_have_no_shares() -> None:
    tale = Tale()
    tale.generation(A, B._replace(assigned=None))
    assert skews(tale.story()) == []


# --- lifecycle


def emptied() -> Tale:
    tale = Tale()
    tale.generation(A)
    tale.commits(A, until=MINUTE)
    tale.generation(at=2 * MINUTE)
    return tale


def test_a_living_group_has_no_end() -> None:
    tale = Tale()
    tale.generation(A)
    tale.commits(A, until=MINUTE)
    row = lifecycle(tale.story())
    assert (row.first_seen, row.last_commit) == (START_MS, START_MS + MINUTE)
    assert (row.emptied_at, row.deleted_at, row.end_kind, row.expires_at_est) == (None,) * 4


def test_an_empty_group_expires_when_its_offsets_do() -> None:
    row = lifecycle(emptied().story())
    assert row.emptied_at == START_MS + 2 * MINUTE
    assert row.expires_at_est == START_MS + 2 * MINUTE + WEEK


@pytest.mark.parametrize(("after_ms", "kind"), [(WEEK, "EXPIRED"), (WEEK - 1, "DELETED")])
def test_a_group_that_is_gone_has_expired_or_was_deleted(after_ms: int, kind: str) -> None:
    tale = emptied()
    tale.tombstone(at=2 * MINUTE + after_ms)
    row = lifecycle(tale.story())
    assert (row.end_kind, row.deleted_at) == (kind, START_MS + 2 * MINUTE + after_ms)
    assert row.expires_at_est is None


def test_a_lone_tombstone_says_no_more_than_that_the_group_is_gone() -> None:
    tale = Tale()
    tale.tombstone(at=MINUTE)
    assert lifecycle(tale.story()).end_kind == "DELETED_OR_EXPIRED"


def test_the_event_log_knows_which() -> None:
    tale = emptied()
    tale.tombstone(at=2 * MINUTE + WEEK)
    tale.event("group_deleted", 2 * MINUTE + WEEK, cause="GROUP_DELETED")
    assert lifecycle(tale.story()).end_kind == "DELETED"


def test_a_group_that_commits_after_its_end_lives_again() -> None:
    tale = emptied()
    tale.tombstone(at=3 * MINUTE)
    tale.commits(A, until=5 * MINUTE, since=4 * MINUTE)
    assert lifecycle(tale.story()).end_kind is None


@pytest.mark.parametrize(
    ("after_ms", "event", "kind"),
    [
        (MINUTE, None, "OFFSETS_DELETED"),
        (WEEK, None, "EXPIRED"),
        (MINUTE, "TOPIC_DELETED", "TOPIC_DELETED"),
        (MINUTE, "OFFSETS_EXPIRED", "EXPIRED"),
    ],
)
def test_offsets_may_go_while_the_group_stays(after_ms: int, event: str | None, kind: str) -> None:
    tale = emptied()
    tale.removals.append(Removal("orders", 0, 999, START_MS + MINUTE + after_ms))
    if event is not None:
        tale.event("offsets_deleted", MINUTE + after_ms, cause=event)
    assert lifecycle(tale.story()).end_kind == kind


def test_a_group_that_has_an_offset_left_is_there() -> None:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=MINUTE)
    tale.commits(B, until=MINUTE)
    tale.removals.append(Removal("orders", 0, 999, START_MS + 2 * MINUTE))
    assert lifecycle(tale.story()).end_kind is None


def test_nothing_at_all_is_a_group_first_seen_now() -> None:
    assert lifecycle(Tale().story(as_of=MINUTE)).first_seen == START_MS + MINUTE
