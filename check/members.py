"""Members of a group: the classic protocol, and the consumer protocol (KIP-848).

A member sends one request at a time: a heartbeat if one is due, then the requests of its worker.
The leader of a classic group assigns the partitions round-robin. The assignment that the broker
delivers is recorded.
"""

import time
from collections.abc import Awaitable
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeVar
from uuid import uuid4

from ..protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from ..protocol.errors import ErrorCode
from .cluster import GROUP, MOVED, Cluster
from .connection import Disconnected, Fields
from .history import (
    Assigned,
    Commit,
    Heartbeat,
    Joined,
    Left,
    Operation,
    Outcome,
    ReadCommitted,
)
from .producer import offset_of
from .recorder import History

PROTOCOL: Final = "check"
"""The assignor name of classic members."""
HEARTBEAT_SECONDS: Final = 0.3
REBALANCE_TIMEOUT: Final = timedelta(seconds=5)

# Errors with which the broker guarantees that the request had no effect.
REJECTED: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.fenced_instance_id,
        ErrorCode.fenced_member_epoch,
        ErrorCode.group_authorization_failed,
        ErrorCode.group_id_not_found,
        ErrorCode.group_max_size_reached,
        ErrorCode.illegal_generation,
        ErrorCode.inconsistent_group_protocol,
        ErrorCode.invalid_commit_offset_size,
        ErrorCode.invalid_group_id,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_request,
        ErrorCode.invalid_session_timeout,
        ErrorCode.invalid_txn_state,
        ErrorCode.member_id_required,
        ErrorCode.offset_metadata_too_large,
        ErrorCode.producer_fenced,
        ErrorCode.rebalance_in_progress,
        ErrorCode.stale_member_epoch,
        ErrorCode.topic_authorization_failed,
        ErrorCode.transaction_abortable,
        ErrorCode.unknown_member_id,
        ErrorCode.unreleased_instance_id,
        ErrorCode.unsupported_assignor,
        ErrorCode.unsupported_version,
    }
)

_commits = count(1)
Kind = TypeVar("Kind", Assigned, Commit, Heartbeat)


class Member:
    """A member of a group. `member`: the member id, "" while it is not in the group. Methods raise
    Disconnected."""

    is_classic: bool

    def __init__(self, cluster: Cluster, history: History, name: str, group: str) -> None:
        self.group, self.name = group, name
        self.member = ""
        self.generation = -1
        self.partitions: tuple[int, ...] = ()
        self._cluster, self._history = cluster, history
        self._heartbeat_at = 0.0

    async def step(self) -> bool:
        """Join, rejoin or send a heartbeat if necessary. Return whether the assignment is new."""
        raise NotImplementedError

    async def leave(self) -> None:
        if self.member:
            left = Left(client=self.name, group=self.group, member=self.member)
            await self._record(left, self._leave())
            self._lost_membership()

    async def _leave(self) -> Any:
        raise NotImplementedError

    def new_commit(self, partition: int, offset: int) -> Commit:
        return self._new(
            Commit,
            partition=partition,
            offset=offset,
            metadata=f"c{next(_commits)}",
            is_classic=self.is_classic,
        )

    async def commit(self, operation: Commit) -> None:
        """Commit with the member id and generation of the operation, which may be outdated."""
        await self._record(operation, self._commit(operation))

    async def _commit(self, operation: Commit) -> Any:
        response = await self._request(
            "OffsetCommit",
            member_id=operation.member,
            generation_id_or_member_epoch=operation.generation,
            topics=[Fields(name=self._cluster.topic, partitions=[offset_of(operation)])],
        )
        return response.topics[0].partitions[0]

    async def read_committed(
        self, partitions: tuple[int, ...], *, is_final: bool = False
    ) -> dict[int, int] | None:
        """Return the committed offsets by partition, -1 for none; None if the response contains an
        error."""
        began = self._history.now()
        wanted = [Fields(name=self._cluster.topic, partition_indexes=partitions)]
        response = await (await self._cluster.coordinator(GROUP, self.group)).request(
            "OffsetFetch",
            groups=[Fields(group_id=self.group, topics=wanted)],
            require_stable=True,
        )
        (found,) = response.groups
        parts = [each for topic in found.topics for each in topic.partitions]
        errors = {found.error_code, *(each.error_code for each in parts)} - {ErrorCode.none}
        if errors:
            if errors & MOVED:
                self._cluster.forget()
            return None
        for each in parts:
            read = ReadCommitted(
                client=self.name,
                group=self.group,
                partition=each.partition_index,
                offset=each.committed_offset,
                metadata=each.metadata or "",
                is_final=is_final,
            )
            self._history.add(read, began)
        return {each.partition_index: each.committed_offset for each in parts}

    def _new(self, kind: type[Kind], **fields: Any) -> Kind:
        """Return an operation of this member in its generation."""
        who: Any = {"client": self.name, "group": self.group, "member": self.member}
        return kind(**who, generation=self.generation, **fields)

    @property
    def _is_due(self) -> bool:
        return time.monotonic() >= self._heartbeat_at

    def _lost_membership(self) -> None:
        self.member, self.generation, self.partitions = "", -1, ()

    async def _request(self, api: str, **fields: Any) -> Any:
        connection = await self._cluster.coordinator(GROUP, self.group)
        return await connection.request(api, group_id=self.group, **fields)

    async def _record(self, operation: Operation, request: Awaitable[Any]) -> tuple[ErrorCode, Any]:
        """Send a request, and record the operation and its outcome. Return the error, and the
        response or the part of it that contains the error. Raises Disconnected."""
        self._history.begin(operation)
        try:
            response = await request
        except Disconnected as problem:
            self._history.end(operation, "info", str(problem))
            self._cluster.forget()
            raise
        error = ErrorCode(response.error_code)
        if error in MOVED:
            self._cluster.forget()
        outcome: Outcome = "ok" if error is ErrorCode.none else "info"
        if error in REJECTED:
            outcome = "fail"
        self._history.end(operation, outcome, "" if outcome == "ok" else error.name.upper())
        return error, response


