"""Builds group histories for tests of the rules.

    history = HistoryBuilder(a := member("a", 0), b := member("b", 1))
    history.commits(a, until=600_000)
    history.commits(b, until=300_000)
    history.generation(a._replace(assigned=partitions(0, 1)), at=600_000)
    [first, second] = explain(history.build()).rebalances

Times are milliseconds since START_MS; log offsets are assigned in the order of calls.
"""

from typing import Any

from kohort.pipeline.diagnosis.assignments import skews
from kohort.pipeline.diagnosis.checks import diagnose
from kohort.pipeline.diagnosis.facts import GroupFacts
from kohort.pipeline.diagnosis.group_history import (
    Activity,
    Event,
    Generation,
    GroupHistory,
    LogEnd,
    Member,
    PartitionWindow,
    Removal,
    TopicPartition,
)
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.diagnosis.rows import Diagnosis, MemberExit, Rebalance
from kohort.pipeline.diagnosis.status import CurrentGroup, group_status, partition_status, state_of
from kohort.pipeline.diagnosis.storms import storms

MINUTE = 60_000
START_MS = 1_800_000_000_000
COOPERATIVE = "cooperative-sticky"


def partitions(*numbers: int, topic: str = "orders") -> tuple[TopicPartition, ...]:
    return tuple((topic, number) for number in numbers)


def member(
    name: str,
    *numbers: int,
    instance: str | None = None,
    rebalance_ms: int = 300_000,
    session_ms: int = 45_000,
    topics: tuple[str, ...] | None = ("orders",),
    owned: tuple[TopicPartition, ...] | None = (),
    id_: str | None = None,
) -> Member:
    """A member with the client id `name`, its own host, and these partitions of `orders`."""
    return Member(
        member_id=id_ or f"{name}-1",
        instance_id=instance,
        client_id=name,
        client_host=f"/10.0.0.{sum(name.encode()) % 250}",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=session_ms,
        topics=topics,
        owned=owned,
        assigned=partitions(*numbers),
    )


