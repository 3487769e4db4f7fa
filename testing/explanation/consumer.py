"""Explains what a consumer group (KIP-848) is waiting for."""

from collections.abc import Collection, Iterator

from ...coordinator.consumer.group import LEAVE_STATIC_EPOCH, MemberState
from ...coordinator.consumer.group import Member as CoordinatorMember
from ..group_view import ConsumerView, Member, Timers, count_members
from ..recorded_request import TopicPartition
from ..timeline.timeline import join_partitions

# More members would bury the relevant ones.
EXPLAINED_MEMBERS_MAX = 10


class ConsumerExplanation:
    def __init__(
        self,
        view: ConsumerView,
        timers: Timers,
        assignment_interval_ms: int,
        fenced: Collection[str | None],
        *,
        is_held: bool,
    ) -> None:
        """`fenced`: the ids of members whose last heartbeat got FENCED_MEMBER_EPOCH."""
        self._view = view
        self._group = view.group
        self._members = {each.member_id: each for each in view.members}
        self._timers = timers
        self._assignment_interval_ms = assignment_interval_ms
        self._fenced = fenced
        self._is_held = is_held

    def state(self) -> str:
        """Return one or more sentences: the state, and what the group is waiting for."""
        group, name = self._group, f"Group {self._group.group_id}"
        if not group.members:
            return f"{name} is Empty: it has no members. Its epoch is {group.epoch}."
        count = count_members(len(group.members))
        if group.epoch > group.assignment_epoch:
            text = f"{name} is Assigning in epoch {group.epoch} with {count}: {self._unassigned()}"
        else:
            text = f"{name} is {group.state} in epoch {group.epoch} with {count}."
        waits = [
            wait for each in group.members.values() if (wait := self._wait_of(each)) is not None
        ]
        omitted = len(waits) - EXPLAINED_MEMBERS_MAX
        have = "member has" if omitted == 1 else "members have"
        more = [f"{omitted} more {have} not reconciled."] if omitted > 0 else []
        return " ".join([text, *waits[:EXPLAINED_MEMBERS_MAX], *more])

    def _unassigned(self) -> str:
        """Return why the group epoch has no target assignment."""
        epoch = self._group.epoch
        if self._is_held:
            return f"the test holds its assignment of epoch {epoch} (group.hold_assignment())."
        due_ms = self._group.assignment_timestamp_ms + self._assignment_interval_ms
        if self._group.assignment_timestamp_ms and due_ms > self._timers.now_ms:
            return (
                f"it waits for the assignment interval, which ends in {self._timers.until(due_ms)} "
                "(group.consumer.assignment.interval.ms)."
            )
        return "the next heartbeat of a member computes the assignment."

    def _wait_of(self, member: CoordinatorMember) -> str | None:
        """Return a sentence about what the group is waiting for; None if the member has
        reconciled."""
        member_id, timers = member.member_id, self._timers
        viewed = self._members[member_id]
        epoch = self._group.assignment_epoch
        if member.has_left_temporarily:
            return (
                f"Static member {member.group_instance_id} has left temporarily. Its partitions "
                f"are kept for {timers.session_left(member_id)}."
            )
        if member.uses_classic_protocol:
            return self._wait_of_classic(member)
        if member.state is MemberState.UNKNOWN:
            return f"Member {viewed.name} is fenced: {self._wait_of_fenced(member_id)}."
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            left = self._left("revocation", member_id)
            revoked = self._revoked(viewed)
            return f"Member {viewed.name} is revoking {revoked} and has to finish within {left}."
        if member.epoch < epoch:
            return (
                f"Member {viewed.name} gets its assignment of epoch {epoch} with its next "
                f"heartbeat; its session expires in {timers.session_left(member_id)}."
            )
        return self._wait_for_owners(viewed)

    def _wait_of_fenced(self, member_id: str) -> str:
        left = self._timers.session_left(member_id)
        if member_id in self._fenced:
            return (
                "it got FENCED_MEMBER_EPOCH and has to rejoin; otherwise its partitions remain "
                f"assigned to it until its session expires in {left}"
            )
        return (
            "its next heartbeat gets FENCED_MEMBER_EPOCH, and it has to rejoin; without a "
            f"heartbeat, its session expires in {left}"
        )

    def _wait_of_classic(self, member: CoordinatorMember) -> str | None:
        member_id, epoch = member.member_id, self._group.assignment_epoch
        viewed = self._members[member_id]
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if member.epoch < epoch or is_revoking:
            left = self._left("member join", member_id)
            revokes = f", and to revoke {self._revoked(viewed)}" if viewed.revoking else ""
            within = left and f" within {left}"
            return f"Classic member {viewed.name} has to rejoin{revokes}{within}."
        if self._view.due_ms("member sync", member_id) is not None:
            left = self._left("member sync", member_id)
            return f"Classic member {viewed.name} has to send SyncGroup within {left}."
        return self._wait_for_owners(viewed)

    def _wait_for_owners(self, member: Member) -> str | None:
        missing = sorted(set(member.target) - set(member.partitions))
        if not missing:
            return None
        owners: dict[str, list[TopicPartition]] = {}
        for partition in missing:
            owners.setdefault(self._owner(partition, member), []).append(partition)
        waits = ", ".join(
            f"{join_partitions(partitions)}{f' of {owner}' if owner else ''}"
            for owner, partitions in owners.items()
        )
        return f"Member {member.name} waits for {waits}."

    def _owner(self, partition: TopicPartition, other: Member) -> str:
        """Return the name of the member that owns the partition; "" if it is free."""
        for each in self._members.values():
            if each is not other and partition in each.partitions + each.revoking:
                return each.name
        return ""

    def _revoked(self, member: Member) -> str:
        """Return the partitions that the member has to revoke: `orders-0 for member app-2,
        orders-1`."""
        of_member: dict[str, list[TopicPartition]] = {}
        for partition in member.revoking:
            heirs = (each for each in self._members.values() if partition in each.target)
            heir = next(heirs, member)
            of_member.setdefault("" if heir is member else heir.name, []).append(partition)
        return ", ".join(
            f"{join_partitions(partitions)}{f' for member {heir}' if heir else ''}"
            for heir, partitions in of_member.items()
        )

    def _left(self, kind: str, member_id: str) -> str:
        """Return the time left until a deadline of the member; "" if it has none."""
        due_ms = self._view.due_ms(kind, member_id)
        return "" if due_ms is None else self._timers.until(due_ms)

    def details(self) -> Iterator[str]:
        """Yield lines about the group's epochs and its members."""
        group = self._group
        yield f"group epoch {group.epoch}, assignment epoch {group.assignment_epoch}"
        yield from (self._describe(each) for each in self._members.values())

    def _describe(self, member: Member) -> str:
        name = f"{member.instance_id} = " if member.instance_id else ""
        client = f"{member.client_id} at {member.client_host}, {member.protocol} protocol"
        has_left = member.epoch == LEAVE_STATIC_EPOCH
        epoch = "has left temporarily" if has_left else f"epoch {member.epoch}"
        is_fenced = self._group.members[member.member_id].state is MemberState.UNKNOWN
        facts = [
            epoch,
            *(["is fenced"] if is_fenced else []),
            f"owns {join_partitions(member.partitions)}",
        ]
        if member.revoking:
            facts.append(f"is revoking {join_partitions(member.revoking)}")
        if member.target != member.partitions:
            facts.append(f"should own {join_partitions(member.target)}")
        facts.append(f"its session expires in {self._timers.session_left(member.member_id)}")
        return f"{name}{member.member_id} ({client}): {'; '.join(facts)}"
