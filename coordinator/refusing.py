"""A decision whose records the log does not take: they are larger than max.message.bytes. None of
them was applied, but the decision has promised answers, and changed the group in memory.

Upstream: what becomes of the append futures in GroupMetadataManager.
"""

from ..offsets.causes import Cause
from ..offsets.records import GroupMetadataRecord
from ..protocol.errors import ErrorCode
from .group import Group
from .rebalance import prepare
from .replacing import take_back
from .results import CommitDone, Joined, Result, Synced, append_error, sync_refused
from .states import COMPLETING, STABLE
from .turn import Outcome, Shard, Turn
from .voice import EventType, Why

_ERROR = append_error(ErrorCode.message_too_large)


def decide_refused(shard: Shard, outcome: Outcome, now: int) -> Outcome:
    """What is decided instead of `outcome`."""
    turn = Turn(shard, now)
    records, replies = outcome
    leader = ""
    for record in records:
        if isinstance(record, GroupMetadataRecord):
            group = shard.groups[record.group_id]
            _go_on(turn, group)
            leader = group.leader or ""
    for ticket, result in replies:
        turn.answer(ticket, _refused(result, leader))
    return turn.outcome()


def _go_on(turn: Turn, group: Group) -> None:
    group.proposed = None
    if group.state is COMPLETING:
        # Who is parked hears of it, like the leader; then all have to join again.
        reason = (
            f"Error {_ERROR.name.upper()} when storing group assignment during SyncGroup "
            f"(member: {group.leader})."
        )
        turn.voice.tell(EventType.STATE_CHANGE, group, state_from=STABLE, state_to=COMPLETING)
        prepare(turn, group, Why(Cause.ASSIGNMENT_TOO_LARGE, reason))
    elif group.replaced is not None:
        take_back(turn, group, group.replaced)


def _refused(result: Result, leader: str) -> Result:
    match result:
        case CommitDone(errors):
            return CommitDone((_ERROR,) * len(errors))
        case Synced(ErrorCode.none):
            return sync_refused(_ERROR)
        case Joined(ErrorCode.none):
            # A static member that came back hears all as it was, but of no id for itself.
            _, generation_id, protocol_type, protocol_name, *_ = result
            return Joined(
                _ERROR, generation_id, protocol_type, protocol_name, leader, "", (), False
            )
    return result
