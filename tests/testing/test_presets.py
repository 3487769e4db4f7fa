"""Presets: the keys that they set, below the keys of a test."""

from typing import Any

import pytest
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.sources import ConfigError
from kohort.protocol.apis import NEWEST
from kohort.testing.kafka import Kafka
from kohort.testing.presets import PRESETS, new_config, with_preset

SESSION = "group.consumer.session.timeout.ms"
HEARTBEAT = "group.consumer.heartbeat.interval.ms"


def test_the_preset_instant_has_short_intervals_for_the_consumer_protocol() -> None:
    instant, kafka = (new_config(preset, 1, NEWEST, {}) for preset in ("instant", "kafka"))
    assert (instant.int(HEARTBEAT), kafka.int(HEARTBEAT)) == (100, 5000)
    assert instant["group.consumer.assignment.interval.ms"] == 0
    assert instant.origin(HEARTBEAT) == "preset instant"
    assert {key: instant.text(key) for key in instant} == {
        key: with_preset(BrokerConfig(), "instant").text(key) for key in instant
    }
    assert set(PRESETS["instant"]) <= set(instant)


def test_the_bounds_of_a_preset_apply_to_the_keys_of_a_test() -> None:
    given = {SESSION: 2000, HEARTBEAT: 50}
    config = new_config("instant", 1, NEWEST, given)
    assert (config.int(SESSION), config.int(HEARTBEAT)) == (2000, 50)
    assert config.origin(SESSION) == "code"
    with pytest.raises(ConfigError, match=r"group\.consumer\.min\.heartbeat\.interval\.ms"):
        new_config("kafka", 1, NEWEST, given)
    with pytest.raises(ConfigError, match=r"they are 100 \(from preset instant\) and 90 \(from"):
        new_config("instant", 1, NEWEST, {SESSION: 90})


def test_arguments_that_a_broker_config_contains_are_rejected() -> None:
    each: list[dict[str, Any]] = [{"nodes": 3}, {"security": "SSL"}, {"users": {"alice": "secret"}}]
    for arguments in each:
        with pytest.raises(ValueError, match="have no effect with a BrokerConfig"):
            Kafka(config=BrokerConfig(), **arguments)
