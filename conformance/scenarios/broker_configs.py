"""Configurations of brokers and broker loggers, and client metrics subscriptions."""

from collections.abc import Iterable
from typing import Any

from ..broker import BROKER, BROKER_LOGGER, CLIENT_METRICS
from ..scenario import scenario
from ..script import APPEND, DELETE, SET, SUBTRACT, Change, Script, altered

EVERY_BROKER = ""


async def alter(s: Script, type_: int, name: str, *changes: Change, **values: Any) -> None:
    resources = [altered(type_, name, *changes)]
    await s.send("IncrementalAlterConfigs", 1, {"resources": resources, **values})


async def describe(s: Script, type_: int, name: str, *keys: str) -> None:
    resource = {"resource_type": type_, "resource_name": name, "configuration_keys": keys or None}
    await s.broker.metadata_applied()
    await s.send("DescribeConfigs", 4, {"resources": [resource], "include_synonyms": True})


async def set_and_delete(s: Script, pairs: Iterable[tuple[str, str]]) -> None:
    for name in ("1", EVERY_BROKER):
        for key, value in pairs:
            await alter(s, BROKER, name, (key, SET, value))
            await describe(s, BROKER, name, key)
            await alter(s, BROKER, name, (key, DELETE, None))
        await describe(s, BROKER, "1", *(key for key, _ in pairs))


