"""Records kafka-4.3.tar.gz anew: the data folder of a real Kafka, and what Kafka said of it.

    PYTHONPATH=tests python -m kafka_folder.record FOLDER_WITH_KAFKAS_JARS

A broker of its own is started once for each codec of the offsets topic, groups of every kind come
and go, transactions end well, are aborted and are left open. What every group has committed and
what kind it is, Kafka is asked last, after a restart; then it is stopped and its folder packed.
"""

import gzip
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kafka_process import KafkaFolder

from .asking import (
    commit_with_retention,
    delete_offsets,
    join_share_group,
    join_streams_group,
    said_of_groups,
    said_to_strangers,
)

TARGET = Path(__file__).parent / "kafka-4.3.tar.gz"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.max.timeout.ms": "900000",
    # Sessions outlive the recording, so that groups are found with their members.
    "group.share.session.timeout.ms": "60000",
    "group.share.max.session.timeout.ms": "60000",
    "group.share.heartbeat.interval.ms": "15000",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.max.session.timeout.ms": "60000",
    "auto.create.topics.enable": "false",
    # So that there is a snapshot of the metadata, and a log behind it.
    "metadata.log.max.snapshot.interval.ms": "5000",
}
TOPIC, COMPACTED, GONE = "orders", "prices", "cancelled"
GROUPS = (
    "classic", "classic-left", "classic-static", "plain", "deleted", "retained",
    "modern", "modern-left", "modern-pattern", "share", "streams",
    "txn-committed", "txn-aborted", "txn-aborted-after-plain", "txn-before-plain",
    "txn-after-plain", "txn-tombstone", "txn-both", "txn-open", "txn-open-after-plain",
    *(f"codec-{codec}" for codec in CODECS),
)  # fmt: skip
# Of a kind that only Kafka has, with members and without; and one that never was.
STRANGE = ("modern", "modern-left", "modern-pattern", "share", "streams", "never")
PRODUCED = 5  # records of each codec in each partition of TOPIC


def consumer(address: str, group_id: str, **more: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group_id,
            "client.id": "recorder",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
    )


def commit(address: str, group_id: str, *offsets: int, metadata: str = "") -> None:
    """One offset for each partition of TOPIC, from 0 on, by nobody's member."""
    alone = consumer(address, group_id)
    wanted = [TopicPartition(TOPIC, n, at, metadata) for n, at in enumerate(offsets)]
    alone.commit(offsets=wanted, asynchronous=False)
    alone.close()


def produce(address: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 500})
    for number in range(PRODUCED * 2):
        producer.produce(TOPIC, f"{codec}-{number}".encode() * 20, b"key", partition=number % 2)
        producer.produce(COMPACTED, b"price", f"{codec}".encode())
    producer.flush()


def live(address: str, group_id: str, topics: list[str], **more: Any) -> Consumer:
    """A member that has joined, read something and committed it; it has not left."""
    member = consumer(address, group_id, **more)
    member.subscribe(topics)
    message = member.poll(30)
    assert message is not None
    assert message.error() is None, message.error()
    member.commit(asynchronous=False)
    return member


class Transaction:
    """An open one that commits `offset` of the first partition of TOPIC for the group."""

    def __init__(self, address: str, name: str, group_id: str, offset: int, partition: int = 0):
        self.producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": name,
                "transaction.timeout.ms": 900_000,
            }
        )
        self.producer.init_transactions()
        self.producer.begin_transaction()
        self.send(address, group_id, offset, partition)

    def send(self, address: str, group_id: str, offset: int, partition: int = 0) -> None:
        alone = consumer(address, group_id)
        at = TopicPartition(TOPIC, partition, offset)
        self.producer.send_offsets_to_transaction([at], alone.consumer_group_metadata())
        self.producer.produce(TOPIC, f"{group_id}-{offset}", partition=2)
        self.producer.flush()
        alone.close()