class HistoryBuilder:
    """The arguments are those of the first generation, if any."""

    def __init__(self, *members: Member, **fields: Any) -> None:
        self.records: list[Generation] = []
        self.activities: list[Activity] = []
        self.removals: list[Removal] = []
        self.log_ends: list[LogEnd] = []
        self.events: list[Event] = []
        self.now = 0
        self._log_offset = 0
        self._offsets: dict[TopicPartition, int] = {}
        if members or fields:
            self.generation(*members, **fields)

    def _next_log_offset(self) -> int:
        self._log_offset += 10
        return self._log_offset

    def generation(
        self,
        *members: Member,
        at: int | None = None,
        number: int | None = None,
        protocol: str | None = "range",
        took: int = 20,
        **fields: Any,
    ) -> Generation:
        """Add a group record, by default of the next generation."""
        self.now = self.now if at is None else at
        last = self.records[-1] if self.records else None
        if number is None:
            number = 1 if last is None or last.generation is None else last.generation + 1
        record = Generation(
            log_offset=self._next_log_offset(),
            generation=number,
            protocol=protocol if members else None,
            leader=members[0].member_id if members else None,
            state_ms=START_MS + self.now,
            append_ms=START_MS + self.now + took,
            members=members,
        )._replace(**fields)
        self.records.append(record)
        return record

    def epoch(self, *members: Member, at: int, number: int, **fields: Any) -> Generation:
        """Add a row of a consumer group (KIP-848). `owned` of a member includes what it has to
        revoke."""
        members = tuple(m if m.owned else m._replace(owned=m.assigned) for m in members)
        record = self.generation(*members, at=at, number=number, took=0, leader=None)
        self.records[-1] = record._replace(protocol="consumer", **fields)
        return self.records[-1]

    def tombstone(self, at: int) -> None:
        self.now = at
        self.records.append(
            Generation(log_offset=self._next_log_offset(), tombstone=True, append_ms=START_MS + at)
        )

    def commits(
        self,
        *owners: Member,
        until: int,
        since: int | None = None,
        every: int = 5_000,
        idle: bool = False,
    ) -> None:
        """Add commits of all partitions of `owners`, one per `every`, the last one at `until`.

        `idle`: the offset does not change, as with auto commit and no records to read.
        """
        record = self.records[-1]
        begin = (record.append_ms or 0) - START_MS if since is None else since
        count = max((until - begin) // every, 0) + 1
        for topic, partition in (tp for owner in owners for tp in owner.assigned or ()):
            first = self._offsets.get((topic, partition), 100)
            last = first if idle else first + 10 * count
            self._offsets[topic, partition] = last
            last_ms = START_MS + until
            self.activities.append(
                Activity(
                    topic,
                    partition,
                    record.log_offset,
                    commits=count,
                    repeats=count if idle else 0,
                    first_commit_ms=last_ms - (count - 1) * every,
                    last_commit_ms=last_ms,
                    last_advance_ms=None if idle else last_ms,
                    last_offset=last,
                    last_log_offset=self._log_offset + 5,
                    median_gap_ms=every if count > 1 else None,
                )
            )

    def log_end(self, at: int, lag: int, *numbers: int) -> None:
        """Add a sample of partitions of `orders` that is `lag` ahead of their last commits."""
        for tp in partitions(*numbers):
            end = self._offsets.get(tp, 100) + lag
            self.log_ends.append(LogEnd(*tp, 0, end, START_MS + at))

    def samples(self, lag: int, *numbers: int, until: int, since: int = 0) -> None:
        """Add a sample of log ends every 30 seconds."""
        for at in range(since, until, 30_000):
            self.log_end(at, lag, *numbers)

    def event(self, type_: str, at: int, subject: Member | None = None, **fields: Any) -> None:
        """Add an event about `subject`; fields that an Event does not have go to `detail`."""
        detail = {key: fields.pop(key) for key in fields.keys() - {*Event._fields}}
        event = Event(START_MS + at, len(self.events) + 1, type_, detail=detail)
        if subject is not None:
            event = event._replace(member_id=subject.member_id)
        self.events.append(event._replace(**fields))

    def rebalance_events(
        self, cause: str, *subjects: Member, at: int | None = None, took: int = 3_000, **fields: Any
    ) -> None:
        """Add the events of the rebalance that led to the newest record."""
        at = LEFT_AT_MS if at is None else at
        generation = self.records[-1].generation
        ids = ",".join(subject.member_id for subject in subjects)
        reason = fields.pop("reason", f"because of {ids}")
        for type_, when, ms in (
            ("rebalance_started", at - took, None),
            ("join_completed" if self.records[-1].members else "group_emptied", at, took),
            ("sync_completed", at + 20, 20),
        ):
            self.event(
                type_,
                when,
                generation=generation,
                duration_ms=ms,
                cause=cause,
                triggered_by=ids,
                reason=reason,
                **fields,
            )

    def build(self, as_of: int | None = None) -> GroupHistory:
        return GroupHistory(
            "test",
            "payments",
            START_MS + (self.now if as_of is None else as_of),
            tuple(self.records),
            tuple(self.activities),
            tuple(self.removals),
            tuple(self.log_ends),
            tuple(self.events),
        )


# --- histories


A, B, C = member("a", 0), member("b", 1), member("billing-3", 2)
A_ALONE = A._replace(assigned=partitions(0, 1))
LEFT_AT_MS = 10 * MINUTE


def without_b(
    silence_ms: int, b: Member = B, *, lag: int | None = None, back: bool = False
) -> HistoryBuilder:
    """b leaves at LEFT_AT_MS, `silence_ms` after its last commit. `lag`: of its partition during
    the silence, if it was sampled; `back`: it rejoins with a new id in the same rebalance."""
    history = HistoryBuilder(A, b)
    history.commits(A, until=LEFT_AT_MS - 3_000)
    history.commits(b, until=LEFT_AT_MS - silence_ms)
    if lag is not None:
        history.samples(lag, 1, since=LEFT_AT_MS - silence_ms + 1, until=LEFT_AT_MS)
    if back:
        history.generation(A, b._replace(member_id="b-2"), at=LEFT_AT_MS)
    else:
        history.generation(A_ALONE, at=LEFT_AT_MS)
    return history


def slow_consumer(
    exits: int, *, protocol: str = "range", limit_ms: int = 300_000, rest_ms: int = 4 * MINUTE
) -> HistoryBuilder:
    """Three members. billing-3 repeatedly works for a minute, exceeds `limit_ms` by 40 s in one
    batch, is removed, rejoins and works for `rest_ms`."""
    a, b, c = A, B, C._replace(rebalance_timeout_ms=limit_ms)
    history = HistoryBuilder(a, b, c, protocol=protocol)
    now = 0
    for count in range(1, exits + 1):
        history.commits(a, b, until=now + MINUTE + limit_ms, since=now + 5_000)
        history.commits(c, until=now + MINUTE, since=now + 5_000)
        now += MINUTE + limit_ms + 3_000
        a_with_two = A._replace(assigned=partitions(0, 2))
        history.generation(a_with_two, B, at=now, protocol=protocol)
        history.commits(a_with_two, until=now + 37_000, since=now + 6_000)
        now += 40_000
        c = c._replace(member_id=f"billing-3-{count + 1}")
        history.generation(a, b, c, at=now, protocol=protocol)
        history.commits(a, b, c, until=now + rest_ms, since=now + 8_000)
        now += rest_ms
    history.samples(1_000, 0, 1, 2, until=now)
    history.now = now
    return history


# --- results of the rules


def last_rebalance(history: HistoryBuilder) -> Rebalance:
    return explain(history.build()).rebalances[-1]


def only_exit(history: HistoryBuilder) -> MemberExit:
    [row] = explain(history.build()).exits
    return row


def cause_and_confidence(row: Rebalance | MemberExit) -> tuple[str, str]:
    return row.cause, row.confidence


def last_cause(history: HistoryBuilder) -> tuple[str, str]:
    """Cause and confidence of the last rebalance."""
    return cause_and_confidence(last_rebalance(history))


def facts_of(
    history: HistoryBuilder | GroupHistory, *windows: PartitionWindow, as_of: int | None = None
) -> GroupFacts:
    if isinstance(history, HistoryBuilder):
        history = history.build(as_of)
    rebalances, exits = explain(history)
    record = max(history.generations, key=lambda record: record.log_offset, default=None)
    as_of_ms = history.as_of_ms
    state = state_of(record, windows, as_of_ms)
    now = CurrentGroup("test", "payments", as_of_ms, record, state)
    statuses = [partition_status(now, window) for window in windows]
    return GroupFacts(
        "payments",
        as_of_ms,
        record,
        group_status(now, statuses, rebalances),
        statuses,
        rebalances,
        exits,
        storms(rebalances, exits),
        skews(history),
        lifecycle(history),
        next((each for each in reversed(history.generations) if each.members), None),
    )


def diagnosis_of(
    history: HistoryBuilder, *windows: PartitionWindow, as_of: int | None = None
) -> Diagnosis:
    return diagnose("test", facts_of(history, *windows, as_of=as_of))
