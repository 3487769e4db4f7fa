"""All that is found of a told group, and what is said of it."""

from group_stories import MINUTE, A, B, Tale, member, parts
from kohort.pipeline.diagnosis.lifecycle import lifecycle
from kohort.pipeline.diagnosis.rebalances import account
from kohort.pipeline.diagnosis.rows import Diagnosis
from kohort.pipeline.diagnosis.skew import skews
from kohort.pipeline.diagnosis.status import group_status, partition_statuses, state_of
from kohort.pipeline.diagnosis.storms import storms
from kohort.pipeline.diagnosis.story import Window
from kohort.pipeline.diagnosis.verdict import Findings, diagnose

C = member("billing-3", 2)


def findings(tale: Tale, *windows: Window, as_of: int | None = None) -> Findings:
    story = tale.story(as_of)
    rows, gone = account(story)
    record = next(iter(reversed(story.generations)), None)
    now = story.as_of_ms
    state = state_of(record, windows, now)
    partitions = partition_statuses("test", "payments", windows, record, now, state)
    return Findings(
        "payments",
        now,
        record,
        group_status("test", "payments", record, partitions, rows, now, state),
        partitions,
        rows,
        gone,
        storms(rows, gone),
        skews(story),
        lifecycle(story),
        next((each for each in reversed(story.generations) if each.members), None),
    )


def said(tale: Tale, *windows: Window, as_of: int | None = None) -> Diagnosis:
    return diagnose("test", findings(tale, *windows, as_of=as_of))


def slow_consumer(
    outs: int, *, protocol: str = "range", limit_ms: int = 300_000, rests_ms: int = 4 * MINUTE
) -> Tale:
    """Three members, a record a second; each time billing-3 works for a minute, gets a batch that
    takes it 40 s longer than it may, is out, comes back, and works again."""
    tale = Tale()
    a, b, c = A, B, C._replace(rebalance_timeout_ms=limit_ms)
    tale.generation(a, b, c, protocol=protocol)
    now = 0
    for count in range(1, outs + 1):
        for each in (a, b):
            tale.commits(each, until=now + MINUTE + limit_ms, since=now + 5_000)
        tale.commits(c, until=now + MINUTE, since=now + 5_000)
        now += MINUTE + limit_ms + 3_000
        tale.generation(A._replace(assigned=parts(0, 2)), B, at=now, protocol=protocol)
        tale.commits(A._replace(assigned=parts(0, 2)), until=now + 37_000, since=now + 6_000)
        now += 40_000
        c = c._replace(member_id=f"billing-3-{count + 1}")
        tale.generation(a, b, c, at=now, protocol=protocol)
        for each in (a, b, c):
            tale.commits(each, until=now + rests_ms, since=now + 8_000)
        now += rests_ms
    for at in range(0, now, 30_000):
        tale.log_end(at, 1_000, 0, 1, 2)
    tale.now = now
    return tale
