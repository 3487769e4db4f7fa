"""A data folder that a real Kafka has written (tests/kafka_folder): groups continue with each
library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.running_broker import EXTERNAL, config_flags, start_broker

from .adapter import Client, Committed, Message, Partition
from .conftest import BROKER_OPTIONS, MakeConsumer
from .consumers import until


@pytest.fixture
def bootstrap(kafka_data: Path, tmp_path: Path) -> Iterator[str]:
    if EXTERNAL:
        pytest.skip("needs a data folder of its own")
    where = ("--port", "0", "--data-dir", kafka_data)
    with start_broker(tmp_path, *where, *config_flags(BROKER_OPTIONS)) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("group", ["classic-left", "modern-left", "modern-pattern", "txn-both"])
def test_a_group_continues_at_the_offset_committed_with_kafka(
    client: Client, consumer: MakeConsumer, kafka_responses: dict[str, Any], group: str
) -> None:
    """The member uses the classic protocol, regardless of the group's type."""
    (described,) = kafka_responses["committed"][group]["topics"]
    (committed,) = described["partitions"]
    topic, index = described["name"], committed["partition_index"]
    partition, offset = Partition(topic, index), committed["committed_offset"]
    member = consumer(group)
    assert member.committed(partition) == offset
    end = member.end_offset(partition)
    member.subscribe(topic)

    def read() -> list[int]:
        return [record.offset for record in member.records if record.topic_partition == partition]

    until(lambda: read() == list(range(offset, end)), "the records from Kafka are read", read)
    new = Message(b"new", b"key", partition=index)
    assert client.produce(topic, [new], idempotent=True) == [(index, end)]
    until(lambda: read()[-1] == end, "the new record is read", read)
    member.commit({partition: Committed(end + 1, "from here")})
    assert consumer(group).committed(partition) == end + 1
