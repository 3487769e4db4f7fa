"""Every broker key that kohort knows: type, default, bounds, what it is for. Data, no behaviour.

Names, defaults and bounds are those of Kafka 4.3; where kohort's default differs, the text says so.
Keys of topics have their broker-wide synonym here (`log.segment.bytes` for `segment.bytes`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...protocol.profiles import NEWEST, PROFILES
from ...topics.config_def import (
    INT_MAX,
    LONG_MAX,
    ConfigDef,
    ConfigKey,
    ConfigType,
    InvalidConfigValue,
    Validator,
    Value,
    at_least,
    between,
    no_empty_items,
    not_empty,
    one_of,
    some_of,
)
from ...topics.config_keys import gzip_level
from ...topics.names import topic_name


def _int(
    name: str, default: int | None, check: Validator, doc: str, *, fixed: bool = True
) -> ConfigKey:
    nullable = default is None
    return ConfigKey(name, ConfigType.INT, default, check, doc, nullable, read_only=fixed)


def _long(
    name: str, default: int | None, check: Validator | None, doc: str, *, fixed: bool = False
) -> ConfigKey:
    nullable = default is None
    return ConfigKey(name, ConfigType.LONG, default, check, doc, nullable, read_only=fixed)


def _bool(name: str, default: bool, doc: str, *, fixed: bool = True) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, None, doc, read_only=fixed)


def _text(
    name: str, default: str | None, doc: str, check: Validator | None = None, *, fixed: bool = True
) -> ConfigKey:
    nullable = default is None
    return ConfigKey(name, ConfigType.STRING, default, check, doc, nullable, read_only=fixed)


def _list(
    name: str,
    default: tuple[str, ...] | None,
    doc: str,
    check: Validator = no_empty_items,
    *,
    fixed: bool = True,
) -> ConfigKey:
    nullable = default is None
    return ConfigKey(name, ConfigType.LIST, default, check, doc, nullable, read_only=fixed)


def _required(allowed: Callable[[int], bool], words: str) -> Validator:
    """What Kafka looks at when all keys are known, and says by Scala's `require`."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int)
        if not allowed(value):
            raise InvalidConfigValue(f"requirement failed: {name} must be {words}")

    return check


def _required_from(low: int) -> Validator:
    return _required(lambda value: value >= low, f"greater than or equal to {low}")


ANY: Final = at_least(-(2**31))

OWN = (
    _text(
        "kohort.durability",
        "fsync",
        "what an acknowledged commit survives: `fsync` power loss, `os` the end of the process, "
        "`none` nothing (all is kept in memory)",
        one_of("fsync", "os", "none"),
    ),
    _text(
        "kohort.events",
        "on",
        "what is written to the folder `events` beside the data: `off` nothing, `on` why groups "
        "are rebalanced and members go, `all` every accepted commit too; never with durability "
        "`none`",
        one_of("off", "on", "all"),
    ),
    _int(
        "kohort.events.files",
        16,  # 1 GiB, some 2.5 million lines
        at_least(0),
        "files of events, of 64 MiB each, that are kept before the oldest go; 0: all",
    ),
    _int(
        "kohort.cache.offsets",
        0,
        at_least(0),
        "committed offsets that are kept in memory, of all groups together, some 100 bytes each "
        "where a group has ten, 340 where it has one, and their metadata; others are read from "
        "files beside the log when they are asked for, and take 210 bytes for each group. 0, and "
        "with durability `none`: all",
    ),
    _text(
        "kohort.offsets.mirror",
        "",
        "a second name for `__consumer_offsets`, under which it is no internal topic and can only "
        "be read: for readers that pass internal topics over, as Spark's Kafka connector does",
        topic_name,
    ),
    _int(
        "kohort.nodes",
        1,
        between(1, 64),
        "nodes in this process, on as many ports from the first one on; their ids follow `node.id`",
    ),
    _text(
        "kohort.profile",
        NEWEST,
        "the Kafka whose API versions are served: for older ones no newer version than they had, "
        "and no API that they had not",
        one_of(*PROFILES),
    ),
    _bool(
        "kohort.request.cache",
        True,
        "recognise requests that a client repeats (heartbeats, commits, offset fetches) by their "
        "bytes instead of decoding them again: costs 64 KiB of memory per connection at most; "
        "`false` changes nothing but speed",
    ),
)

