"""The registry's changes that are too many for one batch."""

import pytest
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability
from support.broker import World


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_of_changes_in_several_batches_none_stays_where_the_last_cannot_be_written(
    durability: Durability,
) -> None:
    """Method: the first batch is whole on a disk that neither takes the second nor cuts."""
    world = World(durability=durability)
    world.make("orders")
    world.topics.create("first", 1, {})
    world.topics.configure_broker("another", {"as.long.as": "a batch" * BATCH_BYTES_MAX})
    world.topics.create("second", 1, {})
    world.files.fail("append", after=1)
    world.files.fail("truncate", times=2)
    world.turn()
    world.files.heal()
    world.topics.create("again", 1, {})
    world.turn()
    assert {topic.name for topic in world.topics} <= {"orders", "again"}
    stored = {topic.name for topic in world.restarted(durability).topics}
    assert stored == {topic.name for topic in world.topics} >= {"orders"}
