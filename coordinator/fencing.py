"""Who may act? The ids in a request against those of the group."""

from typing import Final

from ..protocol.errors import ErrorCode
from .group import Group
from .voice import EventType

_NONE: Final = ErrorCode.none
_UNKNOWN: Final = ErrorCode.unknown_member_id
_FENCED: Final = ErrorCode.fenced_instance_id


def standing(
    group: Group, member_id: str, group_instance_id: str | None, operation: str
) -> ErrorCode:
    """NONE if this is a member; a pending id is none yet.

    The instance id is looked at first: whoever shows one that another member holds is fenced, even
    with a member id that nobody knows.
    """
    if group_instance_id is not None:
        holder = group.static_members.get(group_instance_id)
        if holder is None:
            return _UNKNOWN
        if holder != member_id:
            group.voice.info(
                "Request memberId=%s for static member with groupInstanceId=%s is fenced by "
                "existing memberId=%s during operation %s",
                member_id,
                group_instance_id,
                holder,
                operation,
            )
            group.voice.tell(
                EventType.MEMBER_FENCED,
                group,
                member_id=member_id,
                instance_id=group_instance_id,
                error=_FENCED,
                detail={"holder": holder, "operation": operation},
            )
            return _FENCED
    return _NONE if member_id in group.members else _UNKNOWN
