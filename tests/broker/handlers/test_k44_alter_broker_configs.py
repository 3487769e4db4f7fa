"""AlterConfigs and IncrementalAlterConfigs of the broker's own keys."""

from collections.abc import Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.topics.configs.effective import Configs, TopicSettings
from kohort.topics.registry_log import BrokerConfigRecord
from support.broker import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    BrokerHarness,
    alter_configs,
    broker_with_configs,
    configs_by_name,
    describe_configs,
    incremental_alter_configs,
)


@pytest.fixture
def broker() -> BrokerHarness:
    return broker_with_configs()


def test_the_default_of_a_topic_key_can_be_changed_dynamically(broker: BrokerHarness) -> None:
    topic = broker.create_topic("plain")
    incremental_alter_configs(broker, BROKER, "", ("message.max.bytes", SET, "300"))
    assert topic.partitions[0].settings.max_message_bytes == 300
    incremental_alter_configs(broker, BROKER, "1", ("message.max.bytes", SET, "200"))
    assert topic.partitions[0].settings.max_message_bytes == 200
    key = configs_by_name(describe_configs(broker, BROKER, "1"))["message.max.bytes"]
    assert [(s.value, s.source) for s in key.synonyms] == [
        ("200", 2),
        ("300", 3),
        ("5000", 4),
        ("1048588", 5),
    ]
    everywhere = configs_by_name(describe_configs(broker, BROKER, ""))
    assert {name: each.value for name, each in everywhere.items()} == {
        "message.max.bytes": "300",
        "min.insync.replicas": "1",
    }
    assert broker.restart().topic("plain").partitions[0].settings.max_message_bytes == 200


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num.partitions", "3", "Cannot update these configs dynamically: [num.partitions]"),
        (
            "log.segment.bytes",
            "5",
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            "listener.name.plaintext.ssl.keystore.location",
            "/x",
            (
                "Cannot update these configs dynamically: "
                "[listener.name.plaintext.ssl.keystore.location]"
            ),
        ),
        (
            "log.retention.ms",
            "0",
            (
                "requirement failed: log.retention.ms must be unlimited (-1) or, "
                "greater than or equal to 1"
            ),
        ),
        (
            "compression.gzip.level",
            "0",
            (
                "Invalid value 0 for configuration compression.gzip.level: "
                "Value must be between 1 and 9 or equal to -1"
            ),
        ),
    ],
)
def test_invalid_changes_of_broker_keys_are_rejected(
    broker: BrokerHarness, key: str, value: str, message: str
) -> None:
    for response in (
        incremental_alter_configs(broker, BROKER, "1", (key, SET, value)),
        alter_configs(broker, BROKER, "1", (key, value)),
    ):
        assert (response.error_code, response.error_message) == (ErrorCode.invalid_request, message)


def test_no_change_of_one_level_rejects_all_connections(broker: BrokerHarness) -> None:
    limit, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    both = (limit, SET, "0"), (overrides, SET, "127.0.0.1:5")
    assert incremental_alter_configs(broker, BROKER, "", *both).error_code is ErrorCode.none
    response = incremental_alter_configs(broker, BROKER, "1", (overrides, SET, ""))
    assert response.error_code is ErrorCode.invalid_request
    assert f"{limit} can be set to zero only if {overrides} property is set" in str(
        response.error_message
    )


def test_a_control_character_around_a_thread_count_is_ignored(broker: BrokerHarness) -> None:
    """Java's trim removes control characters."""
    key = "listener.name.plaintext.num.network.threads"
    for value in ("\x013", "4"):
        response = incremental_alter_configs(broker, BROKER, "1", (key, SET, value))
        assert response.error_code is ErrorCode.none


