"""Metadata, CreateTopics, ListOffsets and Produce, and topics with special names."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from ...topics.produce import ZSTD
from ..broker import TOPIC
from ..producers import RECORD_TIMESTAMP_MS
from ..recorder import WITHIN
from ..records import NewRecord, build
from ..scenario import scenario
from ..script import Script, altered

LATEST = -1


async def metadata(s: Script, version: int, *names: str, creates: bool = True) -> Any:
    values = {
        "topics": [{"name": name, "topic_id": None} for name in names],
        "allow_auto_topic_creation": creates,
        "include_topic_authorized_operations": True,
    }
    return await s.send("Metadata", version, values)


@scenario(
    "Metadata that creates a topic does not return it; the next request does",
    excuse="the id of the new topic is random",
    hides=("topic_id",),
)
async def a_topic_that_metadata_creates_is_returned_to_the_next_request(s: Script) -> None:
    for version in range(14):
        name = f"{s.group}.new-{version}"
        if version >= 4:  # in older versions, clients cannot choose
            await metadata(s, version, name, creates=False)
        await metadata(s, version, name)
        await s.broker.metadata_applied()
        await metadata(s, version, name)


@scenario("Metadata: several topics, some of which cannot be created")
async def metadata_creates_the_topics_that_are_valid(s: Script) -> None:
    names = ("", ".", "no topic!", "a" * 250)
    for version in (0, 1, 4, 8, 9, 12, 13):
        for name in names:
            await metadata(s, version, name)
            await metadata(s, version, name, creates=False)
    await metadata(s, 12, f"{s.group}.one")
    await s.broker.metadata_applied()
    # A topic whose name collides is never created.
    for _ in range(3):
        await metadata(s, 12, f"{s.group}_one")
        await s.broker.metadata_applied()


async def list_offsets(
    s: Script, version: int, *topics: tuple[str, Iterable[int]], **fields: Any
) -> None:
    values = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "timestamp": LATEST, "current_leader_epoch": -1}
                for index in indexes
            ],
        }
        for name, indexes in topics
    ]
    await s.send("ListOffsets", version, {"replica_id": -1, "topics": values, **fields})


@scenario("ListOffsets: topics without partitions are omitted, topics listed twice are merged")
async def offsets_of_topics_listed_twice(s: Script) -> None:
    for version in (1, 5, 7, 10):
        await list_offsets(s, version, ("orders", ()))
        await list_offsets(s, version, ("orders", (0,)), ("payments", ()))
        await list_offsets(s, version, ("orders", (0,)), ("orders", (1,)))
        await list_offsets(s, version, ("orders", (0,)), ("orders", (0,)))
        await list_offsets(s, version, ("orders", (0, 0)))
        await list_offsets(s, version, ("nothing", (0, 0)))
        await list_offsets(s, version)


@scenario("ListOffsets: an unknown isolation level, which v1 does not have")
async def offsets_of_an_unknown_isolation_level(s: Script) -> None:
    for version in (1, 2, 11):
        for level in (2, -1):
            await list_offsets(s, version, ("orders", (0, 9, 0)), isolation_level=level)
            topics = ("orders", ()), (f"{s.group}.unknown", (0,)), ("payments", (0,))
            await list_offsets(s, version, *topics, isolation_level=level)


async def create(s: Script, *names: str, **values: Any) -> None:
    topics = [{"name": n, "num_partitions": 1, "replication_factor": 1} for n in names]
    await s.send("CreateTopics", 4, {"topics": topics, "timeout": 10_000, **values})
    await s.broker.metadata_applied()


@scenario("CreateTopics: names collide with existing names, but not within a request")
async def topics_whose_names_collide_are_created(s: Script) -> None:
    dot, line, other = f"{s.group}.a.b", f"{s.group}.a_b", f"{s.group}_a.b"
    await create(s, dot, line, validate_only=True)
    await create(s, dot)
    await create(s, line)
    await create(s, line, other)
    both = f"{s.group}.c.d", f"{s.group}.c_d"
    await create(s, *both)
    await metadata(s, 9, *both, creates=False)
    await create(s, *both)
    await s.send("DeleteTopics", 5, {"topic_names": both[:1], "timeout": 10_000})
    await s.broker.metadata_applied()
    await create(s, both[0])
    await s.send("DeleteTopics", 5, {"topic_names": both[1:], "timeout": 10_000})
    await s.broker.metadata_applied()
    await create(s, both[0])
    automatic = f"{s.group}.e.f", f"{s.group}.e_f"
    await metadata(s, 9, *automatic)
    await s.broker.metadata_applied()
    await metadata(s, 9, *automatic)


@scenario("CreateTopics: which of several mistakes is reported")
async def a_topic_with_several_mistakes(s: Script) -> None:
    wrong = {"num_partitions": 0, "replication_factor": -2, "configs": ({"name": "x"},)}
    right = {"configs": (), "replication_factor": 2, "num_partitions": -2}
    topic = {"name": f"{s.group}.a", **wrong}
    for field, value in right.items():
        await s.send("CreateTopics", 4, {"topics": (topic,), "timeout": 10_000})
        topic[field] = value
    await s.send("CreateTopics", 4, {"topics": (topic,), "timeout": 10_000})


@scenario("CreateTopics: more than 10,000 partitions in one request fail all of its topics")
async def topics_with_too_many_partitions(s: Script) -> None:
    async def request(*topics: tuple[str, int], **values: Any) -> None:
        wanted = [
            {"name": f"{s.group}.{name}", "num_partitions": count, "replication_factor": 1}
            for name, count in topics
        ]
        values = {"topics": wanted, "timeout": 10_000, "validate_only": True, **values}
        for version in (2, 7):
            await s.send("CreateTopics", version, values)

    await request(("a", 10_001))
    await request(("a", 9_999), ("b", 2))
    await request(("a", 10_001), ("b", 0), ("no topic!", 1))
    await request(("a", 10_001), ("b", 1), ("b", 1))
    await request(("b", 9_000), ("b", 9_000), ("no topic!", 1), ("c", 0))
    await request(("a", 10_001), timeout=0)


async def produce(
    s: Script, topic: str, records: bytes, text: str, version: int = 8, acks: int = -1
) -> None:
    partition = {"index": 0, "records": records}
    topics = ({"name": topic, "partition_data": (partition,)},)
    values = {"acks": acks, "timeout": 30_000, "topic_data": topics}
    await s.send("Produce", version, values, text=text)


@scenario("Produce: the length and the magic of a batch are invalid, or a batch is incomplete")
async def malformed_batches_are_produced(s: Script) -> None:
    topic = await s.topic(1)
    batch = build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)])
    for length in (-1, 0, 13, 14, 48, 49, 1000):
        changed = batch[:8] + length.to_bytes(4, signed=True) + batch[12:]
        await produce(s, topic, changed, f"a batch with length {length}")
    for magic in (0, 1, 3, 255):
        changed = batch[:16] + bytes((magic,)) + batch[17:]
        await produce(s, topic, changed, f"a batch with magic {magic}")
    for size in (0, 11, 16, 17, 60, len(batch) - 1):
        await produce(s, topic, batch[:size], f"{size} bytes of a batch")
        await produce(s, topic, batch + batch[:size], f"a batch and {size} bytes of another")
    await produce(s, topic, batch + bytes(12), "a batch and 12 zeros")
    await produce(s, topic, batch * 2, "two batches")


@scenario("Produce: other errors take precedence over unknown acks; topics without partitions")
async def batches_are_produced_with_unknown_acks(s: Script) -> None:
    valid = build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)])
    wrong_checksum = valid[:-1] + b"?"
    partitions = [
        {"index": index, "records": records}
        for index, records in ((0, wrong_checksum), (7, valid), (1, valid * 2))
    ]
    topics = [("shipments", partitions), ("payments", []), ("unknown", [])]
    for version in (3, 8, 12):
        data = [{"name": name, "partition_data": each} for name, each in topics]
        values = {"acks": 2, "timeout": 30_000, "topic_data": data}
        await s.send("Produce", version, values, text="three partitions with errors")


@scenario("Fetch with the id of a follower that has no replica, and with a leader epoch")
async def a_follower_fetches(s: Script) -> None:
    for version in (8, 12, 16, 18):
        for epoch in (-1, 0, 1):
            partition = {"partition": 0, "current_leader_epoch": epoch, "last_fetched_epoch": -1}
            topic = {"topic": "orders", "topic_id": s.topic_ids["orders"]}
            replica = {"replica_id": 5, "replica_state": {"replica_id": 5, "replica_epoch": -1}}
            topics = [{**topic, "partitions": [partition]}]
            values = {**replica, "session_epoch": -1, "topics": topics}
            await s.send("Fetch", version, values, text=f"leader epoch {epoch}")


@scenario("Produce: zstd needs v7")
async def a_batch_with_zstd_is_produced(s: Script) -> None:
    topic = await s.topic(1)
    batch = build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)], codec=ZSTD)
    for version in (3, 5, 6, 7):
        await produce(s, topic, batch, "a batch with zstd", version)
    await produce(s, topic, batch, "a batch with zstd and unknown acks", 6, 2)


@scenario("IncrementalAlterConfigs: lists are edited before the name of the topic is validated")
async def configs_of_topics_with_invalid_names(s: Script) -> None:
    for name in ("", "a b", "unknown"):
        for key, operation in (("retention.ms", 0), ("retention.ms", 2), ("x", 0), ("x", 3)):
            resource = altered(TOPIC, name, (key, operation, "a"))
            await s.send("IncrementalAlterConfigs", 1, {"resources": (resource,)})


@scenario("The log of Kafka's controllers is not a topic")
async def the_metadata_log_is_no_topic(s: Script) -> None:
    name = "__cluster_metadata"
    for version in (2, 4):
        topics = [{"name": each, "num_partitions": 1} for each in (name, f"{s.group}.a")]
        await s.send("CreateTopics", version, {"topics": topics, "timeout": 0})
    await create(s, name)
    await create(s, name, name)
    await create(s, name, validate_only=True)
    for version in (4, 9):
        await metadata(s, version, name)
        await s.broker.metadata_applied()
        await metadata(s, version, name)
    await s.send("DescribeTopicPartitions", 0, {"topics": [{"name": name}]})
    await s.send("DeleteTopics", 5, {"topic_names": (name,), "timeout": 10_000})
    await s.send("CreatePartitions", 3, {"topics": [{"name": name, "count": 9}], "timeout": 0})


async def create_automatically(s: Script, name: str) -> None:
    """Create the topic, which may already exist. The request is not in the transcript."""
    await s.until(
        partial(s.call, "Metadata", 9, topics=({"name": name},), allow_auto_topic_creation=True),
        lambda found: found["topics"][0]["error_code"] == "none",
        f"{name} was not created {WITHIN}",
    )


@scenario(
    "The topic of share groups is internal, but clients may create and delete it",
    excuse="the id of the new topic is random",
    hides=("topic_id",),
)
async def the_topic_of_share_groups_is_internal(s: Script) -> None:
    name = "__share_group_state"
    await create_automatically(s, name)
    await metadata(s, 9, name)
    values = {"topics": [{"name": name}], "response_partition_limit": 1}
    await s.send("DescribeTopicPartitions", 0, values)
    await create(s, name)
    keys = ("cleanup.policy", "compression.type", "retention.ms", "segment.bytes")
    resource = {"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys}
    await s.send("DescribeConfigs", 4, {"resources": [resource], "include_synonyms": True})
    records = build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)])
    data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
    values = {"acks": -1, "timeout": 10_000, "topic_data": data}
    await s.send("Produce", 9, values, text="a record")
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}]
    await s.send("DeleteRecords", 2, {"topics": topics, "timeout": 10_000})
    more = [{"name": name, "count": 49, "assignments": None}]
    await s.send("CreatePartitions", 3, {"topics": more, "timeout": 10_000})
    await list_offsets(s, 7, (name, (0, 50)))
