"""Tales of groups, told record by record, for tests of what is made of them.

    tale = Tale()
    tale.generation(a := member("a", 0), b := member("b", 1))
    tale.commits(a, until=600_000)
    tale.commits(b, until=300_000)
    tale.generation(a._replace(assigned=parts(0, 1)), at=600_000)
    [first, second] = rebalances(tale.story())

Times are milliseconds since the tale began; the log's offsets count by themselves.
"""

from typing import Any

from kohort.pipeline.diagnosis.rebalances import exits, rebalances
from kohort.pipeline.diagnosis.rows import MemberExit, Rebalance
from kohort.pipeline.diagnosis.story import (
    Activity,
    Event,
    Generation,
    LogEnd,
    Member,
    Removal,
    Story,
    TopicPartition,
)

MINUTE = 60_000
START_MS = 1_800_000_000_000


def parts(*numbers: int, topic: str = "orders") -> tuple[TopicPartition, ...]:
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
    """Of the client `name`, each on a host of its own, with these partitions of `orders`."""
    return Member(
        member_id=id_ or f"{name}-1",
        instance_id=instance,
        client_id=name,
        client_host=f"/10.0.0.{sum(name.encode()) % 250}",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=session_ms,
        topics=topics,
        owned=owned,
        assigned=parts(*numbers),
    )


class Tale:
    def __init__(self) -> None:
        self.records: list[Generation] = []
        self.activities: list[Activity] = []
        self.removals: list[Removal] = []
        self.log_ends: list[LogEnd] = []
        self.events: list[Event] = []
        self.now = 0
        self._log_offset = 0
        self._offsets: dict[TopicPartition, int] = {}

    def _next(self) -> int:
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
        """A record, of the next generation if no number is given; the first one is the first."""
        self.now = self.now if at is None else at
        last = next((r for r in reversed(self.records)), None)
        if number is None:
            number = 1 if last is None or last.generation is None else last.generation + 1
        record = Generation(
            log_offset=self._next(),
            generation=number,
            protocol_type="consumer",
            protocol=protocol if members else None,
            leader=members[0].member_id if members else None,
            state_ms=START_MS + self.now,
            append_ms=START_MS + self.now + took,
            members=members,
        )._replace(**fields)
        self.records.append(record)
        return record

    def tombstone(self, at: int) -> None:
        self.now = at
        self.records.append(
            Generation(log_offset=self._next(), tombstone=True, append_ms=START_MS + at)
        )

    def converted(self, at: int) -> None:
        """To the consumer protocol."""
        self.tombstone(at)
        self.records[-1] = self.records[-1]._replace(converted=True)

    def commits(
        self,
        who: Member,
        until: int,
        *,
        since: int | None = None,
        every: int = 5_000,
        idle: bool = False,
    ) -> None:
        """Of all its partitions, each `every`, the last one at `until`; of `idle` ones the same
        offset again and again, as Java's auto commit does."""
        record = self.records[-1]
        begin = (record.append_ms or 0) - START_MS if since is None else since
        count = max((until - begin) // every, 0) + 1
        for topic, partition in who.assigned or ():
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
                    first_offset=first + 10,
                    last_offset=last,
                    last_log_offset=self._log_offset + 5,
                    median_gap_ms=every if count > 1 else None,
                )
            )

    def log_end(self, at: int, ahead: int, *numbers: int) -> None:
        """A sample of partitions of `orders`, this far ahead of what is committed so far."""
        for at_ in parts(*numbers):
            end = self._offsets.get(at_, 100) + ahead
            self.log_ends.append(LogEnd(*at_, 0, end, START_MS + at))

    def event(self, type_: str, at: int, about: Member | None = None, **fields: Any) -> None:
        """`cause`, `triggered_by` and the like stand in `detail`."""
        detail = {
            key: fields.pop(key) for key in ("cause", "triggered_by", "successor") if key in fields
        }
        event = Event(START_MS + at, len(self.events) + 1, type_, detail=detail)
        if about is not None:
            event = event._replace(
                member_id=about.member_id,
                instance_id=about.instance_id,
                client_id=about.client_id,
                client_host=about.client_host,
            )
        self.events.append(event._replace(**fields))

    def story(self, as_of: int | None = None) -> Story:
        return Story(
            "test",
            "payments",
            START_MS + (self.now if as_of is None else as_of),
            tuple(self.records),
            tuple(self.activities),
            tuple(self.removals),
            tuple(self.log_ends),
            tuple(self.events),
        )


A, B = member("a", 0), member("b", 1)
A_ALONE = A._replace(assigned=parts(0, 1))
WAS_AT_MS = 10 * MINUTE


def without_b(
    silence_ms: int, b: Member = B, *, ahead: int | None = None, back: bool = False
) -> Tale:
    """b is out at ten minutes, `silence_ms` after its last commit; `ahead`: so many records lay in
    its partition meanwhile, where samples were taken."""
    tale = Tale()
    tale.generation(A, b)
    tale.commits(A, until=WAS_AT_MS - 3_000)
    tale.commits(b, until=WAS_AT_MS - silence_ms)
    if ahead is not None:
        for at in range(WAS_AT_MS - silence_ms, WAS_AT_MS, 30_000):
            tale.log_end(at + 1, ahead, 1)
    if back:
        tale.generation(A, b._replace(member_id="b-2"), at=WAS_AT_MS)
    else:
        tale.generation(A_ALONE, at=WAS_AT_MS)
    return tale


def last(tale: Tale) -> Rebalance:
    return rebalances(tale.story())[-1]


def told(tale: Tale) -> tuple[str, str]:
    row = last(tale)
    return row.cause, row.confidence


def round_of(
    tale: Tale, cause: str, *about: Member, at: int = WAS_AT_MS, took: int = 3_000, **fields: object
) -> None:
    """The events of the round that led to the newest record."""
    generation = tale.records[-1].generation
    ids = ",".join(member.member_id for member in about)
    reason = fields.pop("reason", f"because of {ids}")
    for type_, when, ms in (
        ("rebalance_started", at - took, None),
        ("join_completed" if tale.records[-1].members else "group_emptied", at, took),
        ("sync_completed", at + 20, 20),
    ):
        tale.event(
            type_,
            when,
            generation=generation,
            duration_ms=ms,
            cause=cause,
            triggered_by=ids,
            reason=reason,
            **fields,
        )


def exact(row: Rebalance | MemberExit) -> tuple[str, str]:
    return row.cause, row.confidence


def one_exit(tale: Tale) -> MemberExit:
    [row] = exits(tale.story())
    return row
