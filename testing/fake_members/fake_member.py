"""`kafka.fake_member(…)`: a scripted member of a group, and the collection of all fake members."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any, Final, Literal, TypeAlias, TypeVar

from ...assignors.model import Assignor
from ...assignors.resolve import resolve, to_assignor
from ...coordinator.outcome import EventType, GroupEvent
from ...protocol.errors import ErrorCode
from ...suggestions import SuggestsAttributes
from ..explanation.explanation import explain_group
from ..faults.faults import Faults
from ..group_control import is_kept_loading
from ..group_view import coordinator_of
from ..lifecycle import BrokerHost
from ..loop_thread import CALL_TIMEOUT_SECONDS, TIMEOUT_SECONDS, iterations, timed_out
from ..recorded_request import RecordedRequest, TopicPartition
from ..timeline.timeline import join_partitions
from .client import ErrorResponse, Identity, RequestError
from .consumer_member import ConsumerMember
from .member import GroupMember
from .roles import ConnectWorker, Consumer, Role

T = TypeVar("T")

Strategy: TypeAlias = str | Assignor | type[Assignor]
"""An assignor, or its name (kohort.assignors.resolve)."""
DEFAULT_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The assignors for a group without members. By default, each client library supports at least one
of them."""
SESSION_TIMEOUT_MS: Final = 45_000
"""The default session.timeout.ms of Java's consumer."""
ProtocolType: TypeAlias = Literal["consumer", "connect"]
GroupProtocol: TypeAlias = Literal["classic", "consumer"]

# Events that the response to the next heartbeat reports to every member of the group.
_CONCERN_ALL: Final = {
    EventType.REBALANCE_STARTED,
    EventType.ASSIGNMENT_CHANGED,
    EventType.GROUP_CONVERTED,
    EventType.GROUP_LOADED,
    EventType.GROUP_DELETED,
}
# Events that the response to the next heartbeat reports only to the named member.
_CONCERN_ONE: Final = {
    EventType.LEAVE_RECEIVED,
    EventType.MEMBER_EXPIRED,
    EventType.MEMBER_SYNC_TIMED_OUT,
    EventType.MEMBER_REVOCATION_TIMED_OUT,
    EventType.MEMBER_REPLACED,
}


class FakeMemberRejected(AssertionError):
    """The coordinator rejected a fake member. The message contains the error and the state of the
    group."""

    __module__ = "kohort.testing"  # the module that users import and test reports show


