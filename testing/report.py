"""What a failed test is told of its broker: the story of each group, and what came last."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..coordinator.outcome import EventType, GroupEvent
from .asked import Asked, TopicPartition
from .folding import folded
from .happened import ClockMove, Heard

if TYPE_CHECKING:
    from .history import History
    from .kafka import Kafka

# So many lines of the past end a report: two screens, some five rounds of a small group.
LINES_MAX = 80
# Longer ones wrap on a terminal; what is cut off is a path of numbers, or a client's reason.
LINE_CHARACTERS_MAX = 180
# Stories of more groups are not told: a test that has so many looks at one of them.
GROUPS_MAX = 10
# An answer that took longer than this waited for something: a round, a fault.
SLOW_ANSWER_SECONDS = 0.05

# Of the UUID that ends a member id its first part tells members apart.
_UUID = re.compile(r"-([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# What every client asks all the time; told only where something was wrong with it.
ROUTINE = frozenset(
    {"ApiVersions", "Fetch", "FindCoordinator", "ListOffsets", "Metadata", "Produce"}
)
# Told by the request itself, or twice.
_UNTOLD_EVENTS = frozenset(
    {
        EventType.COMMIT_ACCEPTED,
        EventType.COMMIT_REJECTED,
        EventType.JOIN_RECEIVED,
        EventType.GROUP_LOADED,
        EventType.STATE_CHANGE,
        EventType.SYNC_COMPLETED,
    }
)


def report(kafka: "Kafka", since_s: float = 0) -> str:
    """Several lines; "" for a broker that nobody has asked for anything but its routine. One that
    the test has stopped, or that could not start again, has its past only. What happened is told
    from `since_s` on, in seconds since the broker was made."""
    groups = kafka.groups[:GROUPS_MAX] if kafka.broker.is_running else []
    stories = [group.story() for group in groups]
    lines = timeline(kafka.history, since_s)
    if found := [each for each in kafka.doctor.findings if each.wall_s >= since_s]:
        stories.append("\n".join(["the doctor says", *(f"  {each}" for each in found)]))
    if not lines:
        return "\n\n".join(stories)
    omitted = len(lines) - LINES_MAX
    heading = "what happened (seconds since the broker of this test was started)"
    before = [f"  … {omitted} lines before"] if omitted > 0 else []
    return "\n\n".join([*stories, "\n".join([heading, *before, *lines[-LINES_MAX:]])])


def timeline(history: "History", since_s: float = 0) -> list[str]:
    """Events, requests and what was done to the clock, in their order; the same of the same client
    one after the other is one line, and so are heartbeats of several."""
    told = (each for each in _merged(history) if each[0] >= since_s)
    return [_cut(f"{each.first:9.3f}  {each}") for each in folded(told)]


def _cut(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS_MAX else f"{line[: LINE_CHARACTERS_MAX - 1]}…"


def _merged(history: "History") -> Iterator[tuple[float, str]]:
    entries: list[tuple[float, str]] = [
        *((each.wall_s, text) for each in history.requests if (text := of_request(each))),
        *((each.wall_s, text) for each in history.events if (text := of_event(each))),
        *((each.wall_s, of_assignments(each)) for each in history.requests if each.assignments),
        *((each.wall_s, of_move(each)) for each in history.clock_moves),
        *((each.wall_s, f"  ~ {each.what}") for each in history.marks),
    ]
    entries.sort(key=lambda entry: entry[0])
    yield from ((wall_s, short(text)) for wall_s, text in entries)


def short(text: str) -> str:
    """With the first part of each UUID in it alone."""
    return _UUID.sub(r"-\1", text)


def of_request(asked: Asked) -> str:
    """One line; "" for routine that went well."""
    if asked.api in ROUTINE and not asked.faults and not asked.errors:
        return ""
    offsets = _listed(f"{topic}-{index} at {at}" for (topic, index), at in asked.offsets.items())
    faults = "".join(f" [fault: {each}]" for each in asked.faults)
    taken = ""
    if asked.answered_wall_s is not None:
        seconds = asked.answered_wall_s - asked.wall_s
        taken = f" after {seconds:.3f} s" if seconds > SLOW_ANSWER_SECONDS else ""
    return f"{asked}{taken}{f' ({offsets})' if offsets else ''}{faults}"


def of_event(heard: Heard) -> str:
    """One line, beginning with the group; "" for what its request tells."""
    event = heard.event
    if event.type in _UNTOLD_EVENTS:
        return ""
    return f"  = {event.group_id}: {_what(event)}"


def _what(event: GroupEvent) -> str:
    who = event.member_id or event.instance_id or ""
    name = event.type.replace("_", " ")
    if event.type is EventType.REBALANCE_STARTED:
        return f"rebalance started: {event.cause}{f' ({who})' if who else ''}"
    if event.type is EventType.JOIN_COMPLETED:
        members = event.detail.get("members")
        counted = f"{members} member{'' if members == '1' else 's'}"
        return (
            f"generation {event.generation} of {counted} after {event.duration_ms} ms: "
            f"{event.cause}"
        )
    if event.type is EventType.GROUP_EMPTIED:
        return f"empty in generation {event.generation}: {event.cause}"
    said = [str(each) for each in (event.cause, event.reason) if each]
    error = [] if event.error is None else [event.error.name.upper()]
    return " ".join(
        filter(None, (name, who, f"({', '.join(said + error)})" if said + error else ""))
    )


def of_assignments(sync: Asked) -> str:
    given = "; ".join(f"{who}: {places(what)}" for who, what in sync.assignments.items())
    return f"  = {sync.group}: the leader gives {given}"


def places(partitions: Iterable[TopicPartition]) -> str:
    """`orders-0, orders-1`"""
    return _listed(f"{topic}-{index}" for topic, index in partitions) or "nothing"


def of_move(move: ClockMove) -> str:
    return f"  ~ the clock was {move.what}{f' by {duration(move.by_ms)}' if move.by_ms else ''}"


def duration(ms: int) -> str:
    """`5 min`, `7 days`, `1.5 s`: of the largest unit that it has one of."""
    units = (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    for unit, size in units:
        if ms >= size:
            return f"{ms / size:.4g} {unit}"
    return f"{ms} ms"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)
