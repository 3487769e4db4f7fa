"""What happened since the broker of a test was created, as plain data: `kafka.history`.

The history records the requests that arrived and the events of the coordinators. Commits,
generations and exits are derived from them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile

from ..broker.security.session import ClientSession
from ..coordinator.outcome import EventType, GroupEvent
from ..coordinator.transactions.commands import TransactionEvent
from ..coordinator.transactions.states import PREPARED
from ..suggestions import SuggestsAttributes
from .generations import Generation, GroupReplay, MemberAssignment, RecordedEvent, is_exit
from .recorded_request import RecordedRequest, TopicPartition, find_api_name

# A test that runs for minutes must not fill the memory, so older entries are dropped.
REQUESTS_MAX = 100_000
EVENTS_MAX = 100_000
CLOCK_CHANGES_MAX = 10_000
FAILED_CONNECTIONS_MAX = 10_000
# The size limit for the produced records and responses of recorded requests. About five responses
# of the maximum size (Kafka's fetch.max.bytes) fit.
BYTES_MAX = 256 * 1024 * 1024

COMMIT_APIS = ("OffsetCommit", "TxnOffsetCommit")
_NO_GENERATION = -1
_PREPARED = tuple(state.text for state in PREPARED)


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change to the broker's clock by the test."""

    kind: str
    """`frozen`, `resumed` or `advanced`."""
    at_ms: int
    """The time before the change."""
    by_ms: int
    wall_s: float = 0.0
    expired: tuple[str, ...] = ()
    """The members whose sessions the change ended although their clients were connected."""


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A stop, start or crash of the broker or of a node by the test."""

    at_ms: int
    what: str
    """`crashed`, `lost power`, `restarted`, `restored`, `node 2 stopped`, `node 2 started`."""
    after: int
    """The number of the last request before the event."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FailedConnection:
    """A connection that the broker ended because of what the client sent, or whose TLS handshake
    failed."""

    at_ms: int
    listener: str
    """The name of the listener, such as `SASL_SSL`."""
    client_host: str
    client_id: str | None
    """The client id of the last request before SASL authentication; None without such a request."""
    reason: str
    """The reason, as in the broker's log."""
    wall_s: float = 0.0

    def __str__(self) -> str:
        client = "" if self.client_id is None else f" from {self.client_id}"
        return f"connection{client} to {self.listener} failed: {self.reason}"


@dataclass(frozen=True, slots=True)
class Commit:
    """An accepted commit of one partition. A commit in a transaction is accepted when the
    transaction is committed."""

    at_ms: int
    group: str
    member_id: str | None
    """None if the client is not a member of the group."""
    client_id: str | None
    """In a transaction, the client id of the member, not of the producer."""
    generation: int | None
    topic: str
    partition: int
    before: int | None
    """The previous committed offset; None if the history does not contain it."""
    offset: int
    wall_s: float = 0.0
    transactional_id: str | None = None
    """The transactional id, if the commit belongs to a transaction."""


