"""The registry's changes that are too many for one batch."""

import pytest
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability
from support.broker import BrokerHarness


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_of_changes_in_several_batches_none_stays_where_the_last_cannot_be_written(
    durability: Durability,
) -> None:
    """Method: the first batch is whole on a disk that neither takes the second nor cuts."""
    broker = BrokerHarness(durability=durability)
    broker.create_topic("orders")
    broker.topics.create("first", 1, {})
    broker.topics.configure_broker("another", {"as.long.as": "a batch" * BATCH_BYTES_MAX})
    broker.topics.create("second", 1, {})
    broker.files.fail("append", after=1)
    broker.files.fail("truncate", times=2)
    broker.run_loop()
    broker.files.heal()
    broker.topics.create("again", 1, {})
    broker.run_loop()
    assert {topic.name for topic in broker.topics} <= {"orders", "again"}
    stored = {topic.name for topic in broker.restart(durability).topics}
    assert stored == {topic.name for topic in broker.topics} >= {"orders"}