NETWORK = (
    _list(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        "where the broker listens; Kafka's default is all interfaces, kohort's is this machine",
        not_empty,
    ),
    _list(
        "advertised.listeners", None, "the address that clients are told; default: the listener's"
    ),
    _text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "which protocol a listener's name stands for; only PLAINTEXT is spoken",
        not_empty,
        fixed=False,
    ),
    _list("controller.listener.names", ("CONTROLLER",), "listeners that kohort leaves out"),
    _int("socket.request.max.bytes", 104857600, at_least(1), "largest request"),
    _int("socket.listen.backlog.size", 50, at_least(1), "connections that may wait for accept"),
    _long("connections.max.idle.ms", 600000, None, "a silent connection is closed", fixed=True),
    _int("max.connections", INT_MAX, at_least(0), "connections in all", fixed=False),
)

IDENTITY = (
    _int("node.id", 1, at_least(0), "this broker's id (`broker.id` says the same)"),
    _int("broker.id", -1, ANY, "older name of `node.id`"),
    _text("broker.rack", None, "rack that Metadata and DescribeCluster tell"),
)

STORAGE = (
    _list("log.dir", ("kohort-data",), "data folder, if `log.dirs` names none; Kafka's is in /tmp"),
    _list("log.dirs", None, "data folder: one, `--data-dir` says the same"),
    _int("log.segment.bytes", 1073741824, at_least(1024 * 1024), "a log file's size", fixed=False),
    _long("log.roll.ms", None, _required_from(1), "age at which a log file is closed"),
    _int("log.roll.hours", 168, at_least(1), "the same in hours"),
    _long("log.roll.jitter.ms", None, _required_from(0), "spread of that age"),
    _int("log.roll.jitter.hours", 0, at_least(0), "the same in hours"),
    _bool("log.preallocate", False, "new log files get their full size at once", fixed=False),
    _int("log.index.interval.bytes", 4096, at_least(0), "bytes between index entries", fixed=False),
    _int("log.index.size.max.bytes", 10485760, at_least(4), "largest index", fixed=False),
    _long("log.flush.interval.messages", LONG_MAX, at_least(1), "records between two syncs"),
    _long("log.flush.interval.ms", None, None, "time between two syncs"),
    _long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        None,
        "stands in for `log.flush.interval.ms`",
        fixed=True,
    ),
    _list(
        "log.cleanup.policy",
        ("delete",),
        "what becomes of old records; `compact` demands that records have keys",
        some_of("compact", "delete"),
        fixed=False,
    ),
    _long(
        "log.retention.ms",
        None,
        _required(lambda value: value != 0, "unlimited (-1) or, greater than or equal to 1"),
        "age at which records go; -1: never",
    ),
    _int("log.retention.minutes", None, ANY, "the same in minutes"),
    _int("log.retention.hours", 168, ANY, "the same in hours"),
    _long("log.retention.bytes", -1, None, "size from which the oldest go; -1: none"),
    _long(
        "log.retention.check.interval.ms",
        300000,
        at_least(1),
        "how often that is looked at",
        fixed=True,
    ),
    _long("log.segment.delete.delay.ms", 60000, at_least(0), "removed files stay this long"),
    _bool("log.cleaner.enable", True, "compaction"),
    _long("log.cleaner.backoff.ms", 15000, at_least(0), "how often dirty logs are looked for"),
    _long(
        "log.cleaner.dedupe.buffer.size",
        134217728,
        _required(lambda value: value > 1024 * 1024, "at least 1MB per cleaner thread."),
        "memory for the keys that a compaction knows at once; where it ends, the next one goes on",
    ),
    _long("log.cleaner.delete.retention.ms", 86400000, at_least(0), "how long tombstones stay"),
    _long("log.cleaner.min.compaction.lag.ms", 0, at_least(0), "youngest record to compact"),
    _long("log.cleaner.max.compaction.lag.ms", LONG_MAX, at_least(1), "oldest to leave alone"),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        ConfigType.DOUBLE,
        0.5,
        between(0, 1),
        "share of superseded bytes from which compaction pays",
    ),
)

