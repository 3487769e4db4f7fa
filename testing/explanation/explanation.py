"""Explains in sentences what a group is waiting for: `group.explain()`, and the message of every
wait that times out."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ...coordinator.consumer.group import LEAVE_STATIC_EPOCH
from ...offsets.causes import Cause
from ...suggestions import did_you_mean
from ..group_view import (
    ClassicView,
    ConsumerView,
    Member,
    Timers,
    connected_members,
    context_of,
    coordinator_of,
    unavailable,
    view_of,
)
from ..lifecycle import BrokerHost
from ..recorded_request import RecordedRequest
from ..timeline.timeline import deduplicate, format_duration, name_member
from .classic import ClassicExplanation
from .consumer import ConsumerExplanation
from .hints import hints, no_client
from .lag import lag
from .transactions import pending_commits

# The number of requests in an explanation: two or three rebalances of a small group. Older requests
# without a response are shown as well, because the group may be waiting for one of them.
LAST_REQUESTS = 12
# Members that expired earlier have probably been replaced by others.
EXPIRED_MAX = 3
# After these errors a client may rejoin with another member id.
_RESETS_MEMBER_ID = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"})


def explain_group(host: BrokerHost, group_id: str, *, verbose: bool = False) -> str:
    """Describe in a few sentences what the group is waiting for, and how the test is involved. If
    `verbose`, the members, their timers and the last requests follow. Runs on the broker's loop."""
    return _Explanation(host, group_id, verbose=verbose).text()


