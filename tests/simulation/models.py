"""Reference models: committed offsets, their expiration, and leadership, as far as they follow from
requests, responses and observed states. A difference from the broker is a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import (
    CommitResult,
    DeleteGroup,
    DeleteGroupResult,
    DeleteOffsetsResult,
    FetchResult,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from kohort.offsets.records import GroupTombstone, OffsetTombstone
from kohort.protocol.errors import ErrorCode
from simulation.config import topics_in

if TYPE_CHECKING:
    from kohort.topics.registry import TopicRegistry
    from kohort.topics.topic import Partition, Topic
    from simulation.broker import SimulatedBroker

Key = tuple[str, str, int]  # group, topic, partition

# Results of commits whose append failed. They must not be visible, but their bytes may be found on
# the disk after a crash.
_APPEND_ERRORS = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
# The sources of changes that no request made.
_EXPIRATION = "expiration"
_TOPIC_DELETION = "deletion of the topic"


class Violation(AssertionError):
    """Begins with the violated invariant, I1 to I9 (invariants.py)."""

    @property
    def invariant(self) -> str:
        return str(self).partition(":")[0]


@dataclass(slots=True, eq=False)
class Change:
    offset: int | None  # None: deleted
    source: Any  # the request, or one of the sources above
    submitted_ms: int = 0
    expire_ms: int | None = None  # when a commit with a retention time expires
    has_failed: bool = False
    may_reappear: bool = False  # whether it may be in the log again after a crash

    @property
    def may_follow(self) -> bool:
        """Whether it may still take effect, although the log that was just loaded lacks it."""
        if self.source is _TOPIC_DELETION:
            return not (self.has_failed and self.may_reappear)
        return self.source is not _EXPIRATION and not self.may_reappear

    @property
    def is_readable(self) -> bool:
        return self.may_reappear or not self.has_failed


def _may_be_rejected(change: Change) -> bool:
    command = getattr(change.source, "command", None)
    is_by_epoch = type(command) is OffsetCommit and command.supports_member_epochs
    return is_by_epoch and not (change.source.has_response or change.source.is_dropped)


class CommittedOffsets:
    """The changes of each partition in the order of their decisions, from the last certain one on.

    A change is certain once it has been acknowledged or read: no crash may undo it.
    """

    def __init__(self) -> None:
        self._changes: dict[Key, list[Change]] = {}

    @property
    def groups(self) -> set[str]:
        return {group_id for group_id, _, _ in self._changes}

    def request_submitted(self, request: Any) -> Any:
        """Add the changes of a request; return the changes that an OffsetFetch may return."""
        command = request.command
        if type(command) is OffsetCommit:
            now_ms, retention_ms = request.submitted_ms, command.retention_time_ms
            expire_ms = None if retention_ms is None else now_ms + retention_ms
            for entry, (offset,) in zip(command.entries, command.offsets, strict=True):
                change = Change(offset, request, now_ms, expire_ms)
                self._add((command.group_id, entry.topic, entry.partition), change)
        elif type(command) is OffsetDelete:
            for topic, partitions in command.topics:
                for partition in partitions:
                    self._add((command.group_id, topic, partition), Change(None, request))
        elif type(command) is DeleteGroup:
            for key in [key for key in self._changes if key[0] == command.group_id]:
                self._add(key, Change(None, request))
        elif type(command) is OffsetFetch:
            return {
                key: [change for change in changes if change.is_readable]
                for key, changes in self._changes.items()
                if key[0] == command.group_id
            }
        return None

    def _add(self, key: Key, change: Change) -> None:
        self._changes.setdefault(key, [Change(None, None)]).append(change)

    def request_completed(self, request: Any, result: Any) -> None:
        if type(result) is FetchResult:
            if result.error_code is ErrorCode.none:
                self._fetched(request, result)
        elif type(result) is CommitResult:
            self._complete(request, result.errors[0])
        elif type(result) is DeleteOffsetsResult:
            self._complete(request, result.error_code or result.errors[0])
        elif type(result) is DeleteGroupResult:
            self._complete(request, result.error_code)

    def _complete(self, request: Any, error: ErrorCode) -> None:
        for key, changes in self._changes.items():
            index = next((n for n, c in enumerate(changes) if c.source is request), None)
            if index is None:
                continue
            if error is ErrorCode.none:
                del changes[:index]
            elif index == 0:
                raise Violation(
                    f"I3: {key}: {changes[0].offset} was read, and then failed with {error.name}"
                )
            elif error in _APPEND_ERRORS and request.ticket:
                changes[index].has_failed = True
            else:
                del changes[index]

    def _fetched(self, request: Any, result: FetchResult) -> None:
        group_id, readable = request.command.group_id, request.readable
        found = {
            (group_id, topic, each.partition_index): each.committed_offset
            for topic, partitions in result.topics
            for each in partitions
            if each.committed_offset >= 0
        }
        for key in {**found, **readable}:
            change = self._match(key, found.get(key), readable.get(key, []))
            changes = self._changes[key]
            if change in changes:
                del changes[: changes.index(change)]

    def _match(self, key: Key, offset: int | None, readable: list[Change]) -> Change:
        # The first match: offsets are distinct, and of two deletions only the first is certain.
        for change in readable:
            if change.offset == offset:
                return change
        raise Violation(f"I3: {key} is {offset}, not one of {[c.offset for c in readable]}")

    def newest(self, key: Key) -> Change:
        """The last change that has not failed. A commit with a member epoch that has no response
        may have been rejected: in a group of both protocols its response waits for earlier ones."""
        certain, *later = self._changes[key]
        changes = (c for c in reversed(later) if not c.has_failed and not _may_be_rejected(c))
        return next(changes, certain)

    def expired(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._add(key, Change(None, _EXPIRATION))

    def expirations_durable(self, groups: set[str]) -> None:
        self._make_certain(_EXPIRATION, lambda key: key[0] in groups)

    def topic_deleted(self, topic: str) -> Callable[[], None]:
        """The topic's offsets will be deleted, even after a crash. Return a function to call if the
        deletion of the topic fails."""
        deletions = {key: Change(None, _TOPIC_DELETION) for key in self._changes if key[1] == topic}
        for key, change in deletions.items():
            self._add(key, change)

        def on_failure() -> None:
            # Its record may still be on the disk, and be loaded after a crash.
            for change in deletions.values():
                change.has_failed = True

        return on_failure

    def topic_cleaned_up(self, topic: str, groups: set[str]) -> None:
        self._make_certain(_TOPIC_DELETION, lambda key: key[0] in groups and key[1] == topic)

    def _make_certain(self, source: str, of: Callable[[Key], bool]) -> None:
        """The last change of this source is certain: forget all changes before it."""
        for changes in (changes for key, changes in self._changes.items() if of(key)):
            made = [n for n, c in enumerate(changes) if c.source is source and not c.has_failed]
            del changes[: made[-1] if made else 0]

    def broker_crashed(self) -> None:
        for changes in self._changes.values():
            for change in changes[1:]:
                change.may_reappear = True

    def loaded(self, groups: set[str], found: dict[Key, int]) -> None:
        """Compare with the offsets of `groups` that were loaded from the log."""
        for key in set(found) - set(self._changes):
            raise Violation(f"I3: {key}: {found[key]} was never committed")
        for key, changes in self._changes.items():
            if key[0] in groups:
                readable = [c for c in changes if c.is_readable]
                change = self._match(key, found.get(key), readable)
                change.has_failed = change.may_reappear = False
                after = changes[changes.index(change) + 1 :]
                self._changes[key] = [change, *(c for c in after if c.may_follow)]


class Expiration:
    """Kafka's rules for the expiration of offsets and groups."""

    def __init__(self, commits: CommittedOffsets, retention_ms: int) -> None:
        self._commits = commits
        self._retention_ms = retention_ms
        self._states: dict[str, State] = {}  # as last observed
        self._empty_since_ms: dict[str, int] = {}
        # When each group was created or became empty: the state timestamps that a log may contain.
        self._empty_times_ms: dict[str, set[int]] = {}

    def observe(self, group: Any, now_ms: int) -> None:
        group_id, state = group.group_id, group.state
        before = self._states.get(group_id)
        if state is before:
            return
        self._states[group_id] = state
        if state is State.EMPTY or before is None:
            self._empty_since_ms[group_id] = now_ms
            self._empty_times_ms.setdefault(group_id, set()).add(now_ms)

    def group_deleted(self, group_id: str) -> None:
        self._states.pop(group_id, None)

    def loaded(self, group: Any) -> None:
        group_id, since_ms = group.group_id, group.state_timestamp_ms
        self._states[group_id] = group.state
        if group.state is State.EMPTY:
            if group.protocol_type and since_ms not in self._empty_times_ms.get(group_id, ()):
                raise Violation(f"I9: {group_id} is loaded as Empty since {since_ms}: it was not")
            self._empty_since_ms[group_id] = since_ms

    def check(self, coordinator: Any, records: Sequence[Any], now_ms: int) -> None:
        """Check the tombstones of a pass before they are applied."""
        expired: set[Key] = set()
        for record in records:
            if isinstance(record, OffsetTombstone):
                key = record.group_id, record.topic, record.partition
                consumer_group = coordinator.consumer_groups.get(record.group_id)
                if consumer_group is not None and consumer_group.is_subscribed_to(record.topic):
                    raise Violation(f"I9: {key} expires, but its group is subscribed to it")
                self._check_offset(coordinator.groups.get(record.group_id), key, now_ms)
                expired.add(key)
            elif isinstance(record, GroupTombstone):
                self._check_group(coordinator, record.group_id, expired)
        self._commits.expired(expired)

    def _check_offset(self, group: Any, key: Key, now_ms: int) -> None:
        change = self._commits.newest(key)
        since_ms = change.submitted_ms
        if group is not None and group.protocol_type is not None:
            if group.state is State.EMPTY:
                since_ms = self._empty_since_ms[group.group_id]
            elif group.state is not State.STABLE or _is_subscribed(group, key[1]):
                raise Violation(f"I9: {key} expires while its group is {group.state}")
        due_ms = since_ms + self._retention_ms if change.expire_ms is None else change.expire_ms
        if now_ms < due_ms:
            raise Violation(f"I9: {key} expires {due_ms - now_ms} ms too early")

    def _check_group(self, coordinator: Any, group_id: str, expired: set[Key]) -> None:
        group = coordinator.groups.get(group_id) or coordinator.consumer_groups.get(group_id)
        if group is not None and group.state != State.EMPTY:
            raise Violation(f"I9: {group_id} expires while it is {group.state}")
        for record in coordinator.offsets.records(group_id):
            if (group_id, record.topic, record.partition) not in expired:
                raise Violation(f"I9: {group_id} expires before its offset {record}")


