"""The broker keys: name, type, default, bounds, documentation. Keys of Kafka features that kohort
lacks are in ignored_keys.py.

Names, types, bounds and defaults are Kafka 4.3's; the documentation states which defaults differ. A
key that sets a default for topics (`log.segment.bytes` for `segment.bytes`) takes its type, default
and bounds from the topic key (topics/configs/topic_keys.py).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Literal, get_args

from ...protocol.apis import NEWEST, PROFILES
from ...suggestions import did_you_mean
from ...topics.configs.config_def import (
    INT_MAX,
    ConfigDef,
    ConfigKey,
    ConfigType,
    InvalidConfigValue,
    Validator,
    Value,
    at_least,
    between,
    config_def,
    list_of,
    no_empty_items,
    not_empty,
    one_of,
    one_of_ignoring_case,
    parse_integer,
)
from ...topics.configs.group_configs import GROUP_KEYS
from ...topics.configs.topic_keys import BROKER_SYNONYMS, TOPIC_KEYS
from ...topics.names import validate_topic_name
from .ignored_keys import DESCRIBED_KEYS, IGNORED_KEYS, IGNORED_PREFIXES

# Also declared in log/group_commit.py, which takes too long to import just to read a configuration.
Durability = Literal["fsync", "os", "none"]

# The SASL mechanisms. Kafka also supports GSSAPI (Kerberos).
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

# Reasons why keys have no effect.
ONE_COPY: Final = "all nodes share one copy of the data"
NOT_RECOMPRESSED: Final = "batches retain the compression of their producers"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NO_JITTER: Final = "segments are rolled without jitter"


def _key(type_: ConfigType) -> Callable[..., ConfigKey]:
    """Return a constructor for keys of this type. A key with the default None may be unset.
    `dynamic` keys can be changed while a broker runs, but kohort reads `at_startup` keys only when
    it starts."""

    def key(
        name: str,
        default: Value,
        doc: str,
        check: Validator | None = None,
        *,
        dynamic: bool = False,
        no_effect: str = "",
        internal: bool = False,
        at_startup: bool = False,
    ) -> ConfigKey:
        if type_ is ConfigType.LIST and check is None:
            check = no_empty_items
        nullable = default is None
        return ConfigKey(
            name, type_, default, check, doc, nullable, not dynamic, no_effect, internal, at_startup
        )

    return key


_int, _long, _short = _key(ConfigType.INT), _key(ConfigType.LONG), _key(ConfigType.SHORT)
_bool, _text, _list = _key(ConfigType.BOOLEAN), _key(ConfigType.STRING), _key(ConfigType.LIST)
_password, _class = _key(ConfigType.PASSWORD), _key(ConfigType.CLASS)

_TOPIC_KEY: Final = {name: key for key, names in BROKER_SYNONYMS.items() for name, _ in names}


def _topic_default(name: str, *, no_effect: str = "", **changed: Any) -> ConfigKey:
    """Return the broker key that sets a topic key's default. The topic key's type and bounds apply,
    unless `changed` overrides them."""
    key = TOPIC_KEYS[_TOPIC_KEY[name]]
    doc = f"Default of the topic key `{key.name}`. {key.doc}"
    return replace(key, name=name, no_effect=no_effect, **{"doc": doc, **changed})


def _group_default(name: str, *, dynamic: bool = False) -> ConfigKey:
    """Return the broker key that sets a group key's default, with the same type and bounds."""
    key = GROUP_KEYS[name.removeprefix("group.")]
    doc = f"Default of the group key `{key.name}`. {key.doc}"
    return replace(key, name=name, doc=doc, read_only=not dynamic)


def _group_bounds(key: str, low: int, high: int) -> tuple[ConfigKey, ConfigKey]:
    """Return the broker keys for the lower and upper bound of a group key."""
    kind, _, name = key.partition(".")
    check = GROUP_KEYS[key].validator
    return (
        _int(f"group.{kind}.min.{name}", low, f"Lower bound of a group's `{key}`.", check),
        _int(f"group.{kind}.max.{name}", high, f"Upper bound of a group's `{key}`.", check),
    )


