"""`partition.metadata`, in which Kafka says of which topic a partition's folder is (KIP-516)."""

import base64
import logging
import uuid
from pathlib import Path
from typing import Final

from ..log.files import Files

__all__ = ["topic_id_in"]

FILE: Final = "partition.metadata"
_log = logging.getLogger("kohort.topics")


def topic_id_in(folder: Path, files: Files) -> uuid.UUID | None:
    """None: it has no such file, as of brokers before Kafka 2.8 and of kohort, or none that says.

    Raises OSError."""
    path = folder / FILE
    if not files.exists(path):
        return None
    try:
        lines = files.read_bytes(path).decode("ascii", errors="replace").splitlines()
        fields = dict(line.split(": ", 1) for line in lines)
        return uuid.UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"].strip() + "=="))
    except (KeyError, ValueError) as error:  # binascii.Error is a ValueError
        _log.warning("%s names no topic id: %r", path, error)
        return None
