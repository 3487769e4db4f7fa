"""Calls of every method of confluent-kafka's admin client."""

from typing import Any

import confluent_kafka as ck
import confluent_kafka.admin as cka
from confluent_kafka import ConsumerGroupTopicPartitions as Group
from confluent_kafka import TopicPartition as Partition

from .admin_calls import TIMEOUT_SECONDS, Calls, later, ready


def calls(a: Any, bootstrap: str) -> Calls:
    topics = [cka.NewTopic("t", 2, 1), cka.NewTopic("no topic", 1, 1), cka.NewTopic("u", 0, 1)]
    yield "create_topics", lambda: a.create_topics(topics)
    validated = [cka.NewTopic("t", 2, 1), cka.NewTopic("v", 2, 9)]
    yield "create_topics again", lambda: a.create_topics(validated, validate_only=True)
    yield "produce", lambda: _produce(bootstrap)
    yield "commit", lambda: ready(lambda: _commit(bootstrap))
    for part in (_metadata, _configs, _groups, _partitions, _security):
        yield from part(a)
    yield "cluster_id", lambda: len(a.cluster_id(TIMEOUT_SECONDS))
    yield "delete_consumer_groups", lambda: a.delete_consumer_groups(["g", "no"])
    yield "delete_topics", lambda: a.delete_topics(["t", "no"])


def _commit(bootstrap: str) -> None:
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    consumer.commit(offsets=[Partition("t", 0, 1)], asynchronous=False)
    consumer.close()


def _produce(bootstrap: str) -> None:
    producer = ck.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce("t", b"v", partition=0)
    producer.flush(TIMEOUT_SECONDS)


def _metadata(a: Any) -> Calls:
    partitions = [cka.NewPartitions("t", 3), cka.NewPartitions("no", 3)]
    yield "create_partitions", lambda: a.create_partitions(partitions)
    yield "describe_cluster", lambda: a.describe_cluster(include_authorized_operations=True)
    described = ck.TopicCollection(["t", "no"])

    def is_larger(found: Any) -> bool:
        return len(found["t"].result(TIMEOUT_SECONDS).partitions) == 3

    yield "describe_topics", later(lambda: a.describe_topics(described), is_larger)
    yield "list_topics", lambda: a.list_topics("t", timeout=TIMEOUT_SECONDS)
    yield "list_groups", lambda: [each.id for each in a.list_groups(timeout=TIMEOUT_SECONDS)]


def _configs(a: Any) -> Calls:
    def alter(type_: str, name: str, *changes: tuple[str, str | None, Any]) -> Any:
        entries = [cka.ConfigEntry(k, v, incremental_operation=o) for k, v, o in changes]
        return a.incremental_alter_configs(
            [cka.ConfigResource(type_, name, incremental_configs=entries)]
        )

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


def _groups(a: Any) -> Calls:
    yield "list_consumer_groups", a.list_consumer_groups
    stable = {ck.ConsumerGroupState.STABLE}
    yield "list_consumer_groups stable", lambda: a.list_consumer_groups(states=stable)
    yield "describe_consumer_groups", lambda: a.describe_consumer_groups(["g", "no"])
    yield "list_consumer_group_offsets", lambda: a.list_consumer_group_offsets([Group("g")])
    changed = [Group("g", [Partition("t", 0, 2), Partition("no", 0, 2)])]
    yield "alter_consumer_group_offsets", lambda: a.alter_consumer_group_offsets(changed)


def _partitions(a: Any) -> Calls:
    spec = cka.OffsetSpec
    specs = dict(enumerate([spec.latest(), spec.earliest(), spec.max_timestamp()]))
    offsets = {Partition("t", index): each for index, each in specs.items()}
    yield "list_offsets", lambda: a.list_offsets(offsets)
    unknown = {Partition("no", 0): spec.for_timestamp(1)}
    yield "list_offsets no", lambda: a.list_offsets(unknown)
    deleted = [Partition("t", 0, 1), Partition("t", 1, 100), Partition("no", 0, 1)]
    yield "delete_records", lambda: a.delete_records(deleted)
    elected = [Partition("t", 0), Partition("no", 0)]
    yield "elect_leaders", lambda: a.elect_leaders(ck.ElectionType.PREFERRED, elected)


def _security(a: Any) -> Calls:
    everything = cka.AclBindingFilter(
        *(cka.ResourceType.ANY, None, cka.ResourcePatternType.ANY, None, None),
        *(cka.AclOperation.ANY, cka.AclPermissionType.ANY),
    )

    def acl(principal: str) -> Any:
        return cka.AclBinding(
            *(cka.ResourceType.TOPIC, "t", cka.ResourcePatternType.LITERAL, principal, "*"),
            *(cka.AclOperation.READ, cka.AclPermissionType.ALLOW),
        )

    yield "create_acls", lambda: a.create_acls([acl("User:a"), acl("a")])
    acls = later(lambda: a.describe_acls(everything), lambda found: found.result(TIMEOUT_SECONDS))
    yield "describe_acls", acls
    yield "delete_acls", lambda: a.delete_acls([everything])
    for iterations in (8192, 1):
        info = cka.ScramCredentialInfo(cka.ScramMechanism.SCRAM_SHA_256, iterations)
        change = [cka.UserScramCredentialUpsertion("u", info, b"password", b"salt")]
        change += [cka.UserScramCredentialDeletion("v", cka.ScramMechanism.SCRAM_SHA_512)]
        name = f"alter_user_scram_credentials {iterations}"
        yield name, lambda c=change: a.alter_user_scram_credentials(c)
    users = ["u", "v"]

    def is_known(found: Any) -> bool:
        return found["u"].exception(TIMEOUT_SECONDS) is None

    described = later(lambda: a.describe_user_scram_credentials(users), is_known)
    yield "describe_user_scram_credentials", described