@scenario("broker configs: the limits of groups, offsets and transactions are fixed", is_alone=True)
async def limits_of_groups_are_fixed(s: Script) -> None:
    keys = (
        *("group.max.size", "group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        *("group.initial.rebalance.delay.ms", "group.consumer.max.size"),
        *("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"),
        *("offsets.retention.minutes", "transaction.max.timeout.ms"),
        *("transactional.id.expiration.ms", "group.share.max.size", "group.streams.max.size"),
    )
    for name in ("1", EVERY_BROKER):
        for key in keys:
            await alter(s, BROKER, name, (key, SET, "5"))
            await alter(s, BROKER, name, (key, DELETE, None))


@scenario("broker configs: which keys of groups and transactions are dynamic", is_alone=True)
async def some_keys_of_groups_are_dynamic(s: Script) -> None:
    pairs = (
        ("group.consumer.assignment.interval.ms", "20"),
        ("group.share.assignment.interval.ms", "20"),
        ("group.share.assignment.interval.ms", "20000"),
        ("group.streams.assignment.interval.ms", "20"),
        ("group.coordinator.cached.buffer.max.bytes", "2000000"),
        ("group.coordinator.cached.buffer.max.bytes", "1"),
        ("share.coordinator.cached.buffer.max.bytes", "2000000"),
        ("transaction.partition.verification.enable", "true"),
    )
    await set_and_delete(s, pairs)


@scenario("broker configs: keys for parts of Kafka that kohort does not have", is_alone=True)
async def keys_without_effect_are_altered(s: Script) -> None:
    pairs = (
        ("background.threads", "11"),
        ("num.io.threads", "9"),
        ("num.io.threads", "0"),
        ("num.io.threads", "x"),
        ("num.replica.fetchers", "2"),
        ("log.cleaner.threads", "2"),
        ("log.cleaner.io.max.bytes.per.second", "1000000"),
        ("remote.log.reader.threads", "11"),
        ("leader.replication.throttled.rate", "1000"),
        ("leader.replication.throttled.rate", "x"),
        ("auto.leader.rebalance.enable", "false"),
        ("alter.config.policy.class.name", "x"),
    )
    await set_and_delete(s, pairs)


@scenario("broker configs: a change at most doubles or halves a number of threads", is_alone=True)
async def numbers_of_threads_are_changed(s: Script) -> None:
    for key, *values in (
        ("num.io.threads", "16", "33", "7", "32", "16"),
        ("log.cleaner.threads", "3", "2", "4", "1", "2"),
        ("remote.log.reader.threads", "21", "4"),
        ("num.network.threads", "7"),
        ("listener.name.plaintext.num.network.threads", "7", "6", "0"),
        ("listener.name.nothing.num.network.threads", "100"),
    ):
        for value in values:
            await alter(s, BROKER, "1", (key, SET, value))
            await s.broker.metadata_applied()
        await alter(s, BROKER, "1", (key, DELETE, None))
        await s.broker.metadata_applied()
    await alter(s, BROKER, "1", ("num.io.threads", SET, "16"))
    await s.broker.metadata_applied()
    for name in ("1", EVERY_BROKER):
        await alter(s, BROKER, name, ("num.io.threads", DELETE, None))
        await s.broker.metadata_applied()
    for key in ("num.io.threads", "background.threads", "log.cleaner.threads"):
        await alter(s, BROKER, EVERY_BROKER, (key, SET, "100"), validate_only=True)


@scenario("broker configs: values that depend on others", is_alone=True)
async def values_that_depend_on_others_are_altered(s: Script) -> None:
    for local, total, value in (
        ("log.local.retention.ms", "log.retention.ms", "-1"),
        ("log.local.retention.ms", "log.retention.ms", "604800001"),
        ("log.local.retention.bytes", "log.retention.bytes", "-1"),
        ("log.local.retention.bytes", "log.retention.bytes", "6"),
    ):
        for name in ("1", EVERY_BROKER):
            change = (local, SET, value)
            await alter(s, BROKER, name, change, validate_only=True)
            await alter(s, BROKER, name, change, (total, SET, "5"), validate_only=True)
    for key, *values in (
        ("max.connections", "0"),
        ("max.connection.creation.rate", "0"),
        ("listener.name.plaintext.max.connections", "0"),
        ("listener.name.nothing.max.connections", "0"),
        ("listener.name.nothing.max.connection.creation.rate", "0"),
        ("log.cleaner.threads", "0"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "1048577"),
        ("metric.reporters", "", ",", "x", "org.apache.kafka.common.metrics.JmxReporter"),
        ("cordoned.log.dirs", "", ",", "x", "a,b", "*", "*,x"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "x", "-1", "1"),
    ):
        for value in values:
            await alter(s, BROKER, "1", (key, SET, value), validate_only=True)


@scenario("broker configs: keys that belong to a broker or to one of its listeners", is_alone=True)
async def keys_of_brokers_and_listeners_are_altered(s: Script) -> None:
    prefix = "listener.name.plaintext."
    for key, value in (
        ("cordoned.log.dirs", ""),
        ("principal.builder.class", "x"),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT"),
        ("sasl.kerberos.service.name", "x"),
        ("sasl.login.refresh.window.jitter", "x"),
        ("ssl.protocol", "x"),
        ("ssl.keystore.location", "x"),
        ("ssl.truststore.password", "x"),
        ("ssl.client.auth", "REQUIRED"),
        ("ssl.client.auth", "none"),
        ("config.providers", "a"),
        (f"{prefix}background.threads", "0"),
        (f"{prefix}background.threads", "1"),
        (f"{prefix}group.max.size", "x"),
        (f"{prefix}nonsense", "x"),
        ("listener.name.nothing", "x"),
    ):
        names = (EVERY_BROKER,) if key == "listener.security.protocol.map" else ("1", EVERY_BROKER)
        for name in names:
            await alter(s, BROKER, name, (key, SET, value))
            await describe(s, BROKER, "1", key)
            await alter(s, BROKER, name, (key, DELETE, None))
    several = (("ssl.keystore.location", SET, "x"), ("ssl.protocol", SET, "x"))
    await alter(s, BROKER, EVERY_BROKER, *several)
    await alter(s, BROKER, "1", *several, ("node.id", SET, "2"))
    await alter(s, BROKER, EVERY_BROKER, ("num.io.threads", SET, "0"), several[1])
    for operation in (APPEND, SUBTRACT):
        for key in ("leader.replication.throttled.rate", "ssl.cipher.suites"):
            await alter(s, BROKER, "1", (key, operation, "x"), validate_only=True)


@scenario("CreateTopics: no partitions are placed in cordoned folders (KIP-1066)", is_alone=True)
async def topics_are_created_while_folders_are_cordoned(s: Script) -> None:
    first, second = f"{s.group}.1", f"{s.group}.2"
    automatic = {"num_partitions": -1, "replication_factor": -1}
    assigned = {**automatic, "assignments": ({"partition_index": 0, "broker_ids": (1,)},)}
    more = {"topics": ({"name": first, "count": 9, "assignments": None},), "timeout": 10_000}

    async def create(name: str, values: dict[str, Any]) -> None:
        await s.send("CreateTopics", 4, {"topics": ({"name": name, **values},), "timeout": 10_000})

    await create(first, automatic)
    await alter(s, BROKER, "1", ("cordoned.log.dirs", SET, "*"))
    await s.pass_ms(4000)  # the broker reports the change with its next heartbeat
    await create(second, automatic)
    await s.send("CreatePartitions", 3, more)
    await create(second, assigned)
    await alter(s, BROKER, "1", ("cordoned.log.dirs", DELETE, None))
    await s.pass_ms(4000)
    await s.send("CreatePartitions", 3, more)


@scenario("broker configs: unknown keys have no effect, and their values are hidden", is_alone=True)
async def unknown_broker_keys_are_altered(s: Script) -> None:
    for name in ("1", EVERY_BROKER):
        await alter(s, BROKER, name, ("nonsense", SET, name), (f"{name}x", SET, "1"))
        await describe(s, BROKER, name, "nonsense", f"{name}x")
    await describe(s, BROKER, "1", "nonsense")
    await alter(s, BROKER, "1", ("nonsense", APPEND, "x"))
    for name in ("1", EVERY_BROKER):
        await alter(s, BROKER, name, ("nonsense", DELETE, None), (f"{name}x", DELETE, None))
        await describe(s, BROKER, "1", "nonsense", f"{name}x")


@scenario("DescribeConfigs: keys of a listener, and values as they were written", is_alone=True)
async def values_are_described_as_they_were_written(s: Script) -> None:
    key = "listener.name.plaintext.max.connections"
    pairs = (
        (key, "100"),
        ("num.replica.fetchers", " 02 "),
        ("log.cleaner.min.cleanable.ratio", "0x1p-1"),
        ("log.cleanup.policy", "delete,delete"),
    )
    for name in ("1", EVERY_BROKER):
        for each, value in pairs:
            await alter(s, BROKER, name, (each, SET, value))
            await describe(s, BROKER, "1", each, "max.connections")
        for each, _ in pairs:
            await alter(s, BROKER, name, (each, DELETE, None))
    await describe(s, BROKER, "1", key)


@scenario("Client metrics subscriptions (KIP-714) are stored and described")
async def client_metrics_are_configured(s: Script) -> None:
    name, other = f"{s.group}.subscription", f"{s.group}.other"
    await describe(s, CLIENT_METRICS, name)
    await describe(s, CLIENT_METRICS, "")
    await alter(s, CLIENT_METRICS, "", ("interval.ms", SET, "1000"))
    for value in ("99", "100", "3600000", "3600001", "x", ""):
        await alter(s, CLIENT_METRICS, name, ("interval.ms", SET, value))
    for value in ("", "*", "a,b", " a , b ", "a,,b"):
        await alter(s, CLIENT_METRICS, name, ("metrics", SET, value))
    for operation in (APPEND, SUBTRACT):
        for key in ("metrics", "interval.ms"):
            await alter(s, CLIENT_METRICS, name, (key, operation, "c"))
    patterns = ("client_id", "client_id=", "client_id=[", "client_id=a=b", "foo=a", "client_id=a")
    for pattern in (*patterns, "client_software_name=x,client_source_port=1.*"):
        await alter(s, CLIENT_METRICS, name, ("match", SET, pattern))
    await alter(s, CLIENT_METRICS, name, ("nonsense", SET, "x"))
    await alter(s, CLIENT_METRICS, name, ("metrics", SET, None))
    await alter(s, CLIENT_METRICS, name, ("metrics", SET, "x"), ("metrics", SET, "y"))
    await alter(s, CLIENT_METRICS, other, ("metrics", SET, "x"), validate_only=True)
    await describe(s, CLIENT_METRICS, other)
    await describe(s, CLIENT_METRICS, name)
    for version in (0, 1):
        await s.send("ListConfigResources", version, {"resource_types": (CLIENT_METRICS,)})
    configs = [{"name": "interval.ms", "value": "5000"}]
    resource = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": configs}
    await s.send("AlterConfigs", 2, {"resources": [resource]})
    await describe(s, CLIENT_METRICS, name, "interval.ms", "match", "nonsense")
    await alter(s, CLIENT_METRICS, name, ("interval.ms", DELETE, None))
    await describe(s, CLIENT_METRICS, name)
    await s.send("ListConfigResources", 1, {"resource_types": (CLIENT_METRICS,)})


@scenario("The levels of loggers (KIP-412) are described and altered", is_alone=True)
async def levels_of_loggers_are_altered(s: Script) -> None:
    for name in ("", "2", "x"):
        await describe(s, BROKER_LOGGER, name)
        await alter(s, BROKER_LOGGER, name, ("root", SET, "INFO"))
    for level in ("TRACE", "DEBUG", "FATAL", "ERROR", "INFO", "WARN", "OFF", "debug", ""):
        await alter(s, BROKER_LOGGER, "1", ("root", SET, level))
        await describe(s, BROKER_LOGGER, "1", "root")
    await alter(s, BROKER_LOGGER, "1", ("root", SET, "DEBUG"), validate_only=True)
    await alter(s, BROKER_LOGGER, "1", ("root", SET, "DEBUG"), ("nonsense", SET, "INFO"))
    await describe(s, BROKER_LOGGER, "1", "root", "nonsense")
    for operation, value in ((DELETE, None), (APPEND, "INFO"), (SUBTRACT, "INFO"), (SET, "x")):
        for logger in ("root", "nonsense"):
            await alter(s, BROKER_LOGGER, "1", (logger, operation, value))
    resource = {"resource_type": BROKER_LOGGER, "resource_name": "1", "configs": ()}
    await s.send("AlterConfigs", 2, {"resources": [resource]})
    await s.send("ListConfigResources", 1, {"resource_types": (BROKER_LOGGER,)})
    await alter(s, BROKER_LOGGER, "1", ("root", SET, "INFO"))
