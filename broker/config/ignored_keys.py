"""Keys of Kafka features that kohort lacks: replication, controllers, share and streams groups,
tiered storage. A server.properties file may contain these keys. Clients can describe the keys of
Kafka 4.3, and change the dynamic ones.

Source: AbstractKafkaConfig.CONFIG_DEF of Kafka 4.3, and KafkaConfig.configNames of Kafka 3.9, the
last version with ZooKeeper.
"""

from dataclasses import replace
from typing import Final

from ...topics.configs.config_def import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    at_least,
    config_def,
    no_empty_items,
)

IGNORED_PREFIXES: Final = ("config.providers.", "rlmm.config.", "rsm.config.")
"""Prefixes of the keys of configuration providers, and of the plugins for tiered storage."""

# Name, type, default (`-` for none), `from` and the lower bound of a dynamic key, `dynamic`,
# `internal` (the key is described only if it is set).
_OF_KAFKA_4: Final = """
    add.partitions.to.txn.retry.backoff.max.ms int 100
    add.partitions.to.txn.retry.backoff.ms int 20
    alter.config.policy.class.name class -
    alter.log.dirs.replication.quota.window.num int 11
    alter.log.dirs.replication.quota.window.size.seconds int 1
    auto.leader.rebalance.enable boolean true
    background.threads int 10 from 1 dynamic
    broker.heartbeat.interval.ms int 2000
    broker.session.timeout.ms int 9000
    client.quota.callback.class class -
    config.providers list "" dynamic
    controlled.shutdown.enable boolean true
    controller.performance.always.log.threshold.ms long 2000 internal
    controller.performance.sample.period.ms long 60000 internal
    controller.quorum.append.linger.ms int 25
    controller.quorum.auto.join.enable boolean false
    controller.quorum.bootstrap.servers list ""
    controller.quorum.election.backoff.max.ms int 1000
    controller.quorum.election.timeout.ms int 1000
    controller.quorum.fetch.max.bytes int 1048576
    controller.quorum.fetch.snapshot.max.bytes int 1048576
    controller.quorum.fetch.timeout.ms int 2000
    controller.quorum.request.timeout.ms int 2000
    controller.quorum.retry.backoff.ms int 20
    controller.quorum.voters list ""
    controller.socket.timeout.ms int 30000
    create.topic.policy.class.name class -
    delegation.token.expiry.check.interval.ms long 3600000
    delegation.token.expiry.time.ms long 86400000
    delegation.token.max.lifetime.ms long 604800000
    delegation.token.secret.key password -
    delete.records.purgatory.purge.interval.requests int 1
    early.start.listeners list -
    fetch.purgatory.purge.interval.requests int 1000
    follower.fetch.last.tiered.offset.enable boolean false dynamic
    follower.replication.throttled.rate long - from 0 dynamic internal
    group.coordinator.append.linger.ms int -1
    group.coordinator.background.threads int 2
    group.coordinator.cached.buffer.max.bytes int 1048588 from 524288 dynamic
    group.coordinator.threads int 4
    group.share.assignment.interval.ms int 1000 from 0 dynamic
    group.share.assignors list simple
    group.share.delivery.count.limit int 5
    group.share.heartbeat.interval.ms int 5000
    group.share.initialize.retry.interval.ms int 30000 internal
    group.share.max.assignment.interval.ms int 15000
    group.share.max.delivery.count.limit int 10
    group.share.max.heartbeat.interval.ms int 15000
    group.share.max.partition.max.record.locks int 4000
    group.share.max.record.lock.duration.ms int 60000
    group.share.max.session.timeout.ms int 60000
    group.share.max.share.sessions int 2000
    group.share.max.size int 200
    group.share.min.assignment.interval.ms int 0
    group.share.min.delivery.count.limit int 2
    group.share.min.heartbeat.interval.ms int 5000
    group.share.min.partition.max.record.locks int 100
    group.share.min.record.lock.duration.ms int 15000
    group.share.min.session.timeout.ms int 45000
    group.share.partition.max.record.locks int 2000
    group.share.persister.class.name string org.apache.kafka.server.share.persister.DefaultStatePersister internal
    group.share.record.lock.duration.ms int 30000
    group.share.session.timeout.ms int 45000
    group.streams.assignment.interval.ms int 1000 from 0 dynamic
    group.streams.heartbeat.interval.ms int 5000
    group.streams.initial.rebalance.delay.ms int 3000
    group.streams.max.assignment.interval.ms int 15000
    group.streams.max.heartbeat.interval.ms int 15000
    group.streams.max.session.timeout.ms int 60000
    group.streams.max.size int 2147483647
    group.streams.max.standby.replicas int 2
    group.streams.min.assignment.interval.ms int 0
    group.streams.min.heartbeat.interval.ms int 5000
    group.streams.min.session.timeout.ms int 45000
    group.streams.num.standby.replicas int 0
    group.streams.session.timeout.ms int 45000
    initial.broker.registration.timeout.ms int 60000
    internal.metadata.delete.delay.millis long 60000 internal
    internal.metadata.log.segment.bytes int - internal
    internal.metadata.max.batch.size.in.bytes int 8388608 internal
    kafka.metrics.polling.interval.secs int 10
    kafka.metrics.reporters list ""
    leader.imbalance.check.interval.seconds long 300
    leader.replication.throttled.rate long - from 0 dynamic internal
    log.cleaner.io.buffer.load.factor double 0.9 dynamic
    log.cleaner.io.buffer.size int 524288 from 0 dynamic
    log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 dynamic
    log.cleaner.threads int 1 from 0 dynamic
    log.dir.failure.timeout.ms long 30000
    log.flush.offset.checkpoint.interval.ms int 60000
    log.flush.start.offset.checkpoint.interval.ms int 60000
    log.initial.task.delay.ms long 30000 internal
    log.local.retention.bytes long -2 from -2 dynamic
    log.local.retention.ms long -2 from -2 dynamic
    metadata.log.dir string -
    metadata.log.max.record.bytes.between.snapshots long 20971520
    metadata.log.max.snapshot.interval.ms long 3600000
    metadata.log.segment.bytes int 1073741824
    metadata.log.segment.ms long 604800000
    metadata.max.idle.interval.ms int 500
    metadata.max.retention.bytes long 104857600
    metadata.max.retention.ms long 604800000
    metric.reporters list org.apache.kafka.common.metrics.JmxReporter dynamic
    metrics.num.samples int 2
    metrics.recording.level string INFO
    metrics.sample.window.ms long 30000
    num.io.threads int 8 from 1 dynamic
    num.network.threads int 3 from 1 dynamic
    num.recovery.threads.per.data.dir int 2 from 1 dynamic
    num.replica.alter.log.dirs.threads int -
    num.replica.fetchers int 1 from 1 dynamic
    principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic
    process.roles list -
    producer.id.expiration.check.interval.ms int 600000 internal
    producer.purgatory.purge.interval.requests int 1000
    queued.max.requests int 500
    remote.fetch.max.wait.ms int 500 from 1 dynamic
    remote.list.offsets.request.timeout.ms long 30000 from 1 dynamic
    remote.log.index.file.cache.total.size.bytes long 1073741824 from 1 dynamic
    remote.log.index.file.cache.ttl.ms long 900000 internal
    remote.log.manager.copier.thread.pool.size int 10 from 1 dynamic
    remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 from 1 dynamic
    remote.log.manager.copy.quota.window.num int 11
    remote.log.manager.copy.quota.window.size.seconds int 1
    remote.log.manager.expiration.thread.pool.size int 10 from 1 dynamic
    remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 from 1 dynamic
    remote.log.manager.fetch.quota.window.num int 11
    remote.log.manager.fetch.quota.window.size.seconds int 1
    remote.log.manager.follower.thread.pool.size int 2 from 1 dynamic
    remote.log.manager.task.interval.ms long 30000
    remote.log.manager.task.retry.backoff.max.ms long 30000 internal
    remote.log.manager.task.retry.backoff.ms long 500 internal
    remote.log.manager.task.retry.jitter double 0.2 internal
    remote.log.manager.thread.pool.size int 2
    remote.log.metadata.custom.metadata.max.bytes int 128
    remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
    remote.log.metadata.manager.class.path string -
    remote.log.metadata.manager.impl.prefix string rlmm.config.
    remote.log.metadata.manager.listener.name string -
    remote.log.reader.max.pending.tasks int 100
    remote.log.reader.threads int 10 from 1 dynamic
    remote.log.storage.manager.class.name string -
    remote.log.storage.manager.class.path string -
    remote.log.storage.manager.impl.prefix string rsm.config.
    remote.log.storage.system.enable boolean false
    replica.alter.log.dirs.io.max.bytes.per.second long - from 0 dynamic internal
    replica.fetch.backoff.ms int 1000
    replica.fetch.max.bytes int 1048576
    replica.fetch.min.bytes int 1
    replica.fetch.response.max.bytes int 10485760
    replica.fetch.wait.max.ms int 500
    replica.high.watermark.checkpoint.interval.ms long 5000
    replica.lag.time.max.ms long 30000
    replica.selector.class string -
    replica.socket.receive.buffer.bytes int 65536
    replica.socket.timeout.ms int 30000
    replication.quota.window.num int 11
    replication.quota.window.size.seconds int 1
    request.timeout.ms int 30000
    sasl.client.callback.handler.class class -
    sasl.kerberos.kinit.cmd string /usr/bin/kinit dynamic
    sasl.kerberos.min.time.before.relogin long 60000 dynamic
    sasl.kerberos.principal.to.local.rules list DEFAULT dynamic
    sasl.kerberos.service.name string - dynamic
    sasl.kerberos.ticket.renew.jitter double 0.05 dynamic
    sasl.kerberos.ticket.renew.window.factor double 0.8 dynamic
    sasl.login.callback.handler.class class -
    sasl.login.class class -
    sasl.login.connect.timeout.ms int -
    sasl.login.read.timeout.ms int -
    sasl.login.refresh.buffer.seconds short 300 dynamic
    sasl.login.refresh.min.period.seconds short 60 dynamic
    sasl.login.refresh.window.factor double 0.8 dynamic
    sasl.login.refresh.window.jitter double 0.05 dynamic
    sasl.login.retry.backoff.max.ms long 10000
    sasl.login.retry.backoff.ms long 100
    sasl.mechanism.controller.protocol string GSSAPI
    sasl.mechanism.inter.broker.protocol string GSSAPI dynamic
    sasl.oauthbearer.assertion.algorithm string RS256
    sasl.oauthbearer.assertion.claim.aud string -
    sasl.oauthbearer.assertion.claim.exp.seconds int 300
    sasl.oauthbearer.assertion.claim.iss string -
    sasl.oauthbearer.assertion.claim.jti.include boolean false
    sasl.oauthbearer.assertion.claim.nbf.seconds int 60
    sasl.oauthbearer.assertion.claim.sub string -
    sasl.oauthbearer.assertion.file string -
    sasl.oauthbearer.assertion.private.key.file string -
    sasl.oauthbearer.assertion.private.key.passphrase password -
    sasl.oauthbearer.assertion.template.file string -
    sasl.oauthbearer.client.credentials.client.id string -
    sasl.oauthbearer.client.credentials.client.secret password -
    sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
    sasl.oauthbearer.jwt.retriever.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
    sasl.oauthbearer.jwt.validator.class class org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
    sasl.oauthbearer.scope string -
    sasl.oauthbearer.scope.claim.name string scope
    sasl.oauthbearer.token.endpoint.url string -
    security.inter.broker.protocol string PLAINTEXT
    security.providers string -
    server.max.startup.time.ms long 9223372036854775807 internal
    share.coordinator.append.linger.ms int -1
    share.coordinator.cached.buffer.max.bytes int 1048588 from 524288 dynamic
    share.coordinator.cold.partition.snapshot.interval.ms int 300000 internal
    share.coordinator.load.buffer.size int 5242880
    share.coordinator.snapshot.update.records.per.snapshot int 500
    share.coordinator.state.topic.compression.codec int 0
    share.coordinator.state.topic.min.isr short 2
    share.coordinator.state.topic.num.partitions int 50
    share.coordinator.state.topic.prune.interval.ms int 300000 internal
    share.coordinator.state.topic.replication.factor short 3
    share.coordinator.state.topic.segment.bytes int 104857600
    share.coordinator.threads int 1
    share.coordinator.write.timeout.ms int 5000
    share.fetch.purgatory.purge.interval.requests int 1000
    socket.connection.setup.timeout.max.ms long 30000
    socket.connection.setup.timeout.ms long 10000
    socket.receive.buffer.bytes int 102400
    socket.send.buffer.bytes int 102400
    ssl.allow.dn.changes boolean false
    ssl.allow.san.changes boolean false
    ssl.cipher.suites list "" dynamic
    ssl.endpoint.identification.algorithm string https dynamic
    ssl.engine.factory.class class - dynamic
    ssl.keymanager.algorithm string SunX509 dynamic
    ssl.keystore.password password - dynamic
    ssl.protocol string TLSv1.3 dynamic
    ssl.provider string - dynamic
    ssl.secure.random.implementation string - dynamic
    ssl.trustmanager.algorithm string PKIX dynamic
    ssl.truststore.password password - dynamic
    transaction.partition.verification.enable boolean true dynamic
    transaction.state.log.load.buffer.size int 5242880
    transaction.two.phase.commit.enable boolean false
    unclean.leader.election.interval.ms long 300000 internal
    unstable.api.versions.enable boolean false internal
    unstable.feature.versions.enable boolean false internal
"""  # noqa: E501

