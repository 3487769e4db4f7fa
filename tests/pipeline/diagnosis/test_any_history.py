"""Properties of the rules for arbitrary logs, samples and events."""

from itertools import pairwise
from typing import Any

from history_builder import START_MS, facts_of
from hypothesis import given
from hypothesis import strategies as st
from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis.checks import diagnose
from kohort.pipeline.diagnosis.group_history import (
    Activity,
    Commit,
    Event,
    Generation,
    GroupHistory,
    LogEnd,
    Member,
    PartitionWindow,
    Removal,
)
from kohort.pipeline.diagnosis.history_index import HistoryIndex
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.diagnosis.rows import MemberExit, Rebalance
from kohort.pipeline.diagnosis.status import WORST_FIRST

CONFIDENCES = ("low", "medium", "high", "exact")
EVENT_TYPES = (
    "join_completed",
    "group_emptied",
    "sync_completed",
    "leave_received",
    "member_expired",
    "member_join_timed_out",
    "member_sync_timed_out",
    "join_received",
    "join_rejected",
    "member_joined",
    "member_replaced",
    "commit_rejected",
    "group_created",
    "group_deleted",
    "offsets_deleted",
    "something_new",
)

times = st.integers(START_MS, START_MS + 900_000)
offsets = st.integers(0, 1_000)
ids = st.sampled_from(["a-1", "a-2", "b-1", "s-1", "s-2"])
topic_partitions = st.tuples(st.sampled_from(["orders", "refunds"]), st.integers(0, 3))
owned = st.none() | st.lists(topic_partitions, max_size=3, unique=True).map(tuple)

members = st.builds(
    lambda id_, static, timeouts, **rest: Member(
        id_, id_[0] if static else None, id_[0], "/10.0.0.1", *timeouts, **rest
    ),
    ids,
    st.booleans(),
    st.sampled_from([(300_000, 45_000), (45_000, 45_000), (-1, 30_000), (60_000, 0)]),
    topics=st.none() | st.sampled_from([("orders",), ("orders", "refunds"), ()]),
    owned=owned,
    assigned=owned,
)

generations = st.builds(
    Generation,
    log_offset=st.integers(0, 30),
    tombstone=st.sampled_from([False, False, False, True]),
    generation=st.integers(0, 6) | st.none(),
    protocol=st.sampled_from(["range", "cooperative-sticky", "consumer", None]),
    leader=ids | st.none(),
    state_ms=times | st.none(),
    append_ms=times | st.none(),
    members=st.lists(members, max_size=3, unique_by=lambda member: member.member_id).map(tuple),
    history_complete=st.booleans(),
    last_gap=st.none() | st.integers(0, 30),
).map(lambda record: record._replace(members=() if record.tombstone else record.members))


@st.composite
def activities(draw: Any) -> Activity:
    commits, first, last = draw(st.integers(1, 9)), draw(times), draw(times)
    topic, partition = draw(topic_partitions)
    return Activity(
        topic,
        partition,
        draw(st.integers(0, 30) | st.none()),
        commits,
        draw(st.integers(0, commits)),
        min(first, last),
        max(first, last),
        draw(st.none() | times),
        draw(st.none() | offsets),
        draw(st.integers(0, 40)),
        draw(st.none() | st.integers(0, 60_000)),
        draw(st.booleans()),
    )


events = st.lists(
    st.builds(
        Event,
        ts_ms=times,
        seq=st.integers(0, 99),
        type=st.sampled_from(EVENT_TYPES),
        member_id=ids | st.none(),
        generation=st.integers(0, 6) | st.none(),
        error_code=st.sampled_from([None, 22, 25, 99]),
        reason=st.sampled_from([None, "", "the consumer is being closed"]),
        duration_ms=st.integers(0, 400_000) | st.none(),
        detail=st.fixed_dictionaries(
            {},
            optional={
                "cause": st.sampled_from([*Cause.__members__, "SOMETHING_NEW"]),
                "triggered_by": st.lists(ids, max_size=2).map(",".join),
                "successor": ids,
            },
        ),
    ),
    max_size=12,
).map(tuple)

log_ends = st.lists(
    st.builds(
        lambda at, start, end, ms: LogEnd(*at, start, end, ms),
        topic_partitions,
        offsets | st.none(),
        offsets,
        times,
    ),
    max_size=8,
).map(tuple)

