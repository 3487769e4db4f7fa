"""How the offsets topic is made."""

from typing import Final

from .configs import BrokerSettings

__all__ = ["offsets_topic"]

# The lowest segment.bytes of a topic; offsets.topic.segment.bytes may say less.
SEGMENT_BYTES_MIN: Final = 1024 * 1024


def offsets_topic(broker: BrokerSettings) -> tuple[int, dict[str, str]]:
    """How many partitions it gets, and which overrides (upstream:
    GroupCoordinatorService.groupMetadataTopicConfigs)."""
    partitions = broker["offsets.topic.num.partitions"]
    segment_bytes = broker["offsets.topic.segment.bytes"]
    assert isinstance(partitions, int)
    assert isinstance(segment_bytes, int)
    return partitions, {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(max(segment_bytes, SEGMENT_BYTES_MIN)),
    }
