"""Topics that a test creates and changes."""

import pytest
from kohort.testing import Kafka


def test_a_topic_cannot_shrink(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=3)
    for total in (2, 3):
        with pytest.raises(ValueError, match=f"already has 3 partitions: .* grow to {total}"):
            orders.add_partitions(total)
    orders.add_partitions(4)
    assert orders.partitions == 4


def test_another_config_for_an_existing_topic_is_rejected(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1, config={"retention.ms": -1})
    assert kafka.topic("orders", config={"retention.ms": "-1"}).partitions == 1
    with pytest.raises(ValueError, match=r"created with retention.ms=-1, not retention.ms=1$"):
        kafka.topic("orders", config={"retention.ms": 1})
    with pytest.raises(
        ValueError, match=r"created with no cleanup.policy, not cleanup.policy=comp"
    ):
        kafka.topic("orders", config={"cleanup.policy": "compact"})
