"""Names of topics by id, from data folders."""

import uuid
from pathlib import Path

import pytest
from kohort.log.batch import BatchBuilder
from kohort.log.files import DiskFiles
from kohort.pipeline.source.factory import open_source
from kohort.protocol.primitives import uuid_text
from kohort.topics.names import REGISTRY_TOPIC
from kohort.topics.registry_log import TopicDeletedRecord, TopicRecord, encode, open_registry


def test_a_data_folder_of_kafka_has_the_ids_of_its_topics(kafka_data: Path) -> None:
    names = open_source({"path": str(kafka_data)}).topic_ids()
    assert names["TX4Ap8DYTCGni2rCSqNcuQ"] == "orders"
    assert names["6e2oEIM6Ti2xn0pth7Wetg"] == "prices"


@pytest.fixture
def registry_folder(tmp_path: Path) -> Path:
    """Two topics of the same name; the first one is deleted. Then a write that was cut off."""
    batch = BatchBuilder()
    for number in (1, 2):
        batch.add(*encode(TopicRecord("orders", uuid.UUID(int=number), 3, {})), 0)
        if number == 1:
            batch.add(*encode(TopicDeletedRecord("orders")), 0)
    batch.add(b"a newer kind", b"{}", 0)
    folder = tmp_path / f"{REGISTRY_TOPIC}-0"
    log = open_registry(folder, DiskFiles())
    log.append(batch.finish(0))
    log.close()
    with log.segments[0].path.open("ab") as file:
        file.write(bytes(30))
    return tmp_path


def test_a_data_folder_of_kohort_has_the_ids_of_deleted_topics_too(registry_folder: Path) -> None:
    expected = {uuid_text(uuid.UUID(int=number).bytes): "orders" for number in (1, 2)}
    assert open_source({"path": str(registry_folder)}).topic_ids() == expected


def test_a_copy_of_some_partitions_has_no_ids(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-3").mkdir()
    assert open_source({"path": str(tmp_path)}).topic_ids() == {}
