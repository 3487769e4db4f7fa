"""What a path names: one segment, a partition's folder, or a data folder with many of those.

Whatever else it is gets a sentence that says so, before anything is read from it.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from os.path import normpath
from pathlib import Path
from typing import Final, NamedTuple

from ...log.segment_swap import list_segments
from ...topics.names import OFFSETS_TOPIC, REGISTRY_TOPIC
from ..errors import UserError

__all__ = ["Source", "size_of", "sources"]

# A segment, or one that was put aside: by a compaction, a deletion, a recovery, a repair.
SEGMENT: Final = re.compile(
    r"(\d{20})\.log(?:\.(?:cleaned|swap|deleted|(\d+)\.\d+\.cut))?", re.ASCII
)
PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)
# What Kafka keeps beside a segment, and what it is.
BESIDE: Final = {
    ".index": "the index of a segment",
    ".timeindex": "the index by time of a segment",
    ".txnindex": "the list of a segment's aborted transactions",
    ".snapshot": "the state of a partition's producers",
    ".checkpoint": "a snapshot of a controller's metadata",
}


class Source(NamedTuple):
    """A partition's log. `segment`: only this file of it."""

    folder: Path
    segment: Path | None = None

    @property
    def name(self) -> str:
        """As in Kafka's messages: `orders-0`."""
        return self.folder.name

    @property
    def is_offsets(self) -> bool:
        return self.topic == OFFSETS_TOPIC

    @property
    def is_registry(self) -> bool:
        return self.topic == REGISTRY_TOPIC

    @property
    def topic(self) -> str:
        match = PARTITION.fullmatch(self.name)
        return match[1] if match else self.name

    def segments(self) -> dict[int, Path]:
        """By base offset, in order. Raises OSError."""
        if self.segment is None:
            return list_segments(self.folder)
        match = SEGMENT.fullmatch(self.segment.name)
        assert match is not None
        return {int(match[1]): self.segment} if self.segment.exists() else {}


def sources(path: Path, *, topic: str | None = None, may_be_empty: bool = False) -> list[Source]:
    """The partitions at `path`, by name and number. `topic`: of a data folder only those; with
    `may_be_empty` a folder without any is fine.

    Raises UserError for whatever is no log, OSError.
    """
    path = Path(normpath(path.absolute()))  # `..` has no name
    if path.is_file():
        return [_of_file(path)]
    if not path.exists():
        raise UserError(f"{path} is not there: no such file or folder.")
    if not path.is_dir():
        raise UserError(f"{path} is neither a file nor a folder.")
    if list_segments(path):
        return [Source(path)]
    return _of_data_folder(path, topic, may_be_empty)


def size_of(found: Iterable[Source]) -> int:
    """Bytes of all segments. Segments that are deleted meanwhile count as 0."""
    size = 0
    for source in found:
        with suppress(FileNotFoundError):
            for path in source.segments().values():
                size += path.stat().st_size
    return size


def _of_file(path: Path) -> Source:
    if SEGMENT.fullmatch(path.name):
        return Source(path.parent, path)
    for suffix, what in BESIDE.items():
        if path.name.endswith(suffix):
            raise UserError(f"{path} is {what}: give the .log file beside it.")
    raise UserError(f"{path} is no segment of a log: the name of one is 20 digits and .log.")


def _of_data_folder(path: Path, topic: str | None, may_be_empty: bool) -> list[Source]:
    named = [Source(folder) for folder in path.iterdir() if PARTITION.fullmatch(folder.name)]
    # Only those are looked into that are asked for: there may be thousands.
    wanted = [each for each in named if topic in (None, each.topic) and _has_segments(each)]
    if may_be_empty or wanted:
        return sorted(wanted, key=_by_number)
    topics = sorted({source.topic for source in named if _has_segments(source)})
    if topics:
        raise UserError(
            f"{path} has no {topic}: nobody has committed anything. "
            f"There {_are(topics)}: name a partition's folder."
        )
    if not any(path.iterdir()):
        raise UserError(f"{path} is empty: no log is there.")
    raise UserError(f"{path} is no log: neither segments nor folders of partitions are in it.")


def _has_segments(source: Source) -> bool:
    return source.folder.is_dir() and bool(source.segments())


def _by_number(source: Source) -> tuple[str, int]:
    _, _, number = source.name.rpartition("-")
    return source.topic, int(number)


def _are(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:5]) + (", …" if len(topics) > 5 else "")
    return f"{'is' if len(topics) == 1 else 'are'} {shown}"