def transact(address: str) -> list[Transaction]:
    """Returns the open ones: they stay open as long as somebody holds them."""
    Transaction(address, "t1", "txn-committed", 2).producer.commit_transaction()
    Transaction(address, "t1", "txn-aborted", 3).producer.abort_transaction()
    commit(address, "txn-aborted-after-plain", 1)
    Transaction(address, "t1", "txn-aborted-after-plain", 4).producer.abort_transaction()
    before = Transaction(address, "t2", "txn-before-plain", 9)
    commit(address, "txn-before-plain", 5)
    before.producer.commit_transaction()
    commit(address, "txn-after-plain", 5)
    Transaction(address, "t2", "txn-after-plain", 3).producer.commit_transaction()
    gone = Transaction(address, "t2", "txn-tombstone", 7)
    commit(address, "txn-tombstone", 6, 6)
    delete_offsets(address, "txn-tombstone", TOPIC, 0)
    gone.producer.commit_transaction()
    first, second = (Transaction(address, f"t{n}", "txn-both", n) for n in (4, 5))
    second.producer.commit_transaction()
    first.producer.commit_transaction()
    commit(address, "txn-open-after-plain", 3, 4)
    return [
        Transaction(address, "open1", "txn-open", 2),
        Transaction(address, "open2", "txn-open-after-plain", 5),
    ]


def make_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics(
        [
            NewTopic(TOPIC, 3, 1, config={"retention.ms": "86400000", "segment.bytes": "1048576"}),
            NewTopic(COMPACTED, 1, 1, config={"cleanup.policy": "compact"}),
            NewTopic(GONE, 2, 1),
        ]
    )
    for each in made.values():
        each.result()
    orders = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    for key, value, what in (
        ("max.message.bytes", "2000000", AlterConfigOpType.SET),
        ("retention.ms", None, AlterConfigOpType.DELETE),
    ):
        entry = ConfigEntry(key, value, incremental_operation=what)
        orders = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
        for each in admin.incremental_alter_configs([orders]).values():
            each.result()
    admin.delete_topics([GONE])[GONE].result()


def make_groups(address: str) -> list[object]:
    """Of every kind; returns who must not go before the broker does."""
    live(address, "classic-left", [TOPIC]).close()
    live(address, "modern-left", [TOPIC], **{"group.protocol": "consumer"}).close()
    live(address, "modern-pattern", ["^pri.*"], **{"group.protocol": "consumer"}).close()
    commit(address, "plain", 3, 1, metadata="grüße")
    commit(address, "deleted", 3)
    commit_with_retention(address, "retained", TOPIC, 42)
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_consumer_groups(["deleted"])["deleted"].result()
    join_share_group(address, "share", TOPIC)
    join_streams_group(address, "streams", TOPIC)
    members = [
        live(address, "classic", [TOPIC]),
        live(address, "classic-static", [TOPIC], **{"group.instance.id": "recorder-1"}),
        live(address, "modern", [TOPIC], **{"group.protocol": "consumer"}),
    ]
    return [*members, *transact(address)]


def unpacked(data: Path) -> dict[str, bytes]:
    """All files but the lock."""
    paths = sorted(path for path in data.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(data.parent)): path.read_bytes() for path in paths}


def packed(files: Mapping[str, bytes], said: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    text = json.dumps(said, indent=1, ensure_ascii=False).encode()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in {**files, "said.json": text}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def main(jars: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        kafka = KafkaFolder(Path(jars), Path(scratch), SETTINGS)
        kafka.format()
        for codec in CODECS:
            number = str(CODECS.index(codec))
            with kafka.running({"offsets.topic.compression.codec": number}) as address:
                if codec == "none":
                    make_topics(address)
                produce(address, codec)
                commit(address, f"codec-{codec}", *([CODECS.index(codec)] * 3))
                if codec == "zstd":
                    held = make_groups(address)
        # With no member left alive: a copy of a folder has none either.
        with kafka.running({}) as address:
            said = said_of_groups(address, GROUPS)
        files = unpacked(kafka.data)
        with kafka.running() as address:
            said["to strangers"] = {
                group: said_to_strangers(address, group, TOPIC) for group in STRANGE
            }
        assert held
        TARGET.write_bytes(packed(files, said))
    sys.stdout.write(f"{TARGET}: {TARGET.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
