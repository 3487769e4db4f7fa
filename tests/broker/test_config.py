"""Settings: who wins, what is refused with which sentence, what is only warned of."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.broker.config.broker_config import BrokerConfig, ConfigError
from kohort.broker.config.keys import BROKER_KEYS
from kohort.broker.config.sources import key_of
from kohort.topics.config_def import ConfigSource, InvalidConfigValue

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


def test_defaults_are_kafkas_but_for_what_the_docs_say() -> None:
    config = BrokerConfig()
    assert config.int("group.initial.rebalance.delay.ms") == 3000
    assert config.int("offsets.topic.num.partitions") == 50
    assert config.bool("auto.create.topics.enable") is True
    assert config.list("log.cleanup.policy") == ("delete",)
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    assert config["log.retention.ms"] is None
    assert config.str("broker.rack") == ""
    assert config.listener == config.advertised_listener == ("PLAINTEXT", "127.0.0.1", 9092)
    assert (config.durability, config.data_dir) == ("fsync", Path("kohort-data"))
    assert config.source("num.partitions") is ConfigSource.DEFAULT


def test_an_override_beats_the_environment_beats_the_file_beats_the_default(file: Path) -> None:
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


def test_kafkas_own_properties_file_is_taken_as_it_is(file: Path) -> None:
    file.write_text(STOCK)
    config = BrokerConfig.load(file)
    assert config.listener == ("PLAINTEXT", "", 9092)
    assert config.advertised_listener == ("PLAINTEXT", "localhost", 9092)
    (warning,) = config.warnings()
    assert warning.startswith("Taken without effect, kohort has no such part: ")
    assert "process.roles" in warning
    assert "num.partitions" not in warning


def test_a_properties_file_is_read_by_javas_rules(file: Path) -> None:
    file.write_text(
        "! a comment\n  # another\n\nnum.partitions : 6\nnode.id 9\n"
        "log.cleanup.policy = compact,\\\n    delete\nbroker.rack=caf\\u00e9\\=1\n"
    )
    config = BrokerConfig.load(file)
    assert config.int("num.partitions") == 6
    assert config.int("node.id") == 9
    assert config.list("log.cleanup.policy") == ("compact", "delete")
    assert config.str("broker.rack") == "café=1"


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\ucafX"])
def test_an_escape_that_java_refuses_is_refused_with_its_line(file: Path, escape: str) -> None:
    file.write_text(f"broker.rack={escape}\n")
    with pytest.raises(ConfigError, match=r"malformed \\u escape in 'broker\.rack="):
        BrokerConfig.load(file)


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group.initial.rebalance.delay.ms"),
        ("KAFKA_KOHORT_DURABILITY", "kohort.durability"),
        ("KAFKA_A__B___C_D", "a_b-c.d"),
    ],
)
def test_variables_name_keys_as_in_kafkas_images(variable: str, key: str) -> None:
    assert key_of(variable) == key


def test_variables_of_start_scripts_are_no_settings() -> None:
    env = {"KAFKA_OPTS": "-Xmx1g", "KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKA_JMX_PORT": "9", "PATH": "/"}
    assert list(BrokerConfig.load(env=env).warnings()) == []


def test_a_likely_misspelling_is_answered_with_the_key_that_was_meant() -> None:
    (warning,) = BrokerConfig.load(overrides=["group.initial.rebalance.delay=0"]).warnings()
    assert warning.endswith("did you mean group.initial.rebalance.delay.ms?")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("num.partitions", "-o num.partitions: write it as key=value, as in -o num.partitions=6."),
        (
            "num.partitions=0",
            "Invalid value 0 for configuration num.partitions: Value must be at least 1 (from -o).",
        ),
        (
            "node.id=one",
            "Invalid value one for configuration node.id: Not a number of type INT (from -o).",
        ),
        (
            "kohort.durable=os",
            (
                "kohort.durable (from -o) is unknown; "
                "there is: kohort.durability, kohort.events, kohort.events.files, "
                "kohort.cache.offsets, kohort.offsets.mirror, kohort.nodes, kohort.profile, "
                "kohort.request.cache."
            ),
        ),
        (
            "log.dirs=/a,/b",
            ("log.dirs (from -o) names 2 folders, and kohort keeps everything in one: name one."),
        ),
        (
            "log.dir=/a,/b",
            "log.dir (from -o) names 2 folders, and kohort keeps everything in one: name one.",
        ),
        (
            "group.min.session.timeout.ms=2000000",
            (
                "group.min.session.timeout.ms is 2000000 and "
                "group.max.session.timeout.ms is 1800000: "
                "the first must not be above the second."
            ),
        ),
        (
            "listeners=localhost:9092",
            "listeners: 'localhost:9092' is no listener: write it as PLAINTEXT://127.0.0.1:9092.",
        ),
        (
            "listeners=SASL_SSL://:9092",
            (
                "listeners: SASL_SSL stands for SASL_SSL, and kohort speaks only PLAINTEXT: use "
                "PLAINTEXT://127.0.0.1:9092, or map the name in listener.security.protocol.map."
            ),
        ),
        (
            "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
            (
                "advertised.listeners names no host that a client could connect to: write one, "
                "as in PLAINTEXT://127.0.0.1:9092."
            ),
        ),
    ],
)
def test_a_setting_that_cannot_be_is_refused_in_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(overrides=[override])
    assert str(refused.value) == sentence


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(No such file or directory\)"):
        BrokerConfig.load(tmp_path / "none.properties")


def test_in_memory_there_is_no_data_folder() -> None:
    assert BrokerConfig({"kohort.durability": "none", "log.dirs": "/data"}).data_dir is None


def test_an_older_broker_id_counts_where_no_node_id_is_given() -> None:
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
    ("key", "text", "complaint"),
    [
        ("log.roll.ms", "0", "greater than or equal to 1"),
        ("log.roll.jitter.ms", "-1", "greater than or equal to 0"),
        ("log.retention.ms", "0", "unlimited (-1) or, greater than or equal to 1"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "at least 1MB per cleaner thread."),
    ],
)
def test_what_kafka_requires_of_single_keys_is_told_in_its_words(
    key: str, text: str, complaint: str
) -> None:
    with pytest.raises(InvalidConfigValue) as refused:
        BROKER_KEYS[key].parse(text)
    assert str(refused.value) == f"requirement failed: {key} must be {complaint}"


@given(st.sampled_from(sorted(BROKER_KEYS)), st.text(max_size=20))
def test_any_text_is_either_taken_or_refused_with_a_sentence(key: str, text: str) -> None:
    try:
        BrokerConfig({key: text})
    except ConfigError as error:
        assert str(error).endswith(".")  # noqa: PT017 (either way is right)
