"""What is told of groups that come, and of commits: those that were rejected, and, only where asked
for, all the others.

The offsets are in an event's detail: {"topic-partition": "offset"}.
"""

from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .commands import OffsetCommit
from .group import Group
from .results import CommitDone
from .states import EMPTY
from .turn import Outcome, Shard
from .voice import EventType


def tell_created(shard: Shard, group: Group | str) -> None:
    shard.voice.tell(EventType.GROUP_CREATED, group, state_to=EMPTY, cause=Cause.GROUP_CREATED)


def tell_rejected(
    shard: Shard, group: Group | None, command: OffsetCommit, error: ErrorCode
) -> None:
    """Work that will be done again, or is lost. The generation is the one it was for."""
    shard.voice.tell(
        EventType.COMMIT_REJECTED,
        group or command.group_id,
        None if group is None else group.members.get(command.member_id),
        member_id=command.member_id or None,
        instance_id=command.group_instance_id,
        generation=command.generation_id,
        error=error,
        detail={
            f"{entry.topic}-{entry.partition}": str(offsets[-1])
            for entry, offsets in zip(command.entries, command.offsets, strict=True)
        },
    )


def tell_accepted(shard: Shard, command: OffsetCommit, outcome: Outcome) -> None:
    """Of a commit of which nothing was accepted nothing is told here."""
    _, ((_, done),) = outcome
    assert isinstance(done, CommitDone)
    detail = {
        f"{entry.topic}-{entry.partition}": str(offsets[-1])
        for entry, offsets, error in zip(command.entries, command.offsets, done.errors, strict=True)
        if error is ErrorCode.none
    }
    if not detail:
        return
    group = shard.groups.get(command.group_id)
    shard.voice.tell(
        EventType.COMMIT_ACCEPTED,
        command.group_id,
        None if group is None else group.members.get(command.member_id),
        member_id=command.member_id or None,
        instance_id=command.group_instance_id,
        generation=command.generation_id,
        detail=detail,
    )
