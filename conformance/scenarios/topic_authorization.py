"""The permissions for requests about topics."""

from typing import Any
from uuid import UUID

from ..records import NewRecord, build
from ..scenario import authorized
from ..script import RECORD_TIMESTAMP_MS, Script

UNKNOWN_ID = UUID(int=77)
NAMES = ("orders", "nothing", "not a topic!", "__consumer_offsets")


def records(attributes: int = 0) -> bytes:
    return build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)], attributes=attributes)


async def produce(s: Script, version: int, *topics: Any, data: bytes, **values: Any) -> Any:
    key = "topic_id" if version >= 13 else "name"
    entries = [{"index": 0, "records": data}]
    values = {"acks": -1, "timeout": 30_000, **values}
    values["topic_data"] = [{key: each, "partition_data": entries} for each in topics]
    return await s.send("Produce", version, values, client_id="alice")


@authorized("Produce needs WRITE on each topic, whether it exists or not")
async def records_are_written_with_permission(s: Script) -> None:
    topic = await s.topic(1)
    for version in range(3, 13):
        await produce(s, version, topic, "nothing", data=records())
    await s.allow("alice", "READ", f"topic {topic}")
    await produce(s, 12, topic, "nothing", data=records(), acks=7)
    await s.allow("alice", "WRITE", f"topic {topic}")
    await s.allow("alice", "WRITE", "topic nothing")
    for version in (3, 12):
        await produce(s, version, topic, "nothing", "payments", data=records())


@authorized(
    "Produce with transactional records, but no transactional id: all partitions are denied"
)
async def transactions_without_id_are_denied(s: Script) -> None:
    topic = await s.topic(1)
    for allowed in ("topic nothing", "topic *", "transactional_id *"):
        await s.allow("alice", "WRITE", allowed)
        for version in (3, 12):
            await produce(s, version, topic, "nothing", data=records(attributes=16))
        await produce(s, 13, s.topic_ids[topic], data=records(attributes=16))


@authorized(
    "Produce and OffsetCommit with an empty topic name, which needs permission like any other"
)
async def empty_names_are_denied(s: Script) -> None:
    async def use_empty_name() -> None:
        for version in (3, 12):
            await produce(s, version, "", data=records())
        topic = {"name": "", "partitions": [{"partition_index": 0, "committed_offset": 1}]}
        values = {"group_id": s.group, "generation_id_or_member_epoch": -1, "topics": [topic]}
        for version in (2, 9):
            await s.send("OffsetCommit", version, values, client_id="alice")

    await s.allow("alice", "READ", f"group {s.group}")
    await s.allowing(use_empty_name, "ALL topic *")


@authorized("Produce by topic ids: a denied topic, and an unknown id")
async def records_are_written_by_topic_id(s: Script) -> None:
    topic = await s.topic(1)
    await produce(s, 13, s.topic_ids[topic], data=records())
    await produce(s, 13, UNKNOWN_ID, data=records())
    await s.allow("alice", "WRITE", f"topic {topic}")
    await produce(s, 13, s.topic_ids[topic], data=records())


@authorized("Produce with acks=0: a denial closes the connection")
async def denied_records_without_acks_close_the_connection(s: Script) -> None:
    topic = await s.topic(1)
    await produce(s, 9, topic, data=records(), acks=0)


async def fetch(s: Script, version: int, topics: Any, replica: int = -1, **values: Any) -> Any:
    key = "topic_id" if version >= 13 else "topic"
    partitions = [{"partition": n, "partition_max_bytes": 1000} for n in (0, 9)]
    entries = [{key: each, "partitions": partitions} for each in topics]
    state = {"replica_id": replica, "replica_state": {"replica_id": replica, "replica_epoch": -1}}
    values = {"max_wait": 0, "max_bytes": 1000, "session_epoch": -1, **state, **values}
    return await s.send("Fetch", version, {**values, "topics": entries}, client_id="alice")


