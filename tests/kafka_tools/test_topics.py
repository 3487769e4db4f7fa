"""kafka-topics, kafka-configs, kafka-get-offsets and the performance tools."""

import uuid

from ..clients.adapter import Admin
from ..clients.consumers import numbered
from ..clients.kafka_python import KafkaPython
from .tools import Tools


def test_topic_is_created_described_altered_and_deleted(tools: Tools) -> None:
    name = f"tools-{uuid.uuid4().hex[:8]}"
    topic = ("--topic", name)
    settings = ("--partitions", 2, "--replication-factor", 1, "--config", "retention.ms=60000")
    assert tools.run("topics", "--create", *topic, *settings).lines() == [f"Created topic {name}."]
    again = tools.run("topics", "--create", *topic, *settings)
    assert again.status == 1
    assert f"Topic '{name}' already exists." in again.output

    summary, *partitions = tools.run("topics", "--describe", *topic).lines()
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: " in summary
    assert "retention.ms=60000" in summary
    assert [line.split("\t")[2] for line in partitions] == ["Partition: 0", "Partition: 1"]
    assert all("\tReplicas: 1\tIsr: 1" in line for line in partitions)

    assert tools.run("topics", "--alter", *topic, "--partitions", 3).status == 0
    fewer = tools.run("topics", "--alter", *topic, "--partitions", 1)
    assert fewer.status == 1
    assert "The topic " in fewer.output
    assert "PartitionCount: 3" in tools.run("topics", "--describe", *topic).output

    assert tools.run("topics", "--delete", *topic).status == 0
    deleted = tools.run("topics", "--describe", *topic)
    assert deleted.status == 1
    assert f"Topic '{name}' does not exist as expected" in deleted.output


def test_topic_configuration_is_altered_and_described(tools: Tools, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    added = tools.run("configs", "--alter", *entity, "--add-config", "retention.ms=1234567")
    assert added.lines() == [f"Completed updating config for topic {topic}."]
    _, config = tools.run("configs", "--describe", *entity).lines()
    assert config.strip().startswith("retention.ms=1234567 sensitive=false synonyms={DYNAMIC_TOPIC")
    tools.run("configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert tools.run("configs", "--describe", *entity).lines() == [
        f"Dynamic configs for topic {topic} are:"
    ]
    invalid = tools.run("configs", "--alter", *entity, "--add-config", "retention.ms=soon")
    assert invalid.status == 1
    assert "Invalid value soon for configuration retention.ms" in invalid.output


def test_get_offsets_returns_end_and_start_offsets(
    tools: Tools, client: KafkaPython, topic: str
) -> None:
    client.produce(topic, numbered(10, partitions=4))
    offsets = tools.run("offsets", "--topic", topic)
    assert offsets.lines() == [f"{topic}:0:3", f"{topic}:1:3", f"{topic}:2:2", f"{topic}:3:2"]
    offsets = tools.run("offsets", "--topic", topic, "--time", "earliest")
    assert offsets.lines() == [f"{topic}:{partition}:0" for partition in range(4)]


def test_performance_tools_produce_and_consume_a_thousand_records(
    tools: Tools, admin: Admin, topic: str, group: str
) -> None:
    written = tools.run(
        "producer-performance",
        *("--topic", topic, "--num-records", 1_000, "--record-size", 100, "--throughput", -1),
    )
    assert written.lines()[-1].startswith("1000 records sent, ")
    read = tools.run(
        "consumer-performance",
        *("--topic", topic, "--num-records", 1_000, "--group", group, "--timeout", 20_000),
    )
    titles, figures = (line.split(", ") for line in read.lines()[-2:])
    assert dict(zip(titles, figures, strict=True))["data.consumed.in.nMsg"] == "1000"
    assert sum(c.offset for c in admin.group_offsets(group).values()) == 1_000
