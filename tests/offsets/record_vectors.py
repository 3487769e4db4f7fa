"""Record vectors/kafka.json from a Kafka on this machine whose data folder is readable.

    PYTHONPATH=tests python -m offsets.record_vectors HOST:PORT DATA_FOLDER FOLDER_WITH_JARS

It creates groups of every kind that has records in __consumer_offsets, copies their batches, and
has them decoded by Kafka's own DumpLogSegments. All names are made up here, so that nothing of the
machine gets into the file but times and random member ids.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_folder.group_requests import commit_with_retention
from kafka_folder.record import consumer
from kohort.log.batch import split
from kohort.log.records import records
from kohort.offsets.partitioner import partition_for

TOPIC = "vectors"
CLASSIC, STATIC, MODERN, PATTERN = "vectors-classic", "vectors-static", "vectors-848", "vectors-re"
PLAIN, TRANSACTED, DELETED, RETAINED = "vectors-plain", "vectors-txn", "vectors-gone", "vectors-v1"
GROUPS = (CLASSIC, STATIC, MODERN, PATTERN, PLAIN, TRANSACTED, DELETED, RETAINED)
TARGET = Path(__file__).parent / "vectors" / "kafka.json"


def make_groups(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(8):
        producer.produce(TOPIC, b"line", partition=number % 2)
    producer.flush()
    live(address, CLASSIC, [TOPIC])
    live(address, STATIC, [TOPIC], **{"group.instance.id": "recorder-1"})
    live(address, MODERN, [TOPIC], **{"group.protocol": "consumer"})
    live(address, PATTERN, ["^vectors.*"], **{"group.protocol": "consumer"})
    for group_id in (PLAIN, DELETED):
        alone = consumer(address, group_id)
        commits = [TopicPartition(TOPIC, 0, 3), TopicPartition(TOPIC, 1, 1, metadata="grüße")]
        alone.commit(offsets=commits, asynchronous=False)
        alone.close()
    transact(address, commit=True)
    transact(address, commit=False)
    commit_with_retention(address, RETAINED, TOPIC, 42)
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_consumer_groups([DELETED])[DELETED].result()


def live(address: str, group_id: str, topics: list[str], **more: Any) -> None:
    """A member joins, consumes everything, commits and leaves."""
    member = consumer(address, group_id, **more)
    member.subscribe(topics)
    seen = 0
    while seen < 8:
        message = member.poll(30)
        assert message is not None, group_id
        seen += message.error() is None
    member.commit(asynchronous=False)
    member.close()


def transact(address: str, *, commit: bool) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "vectors"})
    producer.init_transactions()
    producer.begin_transaction()
    alone = consumer(address, TRANSACTED)
    offset = TopicPartition(TOPIC, 0, 2 if commit else 4)
    producer.send_offsets_to_transaction([offset], alone.consumer_group_metadata())
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    alone.close()


def dumped(jars: str, segment: Path) -> dict[int, dict[str, Any]]:
    """What Kafka reads in a segment: offset -> key and payload, as its decoder prints them."""
    command = ["java", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
    options = ["--offsets-decoder", "--print-data-log", "--files", str(segment)]
    out = subprocess.run([*command, *options], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in out.splitlines():
        parts = re.match(r"\| offset: (\d+) .*? key: (.*) payload: (.*)$", line)
        if parts:
            key, payload = parts[2], parts[3]
            found[int(parts[1])] = {
                "key": json.loads(key) if key.startswith("{") else key,
                "payload": json.loads(payload) if payload.startswith("{") else payload,
            }
    return found


def copied(data_folder: Path, jars: str) -> list[dict[str, Any]]:
    vectors = []
    names = [len(group_id).to_bytes(2, "big") + group_id.encode() for group_id in GROUPS]
    for partition in sorted({partition_for(group_id, 50) for group_id in GROUPS}):
        source = data_folder / f"__consumer_offsets-{partition}" / f"{0:020}.log"
        with tempfile.TemporaryDirectory() as folder:
            segment = Path(folder) / source.name
            segment.write_bytes(source.read_bytes())
            meanings = dumped(jars, segment)
            buffer = segment.read_bytes()
        for position, header in split(buffer):
            batch = buffer[position : position + header.size]
            keys = [record.key or b"" for record in records(batch)]
            ours = all(key[2:].startswith(tuple(names)) for key in keys)
            if ours or header.is_control:
                said = [meanings.get(header.base_offset + place) for place in range(len(keys))]
                vectors.append({"partition": partition, "batch": batch.hex(), "kafka_reads": said})
    return vectors


def main(address: str, data_folder: str, jars: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result()
    try:
        make_groups(address)
    finally:
        admin.delete_topics([TOPIC])[TOPIC].result()
    version = next(Path(jars).glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")
    document = {
        "origin": f"Apache Kafka {version}, one node, recorded by tests/offsets/record_vectors.py",
        "batches": copied(Path(data_folder), jars),
    }
    TARGET.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(document['batches'])} batches in {TARGET}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
