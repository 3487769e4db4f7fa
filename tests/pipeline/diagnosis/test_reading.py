"""Stories as a log tells them."""

from typing import Any

from kohort.offsets.commit_value import encode_commit_value
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    OffsetCommitRecord,
)
from kohort.pipeline.diagnosis.reading import stories
from kohort.pipeline.diagnosis.rebalances import exits
from kohort.pipeline.diagnosis.story import LogEnd
from kohort.pipeline.source.source import open_source
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)

NOON_MS = 1_700_000_000_000
PARTITIONS = (0, 1, 2)
IDLE_MS = 41_000


def test_the_first_commits_of_partitions_repeat_nothing(offsets_log: Any) -> None:
    """Each partition is committed once, all is read, and forty seconds later nobody is left: that
    is no client that commits by the clock, and its silence proves nothing."""
    member = MemberMetadata(
        "m",
        None,
        "client",
        "/10.0.0.1",
        30_000,
        6_000,
        encode_subscription(Subscription(topics=("clicks",))),
        encode_assignment(Assignment((TopicPartitions("clicks", PARTITIONS),))),
    )
    joined = GroupMetadata("consumer", 1, "range", "m", NOON_MS, (member,))
    offsets_log.append(3, GroupMetadataRecord("orders", joined), at_ms=NOON_MS)
    committed_ms = NOON_MS + 1_000
    value = encode_commit_value(100, -1, "", committed_ms)
    commits = [OffsetCommitRecord("orders", "clicks", at, value) for at in PARTITIONS]
    offsets_log.append(3, *commits, at_ms=committed_ms)
    gone_ms = committed_ms + IDLE_MS
    empty = GroupMetadata("consumer", 2, None, None, gone_ms, ())
    offsets_log.append(3, GroupMetadataRecord("orders", empty), at_ms=gone_ms)

    source = open_source({"path": str(offsets_log.path)})
    rows = [of for split in source.splits({}, source.ends()) for of in source.read(split)]
    ends = [LogEnd("clicks", at, 0, 100, gone_ms - 500) for at in PARTITIONS]
    [story] = stories(rows, cluster="c", as_of_ms=gone_ms, log_ends=ends)
    assert [activity.repeats for activity in story.activities] == [0, 0, 0]
    [gone] = exits(story)
    assert (gone.cause, gone.silence_ms) == ("LEFT_UNKNOWN", IDLE_MS)
