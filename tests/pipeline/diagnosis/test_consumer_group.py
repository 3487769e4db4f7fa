"""Consumer groups (KIP-848), from records written by Kafka 4.3."""

import pytest
from history_builder import START_MS, HistoryBuilder, member, partitions
from kohort.pipeline.diagnosis.checks import diagnose
from kohort.pipeline.diagnosis.consumer_group import ConsumerGroup, consumer_group
from kohort.pipeline.diagnosis.facts import GroupFacts
from kohort.pipeline.diagnosis.group_history import (
    Commit,
    Generation,
    LogEnd,
    PartitionWindow,
    unresolved,
)
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.diagnosis.rows import Diagnosis, GroupStatus
from kohort.pipeline.diagnosis.status import CurrentGroup, group_status, partition_status
from offset_logs import newest

NOW = 1_000_000
STABLE, EMPTY = ConsumerGroup("Stable", 2), ConsumerGroup("Empty", 0)


@pytest.mark.parametrize(
    ("group", "until_ms", "expected"),
    [
        ("kip-g", 1795315435484, ConsumerGroup("Stable", 1)),
        ("kip-g", 1795315435908, ConsumerGroup("Assigning", 2)),  # the target is of epoch 2
        ("kip-g", 1795315440534, ConsumerGroup("Reconciling", 2)),  # one member has to revoke
        ("kip-g", 1795315440566, ConsumerGroup("Reconciling", 2)),  # the other one has to reconcile
        ("kip-g", 1795315440915, ConsumerGroup("Stable", 2)),
        ("kip-g", 1795315515577, ConsumerGroup("Assigning", 1)),
        ("kip-g", 1795315515934, ConsumerGroup("Empty", 0)),
        ("up-g", 1795315436042, None),  # still a classic group
        ("up-g", 1795315443101, ConsumerGroup("Reconciling", 2)),  # one member of each protocol
        ("up-g", 1795315449170, ConsumerGroup("Reconciling", 2)),
        ("up-g", 1795315453125, ConsumerGroup("Stable", 2)),
        ("new-h", 1795315455162, ConsumerGroup("Empty", 0)),
    ],
)
def test_the_state_of_a_group_follows_from_its_records(
    group: str, until_ms: int, expected: ConsumerGroup | None
) -> None:
    assert consumer_group(newest(group, until_ms)) == expected


def test_without_an_epoch_record_there_is_no_group() -> None:
    records = [(key, None if key[1] == 3 else value) for key, value in newest("up-g")]
    assert consumer_group(records) is None
    assert consumer_group([]) is None


@pytest.mark.parametrize("kind", [3, 6, 8])
def test_members_are_counted_if_values_are_undecodable(kind: int) -> None:
    records = [(key, b"\x00\x63" if key[1] == kind else value) for key, value in newest("up-g")]
    assert consumer_group([*records, (b"\x00\x05\x00", b"")]) == ConsumerGroup("Unknown", 2)


# --- rules


A, B, AB = member("a", 0), member("b", 1), member("a", 0, 1)
REVOKING = A._replace(owned=partitions(0, 1))  # has to revoke partition 1


def rebalance_that_moves(*, revoked_at: int = 13_000) -> HistoryBuilder:
    """The second member gets the partition that the first one revokes."""
    history = HistoryBuilder()
    history.epoch(AB, at=0, number=2)
    history.epoch(AB, B._replace(assigned=()), at=10_000, number=3)
    history.epoch(REVOKING, B._replace(assigned=()), at=12_000, number=3)
    history.epoch(A, B._replace(assigned=()), at=revoked_at, number=3)
    history.epoch(A, B, at=revoked_at + 500, number=3)
    return history


def test_the_rows_of_an_epoch_are_one_rebalance_with_its_last_assignment() -> None:
    created, joined = explain(rebalance_that_moves().build()).rebalances
    assert (created.cause, created.is_rebalance) == ("GROUP_CREATED", False)
    assert (joined.generation, joined.cause, joined.is_rebalance) == (3, "MEMBER_JOINED", True)
    assert (joined.moved, joined.kept, joined.lost_generations) == (1, 1, 0)
    # From the request to revoke to the next owner; from the new epoch to the last member's.
    assert (joined.pause_ms, joined.sync_ms) == (1_500, 3_500)
    assert joined.waited_for is None


def test_a_member_that_revokes_late_is_named() -> None:
    joined = explain(rebalance_that_moves(revoked_at=40_000).build()).rebalances[-1]
    assert (joined.waited_for, joined.wait_ms, joined.pause_ms) == ("a-1", 28_000, 28_500)


