"""Removing a log's oldest segments, or its folder, so that no crash leaves half a log behind."""

from __future__ import annotations

from pathlib import Path

from .files import Files
from .segment import Segment

# How ours are named: they are gone before the next deletion, so one id serves all.
_DOOMED = f".{0:032x}-delete"

# What a file's name may have (upstream: UnifiedLog.logDirNameWithSuffixCappedLength).
NAME_BYTES_MAX = 255


def delete_below(segments: list[Segment], offset: int, files: Files) -> None:
    """Removes, oldest first, the segments that hold nothing at `offset` or above. A crash that
    brings one back does no harm: it is below what `offset` was noted as, and goes at the start."""
    while segments and segments[0].base_offset < offset >= segments[0].end_offset:
        segments[0].close()
        files.remove(segments[0].path)
        del segments[0]


def aside(folder: Path, number: int, suffix: str) -> Path:
    """Kafka names folders that leave their place topic-partition.id-suffix, and refuses to start
    on one that does not look so. The topic's name is cut where that is too long."""
    topic, _, index = folder.name.rpartition("-")
    ending = f"-{index}.{number:032x}-{suffix}"
    return folder.with_name(topic[: NAME_BYTES_MAX - len(ending)] + ending)


def delete_folder(folder: Path, files: Files) -> None:
    """Renames, makes that durable, then removes all that is in it. Nothing to do is fine."""
    if not files.exists(folder):
        return
    doomed = aside(folder, 0, "delete")
    if files.exists(doomed):
        files.remove_folder(doomed)
    files.rename(folder, doomed)
    files.sync_folder(folder.parent)
    files.remove_folder(doomed)


def finish_deletions(data_folder: Path, files: Files) -> None:
    """Removes the folders whose deletion a crash interrupted. For the start of a broker. What a
    Kafka was about to remove is left to it."""
    for name in files.list(data_folder):
        if name.endswith(_DOOMED):
            files.remove_folder(data_folder / name)
