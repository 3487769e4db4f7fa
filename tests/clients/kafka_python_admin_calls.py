"""Calls of every method of kafka-python's admin client."""

from typing import Any

import kafka.admin as ka
from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from .admin_calls import TIMEOUT_SECONDS, Calls, later, ready

KIND = ka.ConfigResourceType
FIRST, SECOND, UNKNOWN = (TopicPartition(*each) for each in (("t", 0), ("t", 1), ("no", 0)))
OFFSET = OffsetAndMetadata(2, "m", -1)


def calls(a: Any, bootstrap: str) -> Calls:
    yield "create_topics", lambda: a.create_topics({"t": {"num_partitions": 2}})
    yield "create_topics again", lambda: a.create_topics(["t"])
    yield "create_topics invalid", lambda: a.create_topics(["no topic"], raise_errors=False)
    yield "wait_for_topics", lambda: a.wait_for_topics(["t"])
    producer = _transaction(bootstrap)
    for part in (_new_group, _metadata, _configs, _partitions, _groups, _cluster, _security):
        yield from part(a)
    producer.abort_transaction()
    producer.close()
    yield "delete_topics", lambda: a.delete_topics(["t", "no"], raise_errors=False)


def _transaction(bootstrap: str) -> KafkaProducer:
    """A producer with a record in an open transaction."""
    with KafkaProducer(bootstrap_servers=bootstrap) as plain:
        plain.send("t", b"v", partition=0).get(TIMEOUT_SECONDS)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"v", partition=1).get(TIMEOUT_SECONDS)
    return producer


def _new_group(a: Any) -> Calls:
    def alter_offsets() -> None:
        (error,) = a.alter_group_offsets("g", {FIRST: OFFSET}).values()
        if error.errno:
            raise error

    yield "alter_group_offsets", lambda: ready(alter_offsets)
    yield "list_groups", lambda: ready(a.list_groups)
    yield "list_groups empty", lambda: a.list_groups(states_filter=["Empty"])
    yield "list_groups unknown", lambda: a.list_groups(types_filter=["nonsense"])
    yield "alter_group_offsets no", lambda: a.alter_group_offsets("g", {UNKNOWN: OFFSET})


def _metadata(a: Any) -> Calls:
    yield "create_partitions", lambda: a.create_partitions({"t": 3})
    yield "create_partitions 1", lambda: a.create_partitions({"t": 1}, raise_errors=False)
    yield "describe_cluster", a.describe_cluster
    described = later(
        lambda: a.describe_topics(["t", "no"]), lambda found: len(found[0]["partitions"]) == 3
    )
    yield "describe_topics", described
    yield "describe_topic_partitions", lambda: a.describe_topic_partitions(["t", "no"], 2)
    yield "list_topics", lambda: "t" in a.list_topics()


def types_of(configs: Any) -> Any:
    """Return the types of a broker's keys, without kohort's own keys."""
    (found,) = configs["broker"].values()
    return {k: each["config_type"] for k, each in found.items() if not k.startswith("kohort.")}


def _configs(a: Any) -> Calls:
    topic = ka.ConfigResource(KIND.TOPIC, "t")

    def describe(type_: Any, name: str, **options: Any) -> Any:
        return a.describe_configs([ka.ConfigResource(type_, name)], config_filter="all", **options)

    def alter(type_: Any, name: str, **configs: Any) -> Any:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        return a.alter_configs([ka.ConfigResource(type_, name, named)], raise_on_unknown=False)

    yield "describe_configs", lambda: describe(KIND.TOPIC, "t", include_synonyms=True)
    yield "describe_configs no", lambda: describe(KIND.TOPIC, "no")
    yield "describe_configs broker", lambda: types_of(describe(KIND.BROKER, "1"))
    yield "describe_configs group", lambda: describe(KIND.GROUP, "g")
    yield "describe_configs metrics", lambda: describe(KIND.CLIENT_METRICS, "m")
    yield "alter_configs", lambda: alter(KIND.TOPIC, "t", retention_ms="5000000")
    policy = (ka.AlterConfigOp.APPEND, "compact")
    yield "alter_configs append", lambda: alter(KIND.TOPIC, "t", cleanup_policy=policy)
    yield "alter_configs unknown", lambda: alter(KIND.TOPIC, "t", nonsense="2")
    yield "alter_configs group", lambda: alter(KIND.GROUP, "g", consumer_session_timeout_ms="50000")
    yield "alter_configs metrics", lambda: alter(KIND.CLIENT_METRICS, "m", interval_ms="5000")
    yield "alter_configs broker", lambda: alter(KIND.BROKER, "1", log_cleaner_threads="2")
    yield "alter_configs fixed", lambda: alter(KIND.BROKER, "1", group_max_size="2")
    yield "alter_configs broker no", lambda: alter(KIND.BROKER, "1", nonsense="2")
    types = ["GROUP", "BROKER_LOGGER", "CLIENT_METRICS"]
    listed = later(lambda: a.list_config_resources(types), lambda found: found["client_metrics"])
    yield "list_config_resources", listed
    topic_retention = ka.ConfigResource(KIND.TOPIC, "t", ["retention.ms"])
    yield "reset_configs", lambda: a.reset_configs([topic_retention])
    threads = ka.ConfigResource(KIND.BROKER, "1", ["log.cleaner.threads"])
    yield "reset_configs broker", lambda: a.reset_configs([threads])

    def is_reset(found: Any) -> bool:
        return "retention.ms" not in found["topic"]["t"]

    yield "describe_configs modified", later(lambda: a.describe_configs([topic]), is_reset)