def test_a_member_that_never_revokes_is_removed_after_its_rebalance_timeout() -> None:
    history = HistoryBuilder()
    history.epoch(AB, at=0, number=2)
    history.epoch(REVOKING, B._replace(assigned=()), at=10_000, number=3)
    history.epoch(REVOKING, B._replace(assigned=()), at=200_000, number=4)
    history.epoch(B._replace(assigned=()), at=310_000, number=5)
    history.epoch(member("b", 0, 1), at=310_500, number=5)
    explained = explain(history.build())
    [exit_] = explained.exits
    assert (exit_.cause, exit_.confidence, exit_.left_at) == (
        ("REBALANCE_TIMEOUT", "high", history.records[3].append_ms)
    )
    assert exit_.evidence.endswith("within 5 min; its max.poll.interval.ms is 5 min")
    assert explained.rebalances[-1].cause == "REBALANCE_TIMEOUT"


def test_an_epoch_is_no_sign_of_life_of_the_other_members() -> None:
    history = HistoryBuilder()
    history.epoch(A, B, at=0, number=2)
    history.commits(A, B, until=100_000)
    history.epoch(A, B, member("c"), at=140_000, number=3)
    history.epoch(A, member("c"), at=145_500, number=4)
    [exit_] = explain(history.build()).exits
    assert (exit_.cause, exit_.silence_ms) == ("SESSION_TIMEOUT", 45_500)


@pytest.mark.parametrize("regex", [None, "^ord.*"])
def test_other_topics_are_a_change_of_the_subscription_or_of_matches(regex: str | None) -> None:
    history = HistoryBuilder()
    history.epoch(A._replace(regex=regex), at=0, number=2)
    more = A._replace(regex=regex, topics=("orders", "ordinals"))
    history.epoch(more, at=5_000, number=3)
    last = explain(history.build()).rebalances[-1]
    expected = {
        None: ("SUBSCRIPTION_CHANGED", "a on 10.0.0.97 subscribed to ordinals"),
        "^ord.*": ("TOPICS_MATCHED", "a on 10.0.0.97: ^ord.* matches ordinals"),
    }
    assert (last.cause, last.evidence) == expected[regex]


def test_another_hash_of_the_topics_means_that_topics_changed() -> None:
    history = HistoryBuilder()
    history.epoch(A, at=0, number=2, metadata_hash=7)
    history.epoch(A, at=5_000, number=3, metadata_hash=8)
    history.epoch(AB, at=5_001, number=3, metadata_hash=8)
    history.epoch(AB, at=9_000, number=4, metadata_hash=8)
    topics, unknown = explain(history.build()).rebalances[1:]
    assert (topics.cause, topics.confidence) == ("TOPICS_CHANGED", "high")
    assert topics.evidence.endswith("changed: orders-1 assigned for the first time")
    assert unknown.cause == "SAME_MEMBERS_UNKNOWN"


def test_conversions_there_and_back_are_one_history() -> None:
    history = HistoryBuilder(A, B)
    history.epoch(A, B, member("c"), at=10_000, number=2)
    history.epoch(A, at=20_000, number=3)
    history.generation(A, at=30_000, number=4)
    explained = explain(history.build(as_of=80_000))
    assert [(row.cause, row.generation) for row in explained.rebalances] == [
        ("GROUP_CREATED", 1),
        ("PROTOCOL_CHANGED", 2),
        ("LEFT_CLEANLY", 3),
        ("PROTOCOL_CHANGED", 4),
    ]
    there, back = explained.rebalances[1], explained.rebalances[3]
    consumer = "the consumer protocol (KIP-848)"
    assert there.evidence == (
        f"converted from the classic protocol (range) to {consumer}; c on 10.0.0.99 joined"
    )
    assert back.evidence == f"converted from {consumer} to the classic protocol (range)"
    assert lifecycle(history.build()).deleted_at is None


def test_the_coordinator_reports_the_cause_of_an_epoch_and_of_an_exit() -> None:
    history = HistoryBuilder()
    history.epoch(A, B, at=0, number=2)
    history.epoch(A, at=20_000, number=3)
    cause = "SESSION_TIMEOUT"
    history.event("member_expired", 20_000, B, cause=cause, session_timeout_ms="6000")
    history.event("rebalance_started", 20_000, generation=3, cause=cause, triggered_by="b-1")
    explained = explain(history.build())
    [exit_] = explained.exits
    assert (exit_.cause, exit_.confidence) == ("SESSION_TIMEOUT", "exact")
    assert exit_.session_timeout_ms == 6_000
    last = explained.rebalances[-1]
    assert (last.cause, last.confidence) == ("SESSION_TIMEOUT", "exact")


