"""A data folder that a real Kafka has written (tests/kafka_folder): groups continue with each
library."""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker_process import EXTERNAL, config_flags, start_broker

from .adapter import Client, Committed, Message, Partition
from .conftest import BROKER_OPTIONS, MakeConsumer
from .consumers import until

RECORDED = Path(__file__).parent.parent / "kafka_folder" / "kafka-4.3.tar.gz"


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    if EXTERNAL:
        pytest.skip("needs a data folder of its own")
    with tarfile.open(RECORDED) as tar:
        tar.extractall(tmp_path, filter="data")
    where = ("--port", "0", "--data-dir", tmp_path / "data")
    with start_broker(tmp_path, *where, *config_flags(BROKER_OPTIONS)) as broker:
        yield broker.bootstrap


def committed(group: str) -> tuple[str, int, int]:
    """Return topic, partition and offset of the commit that Kafka reported."""
    with tarfile.open(RECORDED) as tar:
        responses = tar.extractfile("responses.json")
        assert responses is not None
        ((topic,)) = json.load(responses)["committed"][group]["topics"]
    ((partition,)) = topic["partitions"]
    return topic["name"], partition["partition_index"], partition["committed_offset"]


@pytest.mark.parametrize("group", ["classic-left", "modern-left", "modern-pattern", "txn-both"])
def test_a_group_continues_at_the_offset_committed_with_kafka(
    client: Client, consumer: MakeConsumer, group: str
) -> None:
    """The member uses the classic protocol, regardless of the group's type."""
    topic, index, offset = committed(group)
    partition = Partition(topic, index)
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
