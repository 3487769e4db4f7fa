"""The permissions for requests about the cluster, configurations and producer ids."""

from typing import Any

from ..broker import BROKER, CLIENT_METRICS, GROUP, TOPIC
from ..scenario import JAVA_OBJECTS, authorized
from ..script import SET, Script, altered


@authorized("DescribeConfigs needs DESCRIBE_CONFIGS on the topic, group or cluster")
async def configs_are_described_with_permission(s: Script) -> None:
    key = {TOPIC: "retention.ms", BROKER: "num.partitions", GROUP: "consumer.session.timeout.ms"}

    async def describe(*resources: tuple[int, str], version: int = 4) -> None:
        named = [
            {"resource_type": type_, "resource_name": name, "configuration_keys": (key[type_],)}
            for type_, name in resources
        ]
        values = {"resources": named, "include_synonyms": True}
        await s.send("DescribeConfigs", version, values, client_id="alice")

    resources = (
        *((TOPIC, "orders"), (TOPIC, "nothing"), (TOPIC, "not a topic!")),
        *((BROKER, "1"), (BROKER, "7"), (BROKER, "x"), (GROUP, "g"), (GROUP, "")),
    )
    for version in range(1, 5):
        await describe(*resources, version=version)
    await s.allow("alice", "DESCRIBE_CONFIGS", "topic orders")
    await s.allow("alice", "ALTER_CONFIGS", "topic nothing")
    await s.allow("alice", "DESCRIBE", "cluster")
    await s.allow("alice", "DESCRIBE_CONFIGS", "group g")
    await describe(*resources)
    await s.allow("alice", "ALTER_CONFIGS", "cluster")
    await s.allow("alice", "ALTER_CONFIGS", "topic *")
    await describe(*resources)


def resource(type_: int, name: str, key: str, value: str | None) -> dict[str, Any]:
    return altered(type_, name, (key, SET, value))


@authorized("AlterConfigs and IncrementalAlterConfigs need ALTER_CONFIGS")
async def configs_are_altered_with_permission(s: Script) -> None:
    topic = await s.topic(1)

    async def alter(*resources: dict[str, Any]) -> None:
        for api, version in (("AlterConfigs", 2), ("IncrementalAlterConfigs", 1)):
            for each in resources:
                await s.send(api, version, {"resources": [each]}, client_id="alice")

    await alter(
        resource(TOPIC, topic, "retention.ms", "5000"),
        resource(TOPIC, topic, "nonsense", "1"),
        resource(TOPIC, topic, "retention.ms", None),
        resource(TOPIC, "nothing", "retention.ms", "5000"),
        resource(TOPIC, "not a topic!", "retention.ms", "5000"),
        resource(TOPIC, "", "retention.ms", "5000"),
        resource(GROUP, s.group, "consumer.session.timeout.ms", "50000"),
        resource(GROUP, "", "consumer.session.timeout.ms", "x"),
        resource(BROKER, "1", "log.retention.ms", "-7"),
        resource(BROKER, "1", "log.retention.ms", "70000"),
        resource(BROKER, "1", "node.id", "7"),
        resource(BROKER, "1", "nonsense", "7"),
        resource(BROKER, "1", "min.insync.replicas", "1"),
        resource(BROKER, "", "log.retention.ms", "70000"),
        resource(BROKER, "9", "log.retention.ms", "70000"),
        resource(CLIENT_METRICS, "m", "interval.ms", "1000"),
        resource(7, "x", "y", "z"),
    )
    await s.allow("alice", "DESCRIBE_CONFIGS", f"topic {topic}")
    await s.allow("alice", "ALTER", "cluster")
    await alter(
        resource(TOPIC, topic, "retention.ms", "5000"), resource(BROKER, "1", "nonsense", "7")
    )
    await s.allow("alice", "ALTER_CONFIGS", f"topic {topic}")
    await s.allow("alice", "ALTER_CONFIGS", "topic nothing")
    await s.allow("alice", "ALTER_CONFIGS", f"group {s.group}")
    await alter(
        resource(TOPIC, topic, "retention.ms", "5000"),
        resource(TOPIC, "nothing", "retention.ms", "5000"),
        resource(GROUP, s.group, "consumer.session.timeout.ms", "50000"),
    )


@authorized("a repeated resource is rejected before it is authorized")
async def resources_named_twice_are_not_authorized(s: Script) -> None:
    twice = [resource(TOPIC, "orders", "retention.ms", "5000")] * 2
    await s.send("IncrementalAlterConfigs", 1, {"resources": twice}, client_id="alice")