@authorized("Fetch needs READ on each topic, whether it exists or not")
async def records_are_fetched_with_permission(s: Script) -> None:
    topic = await s.topic(1)
    names = [topic, "nothing"]
    for version in range(4, 13):
        await fetch(s, version, names)
    ids = [s.topic_ids[topic], UNKNOWN_ID]
    for version in range(13, 19):
        await fetch(s, version, ids)
    await s.allow("alice", "DESCRIBE", f"topic {topic}")
    await fetch(s, 12, names)
    await s.allow("alice", "READ", f"topic {topic}")
    await fetch(s, 12, names)
    await fetch(s, 17, ids)
    await s.allow("alice", "READ", "topic nothing")
    await fetch(s, 12, ["payments", *names, "orders"])


@authorized("Fetch by a follower needs CLUSTER_ACTION on the cluster")
async def records_are_fetched_by_followers(s: Script) -> None:
    await s.allow("alice", "READ", "topic *")
    for version in (4, 12):
        await fetch(s, version, ["orders", "nothing"], replica=1)
    await fetch(s, 14, [s.topic_ids["orders"], UNKNOWN_ID], replica=1)


@authorized("Fetch sessions: each request is authorized")
async def fetch_sessions_are_authorized(s: Script) -> None:
    topic = await s.topic(1)
    await s.allow("alice", "READ", f"topic {topic}")
    partition = {"partition": 0, "partition_max_bytes": 1000}
    topics = [{"topic": name, "partitions": [partition]} for name in (topic, "payments")]
    values = {"max_bytes": 1000, "max_wait": 0, "replica_id": -1}
    first = {**values, "session_epoch": 0, "topics": topics}
    response = await s.send("Fetch", 12, first, client_id="alice")
    session = {**values, "session_id": response["session_id"], "topics": ()}
    await s.send("Fetch", 12, {**session, "session_epoch": 1}, client_id="alice")
    await s.deny("alice", "READ", f"topic {topic}")
    await s.allow("alice", "READ", "topic payments")
    await s.send("Fetch", 12, {**session, "session_epoch": 2}, client_id="alice")
    await s.send("Fetch", 12, {**session, "session_epoch": 3}, client_id="alice")


@authorized("ListOffsets needs DESCRIBE on each topic")
async def offsets_are_listed_with_permission(s: Script) -> None:
    partitions = [{"partition_index": n, "timestamp": -1} for n in (0, 9, 0)]
    topics = [{"name": name, "partitions": partitions} for name in ("orders", "nothing")]
    for version in range(1, 12):
        values = {"replica_id": -1, "topics": topics, "timeout": 1000}
        await s.send("ListOffsets", version, values, client_id="alice")
    await s.allow("alice", "READ", "topic orders")
    values = {"replica_id": -1, "topics": topics, "timeout": 1000}
    await s.send("ListOffsets", 7, values, client_id="alice")


@authorized("OffsetForLeaderEpoch needs DESCRIBE on each topic, or CLUSTER_ACTION")
async def epochs_are_looked_up_with_permission(s: Script) -> None:
    entries = [{"partition": n, "leader_epoch": 0, "current_leader_epoch": -1} for n in (0, 9)]
    topics = [{"topic": name, "partitions": entries} for name in ("payments", "nothing")]
    for version in (2, 3, 4):
        values = {"replica_id": -2, "topics": topics}
        await s.send("OffsetForLeaderEpoch", version, values, client_id="alice")
    await s.allow("alice", "DESCRIBE", "topic nothing")
    await s.send("OffsetForLeaderEpoch", 4, values, client_id="alice")
    await s.allow("alice", "CLUSTER_ACTION", "cluster")
    await s.send("OffsetForLeaderEpoch", 4, values, client_id="alice")


async def metadata(s: Script, version: int, topics: Any, **values: Any) -> Any:
    values = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
        **values,
    }
    return await s.send("Metadata", version, values, client_id="alice")


@authorized("Metadata: denied topics have an error if they are requested")
async def metadata_of_denied_topics(s: Script) -> None:
    topics = [{"name": name, "topic_id": None} for name in NAMES]
    for version in (0, 1, 4, 8, 9, 10, 12, 13):
        await metadata(s, version, topics)
    await s.allow("alice", "DESCRIBE", "topic orders")
    await s.allow("alice", "ALTER_CONFIGS", "topic nothing")
    await s.allow("alice", "WRITE", "topic not a topic!")
    for version in (4, 8, 12):
        await metadata(s, version, topics)