DAY = 24 * 3_600_000


def emptied_on_day_8() -> HistoryBuilder:
    """The last commit is made on day 2."""
    history = HistoryBuilder()
    history.epoch(A, at=DAY, number=2)
    history.commits(A, until=2 * DAY)
    history.epoch(at=8 * DAY, number=3)
    return history


@pytest.mark.parametrize(("retention_days", "expires_on_day"), [(7, 9), (3, 8)])
def test_offsets_of_an_empty_group_expire_after_the_last_commit(
    retention_days: int, expires_on_day: int
) -> None:
    history = emptied_on_day_8().build()._replace(offsets_retention_ms=retention_days * DAY)
    assert lifecycle(history).expires_at_est == START_MS + expires_on_day * DAY


@pytest.mark.parametrize(("on_day", "cause"), [(9, "GROUP_EXPIRED"), (8.5, "GROUP_DELETED")])
def test_a_group_expired_if_its_last_commit_is_as_old_as_the_retention(
    on_day: float, cause: str
) -> None:
    history = emptied_on_day_8()
    history.tombstone(at=int(on_day * DAY))
    last = explain(history.build()).rebalances[-1]
    assert (last.cause, last.confidence) == (cause, "high")
    age = {9: "7 d", 8.5: "6 d 12 h"}[on_day]
    assert last.evidence.startswith(f"the last commit of the empty group was {age} old;")


def status(
    consumer: ConsumerGroup, lag: int, generation: Generation | None
) -> tuple[GroupStatus, Diagnosis]:
    commits = tuple(Commit(n * 10, NOW - 5_000 * (9 - n), 0) for n in range(10))
    window = PartitionWindow("orders", 0, commits, (LogEnd("orders", 0, 0, 90 + lag, NOW),))
    now = CurrentGroup("test", "g", NOW, generation, consumer.state, consumer)
    rows = [partition_status(now, window)]
    row = group_status(now, rows, [])
    facts = GroupFacts("g", NOW, generation, row, rows, consumer=consumer)
    return row, diagnose("test", facts)


def test_without_a_topic_s_name_its_partitions_do_not_count_as_unassigned() -> None:
    other = A._replace(assigned=((unresolved("ozzQbK_eQjCij_SszOu_Aw"), 0),))
    row, diagnosis = status(STABLE, 5, HistoryBuilder().epoch(other, B, at=0, number=2))
    assert (row.state_inferred, row.members, row.protocol) == ("Stable", 2, "consumer")
    assert (row.status, row.total_lag, row.unassigned) == ("OK", 5, None)
    assert diagnosis.verdict == "HEALTHY"
    assert diagnosis.text == (
        "Group g is healthy: 2 members, lag 5. It is a consumer group (KIP-848), Stable with 2 "
        "members. Some topics are known only by their ids "
        "(id:ozzQbK_eQjCij_SszOu_Aw), so the owners of their partitions are not shown."
    )


def test_a_partition_without_an_owner_is_an_error() -> None:
    row, diagnosis = status(STABLE, 5, HistoryBuilder().epoch(B, at=0, number=2))
    assert (row.status, row.unassigned, diagnosis.verdict) == ("NO_OWNER", 1, "NO_OWNER")


@pytest.mark.parametrize("state", ["Assigning", "Reconciling"])
def test_a_partition_without_an_owner_during_a_reassignment_is_rebalancing(state: str) -> None:
    group = ConsumerGroup(state, 2)
    row, diagnosis = status(group, 5, HistoryBuilder().epoch(B, at=0, number=2))
    assert (row.status, diagnosis.verdict) == ("REBALANCING", "HEALTHY")
    assert status(group, 0, HistoryBuilder().epoch(B, at=0, number=2))[0].status == "OK"


def test_an_empty_group_with_lag_is_an_error() -> None:
    row, diagnosis = status(EMPTY, 5, HistoryBuilder().epoch(at=0, number=3))
    assert (row.state_inferred, row.members, row.unassigned) == ("Empty", 0, 1)
    assert (row.status, diagnosis.verdict, diagnosis.severity) == ("NO_OWNER", "NO_MEMBERS", 3)
    assert diagnosis.text.startswith("Group g has no members. Its lag is 5.")


def test_an_empty_group_without_lag_is_info() -> None:
    row, diagnosis = status(EMPTY, 0, HistoryBuilder().epoch(at=0, number=3))
    assert (row.status, diagnosis.verdict, diagnosis.severity) == ("OK", "NO_MEMBERS", 1)
    assert "Empty with 0 members" in diagnosis.text
