"""Groups of the consumer protocol (KIP-848), by records of a real Kafka 4.3."""

import pytest
from group_stories import A, B, Tale
from kohort.pipeline.diagnosis.complaints import Findings
from kohort.pipeline.diagnosis.consumers import ConsumerGroup, consumer_group
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import account
from kohort.pipeline.diagnosis.rows import Diagnosis, GroupStatus
from kohort.pipeline.diagnosis.status import group_status, partition_statuses
from kohort.pipeline.diagnosis.story import Commit, LogEnd, Window
from kohort.pipeline.diagnosis.verdict import diagnose
from real_consumer_groups import RECORDS, newest

NOW = 1_000_000
STABLE, EMPTY = ConsumerGroup("Stable", 2), ConsumerGroup("Empty", 0)


@pytest.mark.parametrize(
    ("group", "until_ms", "told"),
    [
        ("kip-g", 1795315435484, ConsumerGroup("Stable", 1)),
        ("kip-g", 1795315435908, ConsumerGroup("Assigning", 2)),  # epoch 3, its target is of 2
        ("kip-g", 1795315440534, ConsumerGroup("Reconciling", 2)),  # one has to revoke
        ("kip-g", 1795315440566, ConsumerGroup("Reconciling", 2)),  # the other has to follow
        ("kip-g", 1795315440915, ConsumerGroup("Stable", 2)),
        ("kip-g", 1795315515577, ConsumerGroup("Assigning", 1)),
        ("kip-g", 1795315515934, ConsumerGroup("Empty", 0)),
        ("up-g", 1795315436042, None),  # of the classic protocol still
        ("up-g", 1795315443101, ConsumerGroup("Reconciling", 2)),  # one member of each protocol
        ("up-g", 1795315449170, ConsumerGroup("Reconciling", 2)),
        ("up-g", 1795315453125, ConsumerGroup("Stable", 2)),
        ("new-h", 1795315455162, ConsumerGroup("Empty", 0)),
    ],
)
def test_a_group_is_as_its_records_say(
    group: str, until_ms: int, told: ConsumerGroup | None
) -> None:
    assert consumer_group(newest(group, until_ms)) == told


def test_a_group_whose_epoch_is_forgotten_is_none() -> None:
    forgotten = [(key, None if key[1] == 3 else value) for key, value in newest("up-g")]
    assert consumer_group(forgotten) is None
    assert consumer_group([]) is None


@pytest.mark.parametrize("kind", [3, 6, 8])
def test_members_are_counted_where_values_cannot_be_read(kind: int) -> None:
    later = [(key, b"\x00\x63" if key[1] == kind else value) for key, value in newest("up-g")]
    assert consumer_group([*later, (b"\x00\x05\x00", b"")]) == ConsumerGroup("Unknown", 2)


def test_records_of_every_type_that_tells_of_a_group_are_among_these() -> None:
    assert {record.type for record in RECORDS} == {1, 2, 3, 5, 6, 8}


# --- rules


def converted() -> Tale:
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=60_000)
    tale.commits(B, until=60_000)
    tale.converted(at=70_000)
    return tale


def test_a_group_that_is_converted_is_not_deleted_and_nobody_left_it() -> None:
    story = converted().story(as_of=80_000)
    told = account(story)
    last = told.rebalances[-1]
    assert (last.cause, last.confidence, last.is_rebalance) == ("PROTOCOL_CHANGED", "high", False)
    assert (last.members_before, last.members_after) == (2, 2)
    assert "consumer protocol (KIP-848)" in last.evidence
    assert told.exits == []
    life = lifecycle(story)
    assert (life.deleted_at, life.end_kind, life.emptied_at) == (None, None, None)


def test_a_group_that_comes_back_to_the_classic_protocol_begins_anew() -> None:
    tale = converted()
    tale.generation(A, at=90_000, number=1)
    last = account(tale.story(as_of=100_000)).rebalances[-1]
    assert (last.cause, last.is_rebalance) == ("GROUP_CREATED", False)
    assert last.evidence.startswith("back from the consumer protocol (KIP-848); first members: a")


def status(consumer: ConsumerGroup, lag: int) -> tuple[GroupStatus, Diagnosis]:
    commits = tuple(Commit(n * 10, NOW - 5_000 * (9 - n), 0) for n in range(10))
    window = Window("orders", 0, commits, (LogEnd("orders", 0, 0, 90 + lag, NOW),))
    rows = partition_statuses("test", "g", [window], None, NOW, consumer.state, consumer)
    row = group_status("test", "g", None, rows, [], NOW, consumer.state, consumer)
    known = Findings("g", NOW, None, row, rows, consumer=consumer)
    return row, diagnose("test", known)


def test_a_group_with_members_reads_and_its_owners_are_not_known() -> None:
    row, said = status(STABLE, 5)
    assert (row.state_inferred, row.members, row.protocol) == ("Stable", 2, "consumer")
    assert (row.status, row.total_lag) == ("OK", 5)
    assert (row.unassigned, row.rebalances_1h, row.pause_share_1h) == (None, None, None)
    assert said.verdict == "HEALTHY"
    assert said.text == (
        "Group g reads well: 2 members, lag 5. It is a group of the consumer protocol (KIP-848), "
        "Stable with 2 members: its rebalances are not told yet, nor who owns which partition."
    )


def test_records_wait_in_a_group_whose_members_are_gone() -> None:
    row, said = status(EMPTY, 5)
    assert (row.state_inferred, row.members, row.unassigned) == ("Empty", 0, 1)
    assert (row.status, said.verdict, said.severity) == ("NO_OWNER", "NO_MEMBERS", 3)
    assert said.advice == ("Start its consumers.",)  # of exits nothing is told
    assert "The group has had no members, and 5 records wait." in said.text.replace(
        "Group g: the", "The"
    )


def test_nothing_waits_in_a_group_whose_members_are_gone() -> None:
    row, said = status(EMPTY, 0)
    assert (row.status, said.verdict, said.severity) == ("OK", "NO_MEMBERS", 1)
    assert "Empty with 0 members" in said.text
