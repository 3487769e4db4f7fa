"""Histories computed from an offsets log."""

from typing import Any

from histories_from_log import group_histories
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    OffsetCommitRecord,
)
from kohort.pipeline.diagnosis.group_history import LogEnd
from kohort.pipeline.diagnosis.rebalances import explain
from kohort.pipeline.source.factory import open_source
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


def test_the_first_commit_of_a_partition_is_no_repeat(offsets_log: Any) -> None:
    """Each partition is committed once, without lag; 41 s later the member has left. It does not
    commit periodically, so its silence is not evidence."""
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
    left_ms = committed_ms + IDLE_MS
    empty = GroupMetadata("consumer", 2, None, None, left_ms, ())
    offsets_log.append(3, GroupMetadataRecord("orders", empty), at_ms=left_ms)

    source = open_source({"path": str(offsets_log.path)})
    rows = [batch for split in source.splits({}, source.ends()) for batch in source.read(split)]
    ends = [LogEnd("clicks", at, 0, 100, left_ms - 500) for at in PARTITIONS]
    [history] = group_histories(rows, cluster="c", as_of_ms=left_ms, log_ends=ends)
    assert [activity.repeats for activity in history.activities] == [0, 0, 0]
    [exit_] = explain(history).exits
    assert (exit_.cause, exit_.silence_ms) == ("LEFT_UNKNOWN", IDLE_MS)
