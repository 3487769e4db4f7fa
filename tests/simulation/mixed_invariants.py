"""The invariants of groups in which both protocols are used, as far as they follow from responses.

I1  Within an epoch a partition has one owner.
I2  The epochs of a group grow until it is deleted, or empty and replaced by a group of the other
    protocol; so do the epochs that one member receives.
I5  A member that has to revoke partitions has some, or it would be removed for no reason.
I6  An older epoch commits nothing that another member has owned since; a classic member's
    older generation, and a member that has left, always get an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.coordinator.commands import (
    ConsumerGroupHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    SyncGroup,
)
from kohort.coordinator.consumer.group import MemberState
from kohort.protocol.errors import ErrorCode
from simulation.config import TOPIC
from simulation.mixed_actors import partitions_in
from simulation.models import Violation

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.coordinator import Coordinator
    from simulation.network import Request

NONE = ErrorCode.none


class KnownEpochs(NamedTuple):
    """What responses had stated when a request was submitted."""

    group: StatedEpochs
    epoch: int  # the newest that the member received; -1: none
    has_left: bool
    owners: dict[int, tuple[int, str]]  # partition -> since which epoch, owner


@dataclass
class StatedEpochs:
    """What the responses of one group have stated, from its creation to its end."""

    epochs: dict[str, int] = field(default_factory=dict)  # keyed by member
    durable: int = -1  # the newest epoch that survives a crash
    left: set[str] = field(default_factory=set)
    owners: dict[tuple[int, int], str] = field(default_factory=dict)  # keyed by epoch and partition
    newest: dict[int, tuple[int, str]] = field(default_factory=dict)  # keyed by partition


class Seen(NamedTuple):
    """A group when it was last observed."""

    number: int  # its generation or epoch
    is_empty: bool


class MixedInvariants:
    def __init__(self) -> None:
        self._stated: dict[str, StatedEpochs] = {}
        self._seen: dict[str, Seen] = {}

    def known(self, request: Request) -> KnownEpochs:
        command = request.command
        stated = self._stated.setdefault(command.group_id, StatedEpochs())
        member_id = getattr(command, "member_id", "")
        epoch = stated.epochs.get(member_id, -1)
        return KnownEpochs(stated, epoch, member_id in stated.left, dict(stated.newest))

    # --- groups

    def observe(self, coordinator: Coordinator, group_ids: list[str]) -> None:
        for group_id in group_ids:
            classic = coordinator.groups.get(group_id)
            consumer = coordinator.consumer_groups.get(group_id)
            if classic is not None and consumer is not None:
                raise Violation(f"I4: {group_id} exists twice")
            number = -1
            if classic is not None:
                number = classic.generation
            elif consumer is not None:
                number = consumer.epoch
                _check_revocations(consumer)
            before = self._seen.get(group_id)
            if before is not None and number < before.number:
                if not before.is_empty:
                    raise Violation(f"I2: {group_id} returns to {number} from {before}")
                self._stated.pop(group_id, None)
            group = classic or consumer
            self._seen[group_id] = Seen(number, group is None or not group.members)

    def loaded(self, coordinator: Coordinator, group_ids: list[str]) -> None:
        """Start with what responses have stated, because the log may lack what was only
        observed."""
        for group_id in group_ids:
            self._seen.pop(group_id, None)
            stated = self._stated.get(group_id)
            if stated is None:
                continue
            group = coordinator.groups.get(group_id)
            consumer = coordinator.consumer_groups.get(group_id)
            number = -1 if group is None else group.generation
            number = number if consumer is None else consumer.epoch
            if number < stated.durable:
                raise Violation(f"I2: {group_id} is loaded at {number}, was at {stated.durable}")
            # A generation of a classic group that was not synced is lost.
            stated.epochs = {member: min(epoch, number) for member, epoch in stated.epochs.items()}

    # --- responses

    def completed(self, request: Request, result: Any, known: KnownEpochs) -> None:
        command = request.command
        stated = self._stated.get(command.group_id)
        if stated is not known.group:
            return  # the response is about a group that no longer exists
        if isinstance(command, OffsetCommit):
            if command.generation_id >= 0:
                self._check_commit(request, result, known)
        elif result.error_code is NONE:
            if known.has_left and not _is_join(command) and not isinstance(command, LeaveGroup):
                raise Violation(f"I6: {request} succeeds after its member has left")
            self._succeeded(stated, request, result, known)

    def _check_commit(self, request: Request, result: Any, known: KnownEpochs) -> None:
        command = request.command
        for entry, error in zip(command.entries, result.errors, strict=True):
            if error is not NONE:
                continue
            if known.has_left:
                raise Violation(f"I6: {request} succeeds after its member has left")
            if entry.topic != TOPIC or command.generation_id >= known.epoch:
                continue
            since, owner = known.owners.get(entry.partition, (-1, ""))
            mine = command.group_instance_id or command.member_id
            if since > command.generation_id and owner != mine:
                raise Violation(f"I6: {request} succeeds; {owner} has owned it since {since}")

    def _succeeded(
        self, stated: StatedEpochs, request: Request, result: Any, known: KnownEpochs
    ) -> None:
        command = request.command
        match command:
            case LeaveGroup():
                for each in result.members:
                    if each.error_code is NONE and each.member_id:
                        stated.left.add(each.member_id)
            case ConsumerGroupHeartbeat(member_epoch=-1 | -2):
                stated.left.add(command.member_id)
            case ConsumerGroupHeartbeat():
                self._receive(stated, request, command.member_id, result.member_epoch)
                stated.durable = max(stated.durable, result.member_epoch)
                mine = command.instance_id or command.member_id
                for topic_id, partitions in result.assignment or ():
                    if topic_id == request.topic_id:
                        self._own(stated, request, result.member_epoch, mine, partitions)
            case JoinGroup():
                self._receive(stated, request, result.member_id, result.generation_id)
            case Heartbeat() | SyncGroup():
                if command.generation_id < known.epoch:
                    raise Violation(f"I6: {request} succeeds, but is at {known.epoch}")
                if isinstance(command, SyncGroup):
                    stated.durable = max(stated.durable, command.generation_id)
                    mine = command.group_instance_id or command.member_id
                    partitions = partitions_in(result.assignment)
                    self._own(stated, request, command.generation_id, mine, partitions)

    def _receive(self, stated: StatedEpochs, request: Request, member_id: str, epoch: int) -> None:
        if epoch < stated.epochs.get(member_id, -1):
            raise Violation(f"I2: {request} receives {epoch} after {stated.epochs[member_id]}")
        stated.epochs[member_id] = epoch
        stated.left.discard(member_id)

    def _own(
        self, stated: StatedEpochs, request: Request, epoch: int, owner: str, partitions: Any
    ) -> None:
        for partition in partitions:
            other = stated.owners.setdefault((epoch, partition), owner)
            if other != owner:
                raise Violation(f"I1: {request}: {other} and {owner} own {partition} in {epoch}")
            if epoch >= stated.newest.get(partition, (-1, ""))[0]:
                stated.newest[partition] = epoch, owner


def _check_revocations(group: ConsumerGroup) -> None:
    for member in group.members.values():
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if is_revoking and not member.has_left_temporarily and not member.pending_revocation:
            raise Violation(f"I5: {member.member_id} of {group.group_id} has nothing to revoke")


def _is_join(command: Any) -> bool:
    return isinstance(command, JoinGroup) or (
        isinstance(command, ConsumerGroupHeartbeat) and command.member_epoch == 0
    )
