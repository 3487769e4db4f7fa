"""AlterConfigs and IncrementalAlterConfigs of topics, and invalid resources."""

import pytest
from kio.schema.errors import ErrorCode
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
    incremental_alter_configs,
)


@pytest.fixture
def broker() -> BrokerHarness:
    return broker_with_configs()


@pytest.mark.parametrize("version", [0, 1])
def test_a_change_takes_effect_and_survives_a_restart(broker: BrokerHarness, version: int) -> None:
    response = incremental_alter_configs(
        broker, TOPIC, "orders", ("max.message.bytes", SET, "99"), version=version
    )
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    topic = broker.topic()
    assert topic.partitions[0].settings.max_message_bytes == 99
    assert broker.restart().topic().overrides == {"retention.ms": "77", "max.message.bytes": "99"}


def overrides(broker: BrokerHarness) -> dict[str, str]:
    return dict(broker.topic().overrides)


def test_a_change_applies_to_an_open_log(broker: BrokerHarness) -> None:
    log = broker.topic().partitions[0].log
    incremental_alter_configs(broker, TOPIC, "orders", ("segment.bytes", SET, str(2**21)))
    assert log.config.segment_bytes == 2**21


def test_deleting_a_key_restores_the_default(broker: BrokerHarness) -> None:
    incremental_alter_configs(broker, TOPIC, "orders", ("retention.ms", DELETE, None))
    assert overrides(broker) == {}


def test_append_and_subtract_change_lists(broker: BrokerHarness) -> None:
    incremental_alter_configs(broker, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    assert overrides(broker)["cleanup.policy"] == "delete,compact"
    incremental_alter_configs(broker, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert overrides(broker)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("operation", "text", "after"),
    [
        (APPEND, ",", "delete"),
        (APPEND, "compact,,", "delete,compact"),
        (APPEND, "delete, compact", "delete, compact"),
        (SUBTRACT, "", "delete"),
        (SUBTRACT, "burn", "delete"),
        (SUBTRACT, "delete", ""),
    ],
)
def test_append_and_subtract_begin_with_the_default(
    broker: BrokerHarness, operation: int, text: str, after: str
) -> None:
    incremental_alter_configs(broker, BROKER, "", ("log.cleanup.policy", SET, "compact"))
    incremental_alter_configs(broker, TOPIC, "orders", ("cleanup.policy", operation, text))
    assert overrides(broker)["cleanup.policy"] == after
    incremental_alter_configs(broker, BROKER, "1", ("log.cleanup.policy", operation, text))
    assert broker.configs.dynamic["1"] == {"log.cleanup.policy": after}


def test_validate_only_changes_nothing(broker: BrokerHarness) -> None:
    incremental_alter_configs(
        broker, TOPIC, "orders", ("retention.ms", SET, "5"), validate_only=True
    )
    assert overrides(broker) == {"retention.ms": "77"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            [("retention.ms", SET, None)],
            ErrorCode.invalid_request,
            "Null value not supported for : retention.ms",
        ),
        (
            [("retention.ms", SET, "x")],
            ErrorCode.invalid_config,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            [("retention.ms", APPEND, "5")],
            ErrorCode.invalid_config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        ([("nope", SET, "1")], ErrorCode.invalid_config, "Unknown topic config name: nope"),
        (
            [("nope", APPEND, "1")],
            ErrorCode.invalid_config,
            "Can't APPEND to key nope because its type is not LIST.",
        ),
        (
            [("nope", SET, "1"), ("retention.ms", SUBTRACT, "")],
            ErrorCode.invalid_config,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            [("cleanup.policy", APPEND, "")],
            ErrorCode.invalid_config,
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            [("cleanup.policy", APPEND, ",compact")],
            ErrorCode.invalid_config,
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            [("min.insync.replicas", SET, "0")],
            ErrorCode.invalid_config,
            "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
        ),
        (
            [("max.message.bytes", SET, "x"), ("retention.ms", SET, "y")],
            ErrorCode.invalid_config,
            "Invalid value y for configuration retention.ms: Not a number of type LONG",
        ),
        (
            [("retention.ms", 9, "1"), ("segment.ms", SET, None)],
            ErrorCode.invalid_request,
            "Null value not supported for : segment.ms",
        ),
        (
            [("cleanup.policy", APPEND, "burn")],
            ErrorCode.invalid_config,
            (
                "Invalid value burn for configuration cleanup.policy: "
                "String must be one of: compact, delete"
            ),
        ),
        (
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        ),
        (
            [("retention.ms", 9, "1")],
            ErrorCode.invalid_request,
            "Unknown operation 9 for config retention.ms",
        ),
    ],
)
def test_a_rejected_change_changes_nothing(
    broker: BrokerHarness,
    changes: list[tuple[str, int, str | None]],
    error: ErrorCode,
    message: str,
) -> None:
    response = incremental_alter_configs(broker, TOPIC, "orders", *changes)
    assert (response.error_code, response.error_message) == (error, message)
    assert overrides(broker) == {"retention.ms": "77"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2", "Unexpected broker id, expected 1, but received 2"),
        ("{1.x}", "Node id must be an integer, but it is: {1.x}"),
        ("--1", "Node id must be an integer, but it is: --1"),
    ],
)
def test_invalid_broker_ids_are_rejected(broker: BrokerHarness, name: str, message: str) -> None:
    """The scenarios have the other invalid resources."""
    for response in (
        incremental_alter_configs(broker, BROKER, name),
        alter_configs(broker, BROKER, name),
    ):
        assert (response.error_code, response.error_message) == (ErrorCode.invalid_request, message)


def test_keys_are_validated_before_the_topic(broker: BrokerHarness) -> None:
    good, strange, bad = (("retention.ms", "1"), ("nope", "1"), ("retention.ms", "x"))
    for change, error in (
        (good, ErrorCode.unknown_topic_or_partition),
        (strange, ErrorCode.invalid_config),
        (bad, ErrorCode.invalid_config),
    ):
        assert alter_configs(broker, TOPIC, "nobody", change).error_code is error
        key, value = change
        assert (
            incremental_alter_configs(broker, TOPIC, "nobody", (key, SET, value)).error_code
            is error
        )
    assert incremental_alter_configs(
        broker, TOPIC, "bad!", ("retention.ms", SET, "x")
    ).error_code is (ErrorCode.invalid_topic_exception)


def test_a_broker_id_is_parsed_as_in_java(broker: BrokerHarness) -> None:
    assert not incremental_alter_configs(
        broker, BROKER, "01", ("log.retention.ms", SET, "7")
    ).error_code
    assert broker.configs.dynamic == {"1": {"log.retention.ms": "7"}}


def test_a_change_that_does_not_become_durable_is_reverted(broker: BrokerHarness) -> None:
    broker.files.fail("sync")
    response = incremental_alter_configs(broker, TOPIC, "orders", ("retention.ms", SET, "1"))
    assert response.error_code is ErrorCode.kafka_storage_error
    assert overrides(broker) == {"retention.ms": "77"}


# --- replacing all keys


@pytest.mark.parametrize("version", range(3))
def test_replacing_resets_all_other_keys(broker: BrokerHarness, version: int) -> None:
    response = alter_configs(broker, TOPIC, "orders", ("segment.ms", "99"), version=version)
    assert response.error_code is ErrorCode.none
    assert overrides(broker) == {"segment.ms": "99"}
