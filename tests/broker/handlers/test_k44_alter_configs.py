"""AlterConfigs and IncrementalAlterConfigs of topics, and invalid resources."""

import pytest
from kio.schema.errors import ErrorCode
from support.broker import World
from support.configs import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    incremental,
    replace,
    world_with_orders,
)


@pytest.fixture
def world() -> World:
    return world_with_orders()


@pytest.mark.parametrize("version", [0, 1])
def test_a_change_takes_effect_and_survives_a_restart(world: World, version: int) -> None:
    response = incremental(
        world, TOPIC, "orders", ("max.message.bytes", SET, "99"), version=version
    )
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    topic = world.topics.get("orders")
    assert topic is not None
    assert topic.partitions[0].settings.max_message_bytes == 99
    again = world.restarted().topics.get("orders")
    assert again is not None
    assert again.overrides == {"retention.ms": "77", "max.message.bytes": "99"}


def overrides(world: World) -> dict[str, str]:
    topic = world.topics.get("orders")
    assert topic is not None
    return dict(topic.overrides)


def test_a_change_applies_to_an_open_log(world: World) -> None:
    topic = world.topics.get("orders")
    assert topic is not None
    log = topic.partitions[0].log
    incremental(world, TOPIC, "orders", ("segment.bytes", SET, str(2**21)))
    assert log.config.segment_bytes == 2**21


def test_deleting_a_key_restores_the_default(world: World) -> None:
    incremental(world, TOPIC, "orders", ("retention.ms", DELETE, None))
    assert overrides(world) == {}


def test_append_and_subtract_change_lists(world: World) -> None:
    incremental(world, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    assert overrides(world)["cleanup.policy"] == "delete,compact"
    incremental(world, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert overrides(world)["cleanup.policy"] == "compact"


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
    world: World, operation: int, text: str, after: str
) -> None:
    incremental(world, BROKER, "", ("log.cleanup.policy", SET, "compact"))
    incremental(world, TOPIC, "orders", ("cleanup.policy", operation, text))
    assert overrides(world)["cleanup.policy"] == after
    incremental(world, BROKER, "1", ("log.cleanup.policy", operation, text))
    assert world.configs.dynamic["1"] == {"log.cleanup.policy": after}


def test_validate_only_changes_nothing(world: World) -> None:
    incremental(world, TOPIC, "orders", ("retention.ms", SET, "5"), validate_only=True)
    assert overrides(world) == {"retention.ms": "77"}


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
    world: World, changes: list[tuple[str, int, str | None]], error: ErrorCode, message: str
) -> None:
    response = incremental(world, TOPIC, "orders", *changes)
    assert (response.error_code, response.error_message) == (error, message)
    assert overrides(world) == {"retention.ms": "77"}


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (
            TOPIC,
            "nobody",
            ErrorCode.unknown_topic_or_partition,
            "The topic 'nobody' does not exist.",
        ),
        (TOPIC, "", ErrorCode.invalid_request, "Default topic resources are not allowed."),
        (
            BROKER,
            "2",
            ErrorCode.invalid_request,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (BROKER, "x", ErrorCode.invalid_request, "Node id must be an integer, but it is: x"),
        (
            16,
            "x",
            ErrorCode.invalid_request,
            "This broker does not support configurations of client metrics (resource type 16).",
        ),
        (BROKER, "--1", ErrorCode.invalid_request, "Node id must be an integer, but it is: --1"),
        (99, "x", ErrorCode.invalid_request, "Unknown resource type 99"),
    ],
)
def test_invalid_resources_are_rejected(
    world: World, kind: int, name: str, error: ErrorCode, message: str
) -> None:
    for response in (incremental(world, kind, name), replace(world, kind, name)):
        assert (response.error_code, response.error_message) == (error, message)


def test_keys_are_validated_before_the_topic(world: World) -> None:
    good, strange, bad = (("retention.ms", "1"), ("nope", "1"), ("retention.ms", "x"))
    for change, error in (
        (good, ErrorCode.unknown_topic_or_partition),
        (strange, ErrorCode.invalid_config),
        (bad, ErrorCode.invalid_config),
    ):
        assert replace(world, TOPIC, "nobody", change).error_code is error
        key, value = change
        assert incremental(world, TOPIC, "nobody", (key, SET, value)).error_code is error
    assert incremental(world, TOPIC, "bad!", ("retention.ms", SET, "x")).error_code is (
        ErrorCode.invalid_topic_exception
    )


def test_a_broker_id_is_parsed_as_in_java(world: World) -> None:
    assert not incremental(world, BROKER, "01", ("log.retention.ms", SET, "7")).error_code
    assert world.configs.dynamic == {"1": {"log.retention.ms": "7"}}


def test_a_repeated_resource_is_rejected(world: World) -> None:
    response = incremental(world, TOPIC, "orders", ("retention.ms", SET, "1"), times=2)
    assert response.error_message == "Each resource must appear at most once."


def test_a_change_that_does_not_become_durable_is_reverted(world: World) -> None:
    world.files.fail("sync")
    response = incremental(world, TOPIC, "orders", ("retention.ms", SET, "1"))
    assert response.error_code is ErrorCode.kafka_storage_error
    assert overrides(world) == {"retention.ms": "77"}


# --- replacing all keys


@pytest.mark.parametrize("version", range(3))
def test_replacing_resets_all_other_keys(world: World, version: int) -> None:
    response = replace(world, TOPIC, "orders", ("segment.ms", "99"), version=version)
    assert response.error_code is ErrorCode.none
    assert overrides(world) == {"segment.ms": "99"}
