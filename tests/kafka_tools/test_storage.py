"""kafka-delete-records and kafka-log-dirs."""

import json
from pathlib import Path

from ..clients.adapter import Message
from ..clients.consumers import numbered
from ..clients.kafka_python import KafkaPython
from .tools import Tools


def test_deleting_records_advances_the_log_start_offset(
    tools: Tools, client: KafkaPython, topic: str, tmp_path: Path
) -> None:
    client.produce(topic, numbered(10, partitions=4))
    partitions = [
        {"topic": topic, "partition": n, "offset": at} for n, at in ((0, 2), (1, -1), (2, 9))
    ]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": partitions, "version": 1}))
    deleted = tools.run("delete-records", "--offset-json-file", file)
    assert f"partition: {topic}-0\tlow_watermark: 2" in deleted.output
    assert f"partition: {topic}-1\tlow_watermark: 3" in deleted.output
    assert f"partition: {topic}-2\terror:" in deleted.output
    offsets = tools.run("offsets", "--topic", topic, "--time", "earliest")
    assert offsets.lines() == [f"{topic}:0:2", f"{topic}:1:3", f"{topic}:2:0", f"{topic}:3:0"]


def test_log_dirs_reports_the_sizes_of_partitions(
    tools: Tools, client: KafkaPython, topic: str
) -> None:
    client.produce(topic, [Message(b"x" * 1000, partition=1)])
    *_, description = tools.run("log-dirs", "--describe", "--topic-list", topic).lines()
    ((log_dir,),) = [broker["logDirs"] for broker in json.loads(description)["brokers"]]
    sizes = {each["partition"]: each["size"] for each in log_dir["partitions"]}
    assert log_dir["error"] is None
    assert sizes.keys() == {f"{topic}-{n}" for n in range(4)}
    assert sizes[f"{topic}-1"] > 1000
    assert sizes[f"{topic}-0"] == 0