@authorized("ListConfigResources needs DESCRIBE_CONFIGS on the cluster")
async def config_resources_are_listed_with_permission(s: Script) -> None:
    async def list_all() -> None:
        await s.send("ListConfigResources", 0, {}, client_id="alice")
        for types in ((), (GROUP,), (99,)):
            await s.send("ListConfigResources", 1, {"resource_types": types}, client_id="alice")

    await s.allowing(list_all, "DESCRIBE cluster", "ALTER_CONFIGS cluster")


@authorized("DescribeLogDirs needs DESCRIBE on the cluster")
async def log_dirs_are_described_with_permission(s: Script) -> None:
    for version in range(1, 5):
        await s.send("DescribeLogDirs", version, {"topics": None}, client_id="alice")
        await s.send("DescribeLogDirs", version, {"topics": ()}, client_id="alice")


@authorized("ElectLeaders needs ALTER on the cluster", **JAVA_OBJECTS)
async def leaders_are_elected_with_permission(s: Script) -> None:
    async def elect() -> None:
        for version in range(3):
            for topics in (None, (), [{"topic": "orders", "partitions": (0, 9)}]):
                for type_ in (0, 9) if version else (0,):
                    values = {"topic_partitions": topics, "timeout": 30_000, "election_type": type_}
                    await s.send("ElectLeaders", version, values, client_id="alice")

    await s.allowing(elect, "DESCRIBE cluster")


@authorized("AlterPartitionReassignments needs ALTER on the cluster", **JAVA_OBJECTS)
async def partitions_are_reassigned_with_permission(s: Script) -> None:
    partitions = [{"partition_index": 0, "replicas": (1,)}, {"partition_index": 9}]

    async def reassign() -> None:
        for version in (0, 1):
            for timeout in (30_000, 0):
                for topics in ((), [{"name": "orders", "partitions": partitions}]):
                    values = {"timeout": timeout, "topics": topics}
                    values |= {"allow_replication_factor_change": False}
                    await s.send("AlterPartitionReassignments", version, values, client_id="alice")

    await s.allowing(reassign, "DESCRIBE cluster", "ALTER cluster")


@authorized("ListPartitionReassignments needs DESCRIBE on the cluster", **JAVA_OBJECTS)
async def reassignments_are_listed_with_permission(s: Script) -> None:
    async def list_all() -> None:
        for topics in (None, (), [{"name": "orders", "partition_indexes": (0,)}]):
            values = {"timeout": 30_000, "topics": topics}
            await s.send("ListPartitionReassignments", 0, values, client_id="alice")

    await s.allowing(list_all, "ALTER cluster")


@authorized("AlterReplicaLogDirs needs ALTER on the cluster")
async def replicas_are_moved_with_permission(s: Script) -> None:
    async def move() -> None:
        for version in (1, 2):
            topics = [{"name": "orders", "partitions": (0, 9)}, {"name": "x", "partitions": (0,)}]
            elsewhere = [
                {"path": "/nowhere", "topics": topics},
                {"path": "/elsewhere", "topics": topics[:1]},
            ]
            for dirs in ((), elsewhere):
                await s.send("AlterReplicaLogDirs", version, {"dirs": dirs}, client_id="alice")

    await s.allowing(move, "DESCRIBE cluster", "ALTER cluster")


@authorized("DescribeQuorum needs DESCRIBE on the cluster")
async def the_quorum_is_described_with_permission(s: Script) -> None:
    async def describe() -> None:
        for version in range(3):
            topics = [{"topic_name": "orders", "partitions": [{"partition_index": 0}]}]
            for listed in ((), topics):
                await s.send("DescribeQuorum", version, {"topics": listed}, client_id="alice")

    await s.allowing(describe, "DESCRIBE_CONFIGS cluster", "DESCRIBE cluster")


@authorized("UpdateFeatures needs ALTER on the cluster", **JAVA_OBJECTS)
async def features_are_updated_with_permission(s: Script) -> None:
    async def update() -> None:
        for version in range(3):
            features = [{"feature": "group.version", "max_version_level": 1}]
            for updates in ((), features, features * 2):
                values = {"timeout": 30_000, "feature_updates": updates}
                await s.send("UpdateFeatures", version, values, client_id="alice")

    await s.allowing(update, "DESCRIBE cluster", "ALTER cluster")


@authorized(
    "AddRaftVoter, RemoveRaftVoter and UnregisterBroker need ALTER on the cluster", **JAVA_OBJECTS
)
async def voters_and_brokers_are_changed_with_permission(s: Script) -> None:
    async def change() -> None:
        for version in (0, 1):
            for cluster_id in ("another", None):
                values = {"cluster_id": cluster_id, "voter_id": 7}
                await s.send("AddRaftVoter", version, values, client_id="alice")
                await s.send("RemoveRaftVoter", 0, values, client_id="alice")
        await s.send("UnregisterBroker", 0, {"broker_id": 7}, client_id="alice")

    await s.allowing(change, "DESCRIBE cluster", "ALTER cluster")


