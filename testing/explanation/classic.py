"""Explains what a classic group is waiting for."""

from collections.abc import Iterator

from ...coordinator.classic.group import Group
from ...coordinator.classic.group import Member as CoordinatorMember
from ...coordinator.classic.states import COMPLETING, EMPTY, PREPARING, STABLE
from ..group_view import ClassicView, Timers, count_members
from ..timeline.timeline import join_partitions, name_member


class ClassicExplanation:
    def __init__(self, view: ClassicView, timers: Timers) -> None:
        self._view = view
        self._group = view.group
        self._timers = timers

    def state(self) -> str:
        """Return one or more sentences: the state, and what the group is waiting for."""
        group, name = self._group, f"Group {self._group.group_id}"
        if group.state is PREPARING:
            return f"{name} is rebalancing: {self._missing_joins(group)}"
        pending = ", ".join(map(self._name, group.pending_syncs))
        timeout = self._timers.left(group.sync_timer)
        if group.state is COMPLETING:
            return (
                f"{name} waits for the assignment of generation {group.generation} from its leader "
                f"{self._name(group.leader or '')} (SyncGroup). Without the assignment, "
                f"{pending} will be removed in {timeout}."
            )
        in_generation = f"in generation {group.generation}"
        if group.state is STABLE and pending:
            return (
                f"{name} is Stable {in_generation}, but has received no SyncGroup from {pending}. "
                f"Members that do not send it will be removed in {timeout}."
            )
        revoking = "; ".join(
            f"{each.name} must revoke {join_partitions(each.revoking)} and rejoin"
            for each in self._view.members
            if each.revoking
        )
        if revoking:
            return f"{name} is Stable {in_generation}, but {revoking}, so it will rebalance again."
        if group.state is STABLE:
            return f"{name} is Stable {in_generation} with {count_members(len(group.members))}."
        if group.state is EMPTY:
            return f"{name} is Empty: it has no members. Its generation is {group.generation}."
        return f"{name} is {group.state}."

    def _missing_joins(self, group: Group) -> str:
        timers = self._timers
        left = timers.left(group.join_timer)
        if group.in_initial_rebalance:
            return (
                f"its first members have joined, and it waits another {left} for others "
                "(group.initial.rebalance.delay.ms)."
            )
        missing = [m.member_id for m in group.members.values() if m.join_ticket is None]
        missing += group.pending_joins
        if not missing:
            # Kafka does not complete a rebalance when it rejects the last missing member.
            return (
                f"all {count_members(group.awaiting_joins)} have rejoined. As in Kafka, the "
                f"rebalance completes at its timeout, in {left}."
            )
        text = (
            f"{group.awaiting_joins} of {len(group.members)} members have rejoined. It waits for "
            f"{', '.join(map(self._name, missing))}, at most {left} (the longest "
            "max.poll.interval.ms of its members)."
        )
        sessions = {each: timers.due_ms(timers.session(each)) for each in missing}
        due = {member_id: due_ms for member_id, due_ms in sessions.items() if due_ms is not None}
        first = min(due, key=due.__getitem__, default=None)
        join_due_ms = timers.due_ms(group.join_timer)
        if first is None or join_due_ms is None or due[first] >= join_due_ms:
            return text
        ends = f"the session of {self._name(first)} expires in {timers.session_left(first)}"
        return f"{text} Without a heartbeat {ends}."

    def _name(self, member_id: str) -> str:
        member = self._group.members.get(member_id)
        return member_id if member is None else name_member(member_id, member.client_id)

    def details(self) -> Iterator[str]:
        """Yield lines about the last rebalance and the members."""
        group = self._group
        if (reason := group.rebalance_reason) is not None:
            yield f"last rebalance: {reason.cause} ({reason.text})"
        yield from (self._describe(each) for each in group.members.values())
        yield from (
            f"{pending}: a member id that has not been used to join; it expires in "
            f"{self._timers.session_left(pending)}"
            for pending in group.pending_joins
        )

    def _describe(self, member: CoordinatorMember) -> str:
        group = self._group
        name = f"{member.group_instance_id} = " if member.group_instance_id else ""
        leads = ", leader" if member.member_id == group.leader else ""
        client = f"{member.client_id} at {member.client_host}{leads}"
        facts = []
        if group.state is PREPARING:
            facts.append("has rejoined" if member.join_ticket is not None else "has not rejoined")
        elif member.sync_ticket is not None:
            facts.append("waits for its assignment")
        elif member.member_id in group.pending_syncs:
            facts.append("has not sent SyncGroup")
        if not member.has_waiting_request:
            facts.append(f"its session expires in {self._timers.session_left(member.member_id)}")
        return f"{name}{member.member_id} ({client}): {'; '.join(facts)}"
