"""How the coordinator of one offsets partition speaks: Kafka's log lines, and events.

A log line is for people, in Kafka's words; an event is for programs (the event log, a harness). To
whoever listens an event is told when it is decided, before its records are durable.
"""

import logging
from collections.abc import Callable, Mapping, MutableMapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .states import State

if TYPE_CHECKING:
    from .group import Group

_log: Final = logging.getLogger("kohort.groups")


NO_DETAIL: Final[Mapping[str, str]] = MappingProxyType({})
# All the members of a group join at once; a NamedTuple's own __new__ is a Python function.
_new: Final = tuple.__new__


class EventType(StrEnum):
    """docs/events.md says what each tells."""

    JOIN_RECEIVED = "join_received"
    JOIN_REJECTED = "join_rejected"
    MEMBER_JOINED = "member_joined"
    LEAVE_RECEIVED = "leave_received"
    MEMBER_EXPIRED = "member_expired"
    MEMBER_JOIN_TIMED_OUT = "member_join_timed_out"
    MEMBER_SYNC_TIMED_OUT = "member_sync_timed_out"
    MEMBER_REPLACED = "member_replaced"
    MEMBER_FENCED = "member_fenced"
    REBALANCE_STARTED = "rebalance_started"
    JOIN_COMPLETED = "join_completed"
    SYNC_COMPLETED = "sync_completed"
    STATE_CHANGE = "state_change"
    COMMIT_ACCEPTED = "commit_accepted"
    COMMIT_REJECTED = "commit_rejected"
    OFFSETS_DELETED = "offsets_deleted"
    GROUP_CREATED = "group_created"
    GROUP_EMPTIED = "group_emptied"
    GROUP_DELETED = "group_deleted"
    GROUP_LOADED = "group_loaded"
    GROUP_UNLOADED = "group_unloaded"


class Why(NamedTuple):
    """What a round was opened for."""

    cause: Cause
    reason: str  # in Kafka's words, the client's own reason (KIP-800) in it
    member_ids: tuple[str, ...] = ()  # on whose account


class Event(NamedTuple):
    """Something that happened to a group. None: it has nothing to say of that."""

    type: EventType
    group_id: str
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    client_software: str | None = None
    generation: int | None = None
    state_from: State | None = None
    state_to: State | None = None
    error: ErrorCode | None = None
    reason: str | None = None
    duration_ms: int | None = None
    cause: Cause | None = None
    detail: Mapping[str, str] = NO_DETAIL


class Client(Protocol):
    """Whom an event may be about: a member, or a join that would like to be one."""

    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def client_host(self) -> str: ...
    @property
    def client_software(self) -> str | None: ...


Listener = Callable[[Event], None]
"""Called in the middle of a decision: it must be quick, and must not fail."""


class Voice(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines begin with `context`, as Kafka's do with "[GroupCoordinator id=0 …]"."""

    def __init__(self, context: str = "", listener: Listener | None = None) -> None:
        super().__init__(_log, {})
        self._prefix = f"[{context}] " if context else ""
        self._listener = listener

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return self._prefix + msg, kwargs

    def tell(
        self,
        what: EventType,
        group: "Group | str",
        client: Client | None = None,
        *,
        state_from: State | None = None,
        state_to: State | None = None,
        error: ErrorCode | None = None,
        reason: str | None = None,
        duration_ms: int | None = None,
        cause: Cause | None = None,
        detail: Mapping[str, str] = NO_DETAIL,
        **instead: Any,
    ) -> None:
        """Tell an `Event`. `instead` are fields of it, and win over what `client` and the group
        say; without a listener nothing is made of them."""
        listener = self._listener
        if listener is None:
            return
        generation = member_id = instance_id = client_id = client_host = client_software = None
        if not isinstance(group, str):
            generation, group = group.generation, group.group_id
        if client is not None:
            member_id = client.member_id or None
            instance_id = client.group_instance_id
            client_id = client.client_id
            client_host = client.client_host
            client_software = client.client_software
        event: Event = _new(
            Event,
            (
                what,
                group,
                member_id,
                instance_id,
                client_id,
                client_host,
                client_software,
                generation,
                state_from,
                state_to,
                error,
                reason,
                duration_ms,
                cause,
                detail,
            ),
        )
        listener(event._replace(**instead) if instead else event)


# For a coordinator that is on its own, as in tests: lines without a prefix, events to nobody.
UNHEARD: Final = Voice()


def listed(texts: Any) -> str:
    """Texts as Java prints a list of them."""
    return f"[{', '.join(texts)}]"