class ClassicMember(Member):
    """A member of the classic protocol, with eager rebalances."""

    is_classic = True

    def __init__(
        self, cluster: Cluster, history: History, name: str, group: str, session_timeout_ms: int
    ) -> None:
        super().__init__(cluster, history, name, group)
        self._session_timeout = timedelta(milliseconds=session_timeout_ms)
        self._must_join = True

    async def step(self) -> bool:
        if self._must_join:
            return await self._join()
        if self._is_due:
            await self._heartbeat()
        return False

    async def _leave(self) -> Any:
        self._must_join = True
        identity = Fields(member_id=self.member, group_instance_id=None, reason=None)
        response = await self._request("LeaveGroup", members=[identity])
        return response if response.error_code else response.members[0]

    async def _heartbeat(self) -> None:
        operation = self._new(Heartbeat, partitions=self.partitions)
        request = self._request("Heartbeat", member_id=self.member, generation_id=self.generation)
        error, _ = await self._record(operation, request)
        self._heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
        self._must_join = error is not ErrorCode.none and error not in MOVED
        if error in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self._lost_membership()

    async def _join(self) -> bool:
        self.partitions = ()
        operation = Joined(client=self.name, group=self.group, member=self.member)
        metadata = encode_subscription(Subscription((self._cluster.topic,)), 1)
        request = self._request(
            "JoinGroup",
            member_id=self.member,
            session_timeout=self._session_timeout,
            rebalance_timeout=REBALANCE_TIMEOUT,
            protocol_type="consumer",
            protocols=[Fields(name=PROTOCOL, metadata=metadata)],
        )
        error, found = await self._record(operation, request)
        if error is ErrorCode.member_id_required:
            self.member = found.member_id
            return False
        if error is not ErrorCode.none:
            if error is ErrorCode.unknown_member_id:
                self._lost_membership()
            return False
        operation.member = self.member = found.member_id
        operation.generation = self.generation = found.generation_id
        operation.leader = found.leader
        return await self._sync(found)

    async def _sync(self, joined: Any) -> bool:
        operation = self._new(Assigned, partitions=(), leader=joined.leader)
        request = self._request(
            "SyncGroup",
            member_id=self.member,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=self._assignments(joined),
        )
        error, found = await self._record(operation, request)
        if error is not ErrorCode.none:
            if error is ErrorCode.unknown_member_id:
                self._lost_membership()
            return False
        assigned = decode_assignment(bytes(found.assignment)).assigned_partitions
        operation.partitions = tuple(index for topic in assigned for index in topic.partitions)
        self.partitions = operation.partitions
        self._must_join = False
        self._heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
        return True

    def _assignments(self, joined: Any) -> list[Fields]:
        """Return the leader's assignments, in which members get the partitions round-robin."""
        members = sorted(each.member_id for each in joined.members)
        shares: dict[str, list[int]] = {each: [] for each in members}
        for number, partition in enumerate(self._cluster.partitions if members else ()):
            shares[members[number % len(members)]].append(partition)
        return [
            Fields(
                member_id=member,
                assignment=encode_assignment(
                    Assignment((TopicPartitions(self._cluster.topic, tuple(partitions)),)), 1
                ),
            )
            for member, partitions in shares.items()
        ]


class ConsumerMember(Member):
    """A member of the consumer protocol. If a response no longer contains a partition, the next
    heartbeat gives it up."""

    is_classic = False

    async def step(self) -> bool:
        if not self.member:
            self.member, self.generation = str(uuid4()), 0
        elif not self._is_due:
            return False
        return await self._heartbeat()

    async def _leave(self) -> Any:
        return await self._send(epoch=-1, owned=None)

    async def _heartbeat(self) -> bool:
        is_joining = self.generation == 0
        operation = self._new(Heartbeat, partitions=self.partitions)
        request = self._send(epoch=self.generation, owned=self.partitions)
        error, found = await self._record(operation, request)
        self._heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
        if error is not ErrorCode.none:
            if error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id):
                self._lost_membership()
            return False
        operation.epoch = self.generation = found.member_epoch
        if found.assignment is None and not is_joining:
            return False
        topics = () if found.assignment is None else found.assignment.topic_partitions
        assigned = tuple(sorted(index for topic in topics for index in topic.partitions))
        if assigned == self.partitions:
            return False
        self.partitions = assigned
        self._heartbeat_at = 0.0  # report the owned partitions immediately
        grant = self._new(Assigned, partitions=assigned)
        self._history.add(grant, (operation.began, operation.began_s))
        return True

    async def _send(self, epoch: int, owned: tuple[int, ...] | None) -> Any:
        if self._cluster.topic_id is None:
            await self._cluster.refresh()
        topics = None
        if owned is not None:
            topics = [Fields(topic_id=self._cluster.topic_id, partitions=owned)] if owned else ()
        is_joining = epoch == 0
        return await self._request(
            "ConsumerGroupHeartbeat",
            member_id=self.member,
            member_epoch=epoch,
            subscribed_topic_names=(self._cluster.topic,) if is_joining else None,
            topic_partitions=topics,
            **({"rebalance_timeout": REBALANCE_TIMEOUT} if is_joining else {}),
        )
