"""Every method of the admin clients of kafka-python and confluent-kafka, called once or more, and
results as plain values: what differs between two brokers or two runs is hidden."""

import enum
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import confluent_kafka as ck
import confluent_kafka.admin as cka
import kafka.admin as ka
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

TIMEOUT_SECONDS = 15
# Of the folder, of the cluster, of other parts of the metadata log, and of time.
HIDDEN = re.compile(
    r".*(_bytes|_dir|timestamp|_time|_ms|cluster_id|finalized_epoch|log_end_offset|high_watermark"
    r"|leader_epoch|listeners)"
)
UUID_TEXT = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}")

Calls = Iterator[tuple[str, Callable[[], Any]]]


def shown(value: Any, port: str) -> Any:
    """The result of a call as JSON: errors as text, futures as their results."""
    if hasattr(value, "result"):
        return attempt(lambda: value.result(TIMEOUT_SECONDS), port)
    if isinstance(value, Mapping):
        pairs = sorted((str(shown(k, port)), k) for k in value)
        return {k: "hidden" if HIDDEN.fullmatch(k) else shown(value[o], port) for k, o in pairs}
    if hasattr(value, "_asdict"):
        return shown(value._asdict(), port)
    if isinstance(value, list | tuple | set | frozenset):
        return sorted((shown(each, port) for each in value), key=str)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, bool | int | float | None):
        return "PORT" if str(value) == port else value
    if isinstance(value, str | bytes | BaseException | UUID | ck.KafkaError):
        kind = f"{type(value).__name__}: " if isinstance(value, BaseException) else ""
        return UUID_TEXT.sub("ID", f"{kind}{value}".replace(port, "PORT"))
    if hasattr(value, "to_dict"):
        return shown(value.to_dict(), port)
    if isinstance(value, cka.ConfigResource):
        return f"{value.restype.name} {value.name}"
    names = vars(value) if hasattr(value, "__dict__") else dir(value)
    fields = {n: getattr(value, n) for n in names if not n.startswith("_")}
    plain = {n: each for n, each in fields.items() if not callable(each)}
    return {type(value).__name__: shown(plain, port)}


def attempt(call: Callable[[], Any], port: str) -> Any:
    try:
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            return shown(call(), port)
    except Exception as error:  # the result, to be compared
        return shown(error, port)


def types_of(configs: Any) -> Any:
    """The types of a broker's keys, without those that only kohort has."""
    (found,) = configs["broker"].values()
    return {k: each["config_type"] for k, each in found.items() if not k.startswith("kohort.")}


def ready(call: Callable[[], Any]) -> Any:
    """Repeat a call until it raises no error; return None."""
    deadline = time.monotonic() + 30
    while True:
        try:
            call()
            return None
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def later(call: Callable[[], Any]) -> Callable[[], Any]:
    """With Kafka, changes are known to all its parts a little later."""

    def call_later() -> Any:
        time.sleep(0.3)
        return call()

    return call_later


