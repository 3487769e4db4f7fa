"""OffsetFetch: what is committed. Touches no timer and asks nobody who they are.

Whether a group exists makes no difference: no offset is no error. Members of classic groups are
not checked (upstream: ClassicGroup.validateOffsetFetch). What require_stable would have to wait for
is what the runtime waits for anyway, and transactions that a Kafka left open.
"""

from ..offsets.records import OffsetAndMetadata
from ..protocol.errors import ErrorCode
from .commands import OffsetFetch
from .results import Fetched, FetchedPartition
from .turn import Outcome, Shard, make, outcome_of

_NONE = ErrorCode.none


def decide_fetch(shard: Shard, command: OffsetFetch, ticket: int, _now: int) -> Outcome:
    group_id = command.group_id
    found: list[tuple[str, tuple[FetchedPartition, ...]]] = []
    if command.topics is None:
        for topic, committed in shard.table.of_group(group_id).items():
            found.append((topic, tuple(_found(p, c) for p, c in committed.items())))
    else:
        get = shard.table.get
        for topic, partitions in command.topics:
            found.append((topic, tuple([_found(p, get(group_id, topic, p)) for p in partitions])))
    if shard.foreign.pending and command.require_stable:
        found = [(topic, _stable(shard, group_id, topic, parts)) for topic, parts in found]
    return outcome_of(ticket, make(Fetched, (_NONE, tuple(found))))


def _stable(
    shard: Shard, group_id: str, topic: str, partitions: tuple[FetchedPartition, ...]
) -> tuple[FetchedPartition, ...]:
    pending = shard.foreign.pending
    return tuple(
        FetchedPartition(each.partition, -1, -1, "", ErrorCode.unstable_offset_commit)
        if (group_id, topic, each.partition) in pending
        else each
        for each in partitions
    )


def _found(partition: int, committed: OffsetAndMetadata | None) -> FetchedPartition:
    if committed is None:
        return make(FetchedPartition, (partition, -1, -1, "", _NONE))
    offset, leader_epoch, metadata, _, _ = committed
    return make(FetchedPartition, (partition, offset, leader_epoch, metadata, _NONE))
