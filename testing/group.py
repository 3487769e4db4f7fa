"""A consumer group that a test can inspect, wait for and control."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Self, TypeVar

from ..broker.cluster import Node
from ..coordinator.classic.group import RebalanceReason
from ..coordinator.coordinator import Coordinator
from ..coordinator.outcome import Outcome
from ..log.log import Log
from ..offsets.causes import Cause
from ..offsets.table import OffsetsTable
from ..suggestions import SuggestsAttributes, did_you_mean
from ..topics.names import OFFSETS_TOPIC
from .deadline import longest
from .explanation.explanation import explain_group
from .generations import Generation, MemberAssignment
from .group_control import AssignmentHold, Hold, Loading, evict
from .group_view import (
    ClassicView,
    ConsumerView,
    GroupView,
    Member,
    context_of,
    coordinator_of,
    count_members,
    list_members,
    node_of,
    unavailable,
    view_of,
)
from .history import Commit, Exit
from .lifecycle import BrokerHost
from .loop_thread import (
    CALL_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS,
    check_may_block,
    completed,
    timed_out,
)
from .recorded_request import TopicPartition
from .topic import Topic

T = TypeVar("T")


def group_ids(host: BrokerHost) -> list[str]:
    """Return the ids of all existing groups, sorted."""

    def names() -> set[str]:
        return {
            name
            for node in host.broker.cluster.nodes.values()
            for shard in node.coordinators.contexts.values()
            for name in (
                *shard.coordinator.groups,
                *shard.coordinator.consumer_groups,
                *shard.offsets.groups(),
            )
        }

    return sorted(host.call(names))


class Group(SuggestsAttributes):
    """`kafka.group("billing")`: a classic group or a consumer group (KIP-848). The group need not
    exist yet, and the object remains valid after the group is deleted.

    Every wait has a `timeout` in seconds of wall-clock time, after which it raises BarrierTimeout
    with a message that explains the state of the group. A parameter `member` is a member id, an
    instance id or a client id. While clients cannot use the coordinator (it is loading or has
    failed, or its node is down), waits do not end, `explain` gives the reason, and the properties
    return the state loaded so far.
    """

    def __init__(self, host: BrokerHost, group_id: str) -> None:
        self._host = host
        self.group_id = group_id

    def __repr__(self) -> str:
        # Not on the broker's loop, which may be stopped when a debugger calls this method.
        if not self._host.broker.is_running:
            return f"<Group {self.group_id}>"
        return f"<Group {self.group_id}: {self._state()}, generation {self._generation()}>"

    # --- state

    @property
    def state(self) -> str:
        """Kafka's name for the state: Empty, PreparingRebalance, CompletingRebalance or Stable for
        a classic group; Empty, Assigning, Reconciling or Stable for a consumer group; Dead if the
        group does not exist."""
        return self._call(self._state)

    @property
    def generation(self) -> int:
        """The generation id, or the group epoch of a consumer group; 0 before the first one."""
        return self._call(self._generation)

    @property
    def members(self) -> list[Member]:
        """The members, in the order in which they joined."""
        return self._call(self._members)

    @property
    def node_id(self) -> int:
        """The node of the group's coordinator."""
        return self._call(lambda: self.node.node_id)

    def owner(self, topic: str, partition: int) -> Member | None:
        """Return the member that owns this partition, even if the member must revoke it; None if no
        member owns it."""
        return next(
            (m for m in self.members if (topic, partition) in m.partitions + m.revoking), None
        )

    @property
    def commits(self) -> list[Commit]:
        """All accepted commits since the broker was created."""
        return self._host.history.commits(self.group_id)

    @property
    def generations(self) -> list[Generation]:
        """All completed rebalances since the broker was created, with their causes; for a consumer
        group, all group epochs."""
        return self._host.history.generations(self.group_id)

    @property
    def assignments(self) -> list[MemberAssignment]:
        """The partitions that each member owned, and for how long, since the broker was created."""
        return self._host.history.assignments(self.group_id)

    @property
    def exits(self) -> list[Exit]:
        """All members that left or were removed, and why."""
        return self._host.history.exits(self.group_id)

    def explain(self, *, verbose: bool = False) -> str:
        """Describe what the group is waiting for: which members are missing, which timer is
        running, and when it expires. Further sentences describe requests that the test holds, and
        members abandoned because of a fault. With `verbose`, the members, their timers and the last
        requests follow, one per line."""
        return self._call(lambda: self._explain(verbose=verbose))

    # --- offsets

    def committed(self, topic: str, partition: int) -> int | None:
        """Return the committed offset (the offset of the next record to read), or None. Raises
        LookupError for an unknown topic or partition."""

        def committed() -> int | None:
            found = self._committed(topic, partition)
            if found is None:
                self._bounds(topic, partition)
            return found

        return self._written(committed)

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """All committed offsets."""
        return self._written(self._offsets)

    def lag(self, topic: str, partition: int | None = None) -> int:
        """Return the lag of a partition, or of all partitions of the topic: log end offset minus
        committed offset, as in `kafka-consumer-groups`.

        In a partition without a committed offset, all records count (`kafka-consumer-groups`
        shows `-`). Raises LookupError for an unknown topic or partition.
        """
        return self._written(lambda: sum(self._lags(topic, partition)))

    # --- waits

    def wait_stable(self, members: int | None = None, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Wait until the group is Stable with this number of members (None: any number), and every
        member has its assignment and need not rejoin to revoke partitions (KIP-429)."""
        if isinstance(members, bool) or not isinstance(members, int | None):
            raise TypeError(
                f"members must be a number of members, not {members!r}: wait_stable(members=1); "
                "for the owner of a partition use wait_owner"
            )
        with_members = "" if members is None else f" with {count_members(members)}"
        self._wait(lambda: self._is_stable(members), f"to be Stable{with_members}", timeout)
        return self

    def wait_generation(self, generation: int, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Wait until the group has this generation (or group epoch) or a later one."""
        _check_number("generation", generation, "wait_generation(3)")
        self._wait(
            lambda: self._generation() >= generation, f"to reach generation {generation}", timeout
        )
        return self

    def wait_epoch(
        self, epoch: int, member: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> Self:
        """Wait until `member` has reached this member epoch; without `member`, until the group has
        members, and all have reached it. In a classic group, the epoch is the generation."""
        _check_number("epoch", epoch, 'wait_epoch(3, member="app-1")')

        def has_epoch() -> bool:
            members = [each for each in self._members() if member is None or each.has_name(member)]
            return bool(members) and all(self._epoch_of(each) >= epoch for each in members)

        what = f"to have {member or 'every member'} in epoch {epoch}"
        self._wait(has_epoch, what, timeout, member=member)
        return self

    def wait_owner(
        self,
        topic: str,
        partition: int,
        member: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        *,
        epoch: int | None = None,
    ) -> Member:
        """Wait until `member` (None: any member) owns the partition and the partition is not about
        to move. A classic group must be Stable. In a consumer group, which may still be
        Reconciling, the target assignment must give the partition to the same member. With `epoch`,
        the owner must also have reached this member epoch (or generation). Return the owner."""
        if epoch is not None:
            _check_number("epoch", epoch, 'wait_owner("orders", 0, epoch=3)')

        def owner() -> Member | None:
            view = self._view
            found = None if view is None else view.settled_owner((topic, partition))
            if found is None or not (member is None or found.has_name(member)):
                return None
            return found if epoch is None or self._epoch_of(found) >= epoch else None

        what = f"to assign {topic}-{partition} to {member or 'a member'}"
        what += "" if epoch is None else f" in epoch {epoch}"
        return self._wait(owner, what, timeout, (topic, partition), member)

    def _epoch_of(self, member: Member) -> int:
        return member.epoch

    def wait_committed(
        self,
        topic: str,
        partition: int,
        offset: int | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> int:
        """Wait until this offset or a later one is committed (None: any offset), and return the
        committed offset."""

        def committed() -> tuple[int] | None:
            found = None if self._is_write_pending() else self._committed(topic, partition)
            return None if found is None or (offset is not None and found < offset) else (found,)

        what = "any offset" if offset is None else f"offset {offset}"
        what = f"to commit {what} of {topic}-{partition}"
        return self._wait(committed, what, timeout, (topic, partition))[0]

    def wait_empty(self, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Wait until the group has no members."""
        self._wait(lambda: self._state() in ("Empty", "Dead"), "to be Empty", timeout)
        return self

    def wait_gone(self, timeout: float = TIMEOUT_SECONDS) -> None:
        """Wait until the group no longer exists: it was deleted, or its last offset expired."""
        self._wait(lambda: self._state() == "Dead", "to be deleted", timeout)

    # --- control

    def rebalance(self, reason: str = "requested by a test") -> None:
        """Start a rebalance, unless the group is in PreparingRebalance or has no members. The
        response to each member's next heartbeat makes the member rejoin. A consumer group gets its
        next epoch, which each member reaches with its next heartbeat."""
        self._rebalance(reason)

    def lead(self, member: str) -> None:
        """Start a rebalance with this member as the leader. Raises ValueError for a consumer group.
        This method, `expire`, `fence` and `evict` raise ValueError unless `member` identifies
        exactly one member."""
        found = self._find(member)
        if isinstance(self._call(lambda: self._view), ConsumerView):
            raise ValueError(f"Group {self.group_id} is a consumer group, which has no leader")
        self._rebalance(f"to make {member} the leader", found.member_id)

    def _rebalance(self, reason: str, leader_id: str | None = None) -> None:
        why = RebalanceReason(Cause.REQUESTED_BY_TEST, reason)
        self._carry_out(lambda c, now: c.rebalance(self.group_id, why, leader_id, now))

    def expire(self, member: str) -> None:
        """Expire the member's session now. A live client gets UNKNOWN_MEMBER_ID, as in Kafka."""
        member_id = self._find(member).member_id
        self._carry_out(lambda c, now: c.expire_session(self.group_id, member_id, now))

    def fence(self, member: str) -> None:
        """Fence a member of the consumer protocol (KIP-848): its next heartbeat gets
        FENCED_MEMBER_EPOCH, after which its client gives up all partitions and rejoins with the
        same member id. Also raises ValueError for a member of the classic protocol (use
        `expire`)."""
        found = self._find(member)
        if found.protocol != "consumer":
            raise ValueError(f"{member} uses the classic protocol, without epochs: use expire()")
        self._carry_out(lambda c, now: c.fence(self.group_id, found.member_id, now))
        self._host.call(self._host.fake_members.send_heartbeats)

    def evict(self, member: str, reason: str = "requested by a test") -> None:
        """Remove the member as an admin client does. Also raises ValueError if the coordinator
        rejects the removal."""
        evict(self._host, self.group_id, self._find(member), reason)

    def hold_joins(self) -> Hold:
        """Hold JoinGroup requests until the hold is released, which keeps a rebalance open. A hold
        does not start a rebalance; if the group is Stable, call `rebalance`."""
        return Hold(self._host, "JoinGroup", self.group_id)

    def hold_syncs(self) -> Hold:
        """Hold SyncGroup requests, including the leader's, so that no member gets an assignment."""
        return Hold(self._host, "SyncGroup", self.group_id)

    def hold_heartbeats(self) -> Hold:
        """Hold ConsumerGroupHeartbeat requests (KIP-848), with which members join, get and confirm
        their assignments, and leave. The members' session timeouts continue to run."""
        return Hold(self._host, "ConsumerGroupHeartbeat", self.group_id)

    def hold_assignment(self) -> AssignmentHold:
        """Hold back the target assignment of a consumer group until the hold is released. Until
        then, the group is Assigning after each change, and its members keep their partitions.
        Raises ValueError for a classic group with members."""
        view = self._call(lambda: self._view)
        if isinstance(view, ClassicView) and view.members:
            raise ValueError(
                f"Group {self.group_id} is a classic group, whose leader computes the assignment: "
                "use hold_syncs()"
            )
        return AssignmentHold(self._host, self.group_id)

    def loading(self) -> Loading:
        """Make the group's coordinator load its log again. Until `finish` is called, requests are
        rejected with COORDINATOR_LOAD_IN_PROGRESS."""
        return Loading(self._host, self.group_id)

    def move_to(self, node_id: int) -> None:
        """Move the group's coordinator to another node. The old node then responds with
        NOT_COORDINATOR."""

        def move() -> None:
            broker = self._host.broker
            broker.node.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
            index = self.node.coordinators.partition_of(self.group_id)
            broker.cluster.move(OFFSETS_TOPIC, index, node_id)

        self._host.change_topics(move)

    def _carry_out(self, decide: Callable[[Coordinator, int], Outcome]) -> None:
        """Carry out a coordinator decision, at the coordinator's time, as an action of the test.
        Raises ValueError if the coordinator is not active."""

        def carry_out() -> str | None:
            with self._host.history.by_test():
                is_active = self.node.coordinators.carry_out(self.group_id, decide)
            return None if is_active else self._explain(verbose=False)

        explanation = self._call(carry_out)
        if explanation is not None:
            raise ValueError(f"Group {self.group_id} has no active coordinator. {explanation}")

    def _find(self, name: str) -> Member:
        host, members = self._host, self.members
        found = [member for member in members if member.has_name(name)]
        if not found and (reason := self._call(lambda: unavailable(host.broker, self.group_id))):
            raise ValueError(reason)
        if len(found) != 1:
            number = "more than one" if found else "no"
            raise ValueError(
                f"Group {self.group_id} has {number} member {name!r}; its members: "
                f"{list_members(members)}"
            )
        return found[0]

    def _wait(
        self,
        check: Callable[[], T | None],
        what: str,
        timeout: float,
        partition: TopicPartition | None = None,
        member: str | None = None,
    ) -> T:
        """Wait until `check` returns a result, and return the result. The message of a timeout says
        if `partition` or `member` does not exist."""
        check_may_block()
        within = longest(timeout) + CALL_TIMEOUT_SECONDS
        found, explanation = self._host.run(self._until(check, timeout), within)
        if found is None:
            hint = self._call(lambda: self._hint(partition, member))
            what = f"group {self.group_id} {what}{hint}"
            raise timed_out(timeout, what, explanation)
        return found

    async def _until(self, check: Callable[[], T | None], timeout: float) -> tuple[T | None, str]:
        # The state of a coordinator that is loading does not count, because clients cannot get it.
        found = await self._host.until(lambda: check() if self._is_available() else None, timeout)
        await self._host.wait_until_running()
        return (found, "") if found is not None else (None, self._explain(verbose=True))

    def _call(self, function: Callable[[], T]) -> T:
        return self._host.call(function)

    def _written(self, function: Callable[[], T]) -> T:
        """Return the result of the function once the offsets in it are durable, as for an
        OffsetFetch. On the broker's loop, return the result without waiting."""

        async def written() -> T:
            while True:
                await self._host.wait_until_running()
                result = function()
                log, group_commit = self._log, self.node.group_commit
                if log is None or await completed(partial(group_commit.on_durable, log)) is None:
                    return result
                # The write failed, and the offsets in the result were rolled back.

        return function() if self._host.loop.is_current else self._host.run(written())

    # --- on the broker's loop

    @property
    def node(self) -> Node:
        return node_of(self._host.broker, self.group_id)

    @property
    def _view(self) -> GroupView | None:
        return view_of(self._host.broker, self.group_id)

    def _is_available(self) -> bool:
        return unavailable(self._host.broker, self.group_id) is None

    def _state(self) -> str:
        if (view := self._view) is not None:
            return view.state
        coordinator = coordinator_of(self._host.broker, self.group_id)
        has_offsets = coordinator is not None and coordinator.offsets.has_group(self.group_id)
        return "Empty" if has_offsets else "Dead"

    def _generation(self) -> int:
        return 0 if (view := self._view) is None else view.generation

    def _is_stable(self, members: int | None) -> bool:
        view = self._view
        return view is not None and view.is_settled and members in (None, len(view.members))

    def _members(self) -> list[Member]:
        return [] if (view := self._view) is None else view.members

    def _explain(self, *, verbose: bool) -> str:
        return explain_group(self._host, self.group_id, verbose=verbose)

    def _hint(self, waited_for: TopicPartition | None, member: str | None) -> str:
        """Return a note that the partition or the member does not exist, or the current state of
        the partition."""
        members = self._members()
        is_unknown = member is not None and not any(each.has_name(member) for each in members)
        no_member = f" (it has no member {member!r}; its members: {list_members(members)})"
        if waited_for is None:
            return no_member if is_unknown else ""
        topic, partition = waited_for
        topics = self._host.broker.node.topics
        found = topics.get(topic)
        if found is None:
            similar = did_you_mean(topic, (each.name for each in topics))
            return f" (topic {topic} does not exist{similar})"
        its_partition = found.partition(partition)
        if its_partition is None:
            last = len(found.partitions) - 1
            return f" ({topic} has no partition {partition}: the first is 0, the last is {last})"
        if is_unknown:
            return no_member
        committed, end = self._committed(topic, partition), its_partition.high_watermark
        owner = next((each for each in members if (topic, partition) in each.partitions), None)
        return (
            f" (committed offset: {'none' if committed is None else committed}; log end offset: "
            f"{end}; owner: {owner.client_id if owner else 'none'})"
        )

    @property
    def _log(self) -> Log | None:
        """The log of the group's offsets partition; None before the first write."""
        context = context_of(self._host.broker, self.group_id)
        return None if context is None else context.log

    def _is_write_pending(self) -> bool:
        log = self._log
        return log is not None and self.node.group_commit.is_pending(log)

    def _committed(self, topic: str, partition: int) -> int | None:
        offsets = self._offsets_table()
        found = None if offsets is None else offsets.get(self.group_id, topic, partition)
        return None if found is None else found.offset

    def _offsets_table(self) -> OffsetsTable | None:
        context = context_of(self._host.broker, self.group_id)
        if context is None:
            return None
        context.offsets.load(self.group_id)  # the offsets may have been evicted
        return context.offsets

    def _offsets(self) -> dict[TopicPartition, int]:
        offsets = self._offsets_table()
        topics = {} if offsets is None else offsets.of_group(self.group_id)
        return {
            (topic, index): committed.offset
            for topic, partitions in topics.items()
            for index, committed in partitions.items()
        }

    def _lags(self, topic: str, partition: int | None) -> Iterator[int]:
        for index, (start, end) in self._bounds(topic, partition).items():
            committed = self._committed(topic, index)
            yield end - (start if committed is None else committed)

    def _bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        """Return the log start offset and log end offset of each partition."""
        found = Topic(self._host, topic)
        indexes = range(found.partitions) if partition is None else (partition,)
        return {index: (found.start_offset(index), found.end_offset(index)) for index in indexes}


def _check_number(name: str, value: object, example: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a number, not {value!r}: {example}")