@dataclass(frozen=True, slots=True)
class RejectedCommit:
    """A commit of one partition that got an error."""

    at_ms: int
    group: str
    member_id: str | None
    client_id: str | None
    generation: int | None
    topic: str
    partition: int
    offset: int
    error: str
    """Kafka's name for the error, such as `ILLEGAL_GENERATION`."""
    is_by_fault: bool
    """Whether a fault of the test, rather than the coordinator, rejected the commit."""
    wall_s: float = 0.0
    transactional_id: str | None = None
    """The transactional id, if the commit belongs to a transaction."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A member that left its group or was removed from it."""

    at_ms: int
    group: str
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    generation: int | None
    """The generation of the group at that time."""
    cause: str
    """`member left`, `session expired`, … (docs/events.md)."""
    reason: str | None
    """The reason given by the client (KIP-800)."""
    wall_s: float = 0.0
    is_by_test: bool = False
    """Whether the test caused the exit, by moving the clock or by a method of the group."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition of a group, with Kafka's state names."""

    at_ms: int
    group: str
    before: str | None
    """None if the group is new; `Dead` if it was loaded."""
    after: str | None
    """`Dead` if the group was deleted, or unloaded from this node."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TransactionChange:
    """A decision about a transaction. States use Kafka's names: `Ongoing`, `PrepareCommit`, …"""

    at_ms: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch after the change; a producer with an earlier epoch is fenced."""
    before: str
    after: str
    """If both states are `Ongoing`, partitions were added."""
    cause: str
    """`ended` (by the client), `timed out`, `a new producer was initialized`, `expired` (the state
    is then `Dead`, and the transactional id unknown), …"""
    partitions: tuple[TopicPartition, ...]
    """The partitions that the transaction had before the change or has after it."""
    node_id: int
    wall_s: float = 0.0
    is_by_test: bool = False
    """Whether the test caused the change, by moving the clock or by a method. For `markers
    written`, whether the test caused the end of the transaction."""


class History(SuggestsAttributes):
    """`kafka.history`: what happened since the broker was created. Each property returns a new list
    and may be read from any thread. Crashes and restarts do not clear the history; `kafka.reset()`
    does. Beyond 100,000 requests or events, or 256 MiB of records and responses, the oldest entries
    are dropped.

    Times are given by the broker's clock (`at_ms`), which a test can move, and in wall-clock
    seconds since the broker was created (`wall_s`).
    """

    def __init__(
        self, now_ms: Callable[[], int], wall: Callable[[], float] = time.monotonic
    ) -> None:
        self._now_ms = now_ms
        self._wall = wall
        self._began = wall()
        self._actions_of_test = 0
        self._requests: deque[RecordedRequest] = deque()
        self._bytes = 0
        self._events: deque[RecordedEvent] = deque(maxlen=EVENTS_MAX)
        self._transactions: deque[TransactionChange] = deque(maxlen=EVENTS_MAX)
        self._clock_changes: deque[ClockChange] = deque(maxlen=CLOCK_CHANGES_MAX)
        self._lifecycle_events: list[LifecycleEvent] = []
        self._failed_connections: deque[FailedConnection] = deque(maxlen=FAILED_CONNECTIONS_MAX)

    @property
    def wall_s(self) -> float:
        """Wall-clock seconds since the broker was created."""
        return self._wall() - self._began

    @property
    def requests(self) -> list[RecordedRequest]:
        """All requests, in order of arrival."""
        return list(self._requests)

    def has_client_since(self, wall_s: float) -> bool:
        """Whether a request other than a heartbeat has arrived, or a connection has failed, since
        this time (in wall-clock seconds since the broker was created)."""
        recent = takewhile(lambda each: each.wall_s >= wall_s, reversed(self.requests))
        return (
            # Members of an earlier test, or of a fixture, send heartbeats without being used.
            any("Heartbeat" not in each.api or each.is_join for each in recent)
            or any(each.wall_s >= wall_s for each in self.failed_connections[-1:])
        )

    def requests_after(self, number: int) -> list[RecordedRequest]:
        """Return the requests that arrived after the request with this number."""
        # A copy of the deque, because the broker appends concurrently.
        newest_first = takewhile(lambda each: each.number > number, reversed(self.requests))
        return list(newest_first)[::-1]

    def requests_of(
        self, api: str, *, group: str | None = None, client_id: str | None = None
    ) -> list[RecordedRequest]:
        """Return the requests of one API, by Kafka's name, such as `OffsetCommit`."""
        name = find_api_name(api)
        return [each for each in self.requests if matches(each, name, group, client_id)]

    @property
    def events(self) -> list[RecordedEvent]:
        """All events of the coordinators, in order."""
        return list(self._events)

    @property
    def clock_changes(self) -> list[ClockChange]:
        """All changes that the test made to the broker's clock."""
        return list(self._clock_changes)

    @property
    def lifecycle_events(self) -> list[LifecycleEvent]:
        """Stops, starts and crashes of the broker and its nodes. Requests and events from before a
        crash remain, including those that the broker lost."""
        return list(self._lifecycle_events)

    @property
    def failed_connections(self) -> list[FailedConnection]:
        """Connections whose TLS handshake failed, and connections that the broker closed because of
        what the client sent (no TLS, a wrong password)."""
        return list(self._failed_connections)

    @property
    def groups(self) -> list[str]:
        """All groups with events, sorted."""
        return sorted({each.event.group_id for each in self.events})

    def commits(self, group: str | None = None) -> list[Commit]:
        """Return all accepted commits, for one group or all groups. Commits in a transaction are
        included once the transaction is committed."""
        commits = _commits(self.events, self.requests)
        return [each for each in commits if group in (None, each.group)]

    def rejected_commits(self, group: str | None = None) -> list[RejectedCommit]:
        """Return all commits that got an error from the coordinator or a fault."""
        return [each for each in rejected_commits_in(self.requests) if group in (None, each.group)]

    def generations(self, group: str) -> list[Generation]:
        """Return the generations (or epochs) of a group with their causes, durations and
        assignments, including generations in which the group became empty."""
        return GroupReplay(self.events, self.requests, group).generations

    def assignments(self, group: str) -> list[MemberAssignment]:
        """Return the partitions that each member owned, and for how long, in chronological
        order."""
        return GroupReplay(self.events, self.requests, group).assignments

    def exits(self, group: str | None = None) -> list[Exit]:
        """Return all members that left or were removed, and why, for one group or all groups."""
        return [each for each in _exits(self.events) if group in (None, each.group)]

    def state_changes(self, group: str | None = None) -> list[StateChange]:
        """Return all state transitions, for one group or all groups."""
        return [each for each in _state_changes(self.events) if group in (None, each.group)]

    def transaction_changes(self, transactional_id: str | None = None) -> list[TransactionChange]:
        """Return all decisions about transactions, for one transactional id or all ids."""
        changes = list(self._transactions)
        return [each for each in changes if transactional_id in (None, each.transactional_id)]

    # --- on the broker's loop

    def record(self, request: RecordedRequest) -> None:
        """Record a request when it arrives, and its response when it is sent."""
        if request.response_frame is None:
            request.wall_s = self.wall_s
            self._requests.append(request)
            self._retain(request, request.records_bytes)
        else:
            request.response_wall_s = self.wall_s
            self._retain(request, len(request.response_frame))

    def _retain(self, request: RecordedRequest, size: int) -> None:
        """Add `size` to the retained bytes of a request, and drop the oldest requests beyond the
        limits."""
        if not self._requests or request.number < self._requests[0].number:
            return  # already dropped
        request.retained_bytes += size
        self._bytes += size
        while len(self._requests) > REQUESTS_MAX or (
            self._bytes > BYTES_MAX and len(self._requests) > 1
        ):
            self._bytes -= self._requests.popleft().retained_bytes

    def record_event(
        self, node_id: int, event: GroupEvent, request: RecordedRequest | None = None
    ) -> None:
        is_by_test = self._actions_of_test > 0
        self._events.append(
            RecordedEvent(self._now_ms(), node_id, event, self.wall_s, is_by_test, request)
        )

    def record_transaction(self, node_id: int, event: TransactionEvent) -> None:
        change = TransactionChange(
            at_ms=self._now_ms(),
            transactional_id=event.transactional_id,
            producer_id=event.producer_id,
            producer_epoch=event.producer_epoch,
            before=event.state_from,
            after=event.state_to,
            cause=event.cause,
            partitions=tuple(sorted(event.partitions)),
            node_id=node_id,
            wall_s=self.wall_s,
            is_by_test=self._is_by_test(event),
        )
        self._transactions.append(change)

    def _is_by_test(self, event: TransactionEvent) -> bool:
        """Whether the test caused this event. Markers are written after a decision, and count as
        caused by the test if the decision does."""
        if event.state_from in _PREPARED:
            for change in reversed(self._transactions):
                if change.transactional_id == event.transactional_id:
                    return change.is_by_test
        return self._actions_of_test > 0

    @contextmanager
    def by_test(self) -> Iterator[None]:
        """Mark events inside this context as caused by the test."""
        self._actions_of_test += 1
        try:
            yield
        finally:
            self._actions_of_test -= 1

    def record_clock_change(
        self, kind: str, since_ms: int, since_wall_s: float, expired: tuple[str, ...] = ()
    ) -> None:
        """Record that the clock was `frozen`, `resumed` or `advanced`. `since_ms` is the broker's
        time before the change."""
        by_ms = self._now_ms() - since_ms if kind == "advanced" else 0
        self._clock_changes.append(ClockChange(kind, since_ms, by_ms, since_wall_s, expired))

    def record_lifecycle_event(self, what: str) -> None:
        after = self._requests[-1].number if self._requests else 0
        self._lifecycle_events.append(LifecycleEvent(self._now_ms(), what, after, self.wall_s))

    def record_failed_connection(self, client: ClientSession, reason: str) -> None:
        host, listener = client.host.removeprefix("/"), client.listener.name
        self._failed_connections.append(
            FailedConnection(self._now_ms(), listener, host, client.client_id, reason, self.wall_s)
        )


