"""kafka-delete-records, kafka-log-dirs and kafka-transactions: what is stored, and by whom."""

import json
from pathlib import Path

from ..clients.adapter import Message
from ..clients.kafka_python import KafkaPython
from ..clients.stories import numbered
from .tools import Tools


def test_records_are_deleted_and_the_partition_begins_after_them(
    tools: Tools, client: KafkaPython, topic: str, tmp_path: Path
) -> None:
    client.produce(topic, numbered(10, partitions=4))
    wanted = [{"topic": topic, "partition": n, "offset": at} for n, at in ((0, 2), (1, -1), (2, 9))]
    file = tmp_path / "wanted.json"
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    done = tools.run("delete-records", "--offset-json-file", file)
    assert f"partition: {topic}-0\tlow_watermark: 2" in done.said
    assert f"partition: {topic}-1\tlow_watermark: 3" in done.said
    assert f"partition: {topic}-2\terror:" in done.said
    told = tools.run("offsets", "--topic", topic, "--time", "earliest")
    assert told.lines() == [f"{topic}:0:2", f"{topic}:1:3", f"{topic}:2:0", f"{topic}:3:0"]


def test_the_sizes_of_partitions_are_told(tools: Tools, client: KafkaPython, topic: str) -> None:
    client.produce(topic, [Message(b"x" * 1000, partition=1)])
    *_, said = tools.run("log-dirs", "--describe", "--topic-list", topic).lines()
    ((log_dir,),) = [broker["logDirs"] for broker in json.loads(said)["brokers"]]
    sizes = {each["partition"]: each["size"] for each in log_dir["partitions"]}
    assert log_dir["error"] is None
    assert sizes.keys() == {f"{topic}-{n}" for n in range(4)}
    assert sizes[f"{topic}-1"] > 1000
    assert sizes[f"{topic}-0"] == 0


def test_the_producers_of_a_partition_are_told(
    tools: Tools, client: KafkaPython, topic: str
) -> None:
    client.produce(topic, [Message(b"x", partition=0)] * 3, idempotent=True)
    asked = ("--topic", topic, "--partition", 0)
    told = tools.run("transactions", "describe-producers", *asked)
    titles, producer = (line.split() for line in told.lines())
    last_sequence = dict(zip(titles, producer, strict=True))["LastSequence"]
    assert last_sequence == "2"


def test_a_transaction_that_nobody_began_is_neither_listed_nor_found(tools: Tools) -> None:
    titles, *others = tools.run("transactions", "list").lines()
    assert titles.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert not [line for line in others if line.startswith("never-begun")]
    found = tools.run("transactions", "describe", "--transactional-id", "never-begun")
    assert found.status == 1
    assert "`never-begun` failed because the ID could not be found" in found.said
