"""Configuration: precedence of sources, errors, warnings."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.keys import BROKER_KEYS
from kohort.broker.config.listeners import Listener, SecurityProtocol
from kohort.broker.config.sources import ConfigError, key_of
from kohort.java_properties import parse_properties
from kohort.topics.configs.config_def import ConfigSource, InvalidConfigValue

PLAINTEXT = SecurityProtocol.PLAINTEXT

# The keys of the server.properties that Kafka 4.3 ships for a single node, with its values.
STOCK = """\
# Server basics
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
#log.flush.interval.messages=10000
log.retention.hours=168
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "server.properties"


def test_defaults_are_kafkas_except_where_documented() -> None:
    config = BrokerConfig()
    assert config.int("group.initial.rebalance.delay.ms") == 3000
    assert config.int("offsets.topic.num.partitions") == 50
    assert config.bool("auto.create.topics.enable") is True
    assert config["log.cleanup.policy"] == ("delete",)
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    assert config["log.retention.ms"] is None
    assert config.str("broker.rack") == ""
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092, PLAINTEXT),)
    assert config.advertised_listeners == config.listeners
    assert (config.durability, config.data_dir) == ("fsync", Path("kohort-data"))
    assert config.source("num.partitions") is ConfigSource.DEFAULT


def test_overrides_come_before_environment_file_and_default(file: Path) -> None:
    file.write_text("num.partitions=2\nnode.id=2\ngroup.max.size=2\n")
    env = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_NODE_ID": "3"}
    config = BrokerConfig.load(file, env, ["num.partitions=4"])
    assert [config.int(key) for key in ("num.partitions", "node.id", "group.max.size")] == [4, 3, 2]
    assert config.origin("num.partitions") == "-o"
    assert config.origin("node.id") == "KAFKA_NODE_ID"
    assert config.origin("group.max.size") == str(file)
    assert config.origin("message.max.bytes") == "default"
    assert config.source("node.id") is ConfigSource.STATIC_BROKER


def test_the_last_of_two_overrides_wins() -> None:
    assert BrokerConfig.load(overrides=["node.id=4", "node.id=5"]).int("node.id") == 5


def test_a_changed_copy_leaves_the_original_alone() -> None:
    config = BrokerConfig()
    changed = config.changed("node.id", "7", "--node")
    assert (config.int("node.id"), changed.int("node.id"), changed.origin("node.id")) == (
        (1, 7, "--node")
    )


def test_kafkas_own_properties_file_is_accepted(file: Path) -> None:
    file.write_text(STOCK)
    config = BrokerConfig.load(file)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092, PLAINTEXT),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092, PLAINTEXT),)
    (warning,) = config.warnings()
    assert warning.startswith("configuration keys without effect in kohort: ")
    assert "process.roles" in warning
    assert "num.partitions" not in warning


def test_listeners_have_names_protocols_and_addresses() -> None:
    config = BrokerConfig(
        {
            "listeners": "client://:9092,TEAM.B://[::1]:9092,CONTROLLER://:9093",
            "listener.security.protocol.map": "CLIENT:SASL_SSL,team.b:ssl",
            "advertised.listeners": "CLIENT://kafka.test:1",
        }
    )
    assert config.listeners == (
        Listener("CLIENT", "", 9092, SecurityProtocol.SASL_SSL),
        Listener("TEAM.B", "::1", 9092, SecurityProtocol.SSL),
    )
    assert config.listeners[0].prefix == "listener.name.client."
    assert [each[:3] for each in config.advertised_listeners] == [("CLIENT", "kafka.test", 1)]


def test_a_properties_file_is_parsed_by_javas_rules(file: Path) -> None:
    file.write_text(
        "! a comment\n  # another\n\nnum.partitions : 6\nnode.id 9\n"
        "log.cleanup.policy = compact,\\\n    delete\nbroker.rack=caf\\u00e9\\=1\n"
    )
    config = BrokerConfig.load(file)
    assert config.int("num.partitions") == 6
    assert config.int("node.id") == 9
    assert config["log.cleanup.policy"] == ("compact", "delete")
    assert config.str("broker.rack") == "café=1"


@pytest.mark.parametrize("char", ["\x0b", "\x1c", "\x85", "\xa0", "\u2028"])
def test_only_javas_line_breaks_end_a_value(char: str) -> None:
    text = f"\fa = {char}1{char}\r{char}b\t2\r\nc:3"
    assert list(parse_properties(text)) == [("a", f"{char}1{char}"), (f"{char}b", "2"), ("c", "3")]