IN_SYNC = "min.insync.replicas"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            [("nope", APPEND, "1"), (IN_SYNC, SET, "2")],
            ErrorCode.invalid_config,
            "Unknown config name: nope",
        ),
        (
            [("num.partitions", SET, "5"), ("log.retention.ms", APPEND, "1")],
            ErrorCode.invalid_config,
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (
            [(IN_SYNC, SUBTRACT, "2")],
            ErrorCode.invalid_config,
            "Config value subtract is not allowed for config key: min.insync.replicas",
        ),
        (
            [("log.cleanup.policy", APPEND, "")],
            ErrorCode.invalid_request,
            "Configuration 'log.cleanup.policy' values must not be empty.",
        ),
        (
            [("nope", APPEND, "x"), ("log.retention.ms", 9, "1")],
            ErrorCode.invalid_request,
            "Unknown operations type 9",
        ),
        (
            [(IN_SYNC, SET, "0")],
            ErrorCode.invalid_request,
            "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
        ),
        (
            [(IN_SYNC, SET, "2"), ("log.retention.ms", SET, "x")],
            ErrorCode.invalid_request,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            [(IN_SYNC, SET, "2"), ("num.partitions", SET, "x")],
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
    ],
)
def test_errors_of_broker_keys_come_in_kafkas_order(
    broker: BrokerHarness,
    changes: list[tuple[str, int, str | None]],
    error: ErrorCode,
    message: str,
) -> None:
    response = incremental_alter_configs(broker, BROKER, "1", *changes)
    assert (response.error_code, response.error_message) == (error, message)
    assert broker.configs.dynamic == {}


@pytest.mark.parametrize("key", ["num.partitions", "listeners", "nope"])
def test_deleting_a_broker_key_that_is_not_set_is_accepted(broker: BrokerHarness, key: str) -> None:
    for name in ("1", ""):
        assert not incremental_alter_configs(broker, BROKER, name, (key, DELETE, None)).error_code
    # Any change of the cluster-level configuration stores min.insync.replicas (KIP-966).
    assert broker.configs.dynamic == {"1": {}, "": {IN_SYNC: "1"}}


@pytest.mark.parametrize(
    "key",
    [
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "max.connections",
        "producer.id.expiration.ms",
    ],
)
def test_other_broker_keys_can_be_changed_dynamically(broker: BrokerHarness, key: str) -> None:
    started = broker.configs.broker_number(key)
    assert not incremental_alter_configs(broker, BROKER, "", (key, SET, "3000000")).error_code
    assert not incremental_alter_configs(broker, BROKER, "1", (key, SET, "2000000")).error_code
    assert broker.configs.broker_number(key) == 2_000_000
    (result,) = describe_configs(broker, BROKER, "1", key).configs
    assert [(s.value, s.source) for s in result.synonyms] == [
        ("2000000", 2),
        ("3000000", 3),
        (str(started), 5),
    ]
    assert not result.read_only
    incremental_alter_configs(broker, BROKER, "1", (key, DELETE, None))
    assert broker.configs.broker_number(key) == 3_000_000