def _required(allowed: Callable[[int], bool], condition: str) -> Validator:
    """Return a validator that fails with the message of Scala's `require`, which Kafka uses."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int)
        if not allowed(value):
            raise InvalidConfigValue(f"requirement failed: {name} must be {condition}")

    return check


def _required_from(low: int) -> Validator:
    return _required(lambda value: value >= low, f"greater than or equal to {low}")


def _hosts_with_counts(name: str, value: Value) -> None:
    assert isinstance(value, str)
    for item in filter(None, value.split(",")):
        host, _, count = item.rpartition(":")
        if not host.strip():
            raise InvalidConfigValue(
                f"Error parsing configuration property '{name}': expected HOST:COUNT, not {item}"
            )
        if parse_integer(count.strip()) is None:
            raise InvalidConfigValue(f'For input string: "{count}"')


def _authorizer(name: str, value: Value) -> None:
    if value not in ("", STANDARD_AUTHORIZER):
        reason = f"the only authorizer is {STANDARD_AUTHORIZER}"
        raise InvalidConfigValue.of(name, value, reason)


def _principals(name: str, value: Value) -> None:
    assert isinstance(value, str)
    for principal in filter(None, map(str.strip, value.split(";"))):
        type_, colon, user = principal.partition(":")
        if not (type_ and colon and user):
            reason = f"expected a string in format principalType:principalName but got {principal}"
            raise InvalidConfigValue.of(name, value, reason)


ANY: Final = at_least(-(2**31))

KOHORT: Final = (
    _text(
        "kohort.durability",
        "fsync",
        "What an acknowledged commit survives: a power failure (`fsync`), a crash of the process "
        "(`os`), or neither (`none`: all data is in memory).",
        one_of(*get_args(Durability)),
    ),
    _text(
        "kohort.events",
        "on",
        "The events that are written to the data folder's `events` folder. `on` means rebalances "
        "and member changes with their causes, and aborted transactions. `all` adds accepted "
        "commits and all transaction changes. `off` and durability `none` disable the event log.",
        one_of("off", "on", "all"),
    ),
    _int(
        "kohort.events.files",
        16,  # 1 GiB, about 2.5 million lines
        "Maximum number of event log files, of 64 MiB each. 0 means no limit.",
        at_least(0),
    ),
    _int(
        "kohort.cache.offsets",
        0,
        "Maximum number of committed offsets in memory, across all groups. 0 and durability `none` "
        "mean no limit. An offset takes about 120 bytes in a group with ten offsets and 360 bytes "
        "in a group with one offset, plus its metadata. Offsets beyond this number are read on "
        "demand from files next to the log, and take 210 bytes of memory per group.",
        at_least(0),
    ),
    _text(
        "kohort.offsets.mirror",
        "",
        "A second, read-only name for `__consumer_offsets` that is not internal, for readers that "
        "skip internal topics, such as Spark's Kafka connector.",
        validate_topic_name,
    ),
    _int(
        "kohort.nodes",
        1,
        "Number of nodes in this process. Their ports and ids are consecutive, and the ids begin "
        "with `node.id`.",
        between(1, 64),
    ),
    _bool(
        "kohort.auto.create.immediate",
        False,
        "Whether the Metadata request that creates a topic returns the topic, and the "
        "FindCoordinator request that creates `__consumer_offsets` or `__transaction_state` "
        "returns the coordinator. Otherwise, as in Kafka, these requests return "
        "UNKNOWN_TOPIC_OR_PARTITION or COORDINATOR_NOT_AVAILABLE, and clients retry after their "
        "backoff.",
    ),
    _text(
        "kohort.profile",
        NEWEST,
        "The Kafka release whose APIs and versions are served.",
        one_of(*PROFILES),
    ),
    _bool(
        "kohort.request.cache",
        True,
        "Recognize requests that a client repeats (heartbeats, commits, offset fetches) by their "
        "bytes instead of decoding them again. Takes at most 64 KiB of memory per connection. "
        "`false` affects only the speed.",
    ),
    _password(
        "kohort.users",
        None,
        "Users who can authenticate with PLAIN and both SCRAM mechanisms on every listener: "
        "`alice:alice-secret,bob:bob-secret`. Commas, backslashes, and colons in names are "
        "escaped with a backslash.",
    ),
)

NETWORK: Final = (
    _list(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "The addresses on which the broker listens. By default, Kafka listens on all interfaces.",
        not_empty,
        dynamic=True,
        at_startup=True,
    ),
    _list(
        "advertised.listeners",
        None,
        "The addresses that clients receive; by default, the addresses in `listeners`.",
    ),
    _text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The protocol of each listener name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        not_empty,
        dynamic=True,
        at_startup=True,
    ),
    _list(
        "controller.listener.names",
        ("CONTROLLER",),
        "The listeners of controllers, which kohort ignores.",
    ),
    _int("socket.request.max.bytes", 104857600, "Largest request in bytes.", at_least(1)),
    _int(
        "telemetry.max.bytes",
        1048576,
        "Largest compressed size of the metrics that a client pushes in one request.",
        at_least(1),
    ),
    _long(
        "queued.max.request.bytes",
        -1,
        "Maximum total size in bytes of requests in memory that are incomplete or waiting to be "
        "handled. Above this limit, the connection that has sent no data for the longest time is "
        "closed. -1 means twice socket.request.max.bytes.",
        at_least(-1),
    ),
    _int(
        "socket.listen.backlog.size",
        50,
        "Maximum number of connections waiting to be accepted.",
        at_least(1),
        no_effect="fixed at 1,024, because all clients of a test suite may connect at once",
    ),
    _long(
        "connections.max.idle.ms",
        600000,
        "Connections on which nothing is received or sent for this time are closed, even if "
        "requests are waiting. A negative value disables this.",
    ),
    _int(
        "max.connections",
        INT_MAX,
        "Maximum number of connections per node. A listener can have a lower limit. At the limit, "
        "only the listener `inter.broker.listener.name` accepts connections, each of which closes "
        "the least recently used connection of another listener.",
        at_least(0),
        dynamic=True,
    ),
    _int(
        "max.connections.per.ip",
        INT_MAX,
        "Maximum number of connections from an IP address. Further connections are closed "
        "immediately.",
        at_least(0),
        dynamic=True,
    ),
    _text(
        "max.connections.per.ip.overrides",
        "",
        "Different limits for some addresses or host names: `10.0.0.1:100,build:200`.",
        _hosts_with_counts,
        dynamic=True,
    ),
    _int(
        "max.connection.creation.rate",
        INT_MAX,
        "Maximum number of new connections per second on each node. A listener can have a lower "
        "limit. Further connections are accepted later. The limit of an address is its quota "
        "`connection_creation_rate`.",
        at_least(0),
        dynamic=True,
    ),
    _text(
        "inter.broker.listener.name",
        None,
        "The listener to which node-wide limits do not apply, if there are several "
        "listeners. kohort's nodes do not send requests to each other. Default: PLAINTEXT.",
    ),
)

IDENTITY: Final = (
    _int("node.id", 1, "The node's id.", at_least(0)),
    _int("broker.id", -1, "Older name of `node.id`.", ANY),
    _text("broker.rack", None, "The node's rack, which Metadata and DescribeCluster return."),
)

STORAGE: Final = (
    _list(
        "log.dir",
        ("kohort-data",),
        "The data folder, unless `log.dirs` is set. Kafka's default is in /tmp.",
    ),
    _list("log.dirs", None, "The data folder (only one), also set by `--data-dir`."),
    _list(
        "cordoned.log.dirs",
        (),
        "Data folders in which no new partitions are placed (KIP-1066), or `*` for all.",
        dynamic=True,
    ),
    _topic_default("log.segment.bytes"),
    _topic_default("log.roll.ms", default=None, nullable=True, validator=_required_from(1)),
    _int(
        "log.roll.hours",
        168,
        "Age in hours at which a segment is rolled, if `log.roll.ms` is not set.",
        at_least(1),
    ),
    _topic_default(
        "log.roll.jitter.ms",
        default=None,
        nullable=True,
        validator=_required_from(0),
        no_effect=NO_JITTER,
    ),
    _int(
        "log.roll.jitter.hours",
        0,
        "`log.roll.jitter.ms` in hours, if that key is not set.",
        at_least(0),
        no_effect=NO_JITTER,
    ),
    _topic_default(
        "log.preallocate",
        no_effect="files grow as they are written (by 64 KiB with durability fsync)",
    ),
    _topic_default("log.index.interval.bytes"),
    _topic_default(
        "log.index.size.max.bytes",
        no_effect="the index is in memory, as large as its segment needs",
    ),
    _topic_default("log.flush.interval.messages"),
    _topic_default("log.flush.interval.ms", default=None, nullable=True, validator=None),
    _topic_default(
        "log.flush.scheduler.interval.ms",
        validator=None,
        read_only=True,
        doc="Time after which the log is synced, if `log.flush.interval.ms` is not set.",
    ),
    _topic_default("log.cleanup.policy"),
    _topic_default(
        "log.retention.ms",
        default=None,
        nullable=True,
        validator=_required(
            lambda value: value != 0, "unlimited (-1) or, greater than or equal to 1"
        ),
    ),
    _int(
        "log.retention.minutes",
        None,
        "Retention time in minutes, if `log.retention.ms` is not set.",
        ANY,
    ),
    _int(
        "log.retention.hours",
        168,
        "Retention time in hours, if it is not set in minutes or ms.",
        ANY,
    ),
    _topic_default("log.retention.bytes"),
    _long(
        "log.retention.check.interval.ms",
        300000,
        "Time between retention checks.",
        at_least(1),
    ),
    _topic_default(
        "log.segment.delete.delay.ms",
        no_effect="files of deleted topics and segments are removed immediately",
    ),
    _bool("log.cleaner.enable", True, "Whether logs are compacted."),
    _long(
        "log.cleaner.backoff.ms",
        15000,
        "Time between checks for logs to compact.",
        at_least(0),
        dynamic=True,
    ),
    _long(
        "log.cleaner.dedupe.buffer.size",
        134217728,
        "Memory for a compaction's offset map.",
        _required(lambda value: value > 1024 * 1024, "at least 1MB per cleaner thread."),
        dynamic=True,
    ),
    _topic_default("log.cleaner.delete.retention.ms"),
    _topic_default("log.cleaner.min.compaction.lag.ms"),
    _topic_default("log.cleaner.max.compaction.lag.ms"),
    _topic_default("log.cleaner.min.cleanable.ratio"),
)

TOPICS: Final = (
    _bool("auto.create.topics.enable", True, "Whether Metadata requests create unknown topics."),
    _bool("delete.topic.enable", True, "Whether topics can be deleted."),
    _int("num.partitions", 1, "Default number of partitions.", at_least(1)),
    _int(
        "default.replication.factor",
        1,
        "Default number of replicas. If it is not set, every node has a replica.",
        ANY,
    ),
    _topic_default("min.insync.replicas"),
    _topic_default("message.max.bytes"),
    _topic_default("compression.type", no_effect=NOT_RECOMPRESSED),
    _topic_default("compression.gzip.level", no_effect=NOT_RECOMPRESSED),
    _topic_default("compression.lz4.level", no_effect=NOT_RECOMPRESSED),
    _topic_default("compression.zstd.level", no_effect=NOT_RECOMPRESSED),
    _topic_default("log.message.timestamp.type"),
    _topic_default("log.message.timestamp.before.max.ms"),
    _topic_default("log.message.timestamp.after.max.ms"),
    _topic_default("unclean.leader.election.enable"),
    _int(
        "fetch.max.bytes",
        57671680,
        "Maximum number of bytes of records in a Fetch response. A larger first batch is still "
        "returned.",
        at_least(1024),
    ),
    _int(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "Maximum number of fetch sessions (KIP-227) per node, rounded down to a multiple of eight.",
        at_least(0),
    ),
    _int(
        "max.request.partition.size.limit",
        2000,
        "Maximum number of partitions in a DescribeTopicPartitions response.",
        at_least(1),
    ),
    _int(
        "producer.id.expiration.ms",
        86400000,
        "Time after which an idle producer's state is removed.",
        at_least(1),
        dynamic=True,
    ),
)

GROUPS: Final = (
    _int(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long the first rebalance of an empty group waits for more members.",
        at_least(0),
    ),
    _int("group.min.session.timeout.ms", 6000, "Shortest session timeout.", at_least(1)),
    _int("group.max.session.timeout.ms", 1800000, "Longest session timeout.", at_least(1)),
    _int("group.max.size", INT_MAX, "Maximum number of members in a group.", at_least(1)),
    _int(
        "offset.metadata.max.bytes",
        4096,
        "Maximum length of an offset's metadata.",
        at_least(0),
    ),
    _int(
        "offsets.topic.num.partitions",
        50,
        "Number of partitions of `__consumer_offsets`.",
        at_least(1),
    ),
    _int(
        "offsets.topic.segment.bytes",
        104857600,
        "Segment size of `__consumer_offsets`.",
        at_least(1),
    ),
    _short(
        "offsets.topic.replication.factor",
        1,
        "Replicas of `__consumer_offsets`; Kafka's default is 3.",
        at_least(1),
        no_effect=ONE_COPY,
    ),
    _int(
        "offsets.topic.compression.codec",
        0,
        "Compression of `__consumer_offsets` batches.",
        between(0, 4),
        no_effect="`__consumer_offsets` batches are not compressed",
    ),
    _int(
        "offsets.retention.minutes",
        10080,
        "How long the offsets of an inactive group are kept.",
        at_least(1),
    ),
    _long(
        "offsets.retention.check.interval.ms",
        600000,
        "Time between checks for expired offsets.",
        at_least(1),
    ),
    _int(
        "offsets.commit.timeout.ms",
        5000,
        "How long a commit may take.",
        at_least(1),
        no_effect="a commit takes as long as the disk needs",
    ),
    _int(
        "offsets.load.buffer.size",
        5242880,
        "Bytes per read when offsets are loaded.",
        at_least(1),
        no_effect="loading reads whole batches",
    ),
)

TRANSACTIONS: Final = (
    _int(
        "transaction.state.log.num.partitions",
        50,
        "Number of partitions of `__transaction_state`.",
        at_least(1),
    ),
    _int(
        "transaction.state.log.segment.bytes",
        104857600,
        "Segment size of `__transaction_state`.",
        at_least(1),
    ),
    _short(
        "transaction.state.log.replication.factor",
        1,
        "Replicas of `__transaction_state`; Kafka's default is 3.",
        at_least(1),
        no_effect=ONE_COPY,
    ),
    _int(
        "transaction.state.log.min.isr",
        1,
        "Replicas that must store a record of `__transaction_state`; Kafka's default is 2.",
        at_least(1),
        no_effect=ONE_COPY,
    ),
    _int(
        "transaction.max.timeout.ms",
        900000,
        "Longest timeout that a client may request for its transactions.",
        at_least(1),
    ),
    _int(
        "transactional.id.expiration.ms",
        604800000,
        "Time after which an unused transactional id is removed.",
        at_least(1),
    ),
    _int(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3600000,
        "Time between checks for expired transactional ids.",
        at_least(1),
    ),
    _int(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10000,
        "Time between checks for transactions that have timed out.",
        at_least(1),
        no_effect="a transaction is aborted as soon as it times out",
    ),
)

CONSUMER_GROUPS: Final = (
    _list(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "The group protocols that are enabled. kohort does not support share or streams groups.",
        list_of("consumer", "classic", "share", "streams", may_be_empty=False),
    ),
    _group_default("group.consumer.session.timeout.ms"),
    *_group_bounds("consumer.session.timeout.ms", 45000, 60000),
    _group_default("group.consumer.heartbeat.interval.ms"),
    *_group_bounds("consumer.heartbeat.interval.ms", 5000, 15000),
    _group_default("group.consumer.assignment.interval.ms", dynamic=True),
    *_group_bounds("consumer.assignment.interval.ms", 0, 15000),
    _int(
        "group.consumer.max.size",
        INT_MAX,
        "Maximum number of members in a group of the consumer protocol.",
        at_least(1),
    ),
    _list(
        "group.consumer.assignors",
        ("uniform", "range"),
        "The assignors that members of consumer groups can choose from; the first one is the "
        "default. Kafka also accepts names of Java classes.",
        list_of("uniform", "range", may_be_empty=False),
    ),
    _text(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which groups with members are converted: classic groups to the consumer protocol "
        "(`upgrade`), consumer groups to the classic protocol (`downgrade`), both "
        "(`bidirectional`) or neither (`disabled`). Groups without members are always converted.",
        one_of_ignoring_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    ),
    _int(
        "group.consumer.regex.refresh.interval.ms",
        600000,
        "Time between searches for topics that match members' regular expressions. "
        "As in Kafka, DescribeConfigs returns this key only if it is set.",
        at_least(10000),
        internal=True,
    ),
)

TLS: Final = (
    _text(
        "ssl.keystore.type",
        "JKS",
        "The format of the keystore. Only PEM is supported.",
        dynamic=True,
    ),
    _text(
        "ssl.keystore.location",
        None,
        "A PEM file with the broker's private key and certificate chain. Default: a "
        "certificate for the listener's names, issued by the broker's own certificate authority.",
        dynamic=True,
    ),
    _password(
        "ssl.keystore.certificate.chain",
        None,
        "The certificate chain in PEM, instead of a file.",
        dynamic=True,
    ),
    _password(
        "ssl.keystore.key",
        None,
        "The private key in PEM (PKCS#8), instead of a file.",
        dynamic=True,
    ),
    _password("ssl.key.password", None, "The password of the private key.", dynamic=True),
    _text(
        "ssl.truststore.type",
        "JKS",
        "The format of the truststore. Only PEM is supported.",
        dynamic=True,
    ),
    _text(
        "ssl.truststore.location",
        None,
        "A PEM file with the certificates of the authorities that issue client certificates. "
        "Default: the broker's own certificate authority.",
        dynamic=True,
    ),
    _password(
        "ssl.truststore.certificates",
        None,
        "The certificates of the authorities in PEM, instead of a file.",
        dynamic=True,
    ),
    _text(
        "ssl.client.auth",
        "none",
        "Whether clients must present a certificate: `required`, `requested` or `none`.",
        one_of("required", "requested", "none"),
        dynamic=True,
    ),
    _list(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        "The TLS versions that clients can use.",
        list_of("TLSv1.2", "TLSv1.3"),
        dynamic=True,
    ),
    _text(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How a principal's name is derived from a certificate's distinguished name.",
    ),
)

SASL: Final = (
    _list(
        "sasl.enabled.mechanisms",
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        "The mechanisms of SASL listeners. OAUTHBEARER is also supported. Kafka's default is "
        "GSSAPI.",
        list_of(*MECHANISMS, may_be_empty=False),
        dynamic=True,
    ),
    _password(
        "sasl.jaas.config",
        None,
        'Users of PLAIN (`user_alice="alice-secret"`) or options of OAUTHBEARER. As in Kafka, '
        "only `listener.name.NAME.MECHANISM.sasl.jaas.config` has an effect.",
        dynamic=True,
    ),
    _class(
        "sasl.server.callback.handler.class",
        None,
        "Only Kafka's `OAuthBearerValidatorCallbackHandler` is supported; "
        "`sasl.oauthbearer.jwks.endpoint.url` implies it.",
    ),
    _int(
        "sasl.server.max.receive.size",
        524288,
        "Largest request from a client that has not authenticated.",
        at_least(0),
    ),
    _int(
        "connection.failed.authentication.delay.ms",
        100,
        "How long the response to a failed authentication is delayed.",
        at_least(0),
    ),
    _long(
        "connections.max.reauth.ms",
        0,
        "How long a client may use a connection without authenticating again (KIP-368). 0 means as "
        "long as its credentials are valid.",
    ),
    _text(
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        "The URL of a file with the keys for signed tokens (JWKS): `file:///etc/jwks.json`. It is "
        "read when the broker starts. Without this file, only unsigned tokens are accepted.",
    ),
    _list(
        "sasl.oauthbearer.expected.audience",
        (),
        "The audiences of signed tokens. If unset, any audience is accepted.",
    ),
    _text(
        "sasl.oauthbearer.expected.issuer",
        None,
        "The issuer of signed tokens. If unset, any issuer is accepted.",
    ),
    _int(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        "Maximum difference between the clocks of the broker and the issuer of signed tokens.",
        at_least(0),
    ),
    _text(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        "The claim with the user's name in signed tokens.",
        not_empty,
    ),
)

QUOTAS: Final = (
    _int("quota.window.num", 11, "Number of samples for client quota rates.", at_least(1)),
    _int("quota.window.size.seconds", 1, "Length of a sample for client quota rates.", at_least(1)),
    _int(
        "controller.quota.window.num",
        11,
        "Number of samples for the quota `controller_mutation_rate`.",
        at_least(1),
    ),
    _int(
        "controller.quota.window.size.seconds",
        1,
        "Length of a sample for the quota `controller_mutation_rate`.",
        at_least(1),
    ),
)

ACLS: Final = (
    _text(
        "authorizer.class.name",
        "",
        "With the authorizer, clients may do only what ACLs allow (`kohort acls`). Kafka also "
        "accepts names of other Java classes.",
        _authorizer,
    ),
    # AUTHORIZER: Kafka passes the next two keys to the authorizer. DescribeConfigs returns them as
    # unknown keys, without values.
    _text(
        "super.users",
        None,
        "Principals that may do everything: `User:alice;User:bob`.",
        _principals,
        internal=True,
    ),
    _bool(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether every client may use resources to which no ACL applies.",
        internal=True,
    ),
)

AUTHORIZER: Final = ("super.users", "allow.everyone.if.no.acl.found")

BROKER_KEYS: Final = config_def(
    (
        *KOHORT,
        *NETWORK,
        *(replace(key, at_startup=True) for key in (*TLS, *SASL)),
        *QUOTAS,
        *IDENTITY,
        *STORAGE,
        *TOPICS,
        *GROUPS,
        *TRANSACTIONS,
        *CONSUMER_GROUPS,
        *ACLS,
    )
)

ALL_KEYS: Final[ConfigDef] = {**BROKER_KEYS, **DESCRIBED_KEYS}
"""All keys that clients can describe, including Kafka's keys without effect in kohort."""