class FakeMember(SuggestsAttributes):
    """`kafka.fake_member("billing", topics=["orders"])`: a member without a process.

    It behaves like a client that reacts immediately: it joins, computes the assignment if it is the
    leader, rejoins when the group rebalances, finds a coordinator that has moved, and keeps its
    session alive while the broker's clock runs or is advanced. Its methods make it deviate from
    this behavior.
    """

    def __init__(self, host: BrokerHost, member: GroupMember) -> None:
        self._host = host
        self._member = member
        self.client_id = member.identity.client_id
        self.instance_id = member.identity.instance_id

    # --- state, read when nothing is in progress

    @property
    def owned(self) -> list[TopicPartition]:
        """The partitions that the member believes it owns, sorted. For a Connect worker,
        (connector, task) pairs instead; task -1 is the connector itself."""
        return self._read(lambda: sorted(self._member.role.owned))

    @property
    def generation(self) -> int:
        """The last generation that the member joined, or its member epoch; -1 before it joins."""
        return self._read(lambda: self._member.generation)

    @property
    def member_id(self) -> str:
        """The member id. In the classic protocol, it is "" before the first join, and after an
        error that reported the member's removal."""
        return self._read(lambda: self._member.member_id)

    @property
    def errors(self) -> list[RequestError]:
        """All errors that the member received, such as `("Heartbeat", "REBALANCE_IN_PROGRESS")`,
        except MEMBER_ID_REQUIRED, which is a normal step of a join."""
        return self._read(lambda: list(self._member.client.errors))

    def wait_owned(
        self,
        partitions: int | Collection[TopicPartition] | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> list[TopicPartition]:
        """Wait until the member owns this number of partitions, exactly these partitions, or (None)
        any partition. Return the owned partitions. Raises BarrierTimeout, exceptions of the
        assignor, and fatal errors."""
        member, role = self._member, self._member.role
        owned: list[TopicPartition] = []

        def is_owned() -> bool:
            if member.failure is not None:
                return True
            # A copy, because the next rebalance may begin at any time.
            owned[:] = role.owned
            if partitions is None:
                return bool(owned)
            if isinstance(partitions, int):
                return len(owned) == partitions
            return sorted(owned) == sorted(partitions)

        if not self._host.wait_until(is_owned, timeout):
            wanted = "any partition" if partitions is None else partitions
            if isinstance(partitions, int):
                wanted = f"{partitions} partition{'' if partitions == 1 else 's'}"
            what = f"{self} to own {wanted}"
            raise timed_out(timeout, what, _explain(self._host, member))
        if member.failure is not None:
            raise member.failure
        return sorted(owned)

    # --- actions

    def subscribe(self, topics: Iterable[str]) -> None:
        """Change the subscription and rejoin."""
        role = self._member.role
        if not isinstance(role, Consumer):
            raise TypeError("A Connect worker has no subscription")
        names = tuple(topics)

        def subscribe() -> None:
            role.topics = names
            self._member.rejoin()

        self._do(subscribe)

    def commit(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        generation: int | None = None,
        member_id: str | None = None,
    ) -> str | None:
        """Commit an offset, by default with the member's own generation and id. Return None, or the
        name of the error, such as `ILLEGAL_GENERATION`."""
        if not self._member.exists:
            raise RuntimeError(f"{self} has left or was killed and cannot commit")
        return self._host.run(self._member.commit(topic, partition, offset, generation, member_id))

    def stop_polling(self) -> None:
        """Stop rejoining, like a consumer that does not poll. The member still sends heartbeats and
        keeps its partitions. In the consumer protocol, the member revokes no partitions, and does
        not rejoin after its removal."""
        self._do(lambda: setattr(self._member, "is_polling", False))

    def resume_polling(self) -> None:
        """Undo `stop_polling`. The member rejoins immediately if necessary."""

        def resume() -> None:
            self._member.is_polling = True
            self._member.wake()

        self._do(resume)

    def suspend(self) -> None:
        """Stop sending requests, like a stopped process. The member becomes a zombie when its
        session expires. `commit` still works."""
        self._do(self._member.suspend)

    def resume(self) -> None:
        """Undo `suspend`. The member continues in its last state until an error reports its
        removal."""

        def resume() -> None:
            if self._member.exists:
                self._member.wake()
                self._member.run()

        self._do(resume)

    def kill(self) -> None:
        """Close the connection without leaving the group, like a killed process."""
        self._do(self._member.kill)

    def leave(self, reason: str | None = None) -> None:
        """Leave the group permanently, even as a static member, and end the member."""
        self._do(lambda: self._member.leave(reason))

    def restart(self) -> None:
        """Kill the member and join as a new process. A dynamic member becomes a new member. A
        static member replaces its old member id; in the consumer protocol, this is possible only
        after `close`, and the join otherwise gets UNRELEASED_INSTANCE_ID."""
        self._do(self._member.restart)

    def close(self) -> None:
        """Shut down like a consumer that is closed. A dynamic member leaves the group; a static
        member of the consumer protocol leaves temporarily, and `restart` brings it back."""
        self._do(self._member.close)

    def __str__(self) -> str:
        return f"fake member {self.client_id} of group {self._member.identity.group_id}"

    def __repr__(self) -> str:
        # Not on the broker's loop, which may be stopped when a debugger calls this method.
        member = self._member
        state = f"{_state_of(member)}, generation {member.generation}"
        return f"<{self}: {state}, owns {join_partitions(sorted(member.role.owned))}>"

    def _read(self, read: Callable[[], T]) -> T:
        async def when_idle() -> T:
            await self._host.wait_until_idle()
            return read()

        return self._host.run(when_idle())

    def _do(self, action: Callable[[], Awaitable[None] | None]) -> None:
        """Run an action, and wait until groups and history show the broker's reaction."""

        async def do() -> None:
            if (awaitable := action()) is not None:
                await awaitable
            await self._host.wait_until_idle()

        self._host.run(do())


def _state_of(member: GroupMember) -> str:
    if not member.exists:
        return "ended"
    if not member.is_running:
        return "suspended"
    return "running" if member.is_polling else "not polling"


class FakeMembers:
    """All fake members of a broker: the InProcessClients of its host."""

    def __init__(
        self, host: BrokerHost, faults: Faults[Any], member_type: type[FakeMember] = FakeMember
    ) -> None:
        self._host = host
        self._faults = faults
        self._member_type = member_type
        self._members: list[GroupMember] = []
        self.client_ids: set[str | None] = set()
        """Client ids of all fake members so far, which the client checks ignore."""
        self._numbers = count(1)
        self._topics_version = 0
        # Cached, because `resolve` scans all installed packages, which takes milliseconds.
        self._find = cache(resolve)

    def new_client_id(self) -> str:
        return f"fake-member-{next(self._numbers)}"

    def create(
        self,
        who: Identity,
        topics: Iterable[str],
        assignor: Strategy | Iterable[Strategy] | None,
        protocol: GroupProtocol,
        protocol_type: ProtocolType,
        connectors: Mapping[str, int] | None,
    ) -> GroupMember:
        """Create a member that has not joined yet. See `Kafka.fake_member`."""
        host = self._host
        if who.rebalance_timeout_ms < 1:
            raise ValueError(
                f"rebalance_timeout_ms must be at least 1, not {who.rebalance_timeout_ms}"
            )
        if protocol == "consumer":
            member = self._consumer_member(who, topics, assignor)
            if protocol_type != "consumer" or connectors is not None:
                raise ValueError("Connect workers use the classic protocol: omit protocol=…")
            return member
        if protocol != "classic":
            raise ValueError(f"protocol must be classic or consumer, not {protocol!r}")
        role: Role
        if protocol_type == "consumer":
            if connectors is not None:
                raise ValueError('connectors are for protocol_type="connect"')
            if assignor is None:
                assignor = host.call(lambda: self._default_assignors(who.group_id))
            role = Consumer(self._assignors(assignor), _topic_list(topics))
        elif protocol_type == "connect":
            if connectors is None or list(topics):
                raise ValueError("A Connect worker takes connectors={name: tasks}, not topics")
            role = ConnectWorker(connectors, f"http://{who.client_id}:8083/")
        else:
            raise ValueError(f"protocol_type must be consumer or connect, not {protocol_type!r}")
        return GroupMember(lambda: host.broker, who, role, host.changes.notify)

    def _consumer_member(
        self, who: Identity, topics: Iterable[str], assignor: object
    ) -> ConsumerMember:
        if assignor is not None and not isinstance(assignor, str):
            raise ValueError(
                "In the consumer protocol, assignor must be the name of a server assignor, not "
                f"{assignor!r}"
            )
        if who.session_timeout_ms != SESSION_TIMEOUT_MS:
            raise ValueError(
                "In the consumer protocol, the session timeout is that of the group: set "
                "group.consumer.session.timeout.ms of the broker, or consumer.session.timeout.ms "
                "of the group"
            )
        host, role = self._host, Consumer((), _topic_list(topics), assignor)
        return ConsumerMember(lambda: host.broker, who, role, host.changes.notify)

    def close(self) -> None:
        """Kill all fake members."""

        def close() -> None:
            for each in self._members:
                each.kill()

        self._host.call(close)

    def join(self, member: GroupMember, timeout: float, *, may_be_rejected: bool) -> FakeMember:
        """Start the member, and wait until it has joined, or its join waits for other members, a
        deadline or the test. Raises FakeMemberRejected, BarrierTimeout, and exceptions of its
        assignor."""
        host, identity = self._host, member.identity
        self.client_ids.add(identity.client_id)
        has_joined = host.run(self._joined(member, timeout), timeout + CALL_TIMEOUT_SECONDS)
        if not has_joined:
            errors = member.client.errors
            last = f"; its last error: {errors[-1].api} {errors[-1].error}" if errors else ""
            what = f"fake member {identity.client_id} to join group {identity.group_id}{last}"
            raise timed_out(timeout, what, _explain(host, member))
        # A member with a generation has joined. If it failed later, wait_owned raises the error.
        failure = member.failure
        if failure is None or may_be_rejected or member.generation >= 0:
            return self._member_type(host, member)
        if not isinstance(failure, ErrorResponse):
            raise failure
        reason = host.call(lambda: self._rejection_reason(member, failure))
        raise FakeMemberRejected(
            f"fake member {identity.client_id} cannot join group {identity.group_id}: {failure}."
            f"{reason} (If the test expects this, use may_be_rejected=True.)\n"
            f"{_explain(host, member)}"
        ) from failure

    def _assignors(self, strategy: Strategy | Iterable[Strategy]) -> list[Assignor]:
        if isinstance(strategy, str):
            return [self._find(strategy)]
        if not isinstance(strategy, type) and isinstance(strategy, Iterable):
            return [each for one in strategy for each in self._assignors(one)]
        return [to_assignor(strategy, repr(strategy))]

    # --- on the broker's loop

    def _default_assignors(self, group_id: str) -> Sequence[str]:
        """Return the default assignors that all members of the group support. If there is none,
        return all default assignors."""
        coordinator = coordinator_of(self._host.broker, group_id)
        group = None if coordinator is None else coordinator.groups.get(group_id)
        common = () if group is None else group.common_protocols
        return [each for each in DEFAULT_ASSIGNORS if each in common] or DEFAULT_ASSIGNORS

    def on_event(self, event: GroupEvent) -> None:
        """Wake the members to which the response to their next heartbeat would report the event."""
        concerns_all = event.type in _CONCERN_ALL
        if concerns_all or event.type in _CONCERN_ONE:
            for each in self._members:
                is_concerned = concerns_all or each.member_id == event.member_id
                if is_concerned and each.identity.group_id == event.group_id:
                    each.wake()

    def on_topics(self, version: int) -> None:
        """If the version of the topics has changed, wake the members of the consumer protocol,
        because the response to their next heartbeat may contain a changed assignment."""
        if version != self._topics_version:
            self._topics_version = version
            for each in self._members:
                if isinstance(each, ConsumerMember):
                    each.wake()

    def deadlines(self, *, with_heartbeats: bool = True) -> Iterator[int]:
        """Return the times, by the broker's clock, at which members act next. Without heartbeats,
        omit members that only send heartbeats."""
        return (
            each.due_ms
            for each in self._members
            if each.due_ms is not None and (with_heartbeats or not each.is_steady)
        )

    def send_heartbeats(self) -> None:
        """Let all steady members send a heartbeat now."""
        for member in self.steady.values():
            member.wake()

    @property
    def steady(self) -> dict[str, GroupMember]:
        """The members that do nothing but send heartbeats, by member id."""
        return {each.member_id: each for each in self._members if each.is_steady}

    async def wait_until_idle(self) -> None:
        """Wait until every fake member waits for other members, a deadline or the test."""
        while not await self.is_idle():
            pass

    async def is_idle(self) -> bool:
        """Return whether no fake member acts during several iterations of the loop."""
        before = self._activity
        # A request gets its response within two iterations, and the member receives it in a third.
        await iterations(4)
        return before == self._activity

    @property
    def _activity(self) -> int:
        return sum(each.activity for each in self._members)

    async def _joined(self, member: GroupMember, timeout: float) -> bool:
        host = self._host
        self._members.append(member)
        member.run()
        try:
            async with asyncio.timeout(timeout):
                while True:
                    seen = host.changes.count
                    # The group's other fake members react to this member. If its request still has
                    # no response afterwards, it waits for other members, a deadline or the test.
                    await host.wait_until_idle()
                    if member.has_joined_or_waits or self._is_prevented(member):
                        return True
                    await host.changes.wait_until(
                        partial(lambda seen: host.changes.count > seen, seen), timeout
                    )
        except TimeoutError:
            if member.generation >= 0:
                return True  # it has joined, but other members are not idle
            member.kill()
            return False

    def _is_prevented(self, member: GroupMember) -> bool:
        """Whether the member's requests fail until the test removes the cause, which is impossible
        while the test waits. (A fault that fires a limited number of times ends on its own, and
        conditions only delay requests.)"""
        if not member.client.errors:
            return False
        host, identity = self._host, member.identity
        if not host.broker.is_running or not host.broker.cluster.up:
            return True
        if self._faults.disk.fails_groups or is_kept_loading(host, identity.group_id):
            return True

        def is_own(request: RecordedRequest) -> bool:
            is_client = request.client_id == identity.client_id
            return is_client and identity.group_id in request.groups

        unlimited = (
            fault for fault in self._faults.all if fault.times is None and not fault.is_condition
        )
        return any(is_own(request) for fault in unlimited for request in reversed(fault.fired))

    def _rejection_reason(self, member: GroupMember, response: ErrorResponse) -> str:
        """Return the error message of the response or, if it has none, a sentence that explains why
        the member and the group have no protocol in common."""
        if message := getattr(response.response, "error_message", None):
            return f" {message}"
        if response.error is not ErrorCode.inconsistent_group_protocol:
            return ""
        group_id, role = member.identity.group_id, member.role
        coordinator = coordinator_of(self._host.broker, group_id)
        group = None if coordinator is None else coordinator.groups.get(group_id)
        if group is None or not group.members:
            return ""
        if group.protocol_type != role.protocol_type:
            mine, theirs = role.protocol_type, group.protocol_type
            return f" Its protocol type is {mine}, and the group's is {theirs}."
        offered = ", ".join(name for name, _ in role.protocols())
        return (
            f" It supports {offered}; the members of the group have only "
            f"{', '.join(group.common_protocols)} in common: choose its assignor from these."
        )


def _explain(host: BrokerHost, member: GroupMember) -> str:
    return host.call(partial(explain_group, host, member.identity.group_id, verbose=True))


def _topic_list(topics: Iterable[str]) -> list[str]:
    if isinstance(topics, str):
        raise TypeError(f'topics must be a list of names: ["{topics}"]')
    return list(topics)
