"""OffsetCommit: may this one commit, and what is written? The hottest path of all.

Upstream: OffsetMetadataManager.commitOffset, ClassicGroup.validateOffsetCommit.
"""

from typing import Final

from ..offsets.commit_value import offset_commit
from ..offsets.records import OffsetsRecord
from ..protocol.errors import ErrorCode
from .commands import OffsetCommit
from .fencing import standing
from .group import Group
from .results import CommitDone
from .states import COMPLETING, EMPTY, PREPARING, STABLE
from .telling import tell_created, tell_rejected
from .turn import Outcome, Shard, outcome_of

_NONE: Final = ErrorCode.none
_TOO_LARGE: Final = ErrorCode.offset_metadata_too_large
# The answer when all went well, by the number of entries. Clients commit what they are assigned,
# so few numbers occur; longer requests than this are answered by a fresh one.
_ALL_WELL: Final = tuple(CommitDone((_NONE,) * count) for count in range(257))


def decide_commit(shard: Shard, command: OffsetCommit, ticket: int, now: int) -> Outcome:
    group_id, generation_id, member_id, _, entries, offsets, retention_ms, _ = command
    group = shard.groups.get(group_id)
    if group is not None or generation_id >= 0:
        error = _check(shard, group, command)
        if error is not _NONE:
            tell_rejected(shard, group, command, error)
            return outcome_of(ticket, CommitDone((error,) * len(entries)))
        if group is not None and (group.state is STABLE or group.state is PREPARING):
            member = group.members[member_id]
            shard.deadlines.set(member.session, now + member.session_timeout_ms)
    elif not shard.table.has(group_id):
        tell_created(shard, group_id)
    expire_ms = None if retention_ms is None or retention_ms == -1 else now + retention_ms
    records: list[OffsetsRecord] = []
    for place, (topic, partition, leader_epoch, metadata) in enumerate(entries):
        if metadata and _is_too_large(shard, metadata):
            continue
        committed = offsets[place]
        records.append(
            offset_commit(
                group_id, topic, partition, committed, leader_epoch, metadata, now, expire_ms
            )
        )
    count = len(entries)
    if len(records) == count < 257:
        return outcome_of(ticket, _ALL_WELL[count], tuple(records))
    if group is None and not records:
        # No record says so, but the group was accepted: until the next load it exists.
        shard.find(group_id, now) or shard.new_group(group_id, now)
    return outcome_of(ticket, _done(shard, command), tuple(records))


def _done(shard: Shard, command: OffsetCommit) -> CommitDone:
    return CommitDone(
        tuple(
            _TOO_LARGE if _is_too_large(shard, entry.metadata or "") else _NONE
            for entry in command.entries
        )
    )


def _is_too_large(shard: Shard, metadata: str) -> bool:
    """By its length as Java counts it, in UTF-16 units: one or two for a character."""
    limit = shard.config.offset_metadata_max_bytes
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


def _check(shard: Shard, group: Group | None, command: OffsetCommit) -> ErrorCode:
    """Whether this may be committed to a group that is known, or for a generation of one that is
    not. The order is upstream's, and clients can tell."""
    if group is None:
        # A group that has only offsets has no members either.
        known = shard.table.has(command.group_id)
        return ErrorCode.unknown_member_id if known else command.unknown_group
    generation_id, member_id = command.generation_id, command.member_id
    if generation_id < 0 and group.state is EMPTY:
        # From an administrator, or a consumer that assigns itself: its ids are not looked at.
        return _NONE
    instance_id = command.group_instance_id
    if generation_id < 0 and not member_id and instance_id is None:
        return ErrorCode.unknown_member_id
    error = standing(group, member_id, instance_id, "offset-commit")
    if error is not _NONE:
        return error
    if generation_id != group.generation:
        return ErrorCode.illegal_generation
    if group.state is COMPLETING:
        return ErrorCode.rebalance_in_progress
    return _NONE
