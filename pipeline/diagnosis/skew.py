"""How evenly a generation's partitions are shared, and whether those who have more are behind."""

from collections.abc import Iterable
from statistics import fmean, pstdev

from .history import History
from .rows import Skew
from .story import Generation, Member, Story, TopicPartition

__all__ = ["skews"]


def skews(story: Story) -> list[Skew]:
    """Of each record with members: of all topics together (topic None), then of each. None where
    assignments cannot be read."""
    history = History(story)
    rows: list[Skew] = []
    for index, record in enumerate(history.records):
        if not record.members or any(member.assigned is None for member in record.members):
            continue
        later = history.records[index + 1 : index + 2]
        ended = next((r.state_ms or r.append_ms for r in later), story.as_of_ms)
        lags = _lags(history, record, story.as_of_ms if ended is None else ended)
        topics = sorted({at[0] for member in record.members for at in member.assigned or ()})
        for topic in (None, *topics):
            row = _skew(story, record, topic, lags)
            if row is not None:
                rows.append(row)
    return rows


def _skew(
    story: Story, record: Generation, topic: str | None, lags: dict[TopicPartition, int]
) -> Skew | None:
    counts = [
        len(_of(topic, member.assigned or ())) for member in record.members if _reads(member, topic)
    ]
    if not counts:
        return None
    ideal = -(-sum(counts) // len(counts))
    mean = fmean(counts)
    those = [lag for at, lag in lags.items() if topic in (None, at[0])]
    return Skew(
        cluster=story.cluster,
        group=story.group,
        generation=record.generation or 0,
        log_offset=record.log_offset,
        topic=topic,
        max_parts=max(counts),
        min_parts=min(counts),
        ideal=ideal,
        imbalance=max(counts) / ideal - 1 if ideal else 0.0,
        cv=pstdev(counts) / mean if mean else 0.0,
        idle_members=counts.count(0),
        lag_skew=max(those) / fmean(those) if those and any(those) else None,
    )


def _reads(member: Member, topic: str | None) -> bool:
    """Who did not subscribe to a topic is not idle for want of its partitions."""
    return topic is None or member.topics is None or topic in member.topics


def _of(topic: str | None, assigned: Iterable[TopicPartition]) -> list[TopicPartition]:
    return [at for at in assigned if topic in (None, at[0])]


def _lags(history: History, record: Generation, until_ms: int) -> dict[TopicPartition, int]:
    """At the generation's end, of partitions that were committed under it."""
    lags = {}
    for activity in history.activity(record):
        at = activity.topic, activity.partition
        end = history.log_end(at, until_ms)
        if end is not None and activity.last_offset is not None:
            lags[at] = max(end.log_end - activity.last_offset, 0)
    return lags
