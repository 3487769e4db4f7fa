"""After a crash at any file operation of the import, the next start imports the same topics."""

import random
import uuid
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from kohort.broker.config.broker_config import BrokerConfig
from kohort.log.log import Log
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.configs.effective import Configs
from kohort.topics.kafka_import import KafkaMetadata, import_kafka_folder
from kohort.topics.names import REGISTRY_TOPIC
from kohort.topics.registry_log import RegistryRecord, read_registry

FOLDER = Path("/data")
NOW_MS = 1_700_000_000_000
READ_FOLDERS = ("__cluster_metadata-0", "__consumer_offsets-3", "orders-0")
REMOVED = {".kafka_cleanshutdown", "recovery-point-offset-checkpoint"}


def disk_with(data: Path) -> FaultyFiles:
    files = FaultyFiles()
    for path in sorted(data.rglob("*")):
        target = FOLDER / path.relative_to(data)
        if path.is_file() and (path.parent == data or path.parent.name in READ_FOLDERS):
            files.make_folder(target.parent)
            files.replace(target, path.read_bytes())
    for folder in sorted(files.folders):
        files.sync_folder(folder)
    files.crash()  # the files are durable before the import
    files.count = 0
    files.calls.clear()
    return files


def start(files: FaultyFiles) -> list[RegistryRecord]:
    """Import the folder and return the registry."""
    journal = Log.open(FOLDER / f"{REGISTRY_TOPIC}-0", files)
    configs = Configs(BrokerConfig({}), 1)
    import_kafka_folder(journal, FOLDER, files, configs, uuid.uuid4, NOW_MS)
    return list(read_registry(journal))


def test_interrupted_import_is_completed_by_the_next_start(kafka_data: Path) -> None:
    files = disk_with(kafka_data)
    before = {path: bytes(content) for path, content in files.contents.items()}
    registry = start(files)
    operations = len(files.operations)
    assert operations > 5
    for operation in range(operations):
        for seed in range(3):
            files = disk_with(kafka_data)
            files.crash_at = operation
            try:
                start(files)
            except Crashed:
                files.crash(random.Random(seed) if seed else None)
            assert start(files) == registry
            assert start(files) == registry  # the import is not repeated
            for path, content in before.items():
                assert path.name in REMOVED or files.contents[path] == content


@given(st.binary(max_size=80), st.integers(0, 28))
def test_malformed_metadata_records_raise_only_expected_exceptions(
    fields: bytes, kind: int
) -> None:
    """read_metadata handles these exceptions."""
    metadata = KafkaMetadata()
    try:
        metadata.apply(b"\x01" + bytes([kind]) + b"\x00" + fields)
    except (IndexError, KeyError, ValueError):
        assert not metadata.topics
    except Exception as error:
        raise AssertionError(f"unexpected {error!r}") from error
