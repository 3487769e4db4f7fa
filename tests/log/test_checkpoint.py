"""Offset checkpoints in Kafka's file format."""

from pathlib import Path

import pytest
from kohort.log.checkpoint import OffsetCheckpoint, read_last_leader_epoch
from kohort.log.files import DiskFiles


def checkpointed(path: Path) -> int:
    return OffsetCheckpoint(path, DiskFiles()).get("my-orders-3")


def test_an_offset_is_read_back_in_kafkas_format(tmp_path: Path) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    OffsetCheckpoint(path, DiskFiles()).set("my-orders-3", 42)
    assert path.read_text() == "0\n1\nmy-orders 3 42\n"
    assert checkpointed(path) == 42


def test_an_empty_file_as_kafka_creates_it_has_no_offsets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.touch()
    assert checkpointed(path) == 0
    assert caplog.messages == []


@pytest.mark.parametrize("text", ["0\n", "0\n2\nmy-orders 3 42\n", "1\n1\nmy-orders 3 42\n", "x"])
def test_a_corrupt_file_is_logged_and_ignored(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text(text)
    assert checkpointed(path) == 0
    (message,) = caplog.messages
    assert message.startswith(f"Ignoring unreadable {path}: ")


@pytest.mark.parametrize(
    ("text", "epoch", "is_logged"),
    [("", None, False), ("0\n0\n", 0, False), ("0\n2\n0 0\n4 9\n", 4, False), ("0\nx", None, True)],
)
def test_the_last_leader_epoch_is_read_unless_the_file_is_empty(
    tmp_path: Path,
    text: str,
    epoch: int | None,
    is_logged: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    assert read_last_leader_epoch(tmp_path, DiskFiles()) == epoch
    assert bool(caplog.messages) == is_logged
