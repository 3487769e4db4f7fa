"""Controls a group, so that a test need not rely on chance: rebalances it, removes members, holds
the join or sync phase open, and keeps its coordinator loading.

Forced rebalances and removals go through the coordinator, which returns records, events and
responses as usual.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Self

from ..coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from ..coordinator.coordinator import Coordinator
from ..coordinator.outcome import NOTHING, Outcome
from ..protocol.errors import ErrorCode
from ..suggestions import SuggestsAttributes
from ..topics.names import OFFSETS_TOPIC
from .explanation.explanation import explain_group
from .group_view import Member, context_of, coordinator_of, node_of, view_of
from .interceptor import InterceptedRequest
from .lifecycle import BrokerHost
from .loop_thread import TIMEOUT_SECONDS, iterations, timed_out
from .recorded_request import RecordedRequest

# Kafka's admin client puts this before the caller's reason.
_REMOVED_BY_ADMIN = "member was removed by an admin: "


class Hold(SuggestsAttributes):
    """Holds a group's requests to one API, and all later requests on their connections. The
    coordinator receives them after `release`. Session timeouts continue to run. `with
    group.hold_syncs() as held:` releases the requests on exit."""

    def __init__(self, host: BrokerHost, api: str, group_id: str) -> None:
        self._host = host
        self._api, self._group_id = api, group_id
        self._held: list[InterceptedRequest] = []
        self._interception = host.interception
        host.call(lambda: self._interception.hooks.append(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def requests(self) -> list[RecordedRequest]:
        """The held requests of clients that are still connected."""
        return [each.record for each in list(self._held) if not each.is_disconnected]

    def wait(self, count: int = 1, timeout: float = TIMEOUT_SECONDS) -> list[RecordedRequest]:
        """Wait until `count` requests are held, and return them."""
        if not self._host.wait_until(lambda: len(self.requests) >= count, timeout):
            explanation = self._host.call(
                partial(explain_group, self._host, self._group_id, verbose=True)
            )
            what = f"{count} × {self._api} of group {self._group_id}: {len(self.requests)} arrived"
            protocols = self._host.call(self._protocols)
            if self._api != "ConsumerGroupHeartbeat" and protocols == {"consumer"}:
                what += " (all members use the consumer protocol: use group.hold_heartbeats())"
            elif self._api == "ConsumerGroupHeartbeat" and protocols == {"classic"}:
                what += " (all members use the classic protocol: use hold_joins() or hold_syncs())"
            elif not self.requests and " is Stable " in explanation:
                what += " (a hold starts no rebalance: group.rebalance() does)"
            raise timed_out(timeout, what, explanation)
        return self.requests

    def release(self) -> None:
        """Stop holding requests, and pass on the held ones in order of arrival."""

        def release() -> None:
            if self in self._interception.hooks:
                self._interception.hooks.remove(self)
            requests, self._held = self._held, []
            for request in requests:
                request.record.is_held = False
                request.resume()

        self._host.call(release)

    # --- on the broker's loop

    def _protocols(self) -> set[str]:
        view = view_of(self._host.broker, self._group_id)
        return set() if view is None else {each.protocol for each in view.members}

    def wants(self, api: str) -> bool:
        return api == self._api

    def intercept(self, request: InterceptedRequest) -> bool:
        record = request.record
        if record.api != self._api or self._group_id not in record.groups:
            return False
        if self._api == "JoinGroup" and _only_gets_member_id(record):
            return False
        request.hold()
        record.is_held = True
        self._held.append(request)
        # Another hook may have delayed the request after its arrival.
        self._host.changes.notify()
        return True


def _only_gets_member_id(join: RecordedRequest) -> bool:
    """Whether this is the first JoinGroup of a dynamic member, which gets MEMBER_ID_REQUIRED
    (KIP-394)."""
    return join.member_id is None and join.instance_id is None and join.version >= 4


class AssignmentHold:
    """Holds back the target assignment of a consumer group (KIP-848) until `release`. Members can
    still join and leave, which increases the group epoch, but members keep their partitions. `with
    group.hold_assignment():` releases it on exit. The hold also ends when the coordinator loads its
    log again."""

    def __init__(self, host: BrokerHost, group_id: str) -> None:
        self._host = host
        self._group_id = group_id
        host.change_topics(lambda: host.broker.node.topics.ensure_coordinator_topic(OFFSETS_TOPIC))
        host.run(self._hold())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_active(self) -> bool:
        """Whether the hold is still in effect."""

        def is_held() -> bool:
            coordinator = coordinator_of(self._host.broker, self._group_id)
            return coordinator is not None and self._group_id in coordinator.held_assignments

        return self._host.call(is_held)

    def release(self) -> None:
        """Let the next heartbeat of a member compute the assignment."""

        def release() -> None:
            self._set(is_held=False)
            self._host.fake_members.send_heartbeats()

        self._host.call(release)

    async def _hold(self) -> None:
        """Hold back the assignment. Raises BarrierTimeout if the coordinator does not become
        active."""
        coordinators = node_of(self._host.broker, self._group_id).coordinators
        if context_of(self._host.broker, self._group_id) is None:
            # Otherwise, a coordinator without data is loaded only by a client's first request.
            coordinators.load([coordinators.partition_of(self._group_id)])
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not self._set(is_held=True):
                    await iterations(1)  # meanwhile, the coordinator loads its log
        except TimeoutError:
            what = f"the coordinator of group {self._group_id} to become active"
            explanation = explain_group(self._host, self._group_id)
            raise timed_out(TIMEOUT_SECONDS, what, explanation) from None

    def _set(self, *, is_held: bool) -> bool:
        def decide(coordinator: Coordinator, _now_ms: int) -> Outcome:
            coordinator.hold_assignment(self._group_id, is_held=is_held)
            return NOTHING

        coordinators = node_of(self._host.broker, self._group_id).coordinators
        return coordinators.carry_out(self._group_id, decide)


class Loading:
    """Keeps the coordinator of a group loading until `finish`. Requests get
    COORDINATOR_LOAD_IN_PROGRESS. `with group.loading():` calls `finish` on exit."""

    def __init__(self, host: BrokerHost, group_id: str) -> None:
        self._host = host
        self._group_id = group_id
        self._is_finished = False
        # Until the topic exists, it is unknown which node will run the coordinator.
        host.change_topics(lambda: host.broker.node.topics.ensure_coordinator_topic(OFFSETS_TOPIC))
        host.call(self._begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    @property
    def is_active(self) -> bool:
        """Whether the coordinator is kept loading. False once the coordinator has moved to another
        node or the broker has restarted."""

        def is_active() -> bool:
            groups = node_of(self._host.broker, self._group_id).coordinators
            return not self._is_finished and groups.on_log_read is self._gate

        return self._host.call(is_active)

    def finish(self) -> None:
        """Allow the coordinator to become active."""

        def finish() -> None:
            if not self._is_finished:
                self._is_finished = True
                self._gate.open(self._partition)

        self._host.call(finish)

    def _begin(self) -> None:
        groups = node_of(self._host.broker, self._group_id).coordinators
        gate = groups.on_log_read
        if not isinstance(gate, _LoadingGate):
            gate = groups.on_log_read = _LoadingGate()
        self._gate, self._partition = gate, groups.partition_of(self._group_id)
        gate.close(self._partition)
        groups.unload(self._partition)
        groups.load([self._partition])


def is_kept_loading(host: BrokerHost, group_id: str) -> bool:
    """Whether a `Loading` affects the group. Runs on the broker's loop."""
    groups = node_of(host.broker, group_id).coordinators
    gate = groups.on_log_read
    return isinstance(gate, _LoadingGate) and gate.is_closed(groups.partition_of(group_id))


