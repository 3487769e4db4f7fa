"""What a decision of the coordinator returns: records, replies, events and queries as data.

The runtime appends and applies the records, publishes the events, sends the replies once the
records are durable, and runs the queries. Events report decisions, so they are published before
the records are durable.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from ..offsets.causes import Cause
from ..offsets.records import OffsetsRecord
from ..protocol.errors import ErrorCode
from .commands import Result

# Creates a NamedTuple faster than its __new__, which is a Python function.
make: Final = tuple.__new__

NO_DETAIL: Final[Mapping[str, str]] = MappingProxyType({})
DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40  # the levels of logging, which is not imported here


class EventType(StrEnum):
    """The type of an event. docs/events.md describes each type and its fields."""

    JOIN_RECEIVED = "join_received"
    JOIN_REJECTED = "join_rejected"
    MEMBER_JOINED = "member_joined"
    LEAVE_RECEIVED = "leave_received"
    MEMBER_EXPIRED = "member_expired"
    MEMBER_JOIN_TIMED_OUT = "member_join_timed_out"
    MEMBER_SYNC_TIMED_OUT = "member_sync_timed_out"
    MEMBER_REVOCATION_TIMED_OUT = "member_revocation_timed_out"
    MEMBER_REPLACED = "member_replaced"
    MEMBER_FENCED = "member_fenced"
    REBALANCE_STARTED = "rebalance_started"
    JOIN_COMPLETED = "join_completed"
    SYNC_COMPLETED = "sync_completed"
    ASSIGNMENT_CHANGED = "assignment_changed"
    STATE_CHANGE = "state_change"
    COMMIT_ACCEPTED = "commit_accepted"
    COMMIT_REJECTED = "commit_rejected"
    OFFSETS_DELETED = "offsets_deleted"
    GROUP_CREATED = "group_created"
    GROUP_CONVERTED = "group_converted"
    GROUP_EMPTIED = "group_emptied"
    GROUP_DELETED = "group_deleted"
    GROUP_LOADED = "group_loaded"
    GROUP_UNLOADED = "group_unloaded"
    TRANSACTION_CHANGED = "transaction_changed"


class GroupEvent(NamedTuple):
    """A change to a group. Fields that do not apply are None."""

    type: EventType
    group_id: str
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    client_software: str | None = None
    generation: int | None = None
    state_from: str | None = None
    state_to: str | None = None
    error: ErrorCode | None = None
    reason: str | None = None
    duration_ms: int | None = None
    cause: Cause | None = None
    detail: Mapping[str, str] = NO_DETAIL


class LogLine(NamedTuple):
    """A line for the broker's log, in Kafka's wording. `message % arguments` is the text."""

    level: int
    message: str
    arguments: tuple[object, ...]


Event: TypeAlias = GroupEvent | LogLine

Reply: TypeAlias = tuple[int, Result]
"""A ticket and the result of its command: a plain tuple, because every request creates one."""


RegexMatcher: TypeAlias = Callable[
    [], Generator[Callable[[], object] | None, None, Mapping[str, tuple[str, ...]]]
]
"""Starts a task (log/tasks.py) that returns the sorted names of the topics that match each regular
expression (none for an invalid expression). The task may take seconds."""


class RegexQuery(NamedTuple):
    """A request for the topics that match the regular expressions of a group. The result is passed
    to Coordinator.regexes_matched."""

    group_id: str
    topics_version: int
    match: RegexMatcher


class Outcome(NamedTuple):
    """Records to append and apply, replies to send once the records are durable, events to publish,
    and queries to run."""

    records: tuple[OffsetsRecord, ...]
    replies: tuple[Reply, ...]
    events: tuple[Event, ...] = ()
    queries: tuple[RegexQuery, ...] = ()


NOTHING: Final = Outcome((), ())


def reply(ticket: int, result: Result, events: tuple[Event, ...] = ()) -> Outcome:
    """Return the outcome that replies to one ticket and writes nothing."""
    outcome: Outcome = make(Outcome, ((), ((ticket, result),), events, ()))
    return outcome


def format_java_list(texts: Iterable[str]) -> str:
    """Format strings the way Java prints a list."""
    return f"[{', '.join(texts)}]"
