"""The history as lines of text in chronological order, for the report of a failed test.

Successful routine requests are omitted, and equal lines are merged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Generic, TypeVar

from ...coordinator.outcome import EventType, GroupEvent
from ..generations import RecordedEvent
from ..history import ClockChange, Commit, History, TransactionChange, client_ids
from ..recorded_request import RecordedRequest, TopicPartition

T = TypeVar("T")

# Longer lines, which wrap in a terminal, are cut off. Most end in a list of partitions or a reason.
LINE_LENGTH_MAX = 180
# A response that took longer was delayed, for example by a rebalance or a fault.
SLOW_RESPONSE_SECONDS = 0.05

# The UUID at the end of a member id, whose first part suffices to distinguish members.
_UUID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Durations, as format_duration prints them.
_DURATION = re.compile(r"\b[\d.]+(e\+\d+)? (days|h|min|s|ms)\b")

# Requests of these APIs are shown only if they have an error or a fault.
ROUTINE_APIS = frozenset(
    {
        *("ApiVersions", "Fetch", "FindCoordinator", "ListOffsets", "Metadata", "Produce"),
        *("AddPartitionsToTxn", "AddOffsetsToTxn"),  # the transaction's lines show them
    }
)
# Events whose information is also in their requests or in other events.
_REDUNDANT_EVENTS = frozenset(
    {
        EventType.COMMIT_ACCEPTED,
        EventType.COMMIT_REJECTED,
        EventType.JOIN_RECEIVED,
        EventType.GROUP_LOADED,
        EventType.STATE_CHANGE,
        EventType.SYNC_COMPLETED,
    }
)


def timeline(history: History, since_s: float = 0) -> list[str]:
    """Return requests, events, failed connections, and the test's changes to the clock and the
    broker, one per line, from `since_s` on (in seconds since the broker was created). Consecutive
    equal lines of one client are merged, even if they alternate with other clients' lines for the
    same API."""
    entries = (each for each in _entries(history) if each[0] >= since_s)
    return [_truncate(f"{line.first:9.3f}  {line}") for line in deduplicate(entries)]


def _truncate(line: str) -> str:
    return line if len(line) <= LINE_LENGTH_MAX else f"{line[: LINE_LENGTH_MAX - 1]}…"


def _entries(history: History) -> Iterator[tuple[float, str]]:
    requests = history.requests
    names = member_names(requests)
    entries: list[tuple[float, str]] = [
        *((each.wall_s, text) for each in requests if (text := format_request(each))),
        *((each.wall_s, text) for each in history.events if (text := format_event(each, names))),
        *((each.wall_s, format_transaction(each)) for each in history.transaction_changes()),
        *((each.wall_s, _format_assignments(each)) for each in requests if each.assignments),
        *_format_transactional_commits(history.commits()),
        *(
            (each.wall_s, f"  ~ {format_clock_change(each, names)}")
            for each in history.clock_changes
        ),
        *((each.wall_s, f"  ~ {each.what}") for each in history.lifecycle_events),
        *((each.wall_s, f"  ! {each}") for each in history.failed_connections),
    ]
    entries.sort(key=lambda entry: entry[0])
    yield from ((wall_s, shorten_ids(text)) for wall_s, text in entries)


# --- merging equal lines


@dataclass(slots=True)
class RepeatedLine(Generic[T]):
    """A line, with the first and last of the items that it represents."""

    text: str
    first: T
    last: T
    count: int = 1

    def __str__(self) -> str:
        return f"{self.text} × {self.count}" if self.count > 1 else self.text


def deduplicate(items: Iterable[tuple[T, str]]) -> list[RepeatedLine[T]]:
    """Merge lines with the same text, in order. Only lines of the same API (the first word) may be
    between them, so the heartbeats of three members become three lines. Indented lines, which are
    not requests, are merged only with their neighbors."""
    lines: list[RepeatedLine[T]] = []
    current: dict[str, RepeatedLine[T]] = {}
    kind = ""
    for item, text in items:
        this_kind = text if text.startswith(" ") else text.partition(" ")[0]
        if this_kind != kind:
            current, kind = {}, this_kind
        if (line := current.get(text)) is not None:
            line.last, line.count = item, line.count + 1
        else:
            current[text] = RepeatedLine(text, item, item)
            lines.append(current[text])
    return lines


# --- formatting


def shorten_ids(text: str) -> str:
    """Shorten each UUID to its first part."""
    return _UUID.sub(r"\1", text)


def format_request(request: RecordedRequest) -> str:
    """Return one line; "" for a successful routine request."""
    if request.api in ROUTINE_APIS and not request.faults and not request.errors:
        return ""
    offsets = ", ".join(
        f"{topic}-{index} at {offset}" for (topic, index), offset in request.offsets.items()
    )
    faults = "".join(f" [fault: {each}]" for each in request.faults)
    duration = ""
    if request.response_wall_s is not None:
        seconds = request.response_wall_s - request.wall_s
        duration = f" after {seconds:.3f} s" if seconds > SLOW_RESPONSE_SECONDS else ""
    return f"{request}{duration}{f' ({offsets})' if offsets else ''}{faults}"


def format_event(recorded: RecordedEvent, names: Mapping[str, str]) -> str:
    """Return one line that begins with the group; "" for a redundant event. `names` is the result
    of `member_names`."""
    event = recorded.event
    if event.type in _REDUNDANT_EVENTS:
        return ""
    return f"  = {event.group_id}: {_describe(event, names)}"


def _describe(event: GroupEvent, names: Mapping[str, str]) -> str:
    member_id = event.member_id or ""
    member = names.get(member_id, member_id) or event.instance_id or ""
    if event.type is EventType.REBALANCE_STARTED:
        return f"rebalance started: {event.cause}{f' ({member})' if member else ''}"
    if event.type is EventType.JOIN_COMPLETED:
        count = event.detail.get("members")
        members = f"{count} member{'' if count == '1' else 's'}"
        return (
            f"generation {event.generation} with {members} after {event.duration_ms} ms: "
            f"{event.cause}"
        )
    if event.type is EventType.ASSIGNMENT_CHANGED:
        return _describe_assignment(event, member)
    if event.type is EventType.GROUP_CONVERTED:
        return f"converted to a {event.detail.get('type')} group"
    if event.type is EventType.GROUP_EMPTIED:
        return f"empty in generation {event.generation}: {event.cause}"
    what = event.type.replace("_", " ")
    details = [str(each) for each in (event.cause, event.reason) if each and each != what]
    details += [] if event.error is None else [event.error.name.upper()]
    in_parentheses = f"({', '.join(details)})" if details else ""
    return " ".join(filter(None, (what, member, in_parentheses)))


def _describe_assignment(event: GroupEvent, member: str) -> str:
    """Return text such as `app-1 owns orders-0 in epoch 5, has to revoke orders-1`."""
    detail = event.detail
    owned, revoking = (
        ", ".join(sorted(filter(None, detail.get(name, "").split(","))))
        for name in ("assigned", "revoking")
    )
    text = f"{member} owns {owned or 'nothing'} in epoch {detail.get('member_epoch')}"
    text += f", has to revoke {revoking}" if revoking else ""
    is_waiting = detail.get("state") == "unreleased_partitions"
    return f"{text}, waits for other members' partitions" if is_waiting else text


def _format_assignments(sync: RecordedRequest) -> str:
    assigned = "; ".join(
        f"{member}: {join_partitions(partitions)}"
        for member, partitions in sync.assignments.items()
    )
    return f"  = {sync.group}: the leader assigns {assigned}"


def _format_transactional_commits(commits: Iterable[Commit]) -> Iterator[tuple[float, str]]:
    """Yield the time and the line of each commit in a transaction. Other commits appear in the
    lines of their requests."""
    of_transactions = (each for each in commits if each.transactional_id is not None)
    for (wall_s, group, name), same in groupby(
        of_transactions, key=lambda each: (each.wall_s, each.group, each.transactional_id)
    ):
        offsets = ", ".join(f"{each.topic}-{each.partition} at {each.offset}" for each in same)
        yield wall_s, f"  = {group}: {offsets} committed in transaction {name}"


def name_member(member_id: str, client_id: str | None) -> str:
    """Return `app-1-3f0c…` for a member id that begins with the client id, as in the classic
    protocol, and otherwise `app-1 (member id 3f0c…)`."""
    if not client_id or member_id.startswith(f"{client_id}-"):
        return member_id
    return f"{client_id} (member id {member_id})"


def member_names(requests: Iterable[RecordedRequest]) -> dict[str, str]:
    """Return the names of the members that sent these requests, by member id. TxnOffsetCommit is
    ignored, because its client id is the producer's."""
    return {
        member_id: name_member(member_id, client_id)
        for member_id, client_id in client_ids(requests).items()
    }