class _Explanation:
    def __init__(self, host: BrokerHost, group_id: str, *, verbose: bool) -> None:
        self._host = host
        self._group_id = group_id
        self._is_verbose = verbose
        self._requests = [each for each in host.history.requests if group_id in each.groups]
        self._unavailable = unavailable(host.broker, group_id)
        self._view = None if self._unavailable else view_of(host.broker, group_id)
        coordinator = coordinator_of(host.broker, group_id)
        self._has_offsets = coordinator is not None and coordinator.offsets.has_group(group_id)
        self._state: ClassicExplanation | ConsumerExplanation | None = None
        if coordinator is None or self._view is None:
            return
        self._timers = Timers(coordinator, group_id, host.clock.now_ms())
        if isinstance(self._view, ClassicView):
            self._state = ClassicExplanation(self._view, self._timers)
        else:
            is_held = group_id in coordinator.held_assignments
            self._state = self._explain_consumer_group(self._view, is_held=is_held)

    def _explain_consumer_group(self, view: ConsumerView, *, is_held: bool) -> ConsumerExplanation:
        config = self._host.broker.node.configs.consumer_group(self._group_id)
        last = {each.member_id: each for each in self._requests if _is_answered_heartbeat(each)}
        fenced = {each for each, last_of in last.items() if "FENCED_MEMBER_EPOCH" in last_of.errors}
        return ConsumerExplanation(
            view, self._timers, config.assignment_interval_ms, fenced, is_held=is_held
        )

    def text(self) -> str:
        is_open = self._host.interception.open_connections
        held = Counter(
            each.api for each in self._requests if each.is_held and each.connection in is_open
        )
        sentences = [self._no_group() if self._state is None else self._state.state()]
        sentences += [
            f"The test holds {count} × {api} of this group." for api, count in held.items()
        ]
        sentences += self._lag()
        sentences += self._abandoned_members()
        sentences += self._expired_members()
        sentences += self._clients_without_members()
        sentences += (
            f"The client of {each.name} has disconnected without leaving the group. Its session "
            f"expires in {self._timers.session_left(each.member_id)}."
            for each in self._disconnected()
        )
        sentences += pending_commits(self._host, self._group_id)
        sentences += no_client(self._host) if self._is_verbose else ()
        sentences += hints(self._host, self._view, self._group_id)
        summary = " ".join(sentences)
        return "\n".join([summary, *self._details()]) if self._is_verbose else summary

    def _no_group(self) -> str:
        if self._unavailable is not None:
            return self._unavailable
        name = f"Group {self._group_id}"
        if self._has_offsets:
            return f"{name} is Empty: it has committed offsets, but no members."
        others = {each for request in self._host.history.requests for each in request.groups}
        similar = did_you_mean(self._group_id, others - {self._group_id})
        why = ": it has neither members nor committed offsets."
        return f"{name} does not exist{similar or why}"

    def _lag(self) -> Iterator[str]:
        """Describe the lag, unless the group is rebalancing."""
        is_rebalancing = self._view is not None and self._view.members and not self._view.is_settled
        context = context_of(self._host.broker, self._group_id)
        if context is not None and not self._unavailable and not is_rebalancing:
            yield from lag(self._host, self._group_id, context.offsets, self._requests)

    def _disconnected(self) -> list[Member]:
        """Return the members, other than fake members, whose client has no open connection."""
        if self._view is None:
            return []
        connected = {each.member_id for each in connected_members(self._host)}
        fake = self._host.fake_members.client_ids
        return [
            each
            for each in self._view.members
            if each.member_id not in connected
            and each.client_id not in fake
            and each.epoch != LEAVE_STATIC_EPOCH
        ]

    def _abandoned_members(self) -> Iterator[str]:
        """Describe members whose client has rejoined with another id because of a fault of the
        test. The coordinator waits for the old ids until their sessions expire."""
        rejected = {
            each.member_id: (each, error)
            for each in self._requests
            if each.faults and each.member_id
            for error in each.errors
            if error in _RESETS_MEMBER_ID
        }
        for member in () if self._view is None else self._view.members:
            member_id = member.member_id
            request, error = rejected.get(member_id, (None, ""))
            if request is not None and self._has_rejoined(request):
                yield (
                    f"A fault of this test answered {member.name} with {error}, and its client has "
                    f'rejoined with another member id: group.expire("{member_id}") or '
                    "clock.advance(…) ends the old session."
                )

    def _expired_members(self) -> Iterator[str]:
        """Describe members whose sessions have expired and that have sent no request since."""
        members = () if self._view is None else self._view.members
        current = {each.client_id for each in members}
        now_ms = self._host.clock.now_ms()
        last = {each.member_id: each for each in self._requests}
        exits = {each.client_id: each for each in self._host.history.exits(self._group_id)}
        expired = [each for each in exits.values() if each.cause == Cause.SESSION_TIMEOUT]
        for each in expired[-EXPIRED_MAX:]:
            request = last.get(each.member_id)
            if each.client_id in current or request is None or request.at_ms > each.at_ms:
                continue
            yield (
                f"The session of {name_member(each.member_id or '', each.client_id)} expired "
                f"{format_duration(now_ms - each.at_ms)} ago, "
                f"{format_duration(each.at_ms - request.at_ms)} after its last request "
                f"({request.api})."
            )

    def _clients_without_members(self) -> Iterator[str]:
        """Describe clients that use the offsets of a group without members, but do not join it."""
        if self._view is not None and self._view.members:
            return
        joined = {each.client_id for each in self._requests if each.is_join}
        clients = {
            each.client_id: each.api
            for each in self._requests
            if each.api in ("OffsetCommit", "OffsetFetch") and not each.member_id
        }
        for client_id, api in clients.items():
            if client_id not in joined:
                yield (
                    f"Client {client_id} has sent {api}, but has not joined the group. Consumers "
                    "with assign() and admin clients never become members: wait for their "
                    "commits instead (wait_committed)."
                )

    def _has_rejoined(self, rejected: RecordedRequest) -> bool:
        """Whether the client has since rejoined and no longer uses the rejected member id."""
        has_rejoined = False
        for each in self._requests:
            if each.number <= rejected.number:
                continue
            if each.member_id == rejected.member_id:
                has_rejoined = False
            elif each.is_join and each.connection == rejected.connection:
                has_rejoined = True
        return has_rejoined

    def _details(self) -> Iterator[str]:
        yield from (f"  {line}" for line in (() if self._state is None else self._state.details()))
        yield "  last requests:" if self._requests else "  no request has mentioned this group"
        yield from (f"    {line}" for line in _last_requests(self._requests, self._host))


def _is_answered_heartbeat(request: RecordedRequest) -> bool:
    """Whether the request is a ConsumerGroupHeartbeat with a response, other than a rejected
    join."""
    if request.api != "ConsumerGroupHeartbeat" or request.response_frame is None:
        return False
    return not (request.is_join and request.errors)


def _last_requests(requests: Sequence[RecordedRequest], host: BrokerHost) -> Iterator[str]:
    wall_s = host.history.wall_s

    def ago(request: RecordedRequest) -> str:
        # In wall-clock time, because the broker's clock may be frozen or advanced by hours.
        return f"{request.wall_s - wall_s:+.3f} s"

    lines = deduplicate((each, str(each)) for each in requests)
    older, last = lines[:-LAST_REQUESTS], lines[-LAST_REQUESTS:]
    waiting = [each for each in older if each.last.response_frame is None]
    for line in (*waiting[-LAST_REQUESTS:], *last):
        until = f", the last one {ago(line.last)}" if line.count > 1 else ""
        yield f"{ago(line.first)}  {line}{until}"
