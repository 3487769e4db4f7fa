"""What may expire: Kafka's rules once more, judged by when the world saw groups become empty and
commits being made, and by what its consumers say they read (the model behind I9).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kohort.coordinator.classic.states import State
from kohort.offsets.records import GroupTombstone, OffsetTombstone
from simulation.setting import topics_in
from simulation.violation import Violation

if TYPE_CHECKING:
    from simulation.commits import Change, Commits, Key


class Retention:
    def __init__(self, commits: Commits, retention_ms: int) -> None:
        self._commits = commits
        self._retention_ms = retention_ms
        self._states: dict[str, State] = {}  # as last seen
        self._empty_since_ms: dict[str, int] = {}
        # When each group came, or became empty: one of these is what a log may say.
        self._moments_ms: dict[str, set[int]] = {}

    # --- what is seen

    def saw(self, group: Any, now: int) -> None:
        """A group, after an event."""
        group_id, state = group.group_id, group.state
        before = self._states.get(group_id)
        if state is before:
            return
        self._states[group_id] = state
        if state is State.EMPTY or before is None:
            self._empty_since_ms[group_id] = now
            self._moments_ms.setdefault(group_id, set()).add(now)

    def forgot(self, group_id: str) -> None:
        self._states.pop(group_id, None)

    def loaded(self, group: Any) -> None:
        """A group, as the log has it."""
        group_id, since_ms = group.group_id, group.state_timestamp_ms
        self._states[group_id] = group.state
        if group.state is State.EMPTY:
            if group.protocol_type and since_ms not in self._moments_ms.get(group_id, ()):
                raise Violation(f"I9: {group_id} is loaded as empty since {since_ms}: it was not")
            self._empty_since_ms[group_id] = since_ms

    # --- what a sweep decides

    def judge(self, coordinator: Any, records: Sequence[Any], now: int) -> None:
        """The records of a tick, before they are applied."""
        gone: set[Key] = set()
        for record in records:
            if isinstance(record, OffsetTombstone):
                key = record.group_id, record.topic, record.partition
                change = self._commits.newest(key)
                self._judge_offset(coordinator.groups.get(record.group_id), key, change, now)
                gone.add(key)
            elif isinstance(record, GroupTombstone):
                self._judge_group(coordinator, record.group_id, gone)
        self._commits.swept(gone)

    def _judge_offset(self, group: Any, key: Key, change: Change, now: int) -> None:
        since_ms = change.decided_ms
        if group is not None and group.protocol_type is not None:
            if group.state is State.EMPTY:
                since_ms = self._empty_since_ms[group.group_id]
            elif group.state is not State.STABLE or key[1] in _read_by(group):
                raise Violation(f"I9: {key} expires, and its group is {group.state}")
        due_ms = since_ms + self._retention_ms
        if change.expire_ms is not None:
            due_ms = change.expire_ms
        if now < due_ms:
            raise Violation(f"I9: {key} expires {due_ms - now} ms too early")

    def _judge_group(self, coordinator: Any, group_id: str, gone: set[Key]) -> None:
        group = coordinator.groups.get(group_id)
        if group is not None and group.state is not State.EMPTY:
            raise Violation(f"I9: {group_id} expires, and it is {group.state}")
        for record in coordinator.offsets.records(group_id):
            if (group_id, record.topic, record.partition) not in gone:
                raise Violation(f"I9: {group_id} expires, and leaves {record} behind")


class _Everything(frozenset[str]):
    def __contains__(self, _topic: object) -> bool:
        return True


def _read_by(group: Any) -> frozenset[str]:
    """What the members of a stable group say that they read; whoever says nothing that a broker
    understands may read anything."""
    said = [topics_in(member.metadata(group.protocol_name)) for member in group.members.values()]
    return _Everything() if None in said else frozenset().union(*said)