histories = st.builds(
    GroupHistory,
    cluster=st.just("test"),
    group=st.just("payments"),
    as_of_ms=times,
    generations=st.lists(generations, max_size=6, unique_by=lambda record: record.log_offset).map(
        tuple
    ),
    activities=st.lists(activities(), max_size=6).map(tuple),
    removals=st.lists(
        st.builds(lambda at, ms: Removal(*at, 40, ms), topic_partitions, times), max_size=3
    ).map(tuple),
    log_ends=log_ends,
    events=events,
    offsets_retention_ms=st.sampled_from([60_000, 7 * 24 * 3_600_000]),
)


@st.composite
def windows(draw: Any, history: GroupHistory) -> PartitionWindow:
    topic, partition = draw(topic_partitions)
    commits = draw(st.lists(st.builds(Commit, offsets, times, st.none() | offsets), max_size=12))
    ends = sorted(draw(log_ends), key=lambda end: end.sampled_ms)
    owners = [member for record in history.generations for member in record.members]
    owner = draw(st.sampled_from(owners)) if owners and draw(st.booleans()) else None
    return PartitionWindow(topic, partition, tuple(commits), tuple(ends), owner)


@given(histories)
def test_each_record_has_one_cause_and_each_member_that_left_one_exit(
    history: GroupHistory,
) -> None:
    explained = explain(history)
    records = HistoryIndex(history).records
    assert [row.log_offset for row in explained.rebalances] == [
        record.log_offset for record in records
    ]
    left = []
    for before, after in pairwise(records):
        stayed = {member.member_id for member in after.members}
        left += [
            (after.log_offset, m.member_id) for m in before.members if m.member_id not in stayed
        ]
    # A replaced static member is not an exit. No other exit is missing, and none is added.
    exits = [(row.log_offset, row.member_id) for row in explained.exits]
    assert set(exits) <= set(left)
    assert len(set(exits)) == len(exits)
    instances = {
        (record.log_offset, member.instance_id) for record in records for member in record.members
    }
    by_id = {member.member_id: member for record in records for member in record.members}
    for log_offset, member_id in set(left) - set(exits):
        static = any(
            m.instance_id is not None and (log_offset, m.instance_id) in instances
            for record in records
            for m in record.members
            if m.member_id == member_id
        )
        assert static, by_id[member_id]


@given(histories)
def test_rows_have_valid_values(history: GroupHistory) -> None:
    explained = explain(history)
    for row in (*explained.rebalances, *explained.exits):
        assert row.cause in Cause.__members__
        assert row.confidence in CONFIDENCES
        assert row.evidence
    for row in explained.rebalances:
        spans = (row.pause_ms, row.sync_ms, row.join_ms, row.wait_ms, row.lost_generations)
        assert all(span is None or span >= 0 for span in spans)
        assert row.stickiness is None or 0 <= row.stickiness <= 1
        assert (row.wait_ms is None) == (row.waited_for is None)


@given(histories)
def test_events_never_lower_the_confidence(history: GroupHistory) -> None:
    def rank(row: Rebalance | MemberExit) -> int:
        return CONFIDENCES.index(row.confidence)

    without, with_ = explain(history._replace(events=())), explain(history)
    for before, after in zip(without.rebalances, with_.rebalances, strict=True):
        assert rank(after) >= rank(before), (before, after)
    for exit_before, exit_after in zip(without.exits, with_.exits, strict=True):
        assert rank(exit_after) >= rank(exit_before), (exit_before, exit_after)
    assert not any(row.confidence == "exact" for row in (*without.rebalances, *without.exits))


@given(histories)
def test_split_activities_give_the_same_result(history: GroupHistory) -> None:
    def halves(activity: Activity) -> list[Activity]:
        if activity.commits < 2:
            return [activity]
        half = activity.commits // 2
        return [
            activity._replace(commits=half, repeats=min(half, activity.repeats)),
            activity._replace(
                commits=activity.commits - half,
                repeats=activity.repeats - min(half, activity.repeats),
            ),
        ]

    keys = {(a.topic, a.partition, a.generation_log_offset) for a in history.activities}
    if len(keys) == len(history.activities):
        split = tuple(half for activity in history.activities for half in halves(activity))
        assert explain(history._replace(activities=split)) == explain(history)


@given(st.data())
def test_every_group_has_a_status_and_a_diagnosis(data: Any) -> None:
    history = data.draw(histories)
    facts = facts_of(history, *data.draw(st.lists(windows(history), max_size=3)))
    assert all(row.status in WORST_FIRST for row in facts.partitions)
    assert all(row.lag is None or row.lag >= 0 for row in facts.partitions)
    assert all(storm.from_ts <= storm.to_ts and storm.rebalances >= 3 for storm in facts.storms)
    life = lifecycle(history)
    assert life.deleted_at is None or life.end_kind is not None
    row = diagnose("test", facts)
    assert 0 <= row.severity <= 3
    assert "payments" in row.text