LISTENER_PREFIX: Final = "listener.name."
LISTENER_KEYS: Final = (
    *(each.name for each in (*TLS, *SASL)),
    "max.connections",
    "max.connection.creation.rate",
)
"""Keys that can have a different value for each listener: `listener.name.client.ssl.client.auth`.
SASL keys can have a different value for each mechanism:
`listener.name.client.plain.connections.max.reauth.ms`."""


def listener_key(name: str) -> str | None:
    """Return the key that `name` sets for one listener, or None if it sets no such key."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    return next((key for key in LISTENER_KEYS if name.endswith(f".{key}")), None)


def is_ignored(name: str) -> bool:
    """Whether this is a key of Kafka that has no effect in kohort."""
    if name.startswith(LISTENER_PREFIX):
        return any(name.endswith(f".{key}") for key in (*BROKER_KEYS, *IGNORED_KEYS))
    return name in IGNORED_KEYS or name.startswith(IGNORED_PREFIXES)


def similar_key(name: str) -> str:
    """Return a text such as `: did you mean num.partitions?`, or "" if no key is similar."""
    known = [*BROKER_KEYS, *IGNORED_KEYS]
    if name.startswith(LISTENER_PREFIX):
        listener = ".".join(name.split(".")[:3])
        known = [f"{listener}.{key}" for key in LISTENER_KEYS]
    return did_you_mean(name, known)
