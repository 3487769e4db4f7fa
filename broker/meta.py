"""Whose data a folder has: ours, and by `meta.properties`, in Kafka's form, which cluster's."""

import base64
import re
import uuid
from pathlib import Path

from ..log.errors import LogError
from ..log.files import Files
from ..topics.names import REGISTRY_TOPIC

FILE_NAME = "meta.properties"
REGISTRY = f"{REGISTRY_TOPIC}-0"
PARTITION = re.compile(r".+-\d+")


class UnreadableMeta(LogError):
    """A `meta.properties` that does not say whose data these are."""


class ForeignData(LogError):
    """Partitions of another broker."""


def check_ours(folder: Path, files: Files) -> None:
    """Raises ForeignData for partitions that no registry of ours lists, as in a folder of Kafka's:
    to us they would be left over from topics that were deleted, and be removed. (The registry is
    written before the partitions that it lists.)"""
    names = files.list(folder)
    partitions = [name for name in names if PARTITION.fullmatch(name)]
    if partitions and REGISTRY not in names:
        raise ForeignData(f"it holds {partitions[0]} and no {REGISTRY}, so kohort did not make it")


def new_cluster_id() -> str:
    """A random UUID in Kafka's form: 22 letters of unpadded base64url (upstream: Uuid.toString)."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def cluster_id_of(folder: Path, files: Files, node_id: int) -> str:
    """The cluster id that the folder was made with; a new one is written into a new folder.

    Raises UnreadableMeta: clients that know a cluster by its id must not find another one here.
    """
    path = folder / FILE_NAME
    if files.exists(path):
        return _told_by(files.read_bytes(path))
    cluster_id = new_cluster_id()
    text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
    files.replace(path, text.encode())
    return cluster_id


def _told_by(data: bytes) -> str:
    lines = data.decode(errors="replace").splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    cluster_id = pairs.get("cluster.id", "").strip()
    if not cluster_id or not cluster_id.isascii():
        raise UnreadableMeta(f"{FILE_NAME} names no cluster.id")
    return cluster_id
