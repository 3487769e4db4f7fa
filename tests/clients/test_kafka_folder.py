"""A data folder that a real Kafka left (tests/kafka_folder), served to each library: groups go on
where they were."""

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.broker_process import EXTERNAL, overrides, serving

from .adapter import Client, Committed, Message, Place
from .conftest import BROKER_OPTIONS
from .driven import Driven
from .stories import until

RECORDED = Path(__file__).parent.parent / "kafka_folder" / "kafka-4.3.tar.gz"
MakeConsumer = Callable[..., Driven]


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    if EXTERNAL:
        pytest.skip("needs a data folder of its own")
    with tarfile.open(RECORDED) as tar:
        tar.extractall(tmp_path, filter="data")
    where = ("--port", "0", "--data-dir", tmp_path / "data")
    with serving(tmp_path, *where, *overrides(BROKER_OPTIONS)) as broker:
        yield broker.bootstrap


def committed(group: str) -> tuple[str, int, int]:
    """Topic, partition and offset of the commit that Kafka reported."""
    with tarfile.open(RECORDED) as tar:
        responses = tar.extractfile("responses.json")
        assert responses is not None
        ((topic,)) = json.load(responses)["committed"][group]["topics"]
    ((partition,)) = topic["partitions"]
    return topic["name"], partition["partition_index"], partition["committed_offset"]


@pytest.mark.parametrize("group", ["classic-left", "modern-left", "modern-pattern", "txn-both"])
def test_a_group_of_kafkas_goes_on_where_it_was(
    client: Client, consumer: MakeConsumer, group: str
) -> None:
    """With a member of the classic protocol, whatever kind of group it was."""
    topic, partition, offset = committed(group)
    place = Place(topic, partition)
    member = consumer(group)
    assert member.committed(place) == offset
    end = member.end_offset(place)
    member.subscribe(topic)

    def read() -> list[int]:
        return [record.offset for record in member.records if record.place == place]

    until(lambda: read() == list(range(offset, end)), "what Kafka wrote is read", read)
    new = Message(b"new", b"key", partition=place.partition)
    assert client.produce(topic, [new], idempotent=True) == [(place.partition, end)]
    until(lambda: read()[-1] == end, "what is written here is read", read)
    member.commit({place: Committed(end + 1, "from here")})
    assert consumer(group).committed(place) == end + 1