class _LoadingGate:
    """Delays the activation of partitions. The node calls the gate after it has read a partition.
    Several `Loading` objects may share a gate, even for the same partition, and finish in any
    order."""

    def __init__(self) -> None:
        self._closed = Counter[int]()
        self._waiting: dict[int, list[Callable[[], None]]] = {}

    def __call__(self, partition: int, activate: Callable[[], None]) -> None:
        if self.is_closed(partition):
            self._waiting.setdefault(partition, []).append(activate)
        else:
            activate()

    def is_closed(self, partition: int) -> bool:
        return self._closed[partition] > 0

    def close(self, partition: int) -> None:
        self._closed[partition] += 1

    def open(self, partition: int) -> None:
        self._closed[partition] -= 1
        if not self._closed[partition]:
            for activate in self._waiting.pop(partition, ()):
                activate()


def evict(host: BrokerHost, group_id: str, member: Member, reason: str) -> None:
    """Remove a member as an admin client does. Raises ValueError if the request is rejected."""
    leaving = LeavingMember(member.member_id, member.instance_id, _REMOVED_BY_ADMIN + reason)
    command = LeaveGroup(group_id, (leaving,))

    async def submit() -> LeaveResult:
        reply: asyncio.Future[LeaveResult] = asyncio.get_running_loop().create_future()
        with host.history.by_test():
            groups = node_of(host.broker, group_id).coordinators
            groups.submit(command, lambda _context, left: reply.set_result(left), None)
            return await reply

    left = host.run(submit())
    errors = {left.error_code, *(each.error_code for each in left.members)} - {ErrorCode.none}
    if errors:
        raise ValueError(f"Cannot evict {member.member_id}: {errors.pop().name.upper()}")


class FastEviction:
    """Expires the session of a member as soon as its connection is lost, for tests of how the other
    members react. By default, the broker waits for the session timeout, as Kafka does."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self._watched: set[tuple[int, str, str]] = set()

    def wants(self, api: str) -> bool:
        return api in ("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat")

    def intercept(self, request: InterceptedRequest) -> bool:
        """Record the members' connections, and pass on all requests."""
        record = request.record
        if self.wants(record.api) and record.member_id and record.group:
            key = id(request.connection), record.group, record.member_id
            if record.api == "ConsumerGroupHeartbeat" and (record.generation or 0) < 0:
                self._watched.discard(key)  # the member leaves
            elif key not in self._watched:
                self._watched.add(key)
                request.connection.on_lost.append(partial(self._lost, key))
        return False

    def _lost(self, key: tuple[int, str, str]) -> None:
        if key not in self._watched:
            return
        self._watched.discard(key)
        if self._host.is_stopping:
            return
        _, group_id, member_id = key

        with self._host.history.by_test():
            node_of(self._host.broker, group_id).coordinators.carry_out(
                group_id,
                lambda coordinator, now_ms: coordinator.expire_session(group_id, member_id, now_ms),
            )
