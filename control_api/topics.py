"""Endpoints of topics and their records."""

from itertools import islice
from typing import Final

from ..testing.topic import Topic
from .control import Control
from .endpoint import Endpoint
from .fields import Limit, Name, Partition, Partitions, Texts
from .words import Encoding, Json, bytes_of, of_record


def topics(control: Control) -> Json:
    """The names of all topics, Kafka's own with them."""
    names = control.kafka.ask(lambda broker: [topic.name for topic in broker.node.topics])
    return {"topics": sorted(names)}


def make_topic(
    control: Control,
    topic: Name,
    *,
    partitions: Partitions | None = None,
    config: dict[str, str] | None = None,
) -> Json:
    """Make the topic if it is not there, with these of Kafka's topic configs."""
    return _told(control.kafka.topic(topic, partitions, config))


def topic(control: Control, topic: Name) -> Json:
    """Its partitions, and where the next record of each goes."""
    return _told(_there(control, topic))


def delete_topic(control: Control, topic: Name) -> Json:
    """Delete it, with what groups have committed for it."""
    _there(control, topic).delete()
    return {"topic": topic}


def add_partitions(control: Control, topic: Name, *, total: Partitions) -> Json:
    """Let it have so many partitions; clients see it when they next ask for metadata."""
    there = _there(control, topic)
    there.add_partitions(total)
    return _told(there)


def produce(
    control: Control,
    topic: Name,
    *,
    values: Texts,
    keys: Texts | None = None,
    partition: Partition | None = None,
    headers: dict[str, str | None] | None = None,
    encoding: Encoding = "text",
) -> Json:
    """Append records: one after the other to all partitions in turn, or to `partition`.

    `keys` are as many as `values`; `headers` (`{"trace": "7"}`) are those of each. With encoding
    `base64` keys, values and those of headers are bytes in base64; null is null. Answers with the
    partition and the offset of each record."""
    if keys is not None and len(keys) != len(values):
        raise ValueError(f"there are {len(keys)} keys for {len(values)} values")
    pairs = [
        (bytes_of(key, encoding), bytes_of(value, encoding))
        for key, value in zip(keys or [None] * len(values), values, strict=True)
    ]
    told = {name: bytes_of(value, encoding) for name, value in (headers or {}).items()}
    done = _there(control, topic).produce(pairs, partition=partition, headers=told)
    return {"records": [{"partition": index, "offset": offset} for index, offset in done]}


def records(
    control: Control,
    topic: Name,
    *,
    partition: Partition | None = None,
    limit: Limit = 1000,
    encoding: Encoding = "text",
) -> Json:
    """The first `limit` records of one partition or of all. With encoding `text`, bytes that are no
    UTF-8 are shown as \\xff."""
    there = _there(control, topic)
    indexes = range(there.partitions) if partition is None else (partition,)
    each = (of_record(record, encoding) for index in indexes for record in there.records(index))
    return {"records": list(islice(each, limit))}


def _there(control: Control, name: str) -> Topic:
    """Raises LookupError: only make_topic makes one."""
    found = Topic(control.kafka, name)
    _ = found.partitions
    return found


def _told(found: Topic) -> Json:
    return {
        "topic": found.name,
        "partitions": [
            {"partition": index, "end_offset": found.end_offset(index)}
            for index in range(found.partitions)
        ],
    }


ENDPOINTS: Final = (
    Endpoint("GET", "/topics", topics),
    Endpoint("POST", "/topics/{topic}", make_topic),
    Endpoint("GET", "/topics/{topic}", topic),
    Endpoint("DELETE", "/topics/{topic}", delete_topic),
    Endpoint("POST", "/topics/{topic}/partitions", add_partitions),
    Endpoint("POST", "/topics/{topic}/records", produce),
    Endpoint("GET", "/topics/{topic}/records", records),
)
