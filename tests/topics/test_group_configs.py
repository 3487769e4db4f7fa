"""The effective values of groups of the consumer protocol."""

import logging

import pytest
from kohort.topics.configs.effective import ConsumerGroupConfig
from support.broker import (
    BROKER,
    DELETE,
    GROUP,
    SET,
    BrokerHarness,
    configs_by_name,
    describe_configs,
    incremental_alter_configs,
)

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def test_values_are_those_of_the_group_or_else_of_the_broker() -> None:
    broker = BrokerHarness({f"group.{SESSION}": "46000"})
    assert broker.configs.consumer_group("g") == (46000, 5000, 1000)
    incremental_alter_configs(broker, GROUP, "g", (HEARTBEAT, SET, " 6000 "))
    assert broker.configs.consumer_group("g") == ConsumerGroupConfig(
        session_timeout_ms=46000, heartbeat_interval_ms=6000, assignment_interval_ms=1000
    )
    assert broker.configs.consumer_group("other") == (46000, 5000, 1000)
    incremental_alter_configs(broker, GROUP, "g", (HEARTBEAT, DELETE, None))
    assert broker.configs.consumer_group("g") == (46000, 5000, 1000)


def test_a_dynamic_default_of_the_broker_has_effect_immediately() -> None:
    broker = BrokerHarness()
    other_node = broker.configs.at(2)
    assert other_node.consumer_group("g").assignment_interval_ms == 1000
    incremental_alter_configs(broker, BROKER, "", (f"group.{ASSIGNMENT}", SET, "7"))
    incremental_alter_configs(broker, BROKER, "1", (f"group.{ASSIGNMENT}", SET, "8"))
    assert broker.configs.consumer_group("g").assignment_interval_ms == 8
    assert other_node.consumer_group("g").assignment_interval_ms == 7
    incremental_alter_configs(broker, GROUP, "g", (ASSIGNMENT, SET, "0"))
    assert broker.configs.consumer_group("g").assignment_interval_ms == 0
    assert other_node.consumer_group("g").assignment_interval_ms == 0


def test_configs_of_groups_survive_a_restart() -> None:
    broker = BrokerHarness()
    incremental_alter_configs(broker, GROUP, "kept", (SESSION, SET, "50000"))
    incremental_alter_configs(broker, GROUP, "deleted", (SESSION, SET, "50000"))
    incremental_alter_configs(broker, GROUP, "deleted", (SESSION, DELETE, None))
    after = broker.restart()
    assert after.configs.groups == {"kept": {SESSION: "50000"}}
    assert after.configs.consumer_group("kept").session_timeout_ms == 50000


def test_a_change_that_cannot_be_written_has_no_effect() -> None:
    broker = BrokerHarness()
    incremental_alter_configs(broker, GROUP, "g", (SESSION, SET, "50000"))
    broker.files.fail("sync")
    response = incremental_alter_configs(broker, GROUP, "g", (SESSION, SET, "51000"))
    assert response.error_code
    assert broker.configs.consumer_group("g").session_timeout_ms == 50000


def test_values_are_capped_if_the_bounds_of_the_broker_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As in upstream's GroupConfig.evaluate, a group's values are described as they were stored.
    The broker's values are described as they are in effect."""
    broker = BrokerHarness()
    changes = ((SESSION, SET, "60000"), (HEARTBEAT, SET, "15000"), (ASSIGNMENT, SET, "15000"))
    incremental_alter_configs(broker, GROUP, "g", *changes)
    incremental_alter_configs(broker, BROKER, "", (f"group.{ASSIGNMENT}", SET, "14000"))
    broker.run_loop()
    bounds = {
        "group.consumer.max.session.timeout.ms": "50000",
        "group.consumer.max.heartbeat.interval.ms": "6000",
        "group.consumer.min.assignment.interval.ms": "900",
        "group.consumer.max.assignment.interval.ms": "2000",
    }
    after = BrokerHarness(bounds, files=broker.files)
    with caplog.at_level(logging.WARNING, "kohort.topics"):
        for _ in range(2):
            assert after.configs.consumer_group("g") == (50000, 6000, 2000)
    assert [record.getMessage() for record in caplog.records] == [
        f"Group config {key}={stored} of group g is outside the broker's bounds: "
        f"its effective value is {effective}"
        for key, stored, effective in (
            (SESSION, 60000, 50000),
            (HEARTBEAT, 15000, 6000),
            (ASSIGNMENT, 15000, 2000),
        )
    ]
    assert after.configs.consumer_group("other").assignment_interval_ms == 2000
    described = configs_by_name(describe_configs(after, GROUP, "g"))
    assert described[ASSIGNMENT].value == "15000"
    described = configs_by_name(describe_configs(after, GROUP, "other"))
    assert described[ASSIGNMENT].value == "2000"
    assert [each.value for each in described[ASSIGNMENT].synonyms] == ["14000", "1000"]
    # Any change of the group is validated with all of its values.
    response = incremental_alter_configs(after, GROUP, "g", (ASSIGNMENT, SET, "1000"))
    assert response.error_message == (
        f"{HEARTBEAT} must be less than or equal to group.consumer.max.heartbeat.interval.ms"
    )
