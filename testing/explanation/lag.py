"""Explains which records a group has not committed."""

from collections.abc import Iterator, Sequence

from ...offsets.table import OffsetsTable
from ..history import COMMIT_APIS
from ..lifecycle import BrokerHost
from ..recorded_request import RecordedRequest, TopicPartition
from .hints import returned_records

# Further partitions probably lag for the same reason.
PARTITIONS_MAX = 5


def lag(
    host: BrokerHost, group_id: str, offsets: OffsetsTable, requests: Sequence[RecordedRequest]
) -> Iterator[str]:
    """Yield a sentence about the group's partitions with uncommitted records. If there are such
    partitions, and clients have fetched records but none has sent a commit, yield a second
    sentence. The group's partitions are those for which it has committed offsets, or that it has
    been assigned. `requests` are the requests of the group. Runs on the broker's loop."""
    offsets.load(group_id)  # the offsets may have been evicted
    partitions: set[TopicPartition] = {
        (topic, index)
        for topic, of_topic in offsets.of_group(group_id).items()
        for index in of_topic
    }
    partitions.update(*(each.partitions for each in host.history.assignments(group_id)))
    lags: dict[str, int] = {}
    for topic, index in sorted(partitions):
        committed = offsets.get(group_id, topic, index)
        found = host.broker.node.topics.partition(topic, index)
        if found is not None:
            start = found.start_offset if committed is None else committed.offset
            text = (
                f"{topic}-{index} (committed offset: {'none' if committed is None else start}; "
                f"log end offset: {found.high_watermark})"
            )
            lags[text] = found.high_watermark - start
    lags = {text: each for text, each in lags.items() if each > 0}
    if not lags:
        return
    more = ", …" if len(lags) > PARTITIONS_MAX else ""
    yield f"Its lag is {sum(lags.values())}: {', '.join([*lags][:PARTITIONS_MAX])}{more}."
    if any(each.api in COMMIT_APIS for each in requests):
        return
    clients = {each.client_id for each in requests}
    reading = {
        str(each.client_id)
        for each in host.history.requests
        if each.client_id in clients and returned_records(each)
    }
    if reading:
        yield f"{', '.join(sorted(reading))} fetched records, but no client has sent OffsetCommit."
