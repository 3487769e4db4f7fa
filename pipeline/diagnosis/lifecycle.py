"""A group from its first record to its end, and when it will expire."""

from typing import Final

from ...offsets.causes import Cause
from .events import Witness
from .history import History
from .rebalances import account
from .rows import GroupLifecycle
from .story import Removal, Story, TopicPartition

__all__ = ["lifecycle"]

KINDS: Final = {
    Cause.GROUP_EXPIRED.name: "EXPIRED",
    Cause.GROUP_DELETED.name: "DELETED",
    Cause.GROUP_DELETED_OR_EXPIRED.name: "DELETED_OR_EXPIRED",
}


def lifecycle(story: Story) -> GroupLifecycle:
    history = History(story)
    records = history.records
    newest = records[-1] if records else None
    empty = next((record for record in reversed(records) if not record.tombstone), None)
    emptied_at = empty.state_ms if empty is not None and not empty.members else None
    converted = newest is not None and newest.converted
    if converted:
        emptied_at = None  # when it was last, its classic records do not say
    last_commit = max((a.last_commit_ms for a in history.activities), default=None)
    deleted_at, end_kind = None, None
    if newest is not None and newest.tombstone and not converted:
        if last_commit is None or newest.append_ms is None or last_commit <= newest.append_ms:
            deleted_at = newest.append_ms
            end_kind = KINDS[account(story).rebalances[-1].cause]
    elif (gone := _all_offsets_gone(history)) is not None:
        deleted_at, end_kind = gone.append_ms, _why_offsets_went(story, gone, last_commit)
    expires = None
    if deleted_at is None and emptied_at is not None and history.activities:
        expires = emptied_at + story.offsets_retention_ms
    return GroupLifecycle(
        cluster=story.cluster,
        group=story.group,
        first_seen=_first_seen(history),
        last_commit=last_commit,
        emptied_at=emptied_at,
        deleted_at=deleted_at,
        end_kind=end_kind,
        expires_at_est=expires,
    )


def _first_seen(history: History) -> int:
    story = history.story
    times = [record.state_ms or record.append_ms for record in history.records]
    times += [activity.first_commit_ms for activity in history.activities]
    times += [removal.append_ms for removal in story.removals]
    return min((time for time in times if time is not None), default=story.as_of_ms)


def _all_offsets_gone(history: History) -> Removal | None:
    """The last tombstone, if no offset is left; of partitions whose commits and tombstones are of
    the same time, the tombstone counts."""
    gone: dict[TopicPartition, Removal] = {}
    for removal in history.story.removals:
        gone[removal.topic, removal.partition] = removal
    if not gone:
        return None
    for activity in history.activities:
        last = gone.get((activity.topic, activity.partition))
        if last is None or activity.last_commit_ms > last.append_ms:
            return None
    return max(gone.values(), key=lambda removal: removal.log_offset)


def _why_offsets_went(story: Story, gone: Removal, last_commit: int | None) -> str:
    told = Witness(story).offsets_went(gone.append_ms)
    if told is not None:
        return {Cause.OFFSETS_EXPIRED: "EXPIRED", Cause.TOPIC_DELETED: "TOPIC_DELETED"}.get(
            told, "OFFSETS_DELETED"
        )
    if last_commit is not None and gone.append_ms - last_commit >= story.offsets_retention_ms:
        return "EXPIRED"
    return "OFFSETS_DELETED"
