"""The offsets of one group as a block of a file."""

from pathlib import Path

import pytest
from kohort.log.files import File
from kohort.log.memory_files import MemoryFiles
from kohort.offsets.spill import Extent, UnreadableBlock, append_block, read_block

OFFSETS = {"t-0": b"value", "topic-1": b""}


@pytest.fixture
def file() -> File:
    files = MemoryFiles()
    files.make_folder(Path("/data"))
    return files.open(Path("/data/spill"), create=True)


def test_offsets_are_read_from_their_block(file: File) -> None:
    file.append(b"another block")
    extent = append_block(file, "g", OFFSETS)
    assert (extent.position, extent.offsets) == (13, 2)
    assert read_block("g", extent) == OFFSETS


def test_a_corrupted_block_is_an_error(file: File) -> None:
    extent = append_block(file, "g", OFFSETS)
    content = bytearray(file.read(0, file.size))
    content[-1] ^= 1
    file.truncate(0)
    file.append(bytes(content))
    with pytest.raises(UnreadableBlock, match="offsets of group g are corrupted"):
        read_block("g", extent)


def test_the_block_of_another_group_is_an_error(file: File) -> None:
    extent = append_block(file, "other", OFFSETS)
    with pytest.raises(UnreadableBlock, match="Found the offsets of group other, expected g"):
        read_block("g", extent)


def test_a_block_that_ends_early_is_an_error(file: File) -> None:
    append_block(file, "g", OFFSETS)
    with pytest.raises(UnreadableBlock, match="offsets of group g are truncated"):
        read_block("g", Extent(file, 0, 5, 2))


def test_a_block_that_cannot_be_read_is_an_error(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError("input/output error")

    extent = append_block(file, "g", OFFSETS)
    monkeypatch.setattr(type(file), "read", fail)
    with pytest.raises(UnreadableBlock, match="cannot be read: input/output error"):
        read_block("g", extent)