def format_transaction(change: TransactionChange) -> str:
    """Return a line such as `  = billing-1: PrepareCommit in epoch 3 (ended): orders-0`."""
    partitions = f": {join_partitions(change.partitions)}" if change.partitions else ""
    state = f"{change.after} in epoch {change.producer_epoch}"
    return f"  = {change.transactional_id}: {state} ({change.cause}){partitions}"


def join_partitions(partitions: Iterable[TopicPartition]) -> str:
    """Return text such as `orders-0, orders-1`; `nothing` if there are no partitions."""
    return ", ".join(f"{topic}-{index}" for topic, index in partitions) or "nothing"


def format_clock_change(change: ClockChange, names: Mapping[str, str]) -> str:
    text = f"clock {change.kind}{f' by {format_duration(change.by_ms)}' if change.by_ms else ''}"
    if not change.expired:
        return text
    return (
        f"{text}, past the session timeout of "
        f"{', '.join(names.get(each, each) for each in change.expired)}, whose client is "
        "connected: clock.advance_with_heartbeats(…) keeps sessions alive"
    )


def is_shown(sentence: str, text: str) -> bool:
    """Whether the text contains the sentence, even with other durations (`open for 12 s`)."""
    return _DURATION.sub("", sentence) in _DURATION.sub("", text)


def format_duration(ms: int) -> str:
    """Return the duration in the largest unit in which it is at least 1: `5 min`, `1.5 s`."""
    units = (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    for unit, size in units:
        if ms >= size:
            return f"{ms / size:.4g} {unit}"
    return f"{ms} ms"
