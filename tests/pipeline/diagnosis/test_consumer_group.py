"""Consumer groups (KIP-848), from records written by Kafka 4.3."""

import pytest
from history_builder import A, B, HistoryBuilder
from kohort.pipeline.diagnosis.checks import diagnose
from kohort.pipeline.diagnosis.consumer_group import ConsumerGroup, consumer_group
from kohort.pipeline.diagnosis.facts import GroupFacts
from kohort.pipeline.diagnosis.group_history import Commit, LogEnd, PartitionWindow
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.diagnosis.rows import Diagnosis, GroupStatus
from kohort.pipeline.diagnosis.status import group_status, partition_statuses
from offset_logs import RECORDS, newest

NOW = 1_000_000
STABLE, EMPTY = ConsumerGroup("Stable", 2), ConsumerGroup("Empty", 0)


@pytest.mark.parametrize(
    ("group", "until_ms", "expected"),
    [
        ("kip-g", 1795315435484, ConsumerGroup("Stable", 1)),
        (
            "kip-g",
            1795315435908,
            ConsumerGroup("Assigning", 2),
        ),  # epoch 3, target assignment of epoch 2
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


def test_the_recorded_records_have_all_types() -> None:
    assert {record.type for record in RECORDS} == {1, 2, 3, 5, 6, 8}


# --- rules


def converted() -> HistoryBuilder:
    history = HistoryBuilder()
    history.generation(A, B)
    history.commits(A, until=60_000)
    history.commits(B, until=60_000)
    history.converted(at=70_000)
    return history


def test_a_converted_group_is_not_deleted_and_has_no_exits() -> None:
    history = converted().build(as_of=80_000)
    explained = explain(history)
    last = explained.rebalances[-1]
    assert (last.cause, last.confidence, last.is_rebalance) == ("PROTOCOL_CHANGED", "high", False)
    assert (last.members_before, last.members_after) == (2, 2)
    assert "consumer protocol (KIP-848)" in last.evidence
    assert explained.exits == []
    life = lifecycle(history)
    assert (life.deleted_at, life.end_kind, life.emptied_at) == (None, None, None)


def test_a_group_converted_back_to_classic_is_created() -> None:
    history = converted()
    history.generation(A, at=90_000, number=1)
    last = explain(history.build(as_of=100_000)).rebalances[-1]
    assert (last.cause, last.is_rebalance) == ("GROUP_CREATED", False)
    assert last.evidence.startswith(
        "converted back from the consumer protocol (KIP-848); first members: a"
    )


def status(consumer: ConsumerGroup, lag: int) -> tuple[GroupStatus, Diagnosis]:
    commits = tuple(Commit(n * 10, NOW - 5_000 * (9 - n), 0) for n in range(10))
    window = PartitionWindow("orders", 0, commits, (LogEnd("orders", 0, 0, 90 + lag, NOW),))
    rows = partition_statuses("test", "g", [window], None, NOW, consumer.state, consumer)
    row = group_status("test", "g", None, rows, [], NOW, consumer.state, consumer)
    facts = GroupFacts("g", NOW, None, row, rows, consumer=consumer)
    return row, diagnose("test", facts)


def test_a_group_with_members_is_healthy_and_its_owners_are_unknown() -> None:
    row, diagnosis = status(STABLE, 5)
    assert (row.state_inferred, row.members, row.protocol) == ("Stable", 2, "consumer")
    assert (row.status, row.total_lag) == ("OK", 5)
    assert (row.unassigned, row.rebalances_1h, row.pause_share_1h) == (None, None, None)
    assert diagnosis.verdict == "HEALTHY"
    assert diagnosis.text == (
        "Group g is healthy: 2 members, lag 5. It is a consumer group (KIP-848), Stable with 2 "
        "members: rebalances and partition owners of such groups are not analyzed."
    )


def test_an_empty_group_with_lag_is_an_error() -> None:
    row, diagnosis = status(EMPTY, 5)
    assert (row.state_inferred, row.members, row.unassigned) == ("Empty", 0, 1)
    assert (row.status, diagnosis.verdict, diagnosis.severity) == ("NO_OWNER", "NO_MEMBERS", 3)
    assert diagnosis.advice == ("Start its consumers.",)  # exits are unknown
    assert diagnosis.text.startswith("Group g: the group has no members. Its lag is 5.")


def test_an_empty_group_without_lag_is_info() -> None:
    row, diagnosis = status(EMPTY, 0)
    assert (row.status, diagnosis.verdict, diagnosis.severity) == ("OK", "NO_MEMBERS", 1)
    assert "Empty with 0 members" in diagnosis.text
