"""`meta.properties`: the cluster id of the data folder, in Kafka's format."""

import base64
import uuid
from pathlib import Path

from ..log.errors import LogError
from ..log.files import Files

FILE_NAME = "meta.properties"


class UnreadableMeta(LogError):
    """The `meta.properties` has no valid cluster id."""


def new_cluster_id() -> str:
    """Return a random UUID in Kafka's form: unpadded base64url that does not begin with a dash,
    which command lines would parse as an option (upstream: Uuid.randomUuid)."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


def cluster_id_of(folder: Path, files: Files, node_id: int) -> str:
    """Return the cluster id of the data folder; a new folder gets a new id. For an existing folder
    without a valid id, raises UnreadableMeta: with another id, clients would see a different
    cluster."""
    path = folder / FILE_NAME
    if files.exists(path):
        return _parse(files.read_bytes(path))
    cluster_id = new_cluster_id()
    text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
    files.replace(path, text.encode())
    return cluster_id


def _parse(data: bytes) -> str:
    lines = data.decode(errors="replace").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    cluster_id = values.get("cluster.id", "").strip()
    if not cluster_id or not cluster_id.isascii():
        raise UnreadableMeta(f"{FILE_NAME} has no valid cluster.id")
    return cluster_id