# Experimental keys, and keys that exist only in Kafka 3.9.
_UNDESCRIBED: Final = """
    group.consumer.assignor.offload.enable group.share.assignor.offload.enable
    group.streams.assignor.offload.enable
    auto.include.jmx.reporter broker.id.generation.enable control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
    delegation.token.master.key eligible.leader.replicas.enable group.coordinator.new.enable
    group.share.enable group.share.max.groups inter.broker.protocol.version
    leader.imbalance.per.broker.percentage log.message.downconversion.enable
    log.message.format.version log.message.timestamp.difference.max.ms
    metadata.log.segment.min.bytes offsets.commit.required.acks
    password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
    password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret
    reserved.broker.max.id zookeeper.clientCnxnSocket zookeeper.connect
    zookeeper.connection.timeout.ms zookeeper.max.in.flight.requests
    zookeeper.metadata.migration.enable zookeeper.metadata.migration.min.batch.size
    zookeeper.session.timeout.ms zookeeper.set.acl zookeeper.ssl.cipher.suites
    zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
    zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
    zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable
    zookeeper.ssl.protocol zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password
    zookeeper.ssl.truststore.type
"""


def _key(row: str) -> ConfigKey:
    name, type_, default, *marks = row.split()
    check = at_least(int(marks[marks.index("from") + 1])) if "from" in marks else None
    if type_ == "list" and name != "config.providers":
        check = no_empty_items
    key = ConfigKey(
        name,
        ConfigType[type_.upper()],
        None,
        check,
        "Has no effect in kohort.",
        nullable=default == "-",
        read_only="dynamic" not in marks,
        no_effect="part of Kafka that kohort lacks",
        internal="internal" in marks,
    )
    text = "" if default == '""' else default
    return key if default == "-" else replace(key, default=key.parse(text))


DESCRIBED_KEYS: Final[ConfigDef] = config_def(map(_key, _OF_KAFKA_4.strip().splitlines()))
IGNORED_KEYS: Final = frozenset((*DESCRIBED_KEYS, *_UNDESCRIBED.split()))
