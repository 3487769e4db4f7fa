"""Every topic key of Kafka 4.3: type, default, limits, and the broker's synonyms."""

import re
from typing import Final

from ...protocol.budgets import MIB
from .config_def import (
    LONG_MAX,
    ConfigKey,
    ConfigType,
    InvalidConfigValue,
    Validator,
    Value,
    at_least,
    between,
    config_def,
    list_of,
    one_of,
)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"


def gzip_level(name: str, value: Value) -> None:
    if value != -1 and value not in range(1, 10):
        reason = "Value must be between 1 and 9 or equal to -1"
        raise InvalidConfigValue.of(name, value, reason)


def _throttled_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    # Only lists of replicas allow empty items (upstream: ThrottledReplicaListValidator).
    if "".join(value) != "*" and not all(re.fullmatch("([0-9]++:[0-9]++)?", i) for i in value):
        reason = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise InvalidConfigValue.of(name, value, reason)


def _bool(name: str, default: bool, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, doc=doc)


def _int(name: str, default: int, check: Validator, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, check, doc)


def _long(name: str, default: int, check: Validator | None, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.LONG, default, check, doc)


def _text(name: str, default: str, check: Validator, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, check, doc)


def _throttled(name: str) -> ConfigKey:
    kind, check = ConfigType.LIST, _throttled_replicas
    return ConfigKey(name, kind, (), check, _ONE_REPLICA, repeats=True)


_NO_TIERS: Final = "Accepted without effect, because there is no tiered storage."
_ONE_REPLICA: Final = "Accepted without effect, because all nodes share one copy of the data."
_NOT_RECOMPRESSED: Final = "Accepted without effect, because batches are stored as they were sent."

# In the order of upstream's LogConfig, because the first invalid value in this order is reported.
TOPIC_KEYS: Final = config_def(
    (
        _int("segment.bytes", 1024 * MIB, at_least(MIB), "Size at which a segment is rolled."),
        _long("segment.ms", 168 * HOUR_MS, at_least(1), "Age at which a segment is rolled."),
        _long(
            "segment.jitter.ms",
            0,
            at_least(0),
            "Maximum random reduction of `segment.ms`. Accepted without effect.",
        ),
        _int(
            "segment.index.bytes",
            10 * MIB,
            at_least(4),
            "Maximum size of an index. Accepted without effect.",
        ),
        _long(
            "flush.messages",
            LONG_MAX,
            at_least(1),
            "Number of records after which the log is synced.",
        ),
        _long("flush.ms", LONG_MAX, at_least(0), "Time after which the log is synced."),
        _long("retention.bytes", -1, None, "Log size above which segments expire. -1: no limit."),
        _long(
            "retention.ms",
            168 * HOUR_MS,
            at_least(-1),
            "Age at which segments expire. -1: no limit.",
        ),
        _int("max.message.bytes", 1_048_588, at_least(0), "Maximum size of a record batch."),
        _int("index.interval.bytes", 4096, at_least(0), "Log bytes between two index entries."),
        _long("delete.retention.ms", 24 * HOUR_MS, at_least(0), "How long tombstones are kept."),
        _long("min.compaction.lag.ms", 0, at_least(0), "Minimum age of records to be compacted."),
        _long(
            "max.compaction.lag.ms",
            LONG_MAX,
            at_least(1),
            "Age at which records must be compacted.",
        ),
        _long(
            "file.delete.delay.ms",
            MINUTE_MS,
            at_least(0),
            "How long removed files are kept. Accepted without effect.",
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            ConfigType.DOUBLE,
            0.5,
            between(0, 1),
            "Share of uncompacted bytes above which a log is compacted.",
        ),
        ConfigKey(
            "cleanup.policy",
            ConfigType.LIST,
            ("delete",),
            list_of("compact", "delete"),
            "Whether old segments are deleted, records are compacted by key, or both.",
        ),
        _bool(
            "unclean.leader.election.enable",
            False,
            "Whether a replica that is not in sync may become the leader if no other replica can.",
        ),
        _int(
            "min.insync.replicas",
            1,
            at_least(1),
            "Minimum number of in-sync replicas for Produce with acks=all.",
        ),
        _text(
            "compression.type",
            "producer",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            f"Codec of stored batches. {_NOT_RECOMPRESSED}",
        ),
        _int("compression.gzip.level", -1, gzip_level, _NOT_RECOMPRESSED),
        _int("compression.lz4.level", 9, between(1, 17), _NOT_RECOMPRESSED),
        _int("compression.zstd.level", 3, between(-131_072, 22), _NOT_RECOMPRESSED),
        _bool(
            "preallocate",
            False,
            "Whether a new segment is allocated with its maximum size. Accepted without effect.",
        ),
        _text(
            "message.timestamp.type",
            "CreateTime",
            one_of("CreateTime", "LogAppendTime"),
            "Whether the producer or the broker sets the timestamps of records.",
        ),
        _long(
            "message.timestamp.before.max.ms",
            LONG_MAX,
            at_least(0),
            "How far a producer's timestamp may be behind the broker's clock.",
        ),
        _long(
            "message.timestamp.after.max.ms",
            HOUR_MS,
            at_least(0),
            "How far a producer's timestamp may be ahead of the broker's clock.",
        ),
        _throttled("leader.replication.throttled.replicas"),
        _throttled("follower.replication.throttled.replicas"),
        _bool("remote.storage.enable", False, "Must be false, because there is no tiered storage."),
        _long("local.retention.ms", -2, at_least(-2), _NO_TIERS),
        _long("local.retention.bytes", -2, at_least(-2), _NO_TIERS),
        _bool("remote.log.copy.disable", False, _NO_TIERS),
        _bool("remote.log.delete.on.disable", False, _NO_TIERS),
        ConfigKey(
            INTERNAL_SEGMENT_BYTES,
            ConfigType.INT,
            None,
            doc="Replaces `segment.bytes`, without a minimum.",
            nullable=True,
            internal=True,
        ),
    )
)

# The broker keys that define the default of a topic key, in order of precedence, each with the
# factor that converts it to the topic key's unit (upstream: ServerTopicConfigSynonyms).
BROKER_SYNONYMS: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