def kafka_python_calls(a: Any, bootstrap: str) -> Calls:
    resource, kind = ka.ConfigResource, ka.ConfigResourceType
    first, second, unknown = (TopicPartition(*each) for each in (("t", 0), ("t", 1), ("no", 0)))
    offset = OffsetAndMetadata(2, "m", -1)
    topic = resource(kind.TOPIC, "t")

    def describe(type_: Any, name: str, **options: Any) -> Any:
        return a.describe_configs([resource(type_, name)], config_filter="all", **options)

    def alter(type_: Any, name: str, **configs: Any) -> Any:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return a.alter_configs([resource(type_, name, named)], raise_on_unknown=False)

    def alter_offsets() -> None:
        (error,) = a.alter_group_offsets("g", {first: offset}).values()
        if error.errno:
            raise error

    def transaction() -> KafkaProducer:
        with KafkaProducer(bootstrap_servers=bootstrap) as plain:
            plain.send("t", b"v", partition=0).get(TIMEOUT_SECONDS)
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v", partition=1).get(TIMEOUT_SECONDS)
        return producer

    yield "create_topics", lambda: a.create_topics({"t": {"num_partitions": 2}})
    yield "create_topics again", lambda: a.create_topics(["t"])
    yield "create_topics invalid", lambda: a.create_topics(["no topic"], raise_errors=False)
    yield "wait_for_topics", lambda: a.wait_for_topics(["t"])
    producer = transaction()
    yield "alter_group_offsets", lambda: ready(alter_offsets)
    yield "list_groups", lambda: ready(a.list_groups)
    yield "list_groups empty", lambda: a.list_groups(states_filter=["Empty"])
    yield "list_groups unknown", lambda: a.list_groups(types_filter=["nonsense"])
    yield "alter_group_offsets no", lambda: a.alter_group_offsets("g", {unknown: offset})
    yield "create_partitions", lambda: a.create_partitions({"t": 3})
    yield "create_partitions 1", lambda: a.create_partitions({"t": 1}, raise_errors=False)
    yield "describe_cluster", a.describe_cluster
    yield "describe_topics", later(lambda: a.describe_topics(["t", "no"]))
    yield "describe_topic_partitions", lambda: a.describe_topic_partitions(["t", "no"], 2)
    yield "list_topics", lambda: "t" in a.list_topics()
    yield "describe_configs", lambda: describe(kind.TOPIC, "t", include_synonyms=True)
    yield "describe_configs no", lambda: describe(kind.TOPIC, "no")
    yield "describe_configs broker", lambda: types_of(describe(kind.BROKER, "1"))
    yield "describe_configs group", lambda: describe(kind.GROUP, "g")
    yield "describe_configs metrics", lambda: describe(kind.CLIENT_METRICS, "m")
    yield "alter_configs", lambda: alter(kind.TOPIC, "t", retention_ms="5000000")
    policy = (ka.AlterConfigOp.APPEND, "compact")
    yield "alter_configs append", lambda: alter(kind.TOPIC, "t", cleanup_policy=policy)
    yield "alter_configs unknown", lambda: alter(kind.TOPIC, "t", nonsense="2")
    yield "alter_configs group", lambda: alter(kind.GROUP, "g", consumer_session_timeout_ms="50000")
    yield "alter_configs metrics", lambda: alter(kind.CLIENT_METRICS, "m", interval_ms="5000")
    yield "alter_configs broker", lambda: alter(kind.BROKER, "1", log_cleaner_threads="2")
    yield "alter_configs fixed", lambda: alter(kind.BROKER, "1", group_max_size="2")
    yield "alter_configs broker no", lambda: alter(kind.BROKER, "1", nonsense="2")
    types = ["GROUP", "BROKER_LOGGER", "CLIENT_METRICS"]
    yield "list_config_resources", later(lambda: a.list_config_resources(types))
    topic_retention = resource(kind.TOPIC, "t", ["retention.ms"])
    yield "reset_configs", lambda: a.reset_configs([topic_retention])
    threads = resource(kind.BROKER, "1", ["log.cleaner.threads"])
    yield "reset_configs broker", lambda: a.reset_configs([threads])
    yield "describe_configs modified", later(lambda: a.describe_configs([topic]))
    yield "describe_log_dirs", lambda: a.describe_log_dirs({"t": [0, 1]})
    yield "alter_replica_log_dirs", lambda: a.alter_replica_log_dirs({("t", 0, 1): "/nowhere"})
    plan = {first: [1], second: [9], unknown: [1]}
    yield "alter_partition_reassignments", lambda: a.alter_partition_reassignments(plan)
    yield "list_partition_reassignments", a.list_partition_reassignments
    election = {"t": [0], "no": [0]}
    yield "elect_leaders", lambda: a.elect_leaders(0, election, raise_errors=False)
    yield "elect_leaders unclean", lambda: a.elect_leaders(1, election, raise_errors=False)
    for name in vars(ka.OffsetSpec):
        if name.isupper():
            specs = {first: getattr(ka.OffsetSpec, name)}
            yield f"list_partition_offsets {name}", lambda s=specs: a.list_partition_offsets(s)
    yield "delete_records", lambda: a.delete_records({first: 1})
    yield "delete_records beyond", lambda: a.delete_records({first: 100})
    yield "list_group_offsets", lambda: a.list_group_offsets({"g": None, "no": [first, unknown]})
    earliest = {first: ka.OffsetSpec.EARLIEST}
    yield "reset_group_offsets", lambda: a.reset_group_offsets("g", earliest)
    groups = ["g", "no"]
    yield "describe_groups", lambda: a.describe_groups(groups, include_authorized_operations=True)
    members = [ka.MemberToRemove(group_instance_id="x")]
    yield "remove_group_members", lambda: a.remove_group_members("g", members)
    yield "delete_group_offsets", lambda: a.delete_group_offsets("g", [first, unknown])
    yield "delete_groups", lambda: a.delete_groups(["g", "no"])
    yield "describe_producers", lambda: a.describe_producers([first, second])
    yield "describe_transactions", lambda: a.describe_transactions(["x"])
    yield "describe_transactions no", lambda: a.describe_transactions(["no"])
    yield "list_transactions", lambda: a.list_transactions(transactional_id_pattern="x.*")
    yield "find_hanging_transactions", a.find_hanging_transactions
    abort = ka.AbortTransactionSpec(first, 77, 0)
    yield "abort_transaction", lambda: a.abort_transaction(abort)
    yield "describe_features", lambda: a.describe_features()["group.version"]
    yield "update_features", lambda: a.update_features({"group.version": 1})
    yield "update_features no", lambda: a.update_features({"nonsense": 1})
    yield "describe_metadata_quorum", a.describe_metadata_quorum
    yield "api_versions", lambda: "Metadata" in a.api_versions()
    yield "get_broker_version_data", lambda: a.get_broker_version_data(1) is not None
    any_pattern = ka.ResourcePatternFilter(ka.ResourceType.ANY, None, ka.ACLResourcePatternType.ANY)
    any_acl = ka.ACLFilter(None, None, ka.ACLOperation.ANY, ka.ACLPermissionType.ANY, any_pattern)
    allowed = (ka.ACLOperation.READ, ka.ACLPermissionType.ALLOW)
    pattern = ka.ResourcePattern(ka.ResourceType.TOPIC, "t")
    acls = [ka.ACL(principal, "*", *allowed, pattern) for principal in ("User:a", "a")]
    yield "create_acls", lambda: [str(each) for each in a.create_acls(acls)["failed"]]
    yield "describe_acls", later(lambda: [str(each) for each in a.describe_acls(any_acl)[0]])
    yield "delete_acls", lambda: [str(each[1]) for each in a.delete_acls([any_acl])]
    sha_256 = ka.ScramMechanism.SCRAM_SHA_256
    changes = [ka.UserScramCredentialUpsertion("u", sha_256, b"password")]
    changes += [ka.UserScramCredentialDeletion("v", sha_256)]
    yield "alter_user_scram_credentials", lambda: a.alter_user_scram_credentials(changes)
    yield "describe_user_scram_credentials", later(a.describe_user_scram_credentials)
    producer.abort_transaction()
    producer.close()
    yield "delete_topics", lambda: a.delete_topics(["t", "no"], raise_errors=False)


