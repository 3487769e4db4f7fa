"""Where partitions begin after their oldest records were deleted, and up to where they were
compacted: in Kafka's files of these names in the data folder.
"""

from pathlib import Path
from typing import Final

from ..log.checkpoint import OffsetCheckpoint
from ..log.files import Files

__all__ = ["CLEANED_FILE", "StartOffsets"]

START_FILE: Final = "log-start-offset-checkpoint"
CLEANED_FILE: Final = "cleaner-offset-checkpoint"


class StartOffsets(OffsetCheckpoint):
    """By the partitions' names; `cleaned` too. Opening raises OSError."""

    def __init__(self, folder: Path, files: Files) -> None:
        super().__init__(folder / START_FILE, files)
        self.cleaned = OffsetCheckpoint(folder / CLEANED_FILE, files)

    def forget(self, partition: str) -> None:
        super().forget(partition)
        self.cleaned.forget(partition)
