"""Topics, configurations and producer ids from Kafka's metadata snapshot and log."""

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from kohort.log.files import DiskFiles
from kohort.topics.kafka_metadata import KafkaMetadata, read_metadata

from .group_requests import call, group_state
from .test_import import configs_of, serving


def contents(metadata: KafkaMetadata | None) -> Any:
    assert metadata is not None
    topics = {
        name: (topic.id, topic.partitions, topic.configs) for name, topic in metadata.topics.items()
    }
    return topics, metadata.producer_ids_end


def test_snapshot_has_the_same_contents_as_the_log_before_it(kafka_data: Path) -> None:
    folder = kafka_data / "__cluster_metadata-0"
    with_snapshot = contents(read_metadata(kafka_data, DiskFiles()))
    topics, producer_ids_end = with_snapshot
    assert set(topics) == {
        "__consumer_offsets",
        "__share_group_state",
        "__transaction_state",
        "orders",
        "prices",
    }
    assert topics["orders"][1:] == (3, {"segment.bytes": "1048576", "max.message.bytes": "2000000"})
    assert topics["prices"][1:] == (1, {"cleanup.policy": "compact"})
    assert producer_ids_end > 0
    snapshots = sorted(folder.glob("*.checkpoint"))
    assert len(snapshots) > 1
    for snapshot in snapshots[::-1]:
        snapshot.unlink()
        assert contents(read_metadata(kafka_data, DiskFiles())) == with_snapshot


@pytest.mark.parametrize(
    ("record", "skipped"),
    [
        (b"\x01\x0a\x00", {"delegation tokens"}),
        (b"\x01\x04\x00\x04\x01\x0cnum.threads\x024\x00", {"configurations of brokers"}),
        (b"\x01\x04\x00\x04\x01\x14min.insync.replicas\x021\x00", set()),
    ],
)
def test_record_types_that_are_not_imported_are_reported(record: bytes, skipped: set[str]) -> None:
    metadata = KafkaMetadata()
    metadata.apply(record)
    assert metadata.skipped == skipped


def test_deleted_topics_and_their_configurations_are_not_read() -> None:
    metadata, id_ = KafkaMetadata(), b"sixteen bytes id"
    for record in (
        b"\x01\x02\x00\x02t" + id_ + b"\x00",
        b"\x01\x04\x00\x02\x02t\x02k\x02v\x00",
        b"\x01\x09\x00" + id_ + b"\x00",
        b"\x01\x02\x00\x02t" + id_[::-1] + b"\x00",
    ):
        metadata.apply(record)
    assert metadata.topics["t"].id.bytes == id_[::-1]
    assert metadata.topics["t"].configs == {}


def test_folder_without_metadata_has_none(tmp_path: Path) -> None:
    assert read_metadata(tmp_path, DiskFiles()) is None


@pytest.mark.parametrize("damage", ["no folder", "the snapshot", "its records"])
def test_without_valid_metadata_only_the_configurations_are_lost(
    kafka_data: Path, kafka_responses: dict[str, Any], caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    folder = kafka_data / "__cluster_metadata-0"
    snapshot = max(folder.glob("*.checkpoint"))
    content = snapshot.read_bytes()
    snapshot.write_bytes(content[:100] if damage == "the snapshot" else content[:-9] + bytes(9))
    if damage == "no folder":
        shutil.rmtree(folder)
    with caplog.at_level(logging.WARNING, logger="kohort"), serving(kafka_data) as address:
        plain = group_state(address, ["plain"])["committed"]["plain"]
        topics = call(address, "Metadata", 12, {"topics": None})["topics"]
        # Without a known retention no records are deleted.
        assert configs_of(address, "orders") == {"retention.ms": "-1", "retention.bytes": "-1"}
        assert configs_of(address, "__consumer_offsets")["cleanup.policy"] == "compact"
    assert plain == kafka_responses["committed"]["plain"]
    assert {topic["name"] for topic in topics} >= {"orders", "prices"}
    assert "Configurations, users, ACLs and quotas are not imported" in caplog.text
    assert "__share_group_state is not imported" in caplog.text