def _is_subscribed(group: Any, topic: str) -> bool:
    """Whether a member is subscribed to the topic; unparsable metadata subscribes to all topics."""
    found = [topics_in(member.metadata(group.protocol_name)) for member in group.members.values()]
    return any(topics is None or topic in topics for topics in found)


class Leadership:
    """Leader epochs only grow, each has one leader, and no crash undoes a durable election."""

    def __init__(self) -> None:
        # (epoch, leader) by topic id and partition
        self._observed: dict[tuple[object, int], tuple[int, int]] = {}
        self._durable: dict[tuple[object, int], tuple[int, int]] = {}
        self._version = -1  # the registry's version at the last check

    def broker_started(self, broker: SimulatedBroker) -> None:
        self._observed = dict(self._durable)
        self._version = -1
        self.check(broker)

    def elected(self, topics: TopicRegistry, topic: Topic, partition: Partition) -> None:
        key, leader = (topic.id, partition.index), (partition.leader_epoch, partition.leader_id)
        topics.on_durable(lambda error: self._durable.update({} if error else {key: leader}))

    def check(self, broker: SimulatedBroker) -> None:
        for node_id, node in broker.cluster.nodes.items():
            for index in node.coordinators.contexts:
                leader_id = broker.offsets_partition(index).leader_id
                if leader_id != node_id:
                    raise Violation(
                        f"I8: node {node_id} coordinates partition {index}, led by {leader_id}"
                    )
        if broker.topics.version == self._version:
            return
        self._version = broker.topics.version
        for topic in broker.topics:
            for partition in topic.partitions:
                now = partition.leader_epoch, partition.leader_id
                before = self._observed.setdefault((topic.id, partition.index), now)
                if now != before and now[0] <= before[0]:
                    raise Violation(
                        f"I8: {partition.name} goes from (epoch, leader) {before} to {now}"
                    )
                self._observed[topic.id, partition.index] = now