def _partitions(a: Any) -> Calls:
    yield "describe_log_dirs", lambda: a.describe_log_dirs({"t": [0, 1]})
    yield "alter_replica_log_dirs", lambda: a.alter_replica_log_dirs({("t", 0, 1): "/nowhere"})
    plan = {FIRST: [1], SECOND: [9], UNKNOWN: [1]}
    yield "alter_partition_reassignments", lambda: a.alter_partition_reassignments(plan)
    yield "list_partition_reassignments", a.list_partition_reassignments
    election = {"t": [0], "no": [0]}
    yield "elect_leaders", lambda: a.elect_leaders(0, election, raise_errors=False)
    yield "elect_leaders unclean", lambda: a.elect_leaders(1, election, raise_errors=False)
    for name in vars(ka.OffsetSpec):
        if name.isupper():
            specs = {FIRST: getattr(ka.OffsetSpec, name)}
            yield f"list_partition_offsets {name}", lambda s=specs: a.list_partition_offsets(s)
    yield "delete_records", lambda: a.delete_records({FIRST: 1})
    yield "delete_records beyond", lambda: a.delete_records({FIRST: 100})


def _groups(a: Any) -> Calls:
    yield "list_group_offsets", lambda: a.list_group_offsets({"g": None, "no": [FIRST, UNKNOWN]})
    earliest = {FIRST: ka.OffsetSpec.EARLIEST}
    yield "reset_group_offsets", lambda: a.reset_group_offsets("g", earliest)
    groups = ["g", "no"]
    yield "describe_groups", lambda: a.describe_groups(groups, include_authorized_operations=True)
    members = [ka.MemberToRemove(group_instance_id="x")]
    yield "remove_group_members", lambda: a.remove_group_members("g", members)
    yield "delete_group_offsets", lambda: a.delete_group_offsets("g", [FIRST, UNKNOWN])
    yield "delete_groups", lambda: a.delete_groups(["g", "no"])


def _cluster(a: Any) -> Calls:
    yield "describe_producers", lambda: a.describe_producers([FIRST, SECOND])
    yield "describe_transactions", lambda: a.describe_transactions(["x"])
    yield "describe_transactions no", lambda: a.describe_transactions(["no"])
    yield "list_transactions", lambda: a.list_transactions(transactional_id_pattern="x.*")
    yield "find_hanging_transactions", a.find_hanging_transactions
    abort = ka.AbortTransactionSpec(FIRST, 77, 0)
    yield "abort_transaction", lambda: a.abort_transaction(abort)
    yield "describe_features", lambda: a.describe_features()["group.version"]
    yield "update_features", lambda: a.update_features({"group.version": 1})
    yield "update_features no", lambda: a.update_features({"nonsense": 1})
    yield "describe_metadata_quorum", a.describe_metadata_quorum
    yield "api_versions", lambda: "Metadata" in a.api_versions()
    yield "get_broker_version_data", lambda: a.get_broker_version_data(1) is not None


def _security(a: Any) -> Calls:
    any_pattern = ka.ResourcePatternFilter(ka.ResourceType.ANY, None, ka.ACLResourcePatternType.ANY)
    any_acl = ka.ACLFilter(None, None, ka.ACLOperation.ANY, ka.ACLPermissionType.ANY, any_pattern)
    allowed = (ka.ACLOperation.READ, ka.ACLPermissionType.ALLOW)
    pattern = ka.ResourcePattern(ka.ResourceType.TOPIC, "t")
    acls = [ka.ACL(principal, "*", *allowed, pattern) for principal in ("User:a", "a")]
    yield "create_acls", lambda: [str(each) for each in a.create_acls(acls)["failed"]]
    yield "describe_acls", later(lambda: [str(each) for each in a.describe_acls(any_acl)[0]], bool)
    yield "delete_acls", lambda: [str(each[1]) for each in a.delete_acls([any_acl])]
    sha_256 = ka.ScramMechanism.SCRAM_SHA_256
    changes = [ka.UserScramCredentialUpsertion("u", sha_256, b"password")]
    changes += [ka.UserScramCredentialDeletion("v", sha_256)]
    yield "alter_user_scram_credentials", lambda: a.alter_user_scram_credentials(changes)
    yield "describe_user_scram_credentials", later(a.describe_user_scram_credentials, bool)
