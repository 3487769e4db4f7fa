"""Topic ids in OffsetCommit and OffsetFetch, and in the records of commits."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kohort.coordinator.outcome import Outcome
from kohort.offsets.record_codec import decode_commit_value, encode_commit_value
from kohort.offsets.records import OffsetCommitRecord
from support.broker import BrokerHarness

E = ErrorCode
EARLIER = UUID(int=7).bytes


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 3)
    return broker


def put(broker: BrokerHarness, partition: int, value: bytes) -> None:
    """Write the record of a commit in the group `g`."""
    record = OffsetCommitRecord("g", "orders", partition, value)
    assert broker.node.coordinators.carry_out("g", lambda _, __: Outcome((record,), (), ()))
    broker.run_loop()


def fetched(broker: BrokerHarness, version: int, *, everything: bool = False) -> list[int]:
    """Return the committed offset of each partition, or -1."""
    topic: dict[str, Any] = {"partition_indexes": (0, 1, 2)}
    topic["topic_id" if version >= 10 else "name"] = (
        broker.topics.get("orders").id if version >= 10 else "orders"
    )
    group = {"group_id": "g", "topics": None if everything else (topic,)}
    response = broker.call("OffsetFetch", version, groups=(group,))
    (topic_response,) = response.groups[0].topics
    return [each.committed_offset for each in topic_response.partitions]


@pytest.mark.parametrize("version", range(2, 11))
def test_a_commit_is_stored_with_the_id_of_its_topic(broker: BrokerHarness, version: int) -> None:
    orders = broker.topics.get("orders")
    topic = {
        "name": "orders",
        "topic_id": orders.id,
        "partitions": ({"partition_index": 2, "committed_offset": 5},),
    }
    response = broker.call(
        "OffsetCommit",
        version,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=(topic,),
        retention_time=-1,
    )
    assert response.topics[0].partitions[0].error_code is E.none
    (context,) = broker.node.coordinators.contexts.values()
    (record,) = context.coordinator.offsets.records("g")
    assert record.value[:2] == b"\0\4"
    assert decode_commit_value(record.value).topic_id == orders.id.bytes


def test_offsets_of_an_earlier_topic_with_the_same_name_have_other_ids(
    broker: BrokerHarness,
) -> None:
    broker.commit("g", "orders", 0)
    put(broker, 1, encode_commit_value(8, -1, "", 0, topic_id=EARLIER))
    put(broker, 2, encode_commit_value(9, -1, "", 0))  # committed before topics had ids
    assert fetched(broker, 10) == [7, -1, 9]
    assert fetched(broker, 9) == [7, 8, 9]
    assert fetched(broker, 10, everything=True) == [7, 8, 9]
