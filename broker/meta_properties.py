"""`meta.properties` of the data folder: whose data these are, in Kafka's form."""

import base64
import uuid
from pathlib import Path

from ..log.errors import LogError
from ..log.files import Files

FILE_NAME = "meta.properties"


class UnreadableMeta(LogError):
    """A `meta.properties` that does not say whose data these are."""


def new_cluster_id() -> str:
    """A random UUID in Kafka's form: 22 letters of unpadded base64url, the first of them no dash,
    which commands would take for an option (upstream: Uuid.randomUuid)."""
    while True:
        found = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found


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