@authorized("Metadata of all topics: denied topics are omitted")
async def metadata_of_all_topics(s: Script) -> None:
    await metadata(s, 0, ())
    for version in range(1, 14):
        await metadata(s, version, None)
    await s.allow("alice", "READ", "topic pay", pattern="PREFIXED")
    await metadata(s, 0, ())
    await metadata(s, 12, None)


@authorized("Metadata by topic ids: a denied topic has its id, but no name")
async def metadata_by_topic_ids(s: Script) -> None:
    def ids(*topic_ids: UUID) -> Any:
        return [{"name": None, "topic_id": each} for each in topic_ids]

    for topic_id in (s.topic_ids["orders"], UNKNOWN_ID):
        await metadata(s, 12, ids(topic_id))
    await s.allow("alice", "READ", "topic orders")
    await metadata(s, 13, ids(s.topic_ids["orders"]))


@authorized("Metadata and DescribeCluster: the allowed operations on the cluster")
async def cluster_operations_are_those_of_the_client(s: Script) -> None:
    async def describe() -> None:
        for version in (8, 10):
            await metadata(s, version, ())
        for version in (0, 1, 2):
            for is_requested in (False, True):
                values = {"include_cluster_authorized_operations": is_requested, "endpoint_type": 1}
                await s.send("DescribeCluster", version, values, client_id="alice")

    await s.allowing(describe, "CREATE cluster", "DESCRIBE cluster", "ALL cluster")


@authorized("Metadata creates topics with CREATE on the topic or the cluster")
async def topics_are_created_automatically_with_permission(s: Script) -> None:
    names = [f"{s.group}.new", "not a topic!", "orders"]
    topics = [{"name": name, "topic_id": None} for name in names]
    await metadata(s, 12, topics, allow_auto_topic_creation=True)
    for name in names:
        await s.allow("alice", "DESCRIBE", f"topic {name}")
    for version in (3, 8, 12):
        await metadata(s, version, topics, allow_auto_topic_creation=True)
    await metadata(s, 12, topics)


async def create(s: Script, version: int, *names: str, timeout: int = 30_000) -> None:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    await s.send("CreateTopics", version, {"topics": topics, "timeout": timeout}, client_id="alice")


@authorized("CreateTopics needs CREATE on the topic or the cluster")
async def topics_are_created_with_permission(s: Script) -> None:
    new, twice = f"{s.group}.new", f"{s.group}.twice"
    for version in (2, 4, 7):
        await create(s, version, new, "orders", "G not a topic!", twice, twice)
    await create(s, 7, new, timeout=0)
    await s.allow("alice", "CREATE", f"topic {new}")
    await s.allow("alice", "CREATE", "topic orders")
    await create(s, 4, new, f"{new}er", timeout=0)
    await create(s, 4, new, f"{new}er", "orders")
    await s.allow("alice", "CREATE", "cluster")
    await create(s, 4, new, f"{new}er")


@authorized(
    "CreateTopics returns the configuration with DESCRIBE_CONFIGS on the topic",
    excuse="the id of the new topic is random",
    hides=("topic_id", "configs"),
)
async def the_configuration_of_a_new_topic_is_described_with_permission(s: Script) -> None:
    await s.allow("alice", "CREATE", "cluster")
    await s.allow("alice", "DESCRIBE_CONFIGS", "cluster")
    await create(s, 7, f"{s.group}.1")
    await s.allow("alice", "ALTER_CONFIGS", f"topic {s.group}.2")
    await create(s, 7, f"{s.group}.2")
    await create(s, 7, f"{s.group}.2")


@authorized("DeleteTopics needs DELETE, and DESCRIBE to see the topic")
async def topics_are_deleted_with_permission(s: Script) -> None:
    topic = await s.topic(1)
    named = {"name": topic, "topic_id": None}, {"name": "nothing", "topic_id": None}
    by_id = [{"name": None, "topic_id": each} for each in (s.topic_ids[topic], UNKNOWN_ID)]

    async def delete() -> None:
        for topics in (named, by_id, [*named, *by_id]):
            values = {"topics": topics, "timeout": 30_000}
            await s.send("DeleteTopics", 6, values, client_id="alice")
        values = {"topic_names": (topic, "nothing", "nothing"), "timeout": 30_000}
        await s.send("DeleteTopics", 5, values, client_id="alice")

    await delete()
    await s.allow("alice", "READ", f"topic {topic}")
    await s.allow("alice", "DESCRIBE", "topic nothing")
    await delete()
    await s.allow("alice", "DELETE", f"topic {topic}")
    values = {"topics": by_id, "timeout": 30_000}
    await s.send("DeleteTopics", 6, values, client_id="alice")


