"""The table of topic keys, compared with DescribeConfigs of Kafka 4.3, and rules between keys."""

import pytest
from kohort.broker.config.broker_config import BrokerConfig
from kohort.topics.configs.config_def import InvalidConfigValue, format_value
from kohort.topics.configs.effective import Configs, validate_overrides
from kohort.topics.configs.topic_keys import BROKER_SYNONYMS, TOPIC_KEYS

# Name, default, type (numbered as in KIP-569) and broker key, from DescribeConfigs of Kafka 4.3.
# Keys without a broker key had no synonym.
KAFKA = """
cleanup.policy delete 7 log.cleanup.policy
compression.gzip.level -1 3 compression.gzip.level
compression.lz4.level 9 3 compression.lz4.level
compression.type producer 2 compression.type
compression.zstd.level 3 3 compression.zstd.level
delete.retention.ms 86400000 5 log.cleaner.delete.retention.ms
file.delete.delay.ms 60000 5 log.segment.delete.delay.ms
flush.messages 9223372036854775807 5 log.flush.interval.messages
flush.ms 9223372036854775807 5
follower.replication.throttled.replicas - 7
index.interval.bytes 4096 3 log.index.interval.bytes
leader.replication.throttled.replicas - 7
local.retention.bytes -2 5 log.local.retention.bytes
local.retention.ms -2 5 log.local.retention.ms
max.compaction.lag.ms 9223372036854775807 5 log.cleaner.max.compaction.lag.ms
max.message.bytes 1048588 3 message.max.bytes
message.timestamp.after.max.ms 3600000 5 log.message.timestamp.after.max.ms
message.timestamp.before.max.ms 9223372036854775807 5 log.message.timestamp.before.max.ms
message.timestamp.type CreateTime 2 log.message.timestamp.type
min.cleanable.dirty.ratio 0.5 6 log.cleaner.min.cleanable.ratio
min.compaction.lag.ms 0 5 log.cleaner.min.compaction.lag.ms
min.insync.replicas 1 3 min.insync.replicas
preallocate false 1 log.preallocate
remote.log.copy.disable false 1
remote.log.delete.on.disable false 1
remote.storage.enable false 1
retention.bytes -1 5 log.retention.bytes
retention.ms 604800000 5
segment.bytes 1073741824 3 log.segment.bytes
segment.index.bytes 10485760 3 log.index.size.max.bytes
segment.jitter.ms 0 5
segment.ms 604800000 5
unclean.leader.election.enable false 1 unclean.leader.election.enable
"""
ROWS = [line.split() for line in KAFKA.split("\n") if line]


def configs(**broker: str) -> Configs:
    given = {key.replace("_", "."): value for key, value in broker.items()}
    return Configs(BrokerConfig(given), 1)


def test_all_keys_of_kafka_are_declared() -> None:
    names = [name for name, key in TOPIC_KEYS.items() if not key.internal]
    assert sorted(names) == [row[0] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_default_type_and_synonym_are_those_of_kafka(row: list[str]) -> None:
    name, default, kind, *broker_key = row
    key = TOPIC_KEYS[name]
    assert (format_value(key.default) or "-", int(key.type)) == (default, int(kind))
    if broker_key:
        assert BROKER_SYNONYMS[name] == ((broker_key[0], 1),)
    assert format_value(configs().value(name, {})) == (default if default != "-" else "")


def test_every_key_is_documented() -> None:
    assert all(key.doc for key in TOPIC_KEYS.values())


@pytest.mark.parametrize(
    ("broker", "key", "value"),
    [
        ({"log_retention_hours": "2"}, "retention.ms", 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, "retention.ms", 180_000),
        ({"log_retention_minutes": "3", "log_retention_ms": "4"}, "retention.ms", 4),
        ({"log_retention_hours": "-1"}, "retention.ms", -1),
        ({"log_roll_hours": "1"}, "segment.ms", 3_600_000),
        ({"log_flush_scheduler_interval_ms": "9"}, "flush.ms", 9),
        ({"log_flush_scheduler_interval_ms": "9", "log_flush_interval_ms": "5"}, "flush.ms", 5),
    ],
)
def test_broker_keys_define_defaults_in_the_unit_of_the_topic_key(
    broker: dict[str, str], key: str, value: int
) -> None:
    assert configs(**broker).value(key, {}) == value
    assert configs(**broker).value(key, {key: "17"}) == 17


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            (
                "conflict topic config setting min.compaction.lag.ms (100)"
                " > max.compaction.lag.ms (10)"
            ),
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
        (
            {"compression.gzip.level": "0"},
            (
                "Invalid value 0 for configuration compression.gzip.level: "
                "Value must be between 1 and 9 or equal to -1"
            ),
        ),
        (
            {"leader.replication.throttled.replicas": "x"},
            (
                "Invalid value [x] for configuration leader.replication.throttled.replicas: "
                "leader.replication.throttled.replicas must be the literal '*' or a list of "
                "replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            ),
        ),
        (
            {"min.cleanable.dirty.ratio": "1e400"},
            (
                "Invalid value Infinity for configuration min.cleanable.dirty.ratio: "
                "Value must be no more than 1"
            ),
        ),
        (
            {"segment.ms": None, "nope": "x", "retention.ms": None},
            "Null value not supported for topic configs: segment.ms,retention.ms",
        ),
        ({"retention.ms": "x", "nope": "x"}, "Unknown topic config name: nope"),
        (
            {"retention.ms": "x", "min.insync.replicas": "0", "segment.ms": "y"},
            "Invalid value y for configuration segment.ms: Not a number of type LONG",
        ),
        (
            {"min.insync.replicas": "0", "retention.ms": "  "},
            "Invalid value    for configuration retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_violated_rules_are_reported_with_kafkas_messages(
    overrides: dict[str, str | None], message: str
) -> None:
    with pytest.raises(InvalidConfigValue) as refused:
        validate_overrides(configs(), overrides)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["", "*", ",*", "1:1,", ",", "1:1,,2:2", "1:1,1:1"])
def test_lists_of_throttled_replicas_may_have_empty_items(text: str) -> None:
    overrides: dict[str, str | None] = {"leader.replication.throttled.replicas": text}
    assert validate_overrides(configs(), overrides) == overrides


def test_lists_of_throttled_replicas_may_have_duplicates() -> None:
    key = TOPIC_KEYS["leader.replication.throttled.replicas"]
    assert key.parse("1:1,1:1") == ("1:1", "1:1")
    with pytest.raises(InvalidConfigValue, match=r"Invalid value \[\*, \*\] for"):
        key.parse("*,*")


def test_valid_overrides_are_stored_as_they_were_sent() -> None:
    said: dict[str, str | None] = {
        "cleanup.policy": "delete, compact",
        "follower.replication.throttled.replicas": "0:1,1:0",
        "retention.ms": " 100 ",
    }
    assert validate_overrides(configs(), said) == said
