"""DescribeConfigs, for topics and for the broker."""

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.handlers.k32_describe_configs import _requested
from kohort.broker.network.request import Message
from support.broker import (
    BROKER,
    SET,
    TOPIC,
    BrokerHarness,
    broker_with_configs,
    configs_by_name,
    describe_configs,
    incremental_alter_configs,
)


@pytest.fixture
def broker() -> BrokerHarness:
    return broker_with_configs()


def test_an_internal_key_of_a_topic_is_described_if_it_is_set(broker: BrokerHarness) -> None:
    broker.create_topic("small", internal_segment_bytes="100")
    configs = configs_by_name(describe_configs(broker, TOPIC, "small"))
    assert len(configs) == 34
    key = configs["internal.segment.bytes"]
    assert (key.value, key.config_source) == ("100", 1)
    assert configs["segment.bytes"].value == "1073741824"


def test_synonyms_are_listed_from_highest_to_lowest_precedence(broker: BrokerHarness) -> None:
    configs = configs_by_name(describe_configs(broker, TOPIC, "orders"))
    result = {
        name: (each.config_source, [(s.name, s.value, s.source) for s in each.synonyms])
        for name, each in configs.items()
    }
    # log.retention.hours is only listed if log.retention.ms is set.
    assert result["retention.ms"] == (1, [("retention.ms", "77", 1)])
    assert result["max.message.bytes"] == (
        4,
        [("message.max.bytes", "5000", 4), ("message.max.bytes", "1048588", 5)],
    )
    assert result["segment.bytes"] == (5, [("log.segment.bytes", "1073741824", 5)])
    assert result["segment.ms"] == (5, [])
    # In new Kafka clusters, this key is set for every broker (KIP-966).
    in_sync = "min.insync.replicas"
    assert result[in_sync] == (3, [(in_sync, "1", 3), (in_sync, "1", 5)])
    # kohort has no broker keys of tiered storage, but lists them as Kafka does.
    for key in ("local.retention.ms", "local.retention.bytes"):
        assert result[key] == (5, [(f"log.{key}", "-2", 5)])


def test_min_insync_replicas_is_set_for_every_broker_at_the_start() -> None:
    broker = BrokerHarness({"min.insync.replicas": "2"})
    broker.create_topic("orders")
    (key,) = describe_configs(broker, TOPIC, "orders", "min.insync.replicas").configs
    assert (key.value, [s.source for s in key.synonyms]) == ("2", [3, 4, 5])


def test_a_broker_key_in_another_unit_is_converted(broker: BrokerHarness) -> None:
    broker.create_topic("plain")
    retention = configs_by_name(describe_configs(broker, TOPIC, "plain"))["retention.ms"]
    assert (retention.value, retention.config_source, retention.synonyms) == ("3600000", 5, ())
    incremental_alter_configs(broker, BROKER, "", ("log.retention.ms", SET, "600000"))
    hours = "log.retention.hours"
    for kind, name, key in ((TOPIC, "plain", "retention.ms"), (BROKER, "1", "log.retention.ms")):
        (result,) = describe_configs(broker, kind, name, key).configs
        assert [(each.name, each.value, each.source) for each in result.synonyms] == [
            ("log.retention.ms", "600000", 3),
            (hours, "1", 4),
            (hours, "168", 5),
        ]
    (result,) = describe_configs(broker, BROKER, "1", hours).configs
    assert [each.value for each in result.synonyms] == ["1", "168"]
    (result,) = describe_configs(broker, BROKER, "1", "log.retention.minutes").configs
    assert (result.value, result.synonyms) == (None, ())


def test_a_repeated_resource_is_described_each_time(broker: BrokerHarness) -> None:
    resource = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "configuration_keys": ("retention.ms",),
    }
    fields = {"include_synonyms": False, "include_documentation": False}
    first, second = broker.call("DescribeConfigs", resources=(resource,) * 2, **fields).results
    assert first == second
    assert configs_by_name(first)["retention.ms"].value == "77"


def test_keys_documentation_and_synonyms_are_returned_on_request(broker: BrokerHarness) -> None:
    result = describe_configs(broker, TOPIC, "orders", "segment.bytes", "nope", synonyms=False)
    (only,) = result.configs
    assert (only.name, only.synonyms, only.documentation, only.config_type) == (
        "segment.bytes",
        (),
        None,
        3,
    )
    documented = describe_configs(broker, TOPIC, "orders", "segment.bytes", documentation=True)
    assert documented.configs[0].documentation


def test_the_broker_describes_its_own_keys(broker: BrokerHarness) -> None:
    configs = configs_by_name(describe_configs(broker, BROKER, "1"))
    assert (configs["message.max.bytes"].value, configs["message.max.bytes"].config_source) == (
        "5000",
        4,
    )
    assert configs["num.partitions"].read_only
    assert configs["log.retention.ms"].value is None
    (everywhere,) = describe_configs(broker, BROKER, "").configs
    assert (everywhere.name, everywhere.value) == ("min.insync.replicas", "1")