def test_two_escapes_are_one_character_beyond_the_basic_plane(file: Path) -> None:
    file.write_text("broker.rack=\\ud83d\\ude00\n")
    assert BrokerConfig.load(file).str("broker.rack") == "\U0001f600"
    file.write_text("broker.rack=\\ud83d\n")
    with pytest.raises(ConfigError, match=r"in 'broker\.rack' "):
        BrokerConfig.load(file)


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\ucafX"])
def test_an_escape_that_java_rejects_is_rejected_with_its_key(file: Path, escape: str) -> None:
    file.write_text(f"broker.rack={escape}\n")
    with pytest.raises(ConfigError, match=r"malformed \\u escape in 'broker\.rack' "):
        BrokerConfig.load(file)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group.initial.rebalance.delay.ms"),
        ("KAFKA_KOHORT_DURABILITY", "kohort.durability"),
        ("KAFKA_A__B___C_D", "a_b-c.d"),
    ],
)
def test_environment_variables_name_keys_as_in_kafkas_images(variable: str, key: str) -> None:
    assert key_of(variable) == key


def test_environment_variables_of_start_scripts_are_ignored() -> None:
    env = {"KAFKA_OPTS": "-Xmx1g", "KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_PORT": "9", "PATH": "/"}
    assert list(BrokerConfig.load(env=env).warnings()) == []


def test_a_misspelt_key_is_reported_with_the_closest_one() -> None:
    (warning,) = BrokerConfig.load(overrides=["group.initial.rebalance.delay=0"]).warnings()
    assert warning == (
        "unknown configuration key 'group.initial.rebalance.delay' (from -o): "
        "did you mean group.initial.rebalance.delay.ms?"
    )
    for key, meant in (
        ("transaction.max.timeout", "transaction.max.timeout.ms"),
        ("transactional.id.expiration", "transactional.id.expiration.ms"),
        ("ssl.keystore.locaton", "ssl.keystore.location"),
        ("socket.recieve.buffer.bytes", "socket.receive.buffer.bytes"),
        ("listener.name.client.ssl.client.auht", "listener.name.client.ssl.client.auth"),
    ):
        (problem,) = BrokerConfig.load(overrides=[f"{key}=1"]).unknown_keys()
        assert problem == f"unknown configuration key '{key}' (from -o): did you mean {meant}?"
    (warning,) = BrokerConfig.load(overrides=["something.else=0"]).warnings()
    assert warning == "unknown configuration key 'something.else' (from -o); it is ignored."