def matches(request: RecordedRequest, api: str, group: str | None, client_id: str | None) -> bool:
    return (
        request.api == api
        and (group is None or group in request.groups)
        and (client_id is None or request.client_id == client_id)
    )


# --- derived from requests and events


def client_ids(requests: Iterable[RecordedRequest]) -> dict[str, str | None]:
    """Return the client ids of the members that sent these requests, by member id."""
    return {
        member_id: each.client_id
        for each in requests
        if (member_id := each.member_id) is not None and not each.is_by_producer
    }


def _commits(
    events: Iterable[RecordedEvent], requests: Sequence[RecordedRequest]
) -> Iterator[Commit]:
    before: dict[tuple[str, TopicPartition], int] = {}
    unsent = deque(each for each in requests if each.is_by_producer)
    clients = client_ids(requests) if unsent else {}
    # The last TxnOffsetCommit of each offset, by (producer id, group, partition, offset).
    sent: dict[tuple[int | None, str | None, TopicPartition, int], RecordedRequest] = {}
    for recorded in events:
        event = recorded.event
        if event.type is not EventType.COMMIT_ACCEPTED:
            continue
        # The event of a commit is created before the write. If the write fails, the response has an
        # error. For a transaction, the event has a producer id, and is created after the write.
        request, offsets = recorded.request, dict(event.detail)
        producer_id = offsets.pop("producer_id", None)
        failed = {} if request is None or producer_id is not None else request.partition_errors
        while producer_id is not None and unsent and unsent[0].wall_s <= recorded.wall_s:
            each = unsent.popleft()
            for item in each.offsets.items():
                sent[each.producer_id, each.group, *item] = each
        for name, offset in offsets.items():
            topic, _, index = name.rpartition("-")
            partition = topic, int(index)
            if partition in failed:
                continue
            key = event.group_id, partition
            commit = Commit(
                at_ms=recorded.at_ms,
                group=event.group_id,
                member_id=event.member_id,
                client_id=event.client_id,
                generation=event.generation,
                topic=topic,
                partition=int(index),
                before=before.get(key),
                offset=int(offset),
                wall_s=recorded.wall_s,
            )
            if producer_id is not None:
                by = sent.get((int(producer_id), event.group_id, partition, int(offset)))
                commit = _in_transaction(commit, by, clients)
            yield commit
            before[key] = int(offset)


