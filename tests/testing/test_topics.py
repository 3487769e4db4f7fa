"""Topics as a test makes and changes them: what would do nothing is told."""

import pytest
from kohort.testing import Kafka


def test_a_topic_does_not_shrink(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=3)
    for total in (2, 3):
        with pytest.raises(ValueError, match=f"has 3 partitions already: .* grow to {total}"):
            orders.add_partitions(total)
    orders.add_partitions(4)
    assert orders.partitions == 4


def test_a_config_that_a_topic_was_not_made_with_is_told(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1, config={"retention.ms": -1})
    assert kafka.topic("orders", config={"retention.ms": "-1"}).partitions == 1
    with pytest.raises(ValueError, match=r"made with retention.ms=-1, not retention.ms=1$"):
        kafka.topic("orders", config={"retention.ms": 1})
    with pytest.raises(ValueError, match=r"made with no cleanup.policy, not cleanup.policy=comp"):
        kafka.topic("orders", config={"cleanup.policy": "compact"})
