"""The oracle: the expected causes of each generation, and where the log alone is ambiguous.

Expected causes are recorded by the code that brings a rebalance about (a crash by the action that
kills the process, a join by the client that sends it), never taken from a reason the broker gives.
A cause is assigned to the first generation in which its effect is visible.

Ambiguities depend only on the contents of the log. docs/diagnosis.md lists them with the reasons;
there, an "unknown" cause counts as correct, and a wrong cause stays wrong.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis.group_history import Generation, GroupHistory, LogEnd, Member

Place = tuple[str, str]
"""Host and client id of a process."""


class ExpectedExit(NamedTuple):
    """A member that has ended or will be removed; any of `causes` is correct."""

    member_id: str
    place: Place
    causes: frozenset[Cause]
    if_back: frozenset[Cause]  # if a new process with the same place is in that generation


class ExpectedGeneration(NamedTuple):
    causes: frozenset[Cause]
    is_empty: bool


class Oracle:
    """The expected causes of one group."""

    def __init__(self) -> None:
        self.generations: dict[tuple[int, int], ExpectedGeneration] = {}
        """Keyed by (life, generation); the life is the number of times the group was deleted."""
        self.replaced: set[tuple[int, int]] = set()
        """(life, generation) of each record that replaces a static member."""
        self.ends: list[Cause] = []
        """The causes of all deletions of the group, in order."""
        self._exits: list[ExpectedExit] = []
        self._joins: list[Place] = []
        self._requested: set[Cause] = set()
        # A possible cause of a rebalance, used if no other cause is expected.
        self._fallback_cause: Cause | None = None
        self._members: frozenset[str] = frozenset()
        self._protocol: str | None = None

    @property
    def pending(self) -> str | None:
        """Actions that have had no effect yet, or None if there are none."""
        pending = [*self._exits, *self._joins, *self._requested]
        return repr(pending) if pending else None

    def expect_exit(
        self,
        member_id: str,
        place: Place,
        causes: Iterable[Cause],
        if_back: Iterable[Cause] | None = None,
    ) -> None:
        """Expect the removal of a member. Later calls for the same member have no effect."""
        if member_id and all(each.member_id != member_id for each in self._exits):
            causes = frozenset(causes)
            back = causes if if_back is None else frozenset(if_back)
            self._exits.append(ExpectedExit(member_id, place, causes, back))

    def cancel_exit(self, member_id: str) -> None:
        """Drop an expected exit: the member stays in the group."""
        self._exits = [each for each in self._exits if each.member_id != member_id]

    def expect_join(self, place: Place) -> None:
        """Expect a process to join."""
        if place not in self._joins:
            self._joins.append(place)

    def cancel_join(self, place: Place) -> None:
        """Drop an expected join: the process ended before it became a member."""
        if place in self._joins:
            self._joins.remove(place)
            self._fallback_cause = Cause.MEMBER_JOINED

    def expect_rebalance(self, *causes: Cause) -> None:
        """Expect a rebalance requested by a member; any of these causes is correct."""
        self._requested.update(causes)

    def cancel_rebalance(self, *causes: Cause) -> None:
        """Drop an expected rebalance: the member received its current assignment instead."""
        self._requested.difference_update(causes)

    def replace_static_member(
        self, generation: int, old_id: str, new_id: str, place: Place
    ) -> None:
        """Record the replacement of a static member, which may cause a rebalance."""
        self.replaced.add((len(self.ends), generation))
        self._members = self._members - {old_id} | {new_id}
        self._exits = [each for each in self._exits if each.member_id != old_id]
        self._joins = [each for each in self._joins if each != place]
        self._fallback_cause = Cause.STATIC_REPLACED

    def delete_group(self, cause: Cause) -> None:
        """Record that the group was deleted or has expired."""
        self.ends.append(cause)
        self._members = frozenset()

    def complete_rebalance(
        self, generation: int, protocol: str | None, members: Iterable[tuple[str, Place]]
    ) -> None:
        """Record a completed rebalance and its expected causes."""
        places = dict(members)
        new = {place for member_id, place in places.items() if member_id not in self._members}
        causes, back = set[Cause](), set[Place]()
        for each in [each for each in self._exits if each.member_id not in places]:
            self._exits.remove(each)
            if each.member_id in self._members:
                causes |= each.if_back if each.place in new else each.causes
                back.add(each.place)
            else:  # the member started the rebalance and ended before it completed
                causes.add(Cause.MEMBER_JOINED)
                self._joins = [place for place in self._joins if place != each.place]
        if (new & set(self._joins)) - back:
            causes.add(Cause.MEMBER_JOINED)
        self._joins = [place for place in self._joins if place not in new]
        causes |= self._requested
        if protocol and self._protocol and protocol != self._protocol:
            causes.add(Cause.PROTOCOL_CHANGED)
        self._protocol = protocol
        if self._fallback_cause is not None and not causes:
            causes.add(self._fallback_cause)
        self._requested.clear()
        self._fallback_cause = None
        if not places:
            causes = {Cause.GROUP_EMPTIED}
        self.generations[len(self.ends), generation] = ExpectedGeneration(
            frozenset(causes), not places
        )
        self._members = frozenset(places)


UNKNOWN_CAUSES = frozenset(
    {
        Cause.GROUP_DELETED_OR_EXPIRED,
        Cause.LEFT_UNKNOWN,
        Cause.SAME_MEMBERS_UNKNOWN,
        Cause.TIMEOUT_AMBIGUOUS,
    }
)

# Cause -> the causes that look the same in the log.
LOOKS_LIKE = {
    Cause.REMOVED_BY_ADMIN: {Cause.LEFT_CLEANLY, Cause.RESTARTED},
    Cause.LEADER_REJOINED: {Cause.SAME_MEMBERS_UNKNOWN},
    Cause.METADATA_CHANGED: {Cause.SAME_MEMBERS_UNKNOWN},
}

CAME_AND_WENT = "a member joined and left between two records"
NEVER_COMMITTED = "a member left before its first commit"
OWNED_NOTHING = "a member without partitions left"
CAUGHT_UP = "a member left while there was nothing to commit"
SAME_TIMEOUTS = "a member left after a silence that matches both timeouts"
NO_OFFSETS = "an empty group without offsets was removed at the next cleanup"
REASONS = (
    CAME_AND_WENT,
    NEVER_COMMITTED,
    OWNED_NOTHING,
    CAUGHT_UP,
    SAME_TIMEOUTS,
    NO_OFFSETS,
)

# How late a timeout may show in the log: commits come every 5 s, heartbeats every 3 s.
SLACK_MS = 10_000


def ambiguity(history: GroupHistory, before: Generation | None, record: Generation) -> str | None:
    """Return why the log is ambiguous about the cause of this record; None if it is not."""
    if before is None or before.tombstone:
        return None
    if record.tombstone:
        return None if _removed(history, before, record) else NO_OFFSETS
    if not record.members:
        return None
    member_ids = {each.member_id for each in record.members}
    missing = [each for each in before.members if each.member_id not in member_ids]
    if not missing:
        is_same = len(member_ids) == len(before.members)
        return CAME_AND_WENT if is_same and _lost(before, record) else None
    reasons = [_of_member(history, before, record, each) for each in missing]
    return None if None in reasons else reasons[0]


def _lost(before: Generation, record: Generation) -> bool:
    return (record.generation or 0) > (before.generation or 0) + 1


def _removed(history: GroupHistory, before: Generation, record: Generation) -> bool:
    """Return True if offsets were deleted with the group."""
    since, until = before.log_offset, record.log_offset
    return any(since < each.log_offset < until for each in history.removals)


def _of_member(
    history: GroupHistory, before: Generation, record: Generation, member: Member
) -> str | None:
    owned = set(member.assigned or ())
    if not owned:
        return OWNED_NOTHING
    commits = [
        each
        for each in history.activities
        if each.generation_log_offset == before.log_offset and (each.topic, each.partition) in owned
    ]
    if not commits:
        return NEVER_COMMITTED
    silence_ms = (record.state_ms or 0) - max(each.last_commit_ms for each in commits)
    timeouts = member.session_timeout_ms, member.rebalance_timeout_ms
    if all(ms - SLACK_MS / 2 <= silence_ms <= ms + SLACK_MS for ms in timeouts):
        return SAME_TIMEOUTS
    if any(each.repeats > 1 for each in commits):
        # The member commits unchanged offsets too, so its last commit shows when it ended.
        return None
    for each in commits:
        end = _end_at(history.log_ends, (each.topic, each.partition), record.state_ms or 0)
        if end is None or end > (each.last_offset or 0):
            return None
    return CAUGHT_UP


def _end_at(ends: Iterable[LogEnd], place: tuple[str, int], ms: int) -> int | None:
    found = [e.log_end for e in ends if (e.topic, e.partition) == place and e.sampled_ms <= ms]
    return found[-1] if found else 0