@authorized("DeleteTopics: the name of a topic whose id is repeated in the request")
async def the_name_of_a_duplicate_id_is_rejected(s: Script) -> None:
    topic = await s.topic(1)
    by_id = {"name": None, "topic_id": s.topic_ids[topic]}
    topics = [by_id, by_id, {"name": topic, "topic_id": None}]
    for operation in ("DESCRIBE", "DELETE"):
        await s.allow("alice", operation, f"topic {topic}")
        values = {"topics": topics, "timeout": 30_000}
        await s.send("DeleteTopics", 6, values, client_id="alice")
    await s.send("Metadata", 12, {"topics": [by_id]}, client_id="alice")


@authorized("DeleteTopics: DELETE on the cluster is enough")
async def topics_are_deleted_with_permission_to_delete_all(s: Script) -> None:
    topic = await s.topic(1)
    await s.allow("alice", "DELETE", "cluster")
    values = {"topic_names": (topic, "nothing"), "timeout": 30_000}
    await s.send("DeleteTopics", 5, values, client_id="alice")


@authorized("DeleteRecords needs DELETE on each topic")
async def records_are_deleted_with_permission(s: Script) -> None:
    partitions = [{"partition_index": n, "offset": -1} for n in (0, 9)]
    topics = [{"name": name, "partitions": partitions} for name in ("orders", "nothing")]
    values = {"topics": topics, "timeout": 30_000}
    for version in range(3):
        await s.send("DeleteRecords", version, values, client_id="alice")
    await s.allow("alice", "WRITE", "topic orders")
    await s.send("DeleteRecords", 2, values, client_id="alice")
    await s.allow("alice", "DELETE", "topic *")
    await s.send("DeleteRecords", 2, values, client_id="alice")


@authorized("CreatePartitions needs ALTER on each topic")
async def partitions_are_created_with_permission(s: Script) -> None:
    topic = await s.topic(1)
    names = (topic, "nothing", "orders", "orders")
    topics = [{"name": name, "count": 3} for name in names]
    for version in range(4):
        for timeout in (0, 30_000):
            values = {"topics": topics, "timeout": timeout}
            await s.send("CreatePartitions", version, values, client_id="alice")
    await s.allow("alice", "ALTER", "topic nothing")
    await s.send("CreatePartitions", 3, values, client_id="alice")
    await s.allow("alice", "ALTER", f"topic {topic}")
    await s.send("CreatePartitions", 3, values, client_id="alice")


@authorized("DescribeTopicPartitions needs DESCRIBE on each topic")
async def partitions_are_described_with_permission(s: Script) -> None:
    async def describe(*names: str, cursor: Any = None) -> None:
        topics = [{"name": name} for name in names]
        values = {"topics": topics, "response_partition_limit": 1, "cursor": cursor}
        await s.send("DescribeTopicPartitions", 0, values, client_id="alice")

    await describe("orders", "payments", "nothing", "")
    await describe()
    await s.allow("alice", "WRITE", "topic orders")
    await s.allow("alice", "DESCRIBE", "topic nothing")
    await describe("orders", "payments", "nothing")
    await describe("orders", "payments", cursor={"topic_name": "orders", "partition_index": 1})
    await describe("orders", "payments", cursor={"topic_name": "payments", "partition_index": -5})
    await describe()


@authorized("DescribeProducers needs READ on each topic")
async def producers_are_described_with_permission(s: Script) -> None:
    topics = [{"name": name, "partition_indexes": (0, 9)} for name in NAMES]
    await s.send("DescribeProducers", 0, {"topics": topics}, client_id="alice")
    await s.allow("alice", "READ", "topic orders")
    await s.allow("alice", "DESCRIBE", "topic nothing")
    await s.send("DescribeProducers", 0, {"topics": topics}, client_id="alice")