def confluent_calls(a: Any, bootstrap: str) -> Calls:
    partition, options = ck.TopicPartition, {"bootstrap.servers": bootstrap}
    group = ck.ConsumerGroupTopicPartitions
    everything = cka.AclBindingFilter(
        *(cka.ResourceType.ANY, None, cka.ResourcePatternType.ANY, None, None),
        *(cka.AclOperation.ANY, cka.AclPermissionType.ANY),
    )

    def alter(type_: str, name: str, *changes: tuple[str, str | None, Any]) -> Any:
        entries = [cka.ConfigEntry(k, v, incremental_operation=o) for k, v, o in changes]
        return a.incremental_alter_configs(
            [cka.ConfigResource(type_, name, incremental_configs=entries)]
        )

    def acl(principal: str) -> Any:
        return cka.AclBinding(
            *(cka.ResourceType.TOPIC, "t", cka.ResourcePatternType.LITERAL, principal, "*"),
            *(cka.AclOperation.READ, cka.AclPermissionType.ALLOW),
        )

    def commit() -> None:
        consumer = ck.Consumer({**options, "group.id": "g"})
        consumer.commit(offsets=[partition("t", 0, 1)], asynchronous=False)
        consumer.close()

    def produce() -> None:
        producer = ck.Producer(options)
        producer.produce("t", b"v", partition=0)
        producer.flush(TIMEOUT_SECONDS)

    topics = [cka.NewTopic("t", 2, 1), cka.NewTopic("no topic", 1, 1), cka.NewTopic("u", 0, 1)]
    yield "create_topics", lambda: a.create_topics(topics)
    validated = [cka.NewTopic("t", 2, 1), cka.NewTopic("v", 2, 9)]
    yield "create_topics again", later(lambda: a.create_topics(validated, validate_only=True))
    yield "produce", produce
    yield "commit", lambda: ready(commit)
    partitions = [cka.NewPartitions("t", 3), cka.NewPartitions("no", 3)]
    yield "create_partitions", lambda: a.create_partitions(partitions)
    yield "describe_cluster", lambda: a.describe_cluster(include_authorized_operations=True)
    described = ck.TopicCollection(["t", "no"])
    yield "describe_topics", later(lambda: a.describe_topics(described))
    yield "list_topics", lambda: a.list_topics("t", timeout=TIMEOUT_SECONDS)
    yield "list_groups", lambda: [each.id for each in a.list_groups(timeout=TIMEOUT_SECONDS)]
    for name in ("t", "no"):
        resource = cka.ConfigResource("topic", name)
        yield f"describe_configs {name}", lambda r=resource: a.describe_configs([r])
    old = cka.ConfigResource("topic", "t", set_config={"retention.ms": "5000000"})
    yield "alter_configs", lambda: a.alter_configs([old])
    operation = cka.AlterConfigOpType
    policy = ("cleanup.policy", "compact", operation.APPEND)
    yield "incremental_alter_configs", lambda: alter("topic", "t", policy)
    threads = ("log.cleaner.threads", "2", operation.SET)
    yield "incremental_alter_configs broker", lambda: alter("broker", "1", threads)
    size = ("group.max.size", "2", operation.SET)
    yield "incremental_alter_configs fixed", lambda: alter("broker", "1", size)
    yield "list_consumer_groups", a.list_consumer_groups
    stable = {ck.ConsumerGroupState.STABLE}
    yield "list_consumer_groups stable", lambda: a.list_consumer_groups(states=stable)
    yield "describe_consumer_groups", lambda: a.describe_consumer_groups(["g", "no"])
    yield "list_consumer_group_offsets", lambda: a.list_consumer_group_offsets([group("g")])
    changed = [group("g", [partition("t", 0, 2), partition("no", 0, 2)])]
    yield "alter_consumer_group_offsets", lambda: a.alter_consumer_group_offsets(changed)
    spec = cka.OffsetSpec
    specs = dict(enumerate([spec.latest(), spec.earliest(), spec.max_timestamp()]))
    offsets = {partition("t", index): each for index, each in specs.items()}
    yield "list_offsets", lambda: a.list_offsets(offsets)
    unknown = {partition("no", 0): spec.for_timestamp(1)}
    yield "list_offsets no", lambda: a.list_offsets(unknown)
    deleted = [partition("t", 0, 1), partition("t", 1, 100), partition("no", 0, 1)]
    yield "delete_records", lambda: a.delete_records(deleted)
    elected = [partition("t", 0), partition("no", 0)]
    yield "elect_leaders", lambda: a.elect_leaders(ck.ElectionType.PREFERRED, elected)
    yield "create_acls", lambda: a.create_acls([acl("User:a"), acl("a")])
    yield "describe_acls", later(lambda: a.describe_acls(everything))
    yield "delete_acls", lambda: a.delete_acls([everything])
    for iterations in (8192, 1):
        info = cka.ScramCredentialInfo(cka.ScramMechanism.SCRAM_SHA_256, iterations)
        change = [cka.UserScramCredentialUpsertion("u", info, b"password", b"salt")]
        change += [cka.UserScramCredentialDeletion("v", cka.ScramMechanism.SCRAM_SHA_512)]
        name = f"alter_user_scram_credentials {iterations}"
        yield name, lambda c=change: a.alter_user_scram_credentials(c)
    users = ["u", "v"]
    yield "describe_user_scram_credentials", later(lambda: a.describe_user_scram_credentials(users))
    yield "cluster_id", lambda: len(a.cluster_id(TIMEOUT_SECONDS))
    yield "delete_consumer_groups", lambda: a.delete_consumer_groups(["g", "no"])
    yield "delete_topics", lambda: a.delete_topics(["t", "no"])