@pytest.mark.parametrize(
    "key",
    [
        *("num.io.threads", "zookeeper.connect", "transaction.state.log.load.buffer.size"),
        *("listener.name.client.sasl.kerberos.service.name", "config.providers.file.class"),
        *("rlmm.config.remote.log.metadata.topic.num.partitions", "rsm.config.dir"),
    ],
)
def test_keys_of_other_parts_of_kafka_have_no_effect(key: str) -> None:
    config = BrokerConfig.load(overrides=[f"{key}=1"])
    assert list(config.unknown_keys()) == []
    assert list(config.warnings()) == [f"configuration keys without effect in kohort: {key}."]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "num.partitions",
            (
                "invalid override 'num.partitions' (from -o): "
                "expected key=value, for example num.partitions=6."
            ),
        ),
        (
            "num.partitions=0",
            "Invalid value 0 for configuration num.partitions: Value must be at least 1 (from -o).",
        ),
        (
            "node.id=one",
            "Invalid value one for configuration node.id: Not a number of type INT (from -o).",
        ),
        (
            "kohort.durabilty=os",
            (
                "unknown configuration key 'kohort.durabilty' (from -o): "
                "did you mean kohort.durability?"
            ),
        ),
        (
            "kohort.x=os",
            (
                "unknown configuration key 'kohort.x' (from -o): expected one of "
                "kohort.durability, kohort.events, kohort.events.files, "
                "kohort.cache.offsets, kohort.offsets.mirror, "
                "kohort.nodes, kohort.auto.create.immediate, kohort.profile, "
                "kohort.request.cache, kohort.users."
            ),
        ),
        ("log.dirs=/a,/b", "2 folders in log.dirs (from -o): expected one."),
        ("log.dir=/a,/b", "2 folders in log.dir (from -o): expected one."),
        (
            "group.min.session.timeout.ms=2000000",
            (
                "group.min.session.timeout.ms=2000000 (from -o) is above "
                "group.max.session.timeout.ms=1800000 (from default): lower it, or raise the other."
            ),
        ),
        (
            "listeners=localhost:9092",
            (
                "invalid listener 'localhost:9092' in listeners (from -o): "
                "expected NAME://HOST:PORT, for example PLAINTEXT://127.0.0.1:9092."
            ),
        ),
        (
            "listeners=PLAINTEXT://:1,CLIENT://:2",
            (
                "no security protocol for listener CLIENT in listeners (from -o): add "
                "CLIENT:PROTOCOL to listener.security.protocol.map, with one of "
                "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."
            ),
        ),
        (
            "listener.security.protocol.map=CLIENT:TLS",
            (
                "invalid item 'CLIENT:TLS' in listener.security.protocol.map: expected "
                "NAME:PROTOCOL, with one of the protocols PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."
            ),
        ),
        (
            "listeners=SSL://:1,ssl://:2",
            "2 listeners have the name SSL in listeners (from -o): expected one.",
        ),
        (
            "listeners=SSL://:1,PLAINTEXT://:1",
            (
                "listeners SSL and PLAINTEXT have the same port 1 in listeners (from -o): "
                "choose another for one of them."
            ),
        ),
        (
            "listener.name.A.ssl.client.auth=x",
            (
                "Invalid value x for configuration listener.name.A.ssl.client.auth: String must be "
                "one of: required, requested, none (from -o)."
            ),
        ),
        (
            "listeners=CONTROLLER://:1",
            (
                "no listeners for clients in listeners (from -o): "
                "expected one, for example PLAINTEXT://127.0.0.1:9092."
            ),
        ),
        (
            "advertised.listeners=SSL://localhost:9092",
            (
                "SSL in advertised.listeners (from -o) is not a listener: "
                "the listeners are PLAINTEXT."
            ),
        ),
        (
            "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
            (
                "no host that clients can connect to in advertised.listeners (from -o): "
                "expected one, for example PLAINTEXT://127.0.0.1:9092."
            ),
        ),
    ],
)
def test_an_invalid_setting_is_rejected_in_one_line(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig.load(overrides=[override])
    assert str(raised.value) == message


def test_a_missing_file_is_reported_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties: No such file or directory"):
        BrokerConfig.load(tmp_path / "none.properties")


def test_without_durability_there_is_no_data_folder() -> None:
    assert BrokerConfig({"kohort.durability": "none", "log.dirs": "/data"}).data_dir is None


def test_broker_id_is_used_if_node_id_is_not_set() -> None:
    for values, node_id in (
        ({}, 1),
        ({"broker.id": "-1"}, 1),
        ({"broker.id": "5"}, 5),
        ({"node.id": "6"}, 6),
        ({"broker.id": "5", "node.id": "6"}, 6),
    ):
        config = BrokerConfig(values)
        assert config.node_id == node_id
        assert (config.int("node.id"), config.int("broker.id")) == (node_id, node_id)
    other = BrokerConfig({"broker.id": "5"}).of_node(7)
    assert (other.int("node.id"), other.int("broker.id")) == (7, 7)


@pytest.mark.parametrize(
    ("key", "text", "condition"),
    [
        ("log.roll.ms", "0", "greater than or equal to 1"),
        ("log.roll.jitter.ms", "-1", "greater than or equal to 0"),
        ("log.retention.ms", "0", "unlimited (-1) or, greater than or equal to 1"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "at least 1MB per cleaner thread."),
    ],
)
def test_kafkas_requirements_are_reported_in_its_words(key: str, text: str, condition: str) -> None:
    with pytest.raises(InvalidConfigValue) as raised:
        BROKER_KEYS[key].parse(text)
    assert str(raised.value) == f"requirement failed: {key} must be {condition}"


@pytest.mark.parametrize(
    ("name", "relation", "other", "values"),
    [
        ("max.session.timeout.ms", "greater than or equal to", "min.session.timeout.ms", (9, 10)),
        ("session.timeout.ms", "greater than or equal to", "min.session.timeout.ms", (9, 10)),
        ("session.timeout.ms", "less than or equal to", "max.session.timeout.ms", (60001, 60000)),
        ("heartbeat.interval.ms", "less than or equal to", "max.heartbeat.interval.ms", (20, 19)),
        ("assignment.interval.ms", "less than or equal to", "max.assignment.interval.ms", (8, 7)),
    ],
)
def test_a_value_outside_of_the_bounds_of_groups_is_reported_in_kafkas_words(
    name: str, relation: str, other: str, values: tuple[int, int]
) -> None:
    key, bound = f"group.consumer.{name}", f"group.consumer.{other}"
    relaxed = {"group.consumer.min.heartbeat.interval.ms": "1"}
    with pytest.raises(ConfigError) as raised:
        BrokerConfig({**relaxed, key: str(values[0]), bound: str(values[1])})
    assert str(raised.value) == (
        f"{key} must be {relation} {bound}: "
        f"they are {values[0]} (from code) and {values[1]} (from code)."
    )


def test_every_server_side_assignor_can_be_configured() -> None:
    config = BrokerConfig({"group.consumer.assignors": ",".join(SERVER_ASSIGNORS)})
    assert config.list("group.consumer.assignors") == tuple(SERVER_ASSIGNORS)


def test_the_heartbeat_interval_must_be_below_the_session_timeout() -> None:
    values = {f"group.consumer.{bound}session.timeout.ms": "5000" for bound in ("min.", "")}
    with pytest.raises(ConfigError, match=r"heartbeat\.interval\.ms must be less than group\."):
        BrokerConfig(values)
    values |= {"group.consumer.session.timeout.ms": "5001"}
    assert BrokerConfig(values).int("group.consumer.session.timeout.ms") == 5001


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            "group.consumer.assignors",
            "uniform,org.example.Fair",
            (
                "Invalid value org.example.Fair for configuration group.consumer.assignors: "
                "String must be one of: uniform, range (from code)."
            ),
        ),
        (
            "group.consumer.assignors",
            "",
            (
                "Configuration 'group.consumer.assignors' must not be empty. "
                "Valid values include: [uniform, range] (from code)."
            ),
        ),
        (
            "group.coordinator.rebalance.protocols",
            "Classic",
            (
                "Invalid value Classic for configuration group.coordinator.rebalance.protocols: "
                "String must be one of: consumer, classic, share, streams (from code)."
            ),
        ),
        (
            "group.consumer.migration.policy",
            "x",
            (
                "Invalid value x for configuration group.consumer.migration.policy: String must be "
                "one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL "
                "(from code)."
            ),
        ),
    ],
)
def test_invalid_names_in_keys_of_consumer_groups_are_rejected(
    key: str, text: str, message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig({key: text})
    assert str(raised.value) == message


def test_a_migration_policy_is_accepted_in_upper_and_lower_case() -> None:
    key = "group.consumer.migration.policy"
    assert BrokerConfig({key: "Upgrade"}).str(key) == "Upgrade"


@given(st.sampled_from(sorted(BROKER_KEYS)), st.text(max_size=20))
def test_any_text_is_either_accepted_or_rejected_with_a_message(key: str, text: str) -> None:
    try:
        BrokerConfig({key: text})
    except ConfigError as error:
        assert str(error).endswith(".")  # noqa: PT017 (both outcomes are right)


def test_a_listener_has_its_own_values_and_otherwise_those_for_all() -> None:
    config = BrokerConfig(
        {
            "listeners": "SSL://:1,Client://:2",
            "listener.security.protocol.map": "SSL:SSL,CLIENT:SSL",
            "ssl.client.auth": "requested",
            "listener.name.CLIENT.ssl.client.auth": "required",
            "listener.name.client.ssl.key.password": " of the key ",
        }
    )
    other, client = map(config.for_listener, config.listeners)
    assert [each.str("ssl.client.auth") for each in (other, client)] == ["requested", "required"]
    assert [each.str("ssl.key.password") for each in (other, client)] == ["", "of the key"]
    assert client.text("ssl.key.password") == "[hidden]"
    with pytest.raises(
        ConfigError, match=r"Invalid value x for configuration listener\.name\.ssl\."
    ):
        config.changed("listener.name.ssl.ssl.client.auth", "x", "-o")


@pytest.mark.parametrize(
    "listeners", ["SSL://:3,PLAINTEXT://:1", "SSL://10.0.0.1:3,PLAINTEXT://:1"]
)
def test_the_ports_of_several_nodes_must_not_overlap(listeners: str) -> None:
    with pytest.raises(ConfigError, match=r"have the same port 3 \(of different nodes\) in"):
        BrokerConfig({"kohort.nodes": "3", "listeners": listeners})


@pytest.mark.parametrize(
    "listeners",
    ["SSL://:1,PLAINTEXT://:4,SASL_SSL://:0", "SSL://10.0.0.1:3,PLAINTEXT://10.0.0.2:1"],
)
def test_several_nodes_may_listen_on_other_ports_or_hosts(listeners: str) -> None:
    config = BrokerConfig({"kohort.nodes": "3", "listeners": listeners})
    assert len(config.listeners) == len(listeners.split(","))


@pytest.mark.parametrize("port", [1, 3])
def test_advertised_ports_may_overlap_because_nothing_listens_on_them(port: int) -> None:
    config = BrokerConfig(
        {
            "kohort.nodes": "3",
            "listeners": "SSL://:1,PLAINTEXT://:4",
            "advertised.listeners": f"SSL://a:1,PLAINTEXT://b:{port}",
        }
    )
    assert [each.port for each in config.advertised_listeners] == [1, port]


def test_a_key_that_clients_can_change_cannot_be_read_as_it_was_at_startup() -> None:
    config = BrokerConfig({"producer.id.expiration.ms": "5000"})
    assert config["producer.id.expiration.ms"] == 5000
    with pytest.raises(AssertionError, match="is dynamic: read it with the node's Configs"):
        config.int("producer.id.expiration.ms")