@authorized("DescribeClientQuotas needs DESCRIBE_CONFIGS on the cluster")
async def quotas_are_described_with_permission(s: Script) -> None:
    invalid = [{"entity_type": "", "match_type": 0, "match": None}]
    for version in (0, 1):
        for components in ((), invalid):
            values = {"components": components}
            await s.send("DescribeClientQuotas", version, values, client_id="alice")
    await s.allow("alice", "DESCRIBE_CONFIGS", "cluster")
    await s.send("DescribeClientQuotas", 1, {"components": invalid}, client_id="alice")


@authorized("AlterClientQuotas needs ALTER_CONFIGS on the cluster")
async def quotas_are_altered_with_permission(s: Script) -> None:
    named: tuple[dict[str, str], ...] = (
        *({"user": s.group, "client-id": ""}, {"client-id": s.group, "user": ""}),
        *({}, {}),
    )
    entities = [
        [{"entity_type": kind, "entity_name": name} for kind, name in each.items()]
        for each in named
    ]
    ops = [{"key": "nonsense", "value": 1.0, "remove": False}]
    values = {"entries": [{"entity": each, "ops": ops} for each in entities]}
    for version in (0, 1):
        await s.send("AlterClientQuotas", version, values, client_id="alice")
    await s.allow("alice", "ALTER", "cluster")
    await s.send("AlterClientQuotas", 1, values, client_id="alice")


@authorized("DescribeUserScramCredentials needs DESCRIBE on the cluster")
async def credentials_are_described_with_permission(s: Script) -> None:
    users = {"users": [{"name": "a"}, {"name": "b"}, {"name": "b"}]}
    await s.send("DescribeUserScramCredentials", 0, users, client_id="alice")
    await s.send("DescribeUserScramCredentials", 0, {"users": ()}, client_id="alice")
    await s.allow("alice", "ALTER", "cluster")
    await s.send("DescribeUserScramCredentials", 0, users, client_id="alice")


async def init_producer(s: Script, version: int = 5, **values: Any) -> Any:
    values = {"transactional_id": None, "transaction_timeout": 1000, **values}
    return await s.send("InitProducerId", version, values, client_id="alice")


@authorized(
    "InitProducerId needs IDEMPOTENT_WRITE on the cluster, or WRITE on any topic",
    excuse="producer ids depend on the other scenarios",
    hides=("producer_id",),
)
async def producer_ids_need_permission_to_write(s: Script) -> None:
    for version in range(6):
        await init_producer(s, version)
    await init_producer(s, producer_id=7, producer_epoch=-1)
    steps: tuple[tuple[str, str, str, str], ...] = (
        ("allow", "READ", "topic orders", "LITERAL"),
        ("allow", "WRITE", "group g", "LITERAL"),
        ("allow", "WRITE", "topic never-created", "LITERAL"),
        ("deny", "WRITE", "topic never-created", "LITERAL"),
        ("allow", "ALL", "topic never", "PREFIXED"),
        ("deny", "WRITE", "topic never-created-either", "PREFIXED"),
        ("deny", "ALL", "topic nev", "PREFIXED"),
        ("allow", "WRITE", "topic *", "LITERAL"),
        ("deny", "WRITE", "topic *", "LITERAL"),
        ("allow", "IDEMPOTENT_WRITE", "cluster", "LITERAL"),
    )
    for verb, operation, named, pattern in steps:
        add = s.allow if verb == "allow" else s.deny
        await add("alice", operation, named, pattern=pattern)
        await init_producer(s)


@authorized("InitProducerId with a transactional id needs WRITE on it")
async def transactional_ids_need_permission_to_write(s: Script) -> None:
    for version in range(6):
        await init_producer(s, version, transactional_id=s.group)
    await init_producer(s, transactional_id="")
    await init_producer(s, transactional_id=s.group, producer_id=7, producer_epoch=-1)
    await s.allow("alice", "WRITE", f"transactional_id {s.group}")
    await init_producer(s, transactional_id=s.group, producer_id=7, producer_epoch=-1)


@authorized("DescribeTransactions needs DESCRIBE on each transactional id")
async def transactions_are_described_with_permission(s: Script) -> None:
    ids = {"transactional_ids": (s.group, "", s.group)}
    await s.send("DescribeTransactions", 0, ids, client_id="alice")
    await s.send("ListTransactions", 1, {}, client_id="alice")
