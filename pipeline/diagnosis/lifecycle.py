"""A group's creation, deletion and expected expiry (gold_group_lifecycle)."""

from typing import Final

from ...offsets.causes import Cause
from .event_log import EventLog
from .group_history import GroupHistory, Removal, TopicPartition
from .history_index import HistoryIndex
from .rebalances import explain
from .rows import GroupLifecycle

END_KINDS: Final = {
    Cause.GROUP_EXPIRED.name: "EXPIRED",
    Cause.GROUP_DELETED.name: "DELETED",
    Cause.GROUP_DELETED_OR_EXPIRED.name: "DELETED_OR_EXPIRED",
}


def lifecycle(history: GroupHistory) -> GroupLifecycle:
    index = HistoryIndex(history)
    newest = index.records[-1] if index.records else None
    last_commit = max((a.last_commit_ms for a in index.activities), default=None)
    deleted_at, end_kind = None, None
    last = next((record for record in reversed(index.records) if not record.tombstone), None)
    if newest is not None and newest.tombstone and index.activity(newest):
        newest = last = None  # the group exists again, with offsets only
    if newest is not None and newest.tombstone:
        deleted_at = newest.append_ms
        # An event log that does not belong to this log may contain any cause.
        cause = explain(history).rebalances[-1].cause
        end_kind = END_KINDS.get(cause, END_KINDS[Cause.GROUP_DELETED_OR_EXPIRED.name])
    elif (newest is None or not newest.members) and (
        removal := _removal_of_all_offsets(index)
    ) is not None:
        deleted_at, end_kind = removal.append_ms, _end_kind(history, removal, last_commit)
    emptied_at, expires = None, None
    if last is not None and not last.members and last.state_ms is not None:
        emptied_at, since = last.state_ms, index.retained_since(last, None)
        if deleted_at is None and since is not None and index.activities:
            expires = max(emptied_at, since + history.offsets_retention_ms)
    return GroupLifecycle(
        cluster=history.cluster,
        group=history.group,
        first_seen=_first_seen(index),
        last_commit=last_commit,
        emptied_at=emptied_at,
        deleted_at=deleted_at,
        end_kind=end_kind,
        expires_at_est=expires,
    )


def _first_seen(index: HistoryIndex) -> int:
    times = [record.state_ms or record.append_ms for record in index.records]
    times += [activity.first_commit_ms for activity in index.activities]
    times += [removal.append_ms for removal in index.history.removals]
    known = [time for time in times if time is not None]
    return min(known, default=index.history.as_of_ms)


def _removal_of_all_offsets(index: HistoryIndex) -> Removal | None:
    """Return the last tombstone if every committed partition has a tombstone. A tombstone with the
    timestamp of the last commit is treated as later."""
    removed: dict[TopicPartition, Removal] = {}
    for removal in index.history.removals:
        removed[removal.topic, removal.partition] = removal
    for activity in index.activities:
        last = removed.get((activity.topic, activity.partition))
        if last is None or activity.last_commit_ms > last.append_ms:
            return None
    return max(removed.values(), key=lambda removal: removal.log_offset, default=None)


def _end_kind(history: GroupHistory, removal: Removal, last_commit: int | None) -> str:
    cause = EventLog(history).cause_of_offsets_deletion(removal.append_ms)
    if cause is None:
        retention_ms = history.offsets_retention_ms
        is_expired = last_commit is not None and removal.append_ms - last_commit >= retention_ms
        cause = Cause.OFFSETS_EXPIRED if is_expired else Cause.OFFSETS_DELETED
    kinds = {Cause.OFFSETS_EXPIRED: "EXPIRED", Cause.TOPIC_DELETED: "TOPIC_DELETED"}
    return kinds.get(cause, "OFFSETS_DELETED")
