"""The offsets of partitions in Kafka's checkpoint files: what is read, and what is passed over."""

from pathlib import Path

import pytest
from kohort.log.checkpoint import OffsetCheckpoint
from kohort.log.files import DiskFiles


def noted(path: Path) -> int:
    return OffsetCheckpoint(path, DiskFiles()).get("my-orders-3")


def test_what_is_noted_is_there_when_the_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    OffsetCheckpoint(path, DiskFiles()).set("my-orders-3", 42)
    assert path.read_text() == "0\n1\nmy-orders 3 42\n"
    assert noted(path) == 42


def test_an_empty_file_as_a_kafka_that_compacted_nothing_leaves_it_notes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.touch()
    assert noted(path) == 0
    assert caplog.messages == []


@pytest.mark.parametrize("text", ["0\n", "0\n2\nmy-orders 3 42\n", "1\n1\nmy-orders 3 42\n", "x"])
def test_a_damaged_file_is_named_and_passed_over(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text(text)
    assert noted(path) == 0
    (said,) = caplog.messages
    assert said.startswith(f"{path} is unreadable and ignored: ")
