"""Why a group is where it is: one sentence, or all that can be said of it.

Who has not rejoined, which timer runs and how long it still does: what a developer would have to
piece together from the logs of the broker and of each client.
"""

from collections.abc import Iterable, Iterator

from ..broker.groups.coordinator import Coordinator
from ..broker.groups.deadline_keys import DeadlineKey
from ..broker.groups.group import Group
from ..broker.groups.members import Member
from ..broker.groups.states import COMPLETING, EMPTY, PREPARING, STABLE
from .asked import Asked

# So many requests of its members end a group's story: two or three rounds of a small group.
LAST_REQUESTS = 12


def explain(coordinator: Coordinator | None, group_id: str, now_ms: int) -> str:
    """One plain sentence on what the group waits for."""
    group = None if coordinator is None else coordinator.groups.get(group_id)
    if coordinator is None or group is None:
        if coordinator is not None and coordinator.table.has(group_id):
            return f"{group_id} is Empty: it has offsets, and no member has ever joined."
        return f"{group_id} does not exist: nobody has joined it, and nothing was committed for it."
    left = _Left(coordinator, now_ms)
    if group.state is PREPARING:
        return f"{group_id} is rebalancing: {_joins(group, left)}"
    if group.state is COMPLETING:
        owing = _listed(group.pending_syncs)
        return (
            f"{group_id} waits for its leader {group.leader} to bring the assignment of generation "
            f"{group.generation} (SyncGroup); without it {owing} are out in "
            f"{left.of(group.sync_timer)}."
        )
    if group.state is STABLE and group.pending_syncs:
        return (
            f"{group_id} is Stable in generation {group.generation}, but "
            f"{_listed(group.pending_syncs)} has not asked for its assignment yet, and is out in "
            f"{left.of(group.sync_timer)}."
        )
    if group.state is STABLE:
        count = len(group.members)
        return (
            f"{group_id} is Stable in generation {group.generation} with {count} "
            f"member{'s' * (count != 1)}: nothing is under way."
        )
    if group.state is EMPTY:
        return f"{group_id} is Empty: nobody is in it. Its generation is {group.generation}."
    return f"{group_id} is {group.state}."


def tell(
    coordinator: Coordinator | None, group_id: str, now_ms: int, requests: Iterable[Asked]
) -> str:
    """The whole story: the sentence, each member, and what they last asked."""
    lines = [explain(coordinator, group_id, now_ms)]
    group = None if coordinator is None else coordinator.groups.get(group_id)
    if coordinator is not None and group is not None:
        left = _Left(coordinator, now_ms)
        if group.why is not None:
            lines.append(f"  last round because: {group.why.cause} ({group.why.reason})")
        lines += [f"  {_of_member(group, each, left)}" for each in group.members.values()]
        lines += [
            f"  {pending}: was given this id, and has not joined with it; it is forgotten in "
            f"{left.session(group, pending)}"
            for pending in group.pending_joins
        ]
    last = list(requests)[-LAST_REQUESTS:]
    lines += ["  last requests:"] if last else ["  no request has named this group"]
    lines += [f"    {(each.at_ms - now_ms) / 1000:+.3f} s  {each}" for each in last]
    return "\n".join(lines)


class _Left:
    """How long the timers of a coordinator still run, as text."""

    def __init__(self, coordinator: Coordinator, now_ms: int) -> None:
        self._deadlines = coordinator.deadlines
        self._now_ms = now_ms

    def of(self, key: DeadlineKey) -> str:
        due = self._deadlines.get(key)
        return "(no timer runs)" if due is None else f"{(due - self._now_ms) / 1000:.1f} s"

    def session(self, group: Group, member_id: str) -> str:
        return self.of(DeadlineKey("session", group.group_id, member_id))


def _joins(group: Group, left: _Left) -> str:
    if group.is_initial:
        return (
            "its first members have joined, and latecomers are waited for, "
            f"{left.of(group.join_timer)} more (group.initial.rebalance.delay.ms)."
        )
    absent = [m.member_id for m in group.members.values() if m.join_ticket is None]
    who = _listed([*absent, *group.pending_joins]) or "nobody"
    return (
        f"{group.awaiting_joins} of {len(group.members)} members have rejoined; "
        f"it waits for {who}, {left.of(group.join_timer)} more "
        "(the longest max.poll.interval.ms of its members)."
    )


def _of_member(group: Group, member: Member, left: _Left) -> str:
    said = list(_what_it_does(group, member, left))
    name = f"{member.group_instance_id} = " if member.group_instance_id else ""
    leads = ", leader" if member.member_id == group.leader else ""
    who = f"{name}{member.member_id} ({member.client_id} at {member.client_host}{leads})"
    return f"{who}: {'; '.join(said)}"


def _what_it_does(group: Group, member: Member, left: _Left) -> Iterator[str]:
    if group.state is PREPARING:
        yield "has rejoined" if member.join_ticket is not None else "has not rejoined"
    elif member.sync_ticket is not None:
        yield "waits for its assignment"
    elif member.member_id in group.pending_syncs:
        yield "has not asked for its assignment"
    if not member.is_excused:
        yield f"its session ends in {left.session(group, member.member_id)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
