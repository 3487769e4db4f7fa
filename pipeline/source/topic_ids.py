"""Topic names by topic id, from a data folder. Records of consumer groups (KIP-848) identify topics
by id."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from ...log.checkpoint import read_topic_id
from ...log.errors import LogError
from ...log.files import DISK
from ...log.records import records
from ...log.segment import read_batch, walk_batches
from ...log.segment_swap import list_live_segments
from ...protocol.primitives import uuid_text
from ...topics.names import REGISTRY_TOPIC
from ...topics.registry_log import TopicRecord, UndecodableRegistryRecord, decode


def topic_ids_of_folder(path: Path) -> dict[str, str]:
    """Return topic names by id as Kafka prints it, from Kafka's `partition.metadata` and from
    kohort's registry, which contains deleted topics until it is compacted. Raises OSError."""
    found = dict(_registered(path))
    for name in DISK.list(path):
        topic, _, index = name.rpartition("-")
        if topic and index.isascii() and index.isdigit():
            with suppress(FileNotFoundError):  # deleted in the meantime
                if (topic_id := read_topic_id(path / name, DISK)) is not None:
                    found[uuid_text(topic_id.bytes)] = topic
    return found


def _registered(path: Path) -> Iterator[tuple[str, str]]:
    try:
        segments = list_live_segments(path / f"{REGISTRY_TOPIC}-0")
    except FileNotFoundError:
        return
    for segment in segments.values():
        with (
            suppress(FileNotFoundError, LogError),  # replaced, or being written
            closing(DISK.open(segment, read_only=True)) as file,
        ):
            for batch in walk_batches(file, 0, file.size):
                for stored in records(read_batch(file, batch)):
                    with suppress(UndecodableRegistryRecord):  # written by a newer version
                        record = decode(stored.key, stored.value)
                        if isinstance(record, TopicRecord):
                            yield uuid_text(record.id.bytes), record.name