def test_min_insync_replicas_is_changed_for_all_brokers_or_per_topic(broker: BrokerHarness) -> None:
    for response in (
        incremental_alter_configs(broker, BROKER, "1", (IN_SYNC, SET, "2")),
        incremental_alter_configs(broker, BROKER, "1", (IN_SYNC, DELETE, None)),
        alter_configs(broker, BROKER, "1", (IN_SYNC, "2")),
    ):
        assert (response.error_code, response.error_message) == (
            ErrorCode.invalid_config,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    for response in (
        incremental_alter_configs(broker, BROKER, "", (IN_SYNC, DELETE, None)),
        alter_configs(broker, BROKER, "", ("log.retention.ms", "5")),
    ):
        assert (response.error_code, response.error_message) == (
            ErrorCode.invalid_config,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )
    assert (
        incremental_alter_configs(broker, BROKER, "", (IN_SYNC, SET, "2")).error_code
        is ErrorCode.none
    )
    assert configs_by_name(describe_configs(broker, TOPIC, "orders"))[IN_SYNC].value == "2"


def test_topics_with_the_same_overrides_get_their_settings_at_once(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computing settings takes 0.1 ms, so ten thousand topics would block the loop for a second."""
    topics = [broker.create_topic(f"t-{number}") for number in range(9)]
    own = broker.create_topic("own", retention_ms="77")
    computed = list[object]()
    settings = Configs.settings

    def count(configs: Configs, overrides: Mapping[str, str]) -> TopicSettings:
        computed.append(overrides)
        return settings(configs, overrides)

    monkeypatch.setattr(Configs, "settings", count)
    incremental_alter_configs(broker, BROKER, "", ("message.max.bytes", SET, "300"))
    assert {each.partitions[0].settings.max_message_bytes for each in (*topics, own)} == {300}
    # "orders" has the same overrides as "own".
    assert len(computed) == 2
    # Further changes of one topic do not affect the others.
    incremental_alter_configs(broker, TOPIC, "t-0", ("max.message.bytes", SET, "400"))
    assert topics[0].partitions[0].settings.max_message_bytes == 400
    assert topics[1].partitions[0].settings.max_message_bytes == 300


STARTUP = "Cannot update these configs dynamically"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.client.auth", "required"),
        ("listeners", "PLAINTEXT://127.0.0.1:1"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.plaintext.ssl.client.auth", "none"),
        ("listener.name.sasl.plain.sasl.jaas.config", "x"),
    ],
)
def test_keys_that_are_read_at_startup_cannot_be_changed(
    broker: BrokerHarness, key: str, value: str
) -> None:
    response = incremental_alter_configs(broker, BROKER, "1", (key, SET, value))
    expected = ErrorCode.invalid_request, f"{STARTUP}: [{key}]"
    assert (response.error_code, response.error_message) == expected
    assert broker.configs.dynamic == {}


@pytest.mark.parametrize("key", ["ssl.client.auth", "ssl.enabled.protocols", "listeners"])
def test_keys_that_are_read_at_startup_accept_their_current_value(
    broker: BrokerHarness, key: str
) -> None:
    current = configs_by_name(describe_configs(broker, BROKER, "1", key))[key].value
    response = incremental_alter_configs(broker, BROKER, "1", (key, SET, current))
    assert response.error_code is ErrorCode.none


def test_the_folder_that_clients_see_can_be_cordoned(broker: BrokerHarness) -> None:
    def log_dir() -> Any:
        (found,) = broker.call("DescribeLogDirs", topics=()).results
        return found

    assert not log_dir().is_cordoned
    change = ("cordoned.log.dirs", SET, log_dir().log_dir)
    assert not incremental_alter_configs(broker, BROKER, "1", change).error_code
    assert log_dir().is_cordoned
    for allowed in (True, False):
        names = ({"name": "new"},)
        response = broker.call("Metadata", 9, topics=names, allow_auto_topic_creation=allowed)
        assert response.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    assert broker.topics.get("new") is None


def test_a_cordoned_folder_of_an_earlier_start_does_not_count(broker: BrokerHarness) -> None:
    """The data folder was moved in between."""
    broker.topics.change(BrokerConfigRecord("1", {"cordoned.log.dirs": "/earlier"}))
    (found,) = broker.call("DescribeLogDirs", topics=()).results
    assert not found.is_cordoned
    names = ({"name": "new"},)
    broker.call("Metadata", 9, topics=names, allow_auto_topic_creation=True)
    assert broker.topics.get("new") is not None


def test_a_password_cannot_be_guessed_by_setting_it() -> None:
    broker = BrokerHarness({"sasl.jaas.config": "secret"})
    right, wrong = (
        incremental_alter_configs(broker, BROKER, "1", ("sasl.jaas.config", SET, each))
        for each in ("secret", "guess")
    )
    assert right == wrong
    assert right.error_code is ErrorCode.invalid_request