def _in_transaction(
    commit: Commit, request: RecordedRequest | None, clients: Mapping[str, str | None]
) -> Commit:
    """Return the commit with the member and the transaction of its TxnOffsetCommit."""
    if request is None:
        return commit  # the history has dropped the request
    return replace(
        commit,
        member_id=request.member_id,
        client_id=clients.get(request.member_id or ""),
        generation=_generation(request),
        transactional_id=request.transactional_id,
    )


def _generation(request: RecordedRequest) -> int | None:
    return None if request.generation == _NO_GENERATION else request.generation


def rejected_commits_in(requests: Sequence[RecordedRequest]) -> Iterator[RejectedCommit]:
    clients: dict[str, str | None] | None = None
    for request in requests:
        if request.api not in COMMIT_APIS or not request.errors:
            continue
        client_id = request.client_id
        if request.is_by_producer:
            clients = client_ids(requests) if clients is None else clients
            client_id = clients.get(request.member_id or "")
        for (topic, partition), error in request.partition_errors.items():
            yield RejectedCommit(
                at_ms=request.at_ms,
                group=request.group or "",
                member_id=request.member_id,
                client_id=client_id,
                generation=_generation(request),
                topic=topic,
                partition=partition,
                offset=request.offsets.get((topic, partition), -1),
                error=error,
                is_by_fault=bool(request.faults),
                wall_s=request.wall_s,
                transactional_id=request.transactional_id,
            )


def _exits(events: Iterable[RecordedEvent]) -> Iterator[Exit]:
    for recorded in events:
        event = recorded.event
        if not is_exit(event):
            continue
        yield Exit(
            at_ms=recorded.at_ms,
            group=event.group_id,
            member_id=event.member_id,
            instance_id=event.instance_id,
            client_id=event.client_id,
            generation=event.generation,
            cause=str(event.cause),
            reason=event.reason,
            wall_s=recorded.wall_s,
            is_by_test=recorded.is_by_test,
        )


def _state_changes(events: Iterable[RecordedEvent]) -> Iterator[StateChange]:
    for recorded in events:
        event = recorded.event
        if event.state_from is None and event.state_to is None:
            continue
        before = None if event.state_from is None else str(event.state_from)
        after = None if event.state_to is None else str(event.state_to)
        yield StateChange(recorded.at_ms, event.group_id, before, after, recorded.wall_s)
