"""kafka-topics, kafka-configs, kafka-get-offsets and the performance tools."""

import uuid

from ..clients.adapter import Admin
from ..clients.kafka_python import KafkaPython
from ..clients.stories import numbered
from .tools import Tools


def test_a_topic_is_created_described_altered_and_deleted(tools: Tools) -> None:
    name = f"tools-{uuid.uuid4().hex[:8]}"
    named = ("--topic", name)
    wanted = ("--partitions", 2, "--replication-factor", 1, "--config", "retention.ms=60000")
    assert tools.run("topics", "--create", *named, *wanted).lines() == [f"Created topic {name}."]
    again = tools.run("topics", "--create", *named, *wanted)
    assert again.status == 1
    assert f"Topic '{name}' already exists." in again.said

    summary, *partitions = tools.run("topics", "--describe", *named).lines()
    assert "PartitionCount: 2\tReplicationFactor: 1\tConfigs: " in summary
    assert "retention.ms=60000" in summary
    assert [line.split("\t")[2] for line in partitions] == ["Partition: 0", "Partition: 1"]
    assert all("\tReplicas: 1\tIsr: 1" in line for line in partitions)

    assert tools.run("topics", "--alter", *named, "--partitions", 3).status == 0
    fewer = tools.run("topics", "--alter", *named, "--partitions", 1)
    assert fewer.status == 1
    assert "The topic " in fewer.said
    assert "PartitionCount: 3" in tools.run("topics", "--describe", *named).said

    assert tools.run("topics", "--delete", *named).status == 0
    gone = tools.run("topics", "--describe", *named)
    assert gone.status == 1
    assert f"Topic '{name}' does not exist as expected" in gone.said


def test_a_topics_configuration_is_altered_and_described(tools: Tools, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    added = tools.run("configs", "--alter", *entity, "--add-config", "retention.ms=1234567")
    assert added.lines() == [f"Completed updating config for topic {topic}."]
    _, told = tools.run("configs", "--describe", *entity).lines()
    assert told.strip().startswith("retention.ms=1234567 sensitive=false synonyms={DYNAMIC_TOPIC")
    tools.run("configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert tools.run("configs", "--describe", *entity).lines() == [
        f"Dynamic configs for topic {topic} are:"
    ]
    bad = tools.run("configs", "--alter", *entity, "--add-config", "retention.ms=soon")
    assert bad.status == 1
    assert "Invalid value soon for configuration retention.ms" in bad.said


def test_the_ends_of_a_topics_partitions_are_told(
    tools: Tools, client: KafkaPython, topic: str
) -> None:
    client.produce(topic, numbered(10, partitions=4))
    told = tools.run("offsets", "--topic", topic)
    assert told.lines() == [f"{topic}:0:3", f"{topic}:1:3", f"{topic}:2:2", f"{topic}:3:2"]
    told = tools.run("offsets", "--topic", topic, "--time", "earliest")
    assert told.lines() == [f"{topic}:{partition}:0" for partition in range(4)]


def test_the_performance_tools_write_and_read_a_thousand_records(
    tools: Tools, admin: Admin, topic: str, group: str
) -> None:
    wrote = tools.run(
        "producer-performance",
        *("--topic", topic, "--num-records", 1_000, "--record-size", 100, "--throughput", -1),
    )
    assert wrote.lines()[-1].startswith("1000 records sent, ")
    read = tools.run(
        "consumer-performance",
        *("--topic", topic, "--num-records", 1_000, "--group", group, "--timeout", 20_000),
    )
    titles, figures = (line.split(", ") for line in read.lines()[-2:])
    assert dict(zip(titles, figures, strict=True))["data.consumed.in.nMsg"] == "1000"
    assert sum(c.offset for c in admin.group_offsets(group).values()) == 1_000
