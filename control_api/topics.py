"""The endpoint functions for topics and their records."""

from itertools import islice

from ..suggestions import did_you_mean
from ..testing.topic import Topic
from .control import Control
from .endpoint import Index, Limit, Name, Partitions, Texts
from .serializers import Encoding, Json, decode_value, record_json


def topics(control: Control) -> Json:
    """Return the names of all topics, including Kafka's internal ones."""
    return {"topics": [topic.name for topic in control.kafka.topics]}


def create_topic(
    control: Control,
    topic: Name,
    *,
    partitions: Partitions | None = None,
    config: dict[str, str] | None = None,
) -> Json:
    """Create the topic with these topic configs, unless it exists. Fails if the topic exists with a
    different number of partitions or different configs."""
    return _describe(control.kafka.topic(topic, partitions, config))


def topic(control: Control, topic: Name) -> Json:
    """Return the topic's partitions and their log end offsets."""
    return _describe(find_topic(control, topic))


def delete_topic(control: Control, topic: Name) -> Json:
    """Delete the topic and the offsets that groups committed for it."""
    find_topic(control, topic).delete()
    return {"topic": topic}


def add_partitions(control: Control, topic: Name, *, total: Partitions) -> Json:
    """Increase the number of partitions to `total`. Clients see the new partitions with their next
    Metadata request."""
    found = find_topic(control, topic)
    found.add_partitions(total)
    return _describe(found)


def produce(
    control: Control,
    topic: Name,
    *,
    values: Texts,
    keys: Texts | None = None,
    partition: Index | None = None,
    headers: dict[str, str | None] | None = None,
    encoding: Encoding = "text",
) -> Json:
    """Append records to `partition`. By default, the hash of a record's key determines its
    partition, and records without a key are distributed round-robin. If `keys` are given, there
    must be as many as `values`. `headers` (`{"trace": "7"}`) apply to each record. Keys, values and
    header values may be null; with encoding `base64`, they are base64-encoded bytes. Returns the
    partition and the offset of each record."""
    if keys is not None and len(keys) != len(values):
        raise ValueError(f"invalid keys: {len(keys)} keys for {len(values)} values")
    pairs = [
        (decode_value(key, encoding), decode_value(value, encoding))
        for key, value in zip(keys or [None] * len(values), values, strict=True)
    ]
    decoded = {name: decode_value(value, encoding) for name, value in (headers or {}).items()}
    done = find_topic(control, topic).produce(pairs, partition=partition, headers=decoded)
    return {"records": [{"partition": index, "offset": offset} for index, offset in done]}


def records(
    control: Control,
    topic: Name,
    *,
    partition: Index | None = None,
    limit: Limit = 1000,
    read_committed: bool = False,
    encoding: Encoding = "text",
) -> Json:
    """Return the first `limit` records of one partition or of all partitions; with
    `read_committed`, only records that a consumer with this isolation level reads. With encoding
    `text`, bytes that are not UTF-8 are escaped, for example as \\xff."""
    found = find_topic(control, topic)
    indexes = range(found.partitions) if partition is None else (partition,)
    each = (
        record_json(record, encoding)
        for index in indexes
        for record in found.records(index, read_committed=read_committed)
    )
    return {"records": list(islice(each, limit))}


def find_topic(control: Control, name: str) -> Topic:
    """Return the topic. Raises LookupError if it does not exist."""
    topics = {topic.name: topic for topic in control.kafka.topics}
    if name not in topics:
        raise LookupError(f"Topic {name} does not exist{did_you_mean(name, topics)}")
    return topics[name]


def _describe(found: Topic) -> Json:
    return {
        "topic": found.name,
        "partitions": [
            {"partition": index, "end_offset": found.end_offset(index)}
            for index in range(found.partitions)
        ],
    }