def test_the_broker_describes_keys_of_a_single_listener() -> None:
    jaas = "listener.name.client.plain.sasl.jaas.config"
    reauth = "listener.name.client.plain.connections.max.reauth.ms"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_a=b;"
    broker = BrokerHarness({jaas: login, reauth: "2000"})
    configs = configs_by_name(describe_configs(broker, BROKER, "1"))
    assert (configs[jaas].value, configs[jaas].is_sensitive) == (None, True)
    assert (configs[reauth].value, configs[reauth].read_only) == ("2000", True)
    synonyms = [(each.name, each.value, each.source) for each in configs[reauth].synonyms]
    assert synonyms == [(reauth, "2000", 4), ("connections.max.reauth.ms", "0", 5)]


def test_the_empty_topic_name_is_invalid(broker: BrokerHarness) -> None:
    result = describe_configs(broker, TOPIC, "")
    message = "Topic name is invalid: the empty string is not allowed"
    expected = (ErrorCode.invalid_topic_exception, message, ())
    assert (result.error_code, result.error_message, result.configs) == expected


@pytest.mark.parametrize("name", ["--1", "2147483648"])
def test_a_broker_id_that_java_cannot_parse_is_rejected(broker: BrokerHarness, name: str) -> None:
    """The scenarios have the other invalid resources."""
    result = describe_configs(broker, BROKER, name)
    message = f"Broker id must be an integer, but it is: {name}"
    expected = (ErrorCode.invalid_request, message, ())
    assert (result.error_code, result.error_message, result.configs) == expected


@pytest.mark.parametrize("name", ["1", "+1", "01"])
def test_a_broker_id_is_parsed_as_in_java(broker: BrokerHarness, name: str) -> None:
    (only,) = describe_configs(broker, BROKER, name, "node.id").configs
    assert only.value == "1"


def describe_all(
    broker: BrokerHarness, *resources: tuple[int, str]
) -> list[tuple[ErrorCode, str, int]]:
    parts = tuple(
        {
            "resource_type": kind,
            "resource_name": name,
            "configuration_keys": ("retention.ms", "num.partitions"),
        }
        for kind, name in resources
    )
    fields = {"include_synonyms": False, "include_documentation": False}
    results = broker.call("DescribeConfigs", resources=parts, **fields).results
    return [(each.error_code, each.error_message, len(each.configs)) for each in results]


def test_only_the_resource_of_another_broker_is_rejected(broker: BrokerHarness) -> None:
    other = "Unexpected broker id, expected 1 or empty string, but received 2"
    assert describe_all(broker, (TOPIC, "orders"), (BROKER, "2"), (BROKER, "1")) == [
        (ErrorCode.none, "", 1),
        (ErrorCode.invalid_request, other, 0),
        (ErrorCode.none, "", 1),
    ]


@pytest.mark.parametrize("kind", [99, 0, 1, 64, -1])
def test_an_unknown_resource_type_fails_the_whole_request(broker: BrokerHarness, kind: int) -> None:
    words = (
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details."
    )
    rejected = (ErrorCode.invalid_request, words, 0)
    assert describe_all(broker, (TOPIC, "orders"), (kind, "q"), (BROKER, "1")) == [rejected] * 3


def test_types_and_node_ids_are_returned_as_by_kafka() -> None:
    broker = BrokerHarness(
        {"advertised.listeners": "PLAINTEXT://here:1", "node.id": "1", "log.dir": "/d"}
    )
    result = {
        name: (each.value, each.config_type, [(s.value, s.source) for s in each.synonyms])
        for name, each in configs_by_name(describe_configs(broker, BROKER, "1")).items()
    }
    text, whole, items = 2, 3, 7
    protocols = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    assert result["listener.security.protocol.map"] == (protocols, text, [(protocols, 5)])
    assert result["advertised.listeners"] == (
        "PLAINTEXT://here:1",
        items,
        [("PLAINTEXT://here:1", 4)],
    )
    assert result["log.dir"] == ("/d", items, [("/d", 4), ("kohort-data", 5)])
    assert result["log.dirs"] == (None, items, [])
    assert result["broker.id"] == ("1", whole, [("1", 4), ("-1", 5)])


def test_numbers_are_formatted_as_in_java(broker: BrokerHarness) -> None:
    key = "min.cleanable.dirty.ratio"
    for given, result in (("NaN", "NaN"), ("0.1f", "0.1"), ("1e-5", "1.0E-5"), (" +.5 ", "0.5")):
        assert not incremental_alter_configs(broker, TOPIC, "orders", (key, SET, given)).error_code
        assert configs_by_name(describe_configs(broker, TOPIC, "orders"))[key].value == result


class CountedKey(str):
    """A requested key that counts how often keys are compared."""

    comparisons = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedKey.comparisons += 1
        return super().__eq__(other)


def test_thousands_of_requested_keys_are_found_in_linear_time(broker: BrokerHarness) -> None:
    keys = tuple(CountedKey(f"key{number}") for number in range(1_000))
    CountedKey.comparisons = 0
    assert not _requested(Message(configuration_keys=keys), broker.node.config.config_def)
    assert CountedKey.comparisons < len(keys)
