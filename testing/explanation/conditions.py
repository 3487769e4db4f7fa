"""Describes what the test has done to the broker and what clients may notice: stopped nodes,
network conditions, disk faults, a power cut, a frozen clock."""

from collections.abc import Iterator

from ..lifecycle import BrokerHost


def conditions(host: BrokerHost) -> Iterator[str]:
    """Yield a sentence for each condition. Runs on the broker's loop."""
    up = {node.node_id for node in host.broker.cluster.up}
    if down := [str(node_id) for node_id in host.broker.addresses if node_id not in up]:
        yield f"The test has stopped node{'s' * (len(down) > 1)} {', '.join(down)}."
    yield from host.active_faults()
    if any(each.what == "lost power" for each in host.history.lifecycle_events):
        yield (
            "The test has cut the power, which loses unsynced data: to keep commits and new "
            "topics, use Kafka(durability='fsync'); to keep records, also set the topic config "
            "flush.messages=1."
        )
    changes = host.history.clock_changes
    emptied = [
        f"{topic.name}-{index}"
        for topic in (host.broker.node.topics if any(each.by_ms for each in changes) else ())
        for index, each in enumerate(topic.partitions)
        if 0 < each.start_offset == each.high_watermark
    ]
    if emptied:
        yield (
            f"The test has advanced the clock, and all records of {', '.join(emptied)} have been "
            "deleted: set the topic config retention.ms to -1 (default: 7 days)."
        )
    frozen = [each.kind for each in changes if each.kind != "advanced"]
    if frozen[-1:] == ["frozen"]:
        yield (
            "The test has frozen the clock: timeouts expire only with clock.advance(…), or after "
            "clock.resume()."
        )