TOPICS = (
    _bool("auto.create.topics.enable", True, "Metadata of an unknown topic creates it"),
    _bool("delete.topic.enable", True, "DeleteTopics is allowed"),
    _int("num.partitions", 1, at_least(1), "partitions of a topic, if nothing is said"),
    _int("default.replication.factor", 1, ANY, "replicas of a topic, if nothing is said"),
    _int("min.insync.replicas", 1, at_least(1), "replicas that must have a record", fixed=False),
    _int("message.max.bytes", 1048588, at_least(0), "largest record batch", fixed=False),
    _text(
        "compression.type",
        "producer",
        "`producer` stores batches as they came",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        fixed=False,
    ),
    _int("compression.gzip.level", -1, gzip_level, "level for gzip", fixed=False),
    _int("compression.lz4.level", 9, between(1, 17), "level for lz4", fixed=False),
    _int("compression.zstd.level", 3, between(-131072, 22), "level for zstd", fixed=False),
    _text(
        "log.message.timestamp.type",
        "CreateTime",
        "whose clock stamps records",
        one_of("CreateTime", "LogAppendTime"),
        fixed=False,
    ),
    _long("log.message.timestamp.before.max.ms", LONG_MAX, at_least(0), "how old it may be"),
    _long("log.message.timestamp.after.max.ms", 3600000, at_least(0), "how far ahead it may be"),
    _bool("unclean.leader.election.enable", False, "whether one that lags may lead", fixed=False),
    _int("fetch.max.bytes", 57671680, at_least(1024), "most that one Fetch answers"),
    _int(
        "max.incremental.fetch.session.cache.slots",
        1000,
        at_least(0),
        "fetch sessions (KIP-227) that a node keeps, rounded down to a multiple of eight",
    ),
    _int("max.request.partition.size.limit", 2000, at_least(1), "partitions one request may name"),
    _int("producer.id.expiration.ms", 86400000, at_least(1), "idle producers go", fixed=False),
)

GROUPS = (
    _int("group.initial.rebalance.delay.ms", 3000, at_least(0), "an empty group waits for more"),
    _int("group.min.session.timeout.ms", 6000, at_least(1), "shortest session"),
    _int("group.max.session.timeout.ms", 1800000, at_least(1), "longest session"),
    _int("group.max.size", INT_MAX, at_least(1), "members of a group"),
    _int("offset.metadata.max.bytes", 4096, at_least(0), "longest text beside an offset"),
    _int("offsets.topic.num.partitions", 50, at_least(1), "partitions of `__consumer_offsets`"),
    _int("offsets.topic.segment.bytes", 104857600, at_least(1), "size of its log files"),
    ConfigKey(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        1,
        at_least(1),
        "replicas of `__consumer_offsets`; Kafka's default is 3",
        read_only=True,
    ),
    _int("offsets.topic.compression.codec", 0, between(0, 4), "codec of its batches"),
    _int("offsets.retention.minutes", 10080, at_least(1), "offsets that nobody uses go after"),
    _long(
        "offsets.retention.check.interval.ms",
        600000,
        at_least(1),
        "how often a partition is looked through for that",
        fixed=True,
    ),
    _int("offsets.commit.timeout.ms", 5000, at_least(1), "how long a commit may take"),
    _int("offsets.load.buffer.size", 5242880, at_least(1), "bytes read at once when loading"),
)

ONE_COPY: Final = "all nodes share one copy of the data"
NOT_RECOMPRESSED: Final = "batches stay as their producers made them"
NO_JITTER: Final = "files are closed at their age, without spread"

# What is taken, checked and told, and why nothing depends on it.
IDLE: Final = {
    "socket.listen.backlog.size": "1,024 connections may wait: a suite's clients connect at once",
    "connections.max.idle.ms": "a silent connection stays",
    "max.connections": "as many as the system allows",
    "log.roll.jitter.ms": NO_JITTER,
    "log.roll.jitter.hours": NO_JITTER,
    "log.preallocate": "files grow as they are written; under durability fsync by 64 KiB at a time",
    "log.index.size.max.bytes": "the index is in memory, and as large as its file makes it",
    "log.segment.delete.delay.ms": "files of deleted topics and segments go at once",
    "min.insync.replicas": ONE_COPY,
    "compression.type": NOT_RECOMPRESSED,
    "compression.gzip.level": NOT_RECOMPRESSED,
    "compression.lz4.level": NOT_RECOMPRESSED,
    "compression.zstd.level": NOT_RECOMPRESSED,
    "unclean.leader.election.enable": ONE_COPY,
    "offsets.topic.replication.factor": ONE_COPY,
    "offsets.topic.compression.codec": "its batches are stored plain",
    "offsets.commit.timeout.ms": "a commit takes as long as the disk",
    "offsets.load.buffer.size": "loading reads by batches",
}

BROKER_KEYS: Final = ConfigDef(
    replace(key, idle=IDLE.get(key.name, ""))
    for key in (*OWN, *NETWORK, *IDENTITY, *STORAGE, *TOPICS, *GROUPS)
)
