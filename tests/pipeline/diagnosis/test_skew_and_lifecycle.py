"""Balance of an assignment, and lifecycles of groups."""

import pytest
from history_builder import MINUTE, START_MS, A, B, HistoryBuilder, member, partitions
from kohort.pipeline.diagnosis.assignments import skews
from kohort.pipeline.diagnosis.group_history import Removal
from kohort.pipeline.diagnosis.lifecycle import lifecycle

DAY = 24 * 60 * MINUTE
WEEK = 7 * DAY

# --- skew


def test_skew_is_computed_for_all_topics_and_by_topic() -> None:
    history = HistoryBuilder()
    both = ("orders", "refunds")
    a = A._replace(topics=both, assigned=(*partitions(0, 1, 2), *partitions(0, topic="refunds")))
    b = B._replace(topics=("orders",), assigned=partitions(3))
    c = member("c", topics=both)
    history.generation(a, b, c)
    rows = {row.topic: row for row in skews(history.build())}
    everything = rows[None]
    assert (everything.max_parts, everything.min_parts, everything.ideal) == (4, 0, 2)
    assert (everything.imbalance, everything.idle_members) == (1.0, 1)
    assert (rows["orders"].max_parts, rows["orders"].ideal) == (3, 2)
    # b is not subscribed to refunds, so it does not count as idle there.
    assert (rows["refunds"].min_parts, rows["refunds"].idle_members) == (0, 1)


def test_an_even_assignment_has_no_skew() -> None:
    history = HistoryBuilder(A, B)
    row = skews(history.build())[0]
    assert (row.imbalance, row.cv, row.idle_members, row.lag_skew) == (0.0, 0.0, 0, None)


def test_lag_of_one_partition_skews_the_lag() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, B, until=MINUTE)
    history.log_end(MINUTE, 0, 0)
    history.log_end(MINUTE, 100, 1)
    assert skews(history.build(as_of=2 * MINUTE))[0].lag_skew == 2.0


def test_undecodable_assignments_have_no_skew() -> None:
    history = HistoryBuilder(A, B._replace(assigned=None))
    assert skews(history.build()) == []


# --- lifecycle


def emptied() -> HistoryBuilder:
    history = HistoryBuilder(A)
    history.commits(A, until=MINUTE)
    history.generation(at=2 * MINUTE)
    return history


def test_a_live_group_has_no_end() -> None:
    history = HistoryBuilder(A)
    history.commits(A, until=MINUTE)
    row = lifecycle(history.build())
    assert (row.first_seen, row.last_commit) == (START_MS, START_MS + MINUTE)
    assert (row.emptied_at, row.deleted_at, row.end_kind, row.expires_at_est) == (None,) * 4


def test_an_empty_group_expires_when_its_offsets_do() -> None:
    row = lifecycle(emptied().build())
    assert row.emptied_at == START_MS + 2 * MINUTE
    assert row.expires_at_est == START_MS + 2 * MINUTE + WEEK


@pytest.mark.parametrize(("after_ms", "kind"), [(WEEK, "EXPIRED"), (WEEK - 1, "DELETED")])
def test_a_tombstone_after_the_offsets_retention_is_an_expiration(after_ms: int, kind: str) -> None:
    history = emptied()
    history.tombstone(at=2 * MINUTE + after_ms)
    row = lifecycle(history.build())
    assert (row.end_kind, row.deleted_at) == (kind, START_MS + 2 * MINUTE + after_ms)
    assert row.expires_at_est is None


def test_a_tombstone_without_history_is_a_deletion_or_expiration() -> None:
    history = HistoryBuilder()
    history.tombstone(at=MINUTE)
    assert lifecycle(history.build()).end_kind == "DELETED_OR_EXPIRED"


def test_the_event_log_distinguishes_deletion_and_expiration() -> None:
    history = emptied()
    history.tombstone(at=2 * MINUTE + WEEK)
    history.event("group_deleted", 2 * MINUTE + WEEK, cause="GROUP_DELETED")
    assert lifecycle(history.build()).end_kind == "DELETED"


def test_a_group_that_commits_after_its_tombstone_is_live() -> None:
    history = emptied()
    history.tombstone(at=3 * MINUTE)
    history.commits(A, until=5 * MINUTE, since=4 * MINUTE)
    row = lifecycle(history.build())
    assert (row.emptied_at, row.deleted_at, row.end_kind, row.expires_at_est) == (None,) * 4
    history.removals.append(Removal("orders", 0, 999, START_MS + 6 * MINUTE))
    row = lifecycle(history.build())
    assert (row.deleted_at, row.end_kind) == (START_MS + 6 * MINUTE, "OFFSETS_DELETED")


@pytest.mark.parametrize(
    ("after_ms", "event", "kind"),
    [
        (MINUTE, None, "OFFSETS_DELETED"),
        (WEEK, None, "EXPIRED"),
        (MINUTE, "TOPIC_DELETED", "TOPIC_DELETED"),
        (MINUTE, "OFFSETS_EXPIRED", "EXPIRED"),
    ],
)
def test_the_end_of_all_offsets_is_an_end_of_the_group(
    after_ms: int, event: str | None, kind: str
) -> None:
    history = emptied()
    history.removals.append(Removal("orders", 0, 999, START_MS + MINUTE + after_ms))
    if event is not None:
        history.event("offsets_deleted", MINUTE + after_ms, cause=event)
    assert lifecycle(history.build()).end_kind == kind


def test_a_tombstone_whose_event_has_another_cause_is_an_end_of_the_group() -> None:
    history = emptied()
    history.tombstone(at=3 * MINUTE)
    history.event("group_deleted", 3 * MINUTE, cause="MEMBER_JOINED")
    assert lifecycle(history.build()).end_kind == "DELETED_OR_EXPIRED"


def test_a_group_with_a_remaining_offset_is_live() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, B, until=MINUTE)
    history.removals.append(Removal("orders", 0, 999, START_MS + 2 * MINUTE))
    assert lifecycle(history.build()).end_kind is None


def test_a_group_with_members_is_live_without_offsets() -> None:
    """The topics of the group were deleted, for example."""
    history = HistoryBuilder(A)
    history.commits(A, until=MINUTE)
    history.removals.append(Removal("orders", 0, 999, START_MS + 2 * MINUTE))
    assert lifecycle(history.build()).deleted_at is None


def test_a_group_without_records_is_first_seen_now() -> None:
    assert lifecycle(HistoryBuilder().build(as_of=MINUTE)).first_seen == START_MS + MINUTE
